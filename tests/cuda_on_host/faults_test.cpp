// Tests of the stand-in: planted mistakes are found, and correct kernels pass. Run with the direct
// allocator, so that every tensor is a buffer with a guard page behind it.
#include "faults.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/base/tensor.h"
#include "core/cuda.h"
#include "core/dispatch/kernels.h"
#include "core/tape/variable.h"

namespace tapegrad {
namespace {

cudaStream_t stream() { return static_cast<cudaStream_t>(cuda::current_stream().native()); }

Tensor numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
  return Tensor::from<float>(values, {count}).to(gpu);
}
std::vector<float> values_of(const Tensor& x) { return Variable(x).to_vector<float>(); }

std::string_view order() {
  const char* text = std::getenv("COH_ORDER");
  return text != nullptr ? text : "forward";
}

TEST(Faults, AForgottenBarrier) {
  const Tensor x = numbers(64);
  faults::reverse(x.data<float>(), false, stream());
  EXPECT_EQ(values_of(x)[3], 60);
  faults::reverse(x.data<float>(), true, stream());
  int wrong = 0;
  const std::vector<float> twice = values_of(x);
  for (size_t i = 0; i < 64; ++i) wrong += !(twice[i] == float(i));  // also counts NaN
  EXPECT_GT(wrong, 0);
}

TEST(Faults, ABarrierTooFewBetweenWarps) {
  const auto wrong_of = [](bool forget) {
    const Tensor x = numbers(192);
    faults::exchange_between_warps(x.data<float>(), forget, stream());
    const std::vector<float> y = values_of(x);
    int wrong = 0;
    for (size_t i = 0; i < y.size(); ++i)
      wrong += y[i] != float(10 * (i / 64) + (i % 64 < 32 ? 1 : 0));
    return wrong;
  };
  EXPECT_EQ(wrong_of(false), 0);
  if (order() == "forward" || order() == "reverse") {
    EXPECT_GT(wrong_of(true), 0);
  }
}

TEST(Faults, AWriteBehindABuffer) {
  const Tensor x = numbers(60);
  faults::write_numbers(x.data<float>(), 60, stream());
  EXPECT_EQ(values_of(x)[59], 59);
  // A write into the padding is found when the buffer is freed.
  EXPECT_DEATH(
      {
        Tensor y = numbers(60);
        faults::write_numbers(y.data<float>(), 61, stream());
        y = {};
      },
      "past the end");
  // A write onto the guard page.
  EXPECT_DEATH(faults::write_numbers(x.data<float>(), 1024, stream()), "");
}

TEST(Faults, AHostPointer) {
  const Tensor x = numbers(4);
  const float host = 7;
  EXPECT_DEATH(faults::read_through(x.data<float>(), &host, stream()), "host address");
  faults::read_through(x.data<float>(), x.data<float>() + 2, stream());
  EXPECT_EQ(values_of(x)[0], 2);
}

TEST(Faults, MemoryOfAnotherDevice) {
  const Tensor x = numbers(4);
  const Tensor other = numbers(4).to(Device{DeviceType::kCuda, 1});
  cuda::current_stream();  // makes device 0 current on this thread
  EXPECT_DEATH(faults::read_through(x.data<float>(), other.data<float>(), stream()), "device 1");
}

TEST(Faults, ThreadsThatPart) {
  const Tensor x = numbers(32);
  EXPECT_DEATH(faults::diverge(x.data<float>(), stream()), "deadlock|collective");
  EXPECT_DEATH(faults::shuffle_with_the_gone(x.data<float>(), stream()), "returned|deadlock");
}

TEST(Faults, ProductsOfAWarp) {
  using faults::Mistake;
  const auto wrong_of = [](Mistake mistake) {
    const Tensor x = numbers(256);
    faults::multiply_ones(x.data<float>(), mistake, stream());
    int wrong = 0;
    for (const float value : values_of(x)) wrong += !(value == 16);  // also counts NaN
    return wrong;
  };
  EXPECT_EQ(wrong_of(Mistake::kNone), 0);
  EXPECT_EQ(wrong_of(Mistake::kNotCleared), 256);
  EXPECT_GT(wrong_of(Mistake::kNoBarrier), 0);
  EXPECT_DEATH(wrong_of(Mistake::kPlace), "32 bytes");
  EXPECT_DEATH(wrong_of(Mistake::kStep), "step");
  EXPECT_DEATH(wrong_of(Mistake::kLanesDiffer), "differ");
  EXPECT_DEATH(wrong_of(Mistake::kLaneLeaves), "returned|deadlock");
}

TEST(Faults, MallocInCapture) {
  const cuda::StreamGuard side(cuda::Stream::create());
  const Tensor x = numbers(8);
  ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_THROW(Tensor::empty({1 << 20}, f32, gpu), cuda::CudaError);
  EXPECT_THROW(x.to(cpu), cuda::CudaError);  // waits
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(stream(), &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);

  ASSERT_EQ(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal), cudaSuccess);
  faults::write_numbers(x.data<float>(), 8, stream());
  ASSERT_EQ(cudaStreamEndCapture(stream(), &graph), cudaSuccess);
  kernels::fill(const_cast<Tensor&>(x), 0);
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream()), cudaSuccess);
  EXPECT_EQ(values_of(x)[7], 7);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST(Faults, MemoryThatNobodyWrote) {
  const Tensor x = Tensor::empty({5}, f32, gpu);
  if (std::getenv("TAPEGRAD_CUDA_ALLOCATOR") == nullptr) return;
  for (float value : values_of(x)) EXPECT_TRUE(std::isnan(value));
}

TEST(Faults, HostCodeThatReadsDeviceMemory) {
  if (std::getenv("COH_PROTECT") == nullptr) return;  // one of the test entries sets this variable
  const Tensor x = numbers(4);
  EXPECT_DEATH(
      {
        volatile float value = *x.data<float>();
        (void)value;
      },
      "");
}

}  // namespace
}  // namespace tapegrad
