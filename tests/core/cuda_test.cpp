// The CUDA interface in every build: without CUDA, on a machine without a GPU, and with one.
#include "core/cuda.h"

#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "core/inspect/runtime_info.h"

namespace tapegrad {
namespace {

TEST(Cuda, IsThereOrSaysWhyNot) {
  EXPECT_EQ(cuda::is_available(), cuda::device_count() > 0);
  EXPECT_EQ(cuda::is_available(), is_available(gpu));
  EXPECT_EQ(cuda::is_available(), cuda::why_unavailable().empty());
  EXPECT_EQ(cuda::why_unavailable(), why_unavailable(gpu));
}

TEST(Cuda, WithoutItATensorThereIsADeviceError) {
  if (cuda::is_available()) return;  // covered by tests/cuda_on_host
  const std::string reason = cuda::why_unavailable();
  EXPECT_NE(runtime_info().find("cuda: not available (" + reason + ")"), std::string::npos);
  const auto expect_reason = [&](auto f) {
    try {
      f();
      FAIL() << "nothing was thrown";
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  expect_reason([] { Tensor::empty({1}, f32, gpu); });
  expect_reason([] { Tensor::full({2}, 1, f32).to(gpu); });
  expect_reason([] { set_default_device(gpu); });
  expect_reason([] { memory_stats(gpu); });
  expect_reason([] { cuda::synchronize(); });
  expect_reason([] { cuda::current_stream(); });
  expect_reason([] { cuda::Stream::create(); });
  expect_reason([] { cuda::Event(); });
  const Variable x(Tensor::full({2}, 1, f32));
  expect_reason([&] { cuda::pin_memory(x); });
  EXPECT_FALSE(cuda::is_pinned(x));
}

}  // namespace
}  // namespace tapegrad
