// fit() and evaluate() with batches of any fields.
#include "train/fit_items.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::message_of;

struct Pair {
  Variable left, right, label;
};

struct Net : nn::Model<Net> {
  nn::Linear fc{6, 2};
  void members(nn::Members& m) override { m("fc", fc); }
  Variable forward(const Variable& a, const Variable& b) const { return fc(cat({a, b}, 1)); }
};

std::vector<Pair> make_pairs(int64_t n) {
  manual_seed(5);
  std::vector<Pair> items;
  for (int64_t i = 0; i < n; ++i) {
    const Variable a = randn({3}), b = randn({3});
    items.push_back({a, b, tensor(int64_t(sum(a).item() > sum(b).item()))});
  }
  return items;
}

const auto step = [](Net& model, Pair& batch) {
  const Variable logits = model(batch.left, batch.right);
  return BatchResult(cross_entropy(logits, batch.label), logits, batch.label);
};

FitOptions quiet(FitOptions options) {
  options.progress.out = nullptr;
  return options;
}

TEST(FitItems, TrainsAndEvaluatesNamedFields) {
  ItemLoader train(make_pairs(200), {.batch_size = 16, .shuffle = true});
  ItemLoader test(make_pairs(50), {.batch_size = 16});
  manual_seed(1);
  Net net;
  optim::Adam opt(net, 0.05);
  const History history = fit(net, train, opt, step, quiet({.epochs = 8, .validation = &test}));
  EXPECT_EQ(history.epochs.size(), 8u);
  EXPECT_LT(history.epochs.back().loss, history.epochs.front().loss / 2);
  EXPECT_GT(history.epochs.back().val_accuracy, 0.9);
  const Evaluation result = evaluate(net, test, step);
  EXPECT_EQ(result.count, 50);
  EXPECT_EQ(result.labels.size(), 50u);
  EXPECT_NEAR(result.accuracy, history.epochs.back().val_accuracy, 1e-12);
  EXPECT_NEAR(result.loss, history.epochs.back().val_loss, 1e-12);
}

TEST(FitItems, EqualsALoopByHand) {
  manual_seed(1);
  Net net, by_hand = net.clone();
  const auto loss_alone = [](Net& model, Pair& batch) {
    return cross_entropy(model(batch.left, batch.right), batch.label);
  };
  ItemLoader items(make_pairs(40), {.batch_size = 12, .shuffle = true, .num_workers = 2});
  ItemLoader same(make_pairs(40), {.batch_size = 12, .shuffle = true});
  optim::SGD opt(net, 0.1), other(by_hand, 0.1);
  fit(net, items, opt, loss_alone, quiet({.epochs = 2}));
  for (int epoch = 0; epoch < 2; ++epoch)
    for (Pair& batch : same) {
      other.zero_grad();
      loss_alone(by_hand, batch).backward();
      other.step();
    }
  EXPECT_EQ(net.fc.weight.to_vector<float>(), by_hand.fc.weight.to_vector<float>());
}

TEST(FitItems, ContinuesFromACheckpoint) {
  const testing::TempDir dir;
  const std::string path = (dir / "run.safetensors").string();
  const auto run = [&](int64_t epochs, const std::string& checkpoint) {
    manual_seed(1);
    Net net;
    optim::Adam opt(net, 0.05);
    ItemLoader items(make_pairs(40), {.batch_size = 12, .shuffle = true});
    fit(net, items, opt, step, quiet({.epochs = epochs, .checkpoint = checkpoint}));
    return net.fc.weight.to_vector<float>();
  };
  run(2, path);
  EXPECT_EQ(run(4, path), run(4, ""));
}

TEST(FitItems, TakesTuplesAccumulationAndClipping) {
  using Item = std::tuple<Variable, double, std::string>;
  std::vector<Item> items;
  for (int i = 0; i < 20; ++i) items.emplace_back(full({3}, i / 10.0), i / 5.0, "name");
  ItemLoader loader(items, {.batch_size = 3});
  nn::Linear net(3, 1);
  optim::SGD opt(net, 0.01);
  const auto fn = [](nn::Linear& model, auto& batch) {
    auto& [x, y, names] = batch;
    EXPECT_EQ(int64_t(names.size()), x.size(0));
    return mean(square(squeeze(model(x), 1) - y));
  };
  const History history =
      fit(net, loader, opt, fn, quiet({.epochs = 3, .accumulate = 2, .clip_norm = 1.0}));
  EXPECT_LT(history.epochs[2].loss, history.epochs[0].loss);
}

TEST(FitItems, PairsOfVariablesAreExamples) {
  std::vector<std::pair<Variable, int64_t>> items;
  for (int i = 0; i < 12; ++i) items.emplace_back(full({3}, double(i)), i % 2);
  ItemLoader loader(items, {.batch_size = 4});
  nn::Linear net(3, 2);
  optim::SGD opt(net, 0.01);
  EXPECT_EQ(fit(net, loader, opt, quiet({.epochs = 1})).epochs.size(), 1u);
  EXPECT_EQ(evaluate(net, loader).count, 12);
}

TEST(FitItems, SaysWhatIsMissing) {
  ItemLoader items(make_pairs(8), {.batch_size = 4});
  Net net;
  optim::SGD opt(net, 0.1);
  Loader& loader = items;
  EXPECT_NE(
      message_of<ArgumentError>([&] { fit(net, loader, opt, quiet({})); }).find("give a function"),
      std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { evaluate(net, loader); }).find("give a function"),
            std::string::npos);
  DataLoader examples(TensorDataset(ones({4, 3}), ones({4, 3})), {.batch_size = 2});
  EXPECT_NE(message_of<ArgumentError>([&] {
              fit(net, items, opt, step, quiet({.validation = &examples}));
            }).find("other fields"),
            std::string::npos);
  const auto no_loss = [](Net& model, Pair& batch) { return model(batch.left, batch.right); };
  EXPECT_NE(message_of<ArgumentError>([&] {
              fit(net, items, opt, no_loss, quiet({}));
            }).find("one element"),
            std::string::npos);
}

}  // namespace
}  // namespace tapegrad
