// Implementations of a kernel are tried in order; the log names the one that ran.
#include "core/dispatch/implementations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"

namespace tapegrad {
namespace {

using Names = std::vector<std::string>;

std::string ran;  // name of the implementation that ran last
int asked = 0;    // calls of Planned::accepts()

constinit Kernel<void(const Tensor& x, int64_t size, Tensor& y)> toy{"toy"};

/// Takes float32 and sizes below 10.
struct Small {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor&, int64_t size, const Tensor&) { return size < 10; }
  static void run(TypeTag<float>, const Tensor&, int64_t, Tensor&) { ran = "small"; }
};

/// Takes float32 and float64, and even sizes; the plan is half of the size.
struct Planned {
  static constexpr std::string_view kName = "planned";
  static std::optional<int64_t> accepts(const Tensor&, int64_t size, const Tensor&) {
    ++asked;
    return size % 2 == 0 ? std::optional(size / 2) : std::nullopt;
  }
  static void run(OneOf<float, double>, int64_t plan, const Tensor&, int64_t size, Tensor&) {
    EXPECT_EQ(plan, size / 2);
    ran = "planned";
  }
};

struct Fallback {
  static constexpr std::string_view kName = "any";
  template <typename T>
  static void run(TypeTag<T>, const Tensor&, int64_t, Tensor&) {
    ran = "any";
  }
};

struct Implementations : ::testing::Test {
  static void SetUpTestSuite() {
    set_implementations<toy, Small, Planned, Fallback>(DeviceType::kCpu,
                                                       TypeList<float, double, int32_t>{});
  }
  static std::string call(int64_t size, DType dtype = f32) {
    const Tensor x = Tensor::full({2}, 1, dtype);
    Tensor y = x.empty_like();
    toy(x, size, y);
    return ran;
  }
};

TEST_F(Implementations, TheFirstThatAcceptsRuns) {
  EXPECT_EQ(call(4), "small");
  EXPECT_EQ(call(12), "planned");
  EXPECT_EQ(call(13), "any");
  EXPECT_EQ(call(4, f64), "planned") << "small takes float32 only";
  EXPECT_EQ(call(3, f64), "any");
  EXPECT_EQ(call(4, i32), "any");
}

TEST_F(Implementations, AreListedInOrder) {
  Names found;
  for (const std::string& name : implementations())
    if (name.find("/toy:") != name.npos) found.push_back(name);
  EXPECT_EQ(found, (Names{"cpu/float32/toy:small", "cpu/float32/toy:planned", "cpu/float32/toy:any",
                          "cpu/float64/toy:planned", "cpu/float64/toy:any"}))
      << "int32 has one implementation";
}

TEST_F(Implementations, ALogNamesTheOneThatRan) {
  call(4);
  call(4, i32);
  const DispatchLog log;
  for (const int64_t size : {4, 4, 12, 13}) call(size);
  EXPECT_EQ(log.calls("toy"), 4);
  EXPECT_EQ(log.calls("toy:small"), 2);
  EXPECT_EQ(log.calls("small"), 0);
  call(4, i32);
  Names found;
  for (const std::string& name : log.kernels())
    if (name.find("toy") != name.npos) found.push_back(name);
  EXPECT_EQ(found, (Names{"cpu/float32/toy:small", "cpu/float32/toy:planned", "cpu/float32/toy:any",
                          "cpu/int32/toy"}));
}

TEST_F(Implementations, OneCanBeChosen) {
  {
    const OnlyImplementation only("toy", "planned");
    EXPECT_EQ(call(4), "planned");
    EXPECT_EQ(call(13), "any") << "the fallback runs where the chosen one does not accept";
    const OnlyImplementation last("toy", "");
    asked = 0;
    EXPECT_EQ(call(4), "any");
    EXPECT_EQ(asked, 0);
    const OnlyImplementation other("conv2d", "");
    EXPECT_EQ(call(4), "small");
    const OnlyImplementation every("", "");
    EXPECT_EQ(call(4), "any");
  }
  EXPECT_EQ(call(4), "small");
}

TEST_F(Implementations, TheEnvironmentTurnsFastPathsOff) {
  const char* text = std::getenv("TAPEGRAD_FAST_PATHS");
  const bool off = text != nullptr && std::string_view(text) == "0";
  EXPECT_EQ(only_fallbacks(), off);
  EXPECT_EQ(call(4), off ? "any" : "small");
}

struct Refusing {
  static constexpr std::string_view kName = "refusing";
  static bool accepts(const Tensor&, int64_t, const Tensor&) { return true; }
  static bool run(TypeTag<float>, const Tensor&, int64_t size, Tensor&) {
    ran = "refusing";
    return size > 10;
  }
};
constinit Kernel<void(const Tensor& x, int64_t size, Tensor& y)> late_toy{"late_toy"};

TEST(LateRefusal, TheNextImplementationRuns) {
  set_implementations<late_toy, Refusing, Fallback>(DeviceType::kCpu, TypeList<float>{});
  const Tensor x = Tensor::full({2}, 1, f32);
  Tensor y;
  const DispatchLog log;
  late_toy(x, 4, y);
  EXPECT_EQ(ran, "any");
  late_toy(x, 11, y);
  EXPECT_EQ(ran, "refusing");
  EXPECT_EQ(log.kernels(), (Names{"cpu/float32/late_toy:any", "cpu/float32/late_toy:refusing"}));
}

constinit Kernel<void(const Tensor& x, int64_t size, Tensor& y)> optional_toy{"optional_toy"};

TEST(WithoutFallback, TheOpAsksBeforeItCalls) {
  const Tensor x = Tensor::full({2}, 1, f32);
  Tensor y;
  EXPECT_FALSE(optional_toy.accepts(x, 4, y)) << "nothing is registered";
  set_implementations<optional_toy, Small, Planned>(DeviceType::kCpu, TypeList<float, double>{});
  EXPECT_TRUE(optional_toy.accepts(x, 4, y));
  EXPECT_TRUE(optional_toy.accepts(x, 12, y));
  EXPECT_FALSE(optional_toy.accepts(x, 13, y));
  EXPECT_FALSE(optional_toy.accepts(x.to(f64), 3, y));
  EXPECT_FALSE(optional_toy.accepts(x.to(i32), 4, y));
  EXPECT_TRUE(toy.accepts(x, 13, y)) << "it has a fallback";
  optional_toy(x, 12, y);
  EXPECT_EQ(ran, "planned");
  try {
    optional_toy(x, 13, y);
    ADD_FAILURE();
  } catch (const KernelError& error) {
    EXPECT_STREQ(error.what(),
                 "optional_toy: no implementation for cpu float32 accepts the arguments");
  }
  const OnlyImplementation none("", "");
  EXPECT_FALSE(optional_toy.accepts(x, 4, y));
}

constinit Kernel<void(const Tensor& x)> reader{"reader"};
bool saw_packed = false;

struct Taking {
  static constexpr std::string_view kName = "taking";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& x) { return KernelTable::is_packed(x); }
  static void run(TypeTag<float>, const Tensor& x) { saw_packed = KernelTable::is_packed(x); }
};
struct Plain {
  static constexpr std::string_view kName = "plain";
  static void run(OneOf<float, double>, const Tensor& x) { saw_packed = KernelTable::is_packed(x); }
};

std::byte* copied(const Packing&, const TensorStorage& packed) {
  Allocator& memory = allocator(DeviceType::kCpu);
  auto* plain = static_cast<std::byte*>(memory.allocate(packed.bytes(), packed.device()));
  std::copy_n(packed.data(), packed.bytes(), plain);
  return plain;
}
Tensor packed_tensor(DType dtype) {
  Tensor x = Tensor::full({1, 16, 64}, 1, dtype);
  x.storage().set_packed({1, 16, 64, 16, copied});
  return x;
}

TEST(PackedOperands, AreUnpackedForImplementationsThatDoNotTakeThem) {
  set_implementations<reader, Taking, Plain>(DeviceType::kCpu, TypeList<float, double>{});
  reader(packed_tensor(f32));
  EXPECT_TRUE(saw_packed);
  const Tensor x = packed_tensor(f64);  // has one implementation
  reader(x);
  EXPECT_FALSE(saw_packed);
  EXPECT_FALSE(KernelTable::is_packed(x));
  const OnlyImplementation last("reader", "");
  const Tensor y = packed_tensor(f32);
  reader(y);
  EXPECT_FALSE(saw_packed);
  EXPECT_FALSE(KernelTable::is_packed(y));
}

}  // namespace
}  // namespace tapegrad
