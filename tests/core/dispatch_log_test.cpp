// A log names the kernels that ran during its lifetime, whether or not they ran before.
#include "core/dispatch/dispatch_log.h"

#include <gtest/gtest.h>

#include "core/base/tensor.h"
#include "core/dispatch/kernels.h"

namespace tapegrad {
namespace {

using Names = std::vector<std::string>;

TEST(DispatchLog, NamesEachKernelOnceInOrder) {
  Tensor::full({2}, 1, f32);  // the kernel is looked up before the log begins
  DispatchLog log;
  EXPECT_EQ(log.kernels(), Names{});
  const Tensor x = Tensor::full({2, 3}, 1, f32);
  x.clone();
  Tensor::full({2}, 1, f64);
  Tensor::full({3}, 2, f32);
  EXPECT_EQ(log.kernels(), (Names{"cpu/float32/fill", "cpu/float32/copy", "cpu/float64/fill"}));
}

TEST(DispatchLog, SeesOnlyWhatRunsWhileItLives) {
  const auto fill = [](DType dtype) { Tensor::full({2}, 1, dtype); };
  DispatchLog outer;
  fill(i32);
  {
    DispatchLog inner;
    fill(i64);
    EXPECT_EQ(inner.kernels(), Names{"cpu/int64/fill"});
  }
  fill(i64);
  fill(i32);
  EXPECT_EQ(outer.kernels(), (Names{"cpu/int32/fill", "cpu/int64/fill"}));
}

TEST(DispatchLog, RegisteredKernelsStayKnown) {
  Tensor::full({2}, 1, f32);  // loads the backend
  const DispatchLog log;
  EXPECT_TRUE(kernels::fill.has(DeviceType::kCpu, f32));
  EXPECT_NE(kernels::fill.registered().find("float32"), std::string::npos);
}

}  // namespace
}  // namespace tapegrad
