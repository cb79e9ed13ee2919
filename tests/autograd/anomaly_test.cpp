// AnomalyMode names the first op that made a NaN or an infinity, with the user's line.
#include "core/autograd/anomaly.h"

#include <cmath>
#include <limits>
#include <thread>

#include "core/tape/op.h"
#include "nn/linear.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string line_after(Where here, unsigned lines) {
  return "anomaly_test.cpp:" + std::to_string(here.line() + lines);
}

TEST(Anomaly, T52_ForwardNamesOpElementAndLine) {
  const Variable x = make({1, 0, 4, 9}, {2, 2});
  const AnomalyMode anomaly;
  const Where first = Where::current();
  const auto run = [&] { return log(x) * 2.0; };
  expect_error<AutogradError>(run,
                              {"log: made an infinity at [0, 1] of [2, 2]", line_after(first, 1)});
  const Where second = Where::current();
  const auto nan = [&] { return sqrt(x - 2.0) + 1.0; };
  expect_error<AutogradError>(nan, {"sqrt: made a NaN at [0, 0] of [2, 2]", line_after(second, 1)});
  EXPECT_NO_THROW(exp(x));
}

TEST(Anomaly, T52_BackwardNamesTheForwardOpAndItsLine) {
  const Variable x = leaf({4, 0, 1});
  const Where here = Where::current();
  const Variable root = sqrt(x);  // the derivative at 0 is infinite
  const Variable y = sum(root * 3.0);
  const AnomalyMode anomaly;
  expect_error<AutogradError>([&] { y.backward(); },
                              {"sqrt: its gradient made an infinity at [1] of [3]",
                               "in the backward of sqrt, recorded at", line_after(here, 1)});
  EXPECT_FALSE(x.grad().defined()) << "an error leaves leaves alone";
}

TEST(Anomaly, NaNInBackwardOfAWhere) {
  const Variable x = leaf({-1, 4});
  const Variable y = sum(where(x > 0.0, sqrt(x), 0.0));  // T34: 0 * inf
  const AnomalyMode anomaly({.infinity = false});
  expect_error<AutogradError>([&] { y.backward(); },
                              {"sqrt: its gradient made a NaN at [0]", "that it saved"});
}

TEST(Anomaly, WhoWasGivenOneDidNotMakeIt) {
  const Variable x = make({1, kInf, 2}), w = leaf({1, 1, 1});
  const AnomalyMode anomaly;
  EXPECT_NO_THROW(x * 2.0);
  const Variable y = sum(w * x);
  EXPECT_NO_THROW(y.backward()) << "its gradient is the infinite input by right";
  EXPECT_EQ(values(w.grad())[1], kInf);
  expect_error<AutogradError>([&] { x - x; }, {"sub: made a NaN at [1] of [3]"});
}

TEST(Anomaly, InPlace) {
  Variable x = make({1, 0});
  const AnomalyMode anomaly;
  expect_error<AutogradError>([&] { x /= 0.0; }, {"div: made"});
}

TEST(Anomaly, OpsComposedOfOthers) {
  // Infinities inside an op, such as an attention mask, are not reported.
  const Variable q = randn({1, 2, 4}), mask = make({1, 0, 1, 1}, {2, 2}) > 0.5;
  const AnomalyMode anomaly;
  EXPECT_NO_THROW(scaled_dot_product_attention(q, q, q, {.attn_mask = mask}));
  const Where here = Where::current();
  const auto run = [&] { return softmin(make({kInf, kInf}), 0); };
  expect_error<AutogradError>(run, {"softmax: made a NaN", line_after(here, 1)});
}

TEST(Anomaly, LowPrecisionOverflows) {
  const Variable x = make<float>({60000, 1}).to(f16);
  const AnomalyMode anomaly;
  expect_error<AutogradError>([&] { x* x; }, {"mul: made an infinity at [0]"});
}

TEST(Anomaly, NamesThePartOfTheModel) {
  struct Net : nn::Model<Net> {
    nn::Linear fc{{.in_features = 2, .out_features = 2}};
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) const { return log(fc(x) * 0.0); }
  } net;
  const AnomalyMode anomaly;
  expect_error<AutogradError>(
      [&] {
        net(make<float>({1, 2}, {1, 2}));
      },
      {"log: made an infinity", ", in Net"});
}

TEST(Anomaly, IsOffElsewhere) {
  {
    const AnomalyMode anomaly;
    std::thread([] { EXPECT_NO_THROW(log(make({0}))); }).join();
    try {
      log(make({0}));
    } catch (const AutogradError&) {
    }
  }
  EXPECT_NO_THROW(log(make({0})));
}

}  // namespace
}  // namespace tapegrad::testing
