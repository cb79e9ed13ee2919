// The windows of torch.signal.windows. The values are those of PyTorch 2.15.
#include "ops/signal_windows.h"

#include "core/base/error.h"
#include "tests/make_variable.h"

namespace tapegrad {
namespace {

using namespace testing;

void expect_near(const Variable& got, const Values& expected) {
  const Values y = values(got);
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-14) << i;
}
void expect_window(Variable (*window)(int64_t, const windows::Options&), const Values& symmetric,
                   const Values& periodic) {
  expect_near(window(5, {.dtype = f64}), symmetric);
  expect_near(window(5, {.sym = false, .dtype = f64}), periodic);
  expect_near(window(1, {.dtype = f64}), {1});
  EXPECT_EQ(window(0, {}).shape(), Shape({0}));
  EXPECT_EQ(window(2, {}).dtype(), f32);
  EXPECT_THROW(window(-1, {}), ArgumentError);
}

TEST(SignalWindows, Values) {
  expect_window(windows::bartlett, {0.0, 0.5, 1.0, 0.5, 0.0},
                {0.0, 0.4, 0.8, 0.7999999999999999, 0.3999999999999999});
  expect_window(windows::blackman,
                {-1.3877787807814457e-17, 0.3399999999999999, 0.9999999999999999,
                 0.3400000000000001, -1.3877787807814457e-17},
                {-1.3877787807814457e-17, 0.20077014326253045, 0.8492298567374694,
                 0.8492298567374695, 0.20077014326253056});
  expect_window(
      windows::cosine,
      {0.3090169943749474, 0.8090169943749475, 1.0, 0.8090169943749475, 0.3090169943749475},
      {0.25881904510252074, 0.7071067811865475, 0.9659258262890683, 0.9659258262890683,
       0.7071067811865476});
  expect_window(
      windows::exponential,
      {0.1353352832366127, 0.36787944117144233, 1.0, 0.36787944117144233, 0.1353352832366127},
      {0.0820849986238988, 0.22313016014842982, 0.6065306597126334, 0.6065306597126334,
       0.22313016014842982});
  expect_window(
      windows::gaussian,
      {0.13533528323661276, 0.6065306597126335, 1.0, 0.6065306597126335, 0.13533528323661276},
      {0.043936933623407434, 0.3246524673583498, 0.8824969025845955, 0.8824969025845955,
       0.3246524673583498});
  expect_window(windows::general_hamming,
                {0.08000000000000007, 0.54, 1.0, 0.5400000000000001, 0.08000000000000007},
                {0.08000000000000007, 0.3978521825875242, 0.9121478174124757, 0.9121478174124759,
                 0.3978521825875243});
  expect_window(windows::hamming,
                {0.08000000000000007, 0.54, 1.0, 0.5400000000000001, 0.08000000000000007},
                {0.08000000000000007, 0.3978521825875242, 0.9121478174124757, 0.9121478174124759,
                 0.3978521825875243});
  expect_window(
      windows::hann, {0.0, 0.49999999999999994, 1.0, 0.5000000000000001, 0.0},
      {0.0, 0.3454915028125263, 0.9045084971874737, 0.9045084971874737, 0.3454915028125264});
  expect_window(
      windows::kaiser,
      {5.2773441320097665e-05, 0.2156727447589671, 1.0, 0.2156727447589671, 5.2773441320097665e-05},
      {5.2773441320097665e-05, 0.10171968770956304, 0.7929398341014605, 0.7929398341014605,
       0.10171968770956323});
  expect_window(
      windows::nuttall,
      {0.0003628000000000381, 0.22698239999999995, 1.0, 0.2269824000000001, 0.0003628000000000381},
      {0.0003628000000000381, 0.11051525304987178, 0.7982580969501282, 0.7982580969501283,
       0.11051525304987185});
}

TEST(SignalWindows, Parameters) {
  expect_near(torch::signal::windows::general_cosine(5, {0.46, 0.23, 0.31}, {.dtype = f64}),
              {0.54, 0.15000000000000002, 1.0, 0.15000000000000008, 0.54});
  expect_near(
      windows::exponential(5, {.center = 1, .tau = 2.0, .sym = false, .dtype = f64}),
      {0.6065306597126334, 1.0, 0.6065306597126334, 0.36787944117144233, 0.22313016014842982});
  expect_near(
      windows::gaussian(5, {.std = 2.0, .dtype = f64}),
      {0.6065306597126335, 0.8824969025845955, 1.0, 0.8824969025845955, 0.6065306597126335});
  expect_near(windows::general_hamming(5, {.alpha = 0.7, .dtype = f64}),
              {0.3999999999999999, 0.7, 1.0, 0.7, 0.3999999999999999});
  expect_near(
      windows::kaiser(5, {.beta = 5.0, .dtype = f64}),
      {0.036710892271286676, 0.5528517696991327, 1.0, 0.5528517696991327, 0.036710892271286676});
  EXPECT_THROW(windows::exponential(5, {.center = 1.0}), ArgumentError);
  EXPECT_THROW(windows::gaussian(5, {.std = 0.0}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
