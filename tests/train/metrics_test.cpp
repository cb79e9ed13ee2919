#include "train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "tests/temp_dir.h"
#include "train/classification_metrics.h"
#include "train/evaluate.h"
#include "train/regression_metrics.h"

namespace tapegrad {
namespace {

TEST(Metrics, RunningMeanWeighs) {
  RunningMean mean;
  EXPECT_TRUE(std::isnan(mean.value()));
  mean.add(scalar(1.0), 3);
  mean.add(tensor({5.0}), 1);
  EXPECT_DOUBLE_EQ(mean.value(), 2.0);
  EXPECT_THROW(mean.add(tensor({1.0, 2.0})), ShapeError);
  // float32 losses are summed in float64.
  RunningMean many;
  for (int i = 0; i < 100'000; ++i) many.add(full({}, 0.1, {.dtype = f32}));
  EXPECT_NEAR(many.value(), double(0.1f), 1e-12);
}

TEST(Metrics, ClassesOfOutputsAndTargets) {
  const Variable output = tensor({0.1, 0.7, 0.2, 0.9, 0.0, 0.1, 0.3, 0.3, 0.4}, {3, 3});
  EXPECT_EQ(predicted_classes(output).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_EQ(count_correct(output, tensor({1, 2, 2})).item(), 2.0);
  EXPECT_EQ(
      count_correct(output, tensor({0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0}, {3, 3})).item(),
      2.0);
  EXPECT_EQ(predicted_classes(tensor({0.4, 0.6}, {2, 1})).to_vector<int64_t>(),
            (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(count_correct(tensor({0.4, 0.6}, {2, 1}), tensor({1, 1})).item(), 1.0);
  EXPECT_THROW(count_correct(output, tensor({1, 2})), ShapeError);
  EXPECT_THROW(predicted_classes(zeros({2, 2, 2})), ShapeError);
}

TEST(Metrics, InvalidBatchesAreNamed) {
  ConfusionMatrix matrix(3);
  const Variable output = tensor({0.1, 0.7, 0.2, 0.9, 0.0, 0.1}, {2, 3});
  for (const int id : {-1, 3}) {
    EXPECT_THROW(matrix.add(output, tensor({0, id})), IndexError);
    EXPECT_TRUE(std::isnan(matrix.value())) << "nothing was counted";
  }
  EXPECT_EQ(matrix.compute().shape(), (Shape{3, 3}));
  EXPECT_TRUE(std::isnan(Precision(3).compute()));
  EXPECT_THROW(matrix.add(zeros({2, 4}), tensor({0, 1})), ShapeError);
  EXPECT_THROW(matrix.add(output, tensor({0, 1, 2})), ShapeError);
  EXPECT_THROW(F1(1), ArgumentError);
  EXPECT_THROW(F1(3, Average::kBinary), ArgumentError);
  EXPECT_THROW(TopK(0), ArgumentError);
  EXPECT_THROW(TopK(3).add(output, tensor({0, 1})), ShapeError);
  EXPECT_THROW(R2().add(zeros({2}), zeros({2, 1})), ShapeError);
  EXPECT_THROW(RocAuc().add(zeros({2}), zeros({3})), ShapeError);
  EXPECT_TRUE(std::isnan(RocAuc().value()));
  RocAuc one_class;
  one_class.add(tensor({0.1, 0.2}), tensor({1, 1}));
  EXPECT_TRUE(std::isnan(one_class.value()));
  // A network that diverged is not right.
  TopK top(1);
  Accuracy accuracy;
  for (Metric* metric : {static_cast<Metric*>(&top), static_cast<Metric*>(&accuracy)})
    metric->add(full({2, 3}, NAN), tensor({1, 2}));
  EXPECT_EQ(top.value(), 0);
}

TEST(Metrics, ContinueFromTheirState) {
  F1 whole(3), half(3), rest(3);
  RocAuc area, first, second;
  R2 r2, r2_first, r2_second;
  const testing::TempDir dir;
  const Variable a = tensor({0.1, 0.7, 0.2, 0.9, 0.0, 0.1}, {2, 3}), ids = tensor({1, 2});
  const Variable scores = tensor({0.3, 0.1, 0.9}), classes = tensor({1, 0, 0});
  const Variable y = tensor({1.0, 3.0, 2.0}), x = tensor({1.1, 2.5, 2.2});
  for (int pass = 0; pass < 2; ++pass) {
    whole.add(a, ids);
    (pass == 0 ? half : rest).add(a, ids);
    area.add(scores, classes);
    (pass == 0 ? first : second).add(scores, classes);
    r2.add(x, y);
    (pass == 0 ? r2_first : r2_second).add(x, y);
    if (pass == 1) break;
    save(dir / "f1", half);
    rest.load_state_dict(load(dir / "f1"));
    second.load_state_dict(first.state_dict());
    r2_second.load_state_dict(r2_first.state_dict());
  }
  EXPECT_EQ(rest.value(), whole.value());
  EXPECT_EQ(second.value(), area.value());
  EXPECT_EQ(r2_second.value(), r2.value());
  whole.reset();
  EXPECT_TRUE(std::isnan(whole.value()));
}

TEST(Metrics, S310_PredictionsAsPrinted) {
  std::vector<int64_t> labels(10'000), predictions(10'000);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = int64_t(i % 10);
    predictions[i] = i < 8764 ? labels[i] : 9 - labels[i];
  }
  std::ostringstream out;
  print_predictions("test", labels, predictions, out);
  EXPECT_EQ(out.str(),
            "test\n"
            "  true labels:       0  1  2  3  4  5  6  7  8  9  0  1  2  3  4  5\n"
            "  predicted labels:  0  1  2  3  4  5  6  7  8  9  0  1  2  3  4  5\n"
            "  accuracy rate: 87.64 % (8764/10000)\n");
  std::ostringstream from_outputs;
  print_predictions("few", tensor({1, 0}), tensor({0.0, 1.0, 0.0, 1.0}, {2, 2}), from_outputs);
  EXPECT_NE(from_outputs.str().find("accuracy rate: 50.00 % (1/2)"), std::string::npos);
  EXPECT_THROW(print_predictions("x", {1}, {1, 2}, out), ShapeError);
}

TEST(Evaluate, AccuracyFollowsTheLossAndTheTargets) {
  nn::Linear net(1, 1);
  const NoGrad no_grad;
  net.weight.fill_(1), net.bias.fill_(0);
  const Variable x = tensor({{-1.4}, {0.2}, {0.4}, {-0.1}}),
                 y = tensor({{0.0}, {1.0}, {1.0}, {1.0}});
  // Logits, of which 0 is the limit, by a layer and by a function.
  EXPECT_EQ(evaluate(net, x, y, {.loss = nn::BCEWithLogitsLoss()}).accuracy, 0.75);
  const Evaluation logits = evaluate(net, x, y, {.loss = binary_cross_entropy_with_logits});
  EXPECT_EQ(logits.accuracy, 0.75);
  EXPECT_EQ(logits.predictions, (std::vector<int64_t>{0, 1, 1, 0}));
  // Of an unknown loss, values outside of [0, 1] are logits.
  const LossFn unknown = [](const Variable& a, const Variable& b) { return mse_loss(a, b); };
  EXPECT_EQ(evaluate(net, x, y, {.loss = unknown}).accuracy, 0.75);
  EXPECT_EQ(evaluate(net, x.clamp(0, 1), y, {.loss = unknown}).accuracy, 0.25);
  // Several labels for an example, each of which counts.
  nn::Identity same;
  EXPECT_EQ(evaluate(same, tensor({{-1.0, 2.0}, {3.0, 4.0}}), tensor({{0.0, 1.0}, {0.0, 1.0}}),
                     {.loss = nn::BCEWithLogitsLoss()})
                .accuracy,
            0.75);
  // Targets that are not classes have no accuracy.
  EXPECT_TRUE(std::isnan(evaluate(net, x, x * 2, {.loss = mse_loss}).accuracy));
  EXPECT_TRUE(
      std::isnan(evaluate(same, ones({2, 3}), randn({2, 3}) + 1.0, {.loss = mse_loss}).accuracy));
  EXPECT_EQ(evaluate(same, eye(3), eye(3), {.loss = mse_loss}).accuracy, 1);
}

TEST(Metrics, RocAucRefusesOtherClassesAndShowsNaN) {
  const Variable scores = tensor({0.1, 0.2, 0.3, 0.4});
  for (const auto& labels : {tensor({1, 2, 1, 2}), tensor({-1, 1, -1, 1})})
    EXPECT_THROW(RocAuc().add(scores, labels), IndexError);
  EXPECT_THROW(RocAuc().add(ones({2, 3}), tensor({0, 3})), IndexError);
  RocAuc auc;
  auc.add(scores * NAN, tensor({0, 1, 0, 1}));
  EXPECT_TRUE(std::isnan(auc.value()));
}

}  // namespace
}  // namespace tapegrad
