// A device from outside the library: kPrivate1 with an allocator, a loader and kernels that are
// defined here. It uses the host's memory, and its kernels count their calls.
#include <cstdlib>
#include <cstring>

#include "core/base/allocator.h"
#include "core/dispatch/kernels.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace toy {

constexpr DeviceType kType = DeviceType::kPrivate1;
constexpr Device kDevice{kType, 0};
constexpr TypeList<float, double> kTypes{};
int loads = 0, launches = 0;

class Memory final : public Allocator {
 public:
  void* allocate(size_t bytes, Device) override {
    ++blocks;
    return std::aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  }
  void deallocate(void* block, size_t, Device) noexcept override {
    --blocks;
    std::free(block);
  }
  MemoryStats stats(Device) const override { return {.in_use = blocks}; }
  void reset_peak(Device) override {}
  void set_limit(int64_t, Device) override {}
  void empty_cache(Device) override {}

  int64_t blocks = 0;
};
Memory memory;

/// Calls visit with the offset of each element of the layout, in row-major order.
template <typename Visit>
void for_each(const StridedLayout& layout, Visit visit) {
  const int64_t count = numel(layout.shape);
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, offset = 0;
    for (int i = layout.shape.rank() - 1; i >= 0; --i) {
      offset += rest % layout.shape[i] * layout.strides[i];
      rest /= layout.shape[i];
    }
    visit(flat, offset);
  }
}

/// "double_it" has no CPU kernel.
constinit Kernel<void(const Tensor&, Tensor&)> double_it{"double_it"};

void register_kernels() {
  ++loads;
  set_kernel(kernels::fill, kType, kTypes, []<typename T>(TypeTag<T>, Tensor& y, Number value) {
    for_each(y.layout(), [&](int64_t, int64_t at) { y.data<T>()[at] = value.to<T>(); });
  });
  set_kernel(kernels::copy, kType, kTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    for_each(x.layout(), [&](int64_t i, int64_t at) { y.data<T>()[i] = x.data<T>()[at]; });
  });
  set_kernel(
      kernels::accumulate, kType, kTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
        for_each(x.layout(), [&](int64_t i, int64_t at) { y.data<T>()[i] += x.data<T>()[at]; });
      });
  set_kernel(kernels::transfer, kType, kTypes,
             []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
               std::memcpy(y.data<T>(), x.data<T>(), size_t(x.numel()) * sizeof(T));
             });
  set_kernel(double_it, kType, kTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    ++launches;
    for_each(x.layout(), [&](int64_t i, int64_t at) { y.data<T>()[i] = 2 * x.data<T>()[at]; });
  });
}

struct DoubleIt {
  static constexpr std::string_view kName = "double_it";
  Tensor forward(const Tensor& x) {
    Tensor y = x.empty_like(x.shape());
    double_it(x, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return apply(DoubleIt{}, Where::current(), dy); }
};

}  // namespace toy

namespace testing {
namespace {

TEST(PrivateDevice, BeforeItIsThere) {
  EXPECT_FALSE(is_available(toy::kDevice));
  expect_error<DeviceError>([] { Tensor::empty({2}, f32, toy::kDevice); }, {"private1"});
  EXPECT_THROW(set_allocator(DeviceType::kCpu, &toy::memory), ArgumentError);
}

TEST(PrivateDevice, RunsAnOpForwardAndBackward) {
  set_allocator(toy::kType, &toy::memory);
  set_backend_loader(toy::kType, toy::register_kernels);
  EXPECT_TRUE(is_available(toy::kDevice));
  EXPECT_EQ(parse_device("private1"), toy::kDevice);
  const int64_t blocks = toy::memory.blocks;
  {
    const Variable x = leaf<float>({1, 2, 3});
    const Variable there = x.to(toy::kDevice);
    EXPECT_EQ(there.device(), toy::kDevice);
    EXPECT_EQ(toy::loads, 1);
    const Variable y = apply(toy::DoubleIt{}, Where::current(), there);
    EXPECT_EQ(toy::launches, 1);
    EXPECT_EQ(values(y), (Values{2, 4, 6}));
    const Variable seed = make<float>({1, 10, 100});
    expect_error<AutogradError>([&] { y.backward(seed); }, {"seed", "cpu", "private1"});
    y.backward(seed.to(toy::kDevice));
    EXPECT_EQ(x.grad().device(), cpu);
    EXPECT_EQ(values(x.grad()), (Values{2, 20, 200}));
    EXPECT_EQ(toy::launches, 2);
    EXPECT_EQ(values(add_gradients(y, y)), (Values{4, 8, 12}));
    EXPECT_EQ(values(y | cpu), (Values{2, 4, 6}));
    EXPECT_EQ(memory_stats(toy::kDevice).in_use, toy::memory.blocks);
    EXPECT_GT(toy::memory.blocks, blocks);
  }
  EXPECT_EQ(toy::memory.blocks, blocks);
  EXPECT_EQ(toy::loads, 1) << "registered once";
}

TEST(PrivateDevice, MixedDevicesAndMissingKernels) {
  const Tensor here = Tensor::full({2}, 1.0, f32);
  const Tensor there = here.to(toy::kDevice);
  expect_error<DeviceError>([&] { check_same_device("add", here, there); },
                            {"add", "different devices", "cpu", "private1"});
  expect_error<KernelError>(
      [&] { apply(toy::DoubleIt{}, Where::current(), Variable(here)); },
      {"double_it: no kernel for cpu float32", "private1 {float32, float64}"});
  expect_error<KernelError>([&] { exp(Variable(there)); },
                            {"no kernel for private1 float32", "cpu {"});
}

TEST(Dispatcher, NamesWhatIsRegistered) {
  EXPECT_EQ(toy::double_it.name(), "double_it");
  constinit static Kernel<void(const Tensor&)> nothing{"nothing"};
  expect_error<KernelError>([] { nothing(Tensor::full({1}, 1, i16)); },
                            {"nothing: no kernel for cpu int16", "registered: none"});
}

}  // namespace
}  // namespace testing
}  // namespace tapegrad
