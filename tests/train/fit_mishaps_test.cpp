// What goes wrong in a run of fit(): measures that are NaN, files that cannot be written, callbacks
// that read the training loader.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/internal/escaped_text.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"
#include "train/fit.h"
#include "train/report.h"
#include "train/tensorboard.h"

namespace tapegrad {
namespace {

using testing::message_of;

const ProgressOptions kSilent{.style = ProgressStyle::kNone};

TensorDataset rows(int64_t n, uint64_t seed = 1) {
  RandomGenerator generator(seed);
  const NoGrad no_grad;
  return TensorDataset(randn({n, 2}, {}, generator), randint(0, 3, {n}, {}, generator));
}

nn::Sequential small_net() {
  manual_seed(5);
  return nn::Sequential({nn::Linear({.in_features = 2, .out_features = 4}), nn::Tanh(),
                         nn::Linear({.in_features = 4, .out_features = 3})});
}

/// A measure with given values, one for each epoch.
class Scripted final : public Metric {
 public:
  Scripted(std::string name, std::vector<double> values)
      : name_(std::move(name)), values_(std::move(values)) {}
  std::string name() const override { return name_; }
  void add(const Variable&, const Variable&) override {}
  double value() const override { return values_[next_++ % values_.size()]; }

 private:
  std::string name_;
  std::vector<double> values_;
  mutable size_t next_ = 0;
};

TEST(FitMishaps, AValidationLossOfNaNIsNoImprovement) {
  const testing::TempDir dir;
  for (const char* monitor : {"", "val_loss"}) {
    nn::Sequential net = small_net();
    optim::SGD sgd(net, 0.1);
    DataLoader batches(rows(12), {.batch_size = 4});
    const History history =
        fit(net, batches, sgd,
            {.epochs = 9,
             .validation_data = {full({4, 2}, NAN), randint(0, 3, {4})},
             .progress = kSilent,
             .callbacks = {early_stop({.monitor = monitor, .patience = 2}),
                           save_best(dir / "best", monitor), log_csv(dir / "run.csv"),
                           ReduceLROnPlateau({.monitor = monitor, .patience = 1})}});
    EXPECT_EQ(history.epochs.size(), 3u) << history.stop_reason;
    EXPECT_LT(history["loss"][2], history["loss"][0]) << "the training loss improves";
    EXPECT_NEAR(sgd.lr(), 0.1 * 1e-3, 1e-12);
    EXPECT_TRUE(std::isnan(history["val_loss"][2]));
    EXPECT_NE(testing::contents(dir / "run.csv").find(",nan,"), std::string::npos);
  }
}

TEST(FitMishaps, ACheckpointKeepsMeasuresThatAreNaNAndTheirOrder) {
  const testing::TempDir dir;
  const auto run = [&](int64_t epochs, const std::string& file) {
    nn::Sequential net = small_net();
    optim::SGD sgd(net, 0.1);
    DataLoader batches(rows(12), {.batch_size = 4});
    Scripted z("z", {0.5, NAN}), a("a", {NAN, 1});
    return fit(net, batches, sgd,
               {.epochs = epochs,
                .validation_data = {full({4, 2}, NAN), randint(0, 3, {4})},
                .metrics = {&z, &a},
                .checkpoint = dir / file,
                .progress = kSilent,
                .callbacks = {early_stop({.monitor = "z", .patience = 9})}});
  };
  run(2, "parts");
  const History resumed = run(4, "parts"), whole = run(4, "whole");
  ASSERT_EQ(resumed.epochs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const NamedValues one = resumed.epochs[i].values(), two = whole.epochs[i].values();
    ASSERT_EQ(one.size(), two.size());
    for (size_t k = 0; k < one.size(); ++k) EXPECT_EQ(one[k].first, two[k].first) << i << ' ' << k;
  }
}

TEST(FitMishaps, NamesOfMeasuresMayHaveSeparators) {
  const testing::TempDir dir;
  History history;
  history.epochs.push_back({.epoch = 1, .loss = 1, .more = {{"a \"b\",\n\\c", INFINITY}}});
  history.save_csv(dir / "run.csv");
  history.save_jsonl(dir / "run.jsonl");
  EXPECT_EQ(testing::contents(dir / "run.csv"),
            "epoch,loss,\"a \"\"b\"\",\n\\c\",seconds\n1,1,inf,0\n");
  EXPECT_EQ(testing::contents(dir / "run.jsonl"),
            "{\"epoch\": 1, \"loss\": 1, \"a \\\"b\\\",\\u000a\\\\c\": null, \"seconds\": 0}\n");
}

TEST(FitMishaps, FilesAreUtf8WhateverTheNames) {
  EXPECT_EQ(valid_utf8("a\xff\u00e9\xe9 \U0001F600"), "a\uFFFD\u00e9\uFFFD \U0001F600");
  EXPECT_EQ(valid_utf8("\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82").size(), 3u * 11);
  EXPECT_EQ(json_escape("a\"\n\\\x01\xff"), "a\\\"\\u000a\\\\\\u0001\uFFFD");
  EXPECT_EQ(xml_escape("<&\">\x01\xff"), "&lt;&amp;&quot;&gt; \uFFFD");
  const testing::TempDir dir;
  const std::string name = "latin \xe9", shown = "latin \uFFFD";
  History history;
  history.epochs.push_back({.epoch = 1, .loss = 1, .more = {{name, 1.0}}});
  history.save_csv(dir / "csv");
  history.save_jsonl(dir / "jsonl");
  save_report(dir / "html", {.title = name, .history = &history});
  TensorBoard board(dir / "board");
  board.scalar(name, 1, 1);
  board.text(name, name);
  for (const std::string& path :
       {(dir / "csv").string(), (dir / "jsonl").string(), (dir / "html").string(), board.path()}) {
    const std::string text = testing::contents(path);
    EXPECT_EQ(text.find(name), std::string::npos) << path;
    EXPECT_NE(text.find(shown), std::string::npos) << path;
  }
}

TEST(FitMishaps, ATensorBoardWithoutAFolderIsInTheCurrentOne) {
  const testing::TempDir dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const std::string path = TensorBoard("").path();
  EXPECT_TRUE(std::filesystem::exists(dir / path)) << path;
  std::filesystem::current_path(before);
}

TEST(FitMishaps, ChartsOfHugeNumbersAndOfNamesThatEndAlike) {
  History history;
  for (const double sign : {1.0, -1.0})
    history.epochs.push_back({.epoch = int64_t(history.epochs.size()) + 1,
                              .loss = sign * 1e308,
                              .more = {{"mse", 1.0}, {"rmse", 2.0}}});
  const std::string page = html_report({.history = &history});
  EXPECT_EQ(page.find("nan"), std::string::npos);
  size_t legends = 0;
  for (size_t at = 0; (at = page.find(">rmse</text>", at)) != std::string::npos; ++at) ++legends;
  EXPECT_EQ(legends, 1u) << "the label of its own axis";
}

TEST(FitMishaps, ErrorsComeBeforeTheFirstStep) {
  const testing::TempDir dir;
  nn::Sequential net = small_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(rows(12), {.batch_size = 4});
  int steps = 0;
  const Callback count{.after_step = [&](Training&) { ++steps; }};
  DataLoader none(rows(3), {.batch_size = 4, .drop_last = true});
  const std::string message = message_of<ArgumentError>([&] {
    fit(net, batches, sgd, {.validation = &none, .progress = kSilent, .callbacks = {count}});
  });
  EXPECT_NE(message.find(".validation has no batches: 3 examples"), std::string::npos) << message;
  const std::string path = dir / "missing/file";
  for (const Callback& each : {save_best(path), save_every(path), log_csv(path), log_jsonl(path)})
    EXPECT_THROW(fit(net, batches, sgd, {.progress = kSilent, .callbacks = {each, count}}),
                 IoError);
  EXPECT_EQ(steps, 0);
}

TEST(FitMishaps, ACallbackMayReadTheTrainingLoader) {
  const testing::TempDir dir;
  const auto run = [&](bool reads, int64_t last_step) {
    nn::Sequential net = small_net();
    optim::SGD sgd(net, 0.1);
    DataLoader batches(rows(22), {.batch_size = 4, .shuffle = true});
    return fit(net, batches, sgd,
               {.epochs = 3,
                .checkpoint = reads ? dir / "run" : std::filesystem::path(),
                .progress = kSilent,
                .callbacks = {{.after_step = [&](Training& at) {
                  if (reads && at.batch % 3 == 2) evaluate(net, batches);
                  if (at.steps == last_step) at.stop("killed");
                }}}})["loss"];
  };
  const std::vector<double> undisturbed = run(false, 0);
  for (const int64_t last_step : {1, 2, 5, 6, 8, 12, 13}) {
    std::filesystem::remove(dir / "run");
    run(true, last_step);
    EXPECT_EQ(run(true, 0), undisturbed) << "stopped after step " << last_step;
  }
}

}  // namespace
}  // namespace tapegrad
