#include "train/report.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/base/error.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "tests/temp_dir.h"
#include "train/classification_metrics.h"
#include "train/fit.h"

namespace tapegrad {
namespace {

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Report, HasEverySectionAndNoReferences) {
  manual_seed(1);
  nn::Sequential model({nn::Flatten(), nn::Linear({.in_features = 16, .out_features = 3})});
  optim::Adam adam(model, {.lr = 0.1});
  const Variable x = rand({30, 1, 4, 4});
  DataLoader batches(TensorDataset(x, randint(0, 3, {30})), {.batch_size = 10});
  Profiler profiler;
  const History history =
      fit(model, batches, adam, {.epochs = 4, .progress = {.style = ProgressStyle::kNone}});
  profiler.stop();
  const MemoryReport memory = memory_report({.model = &model, .optimizer = &adam});
  Evaluation result = evaluate(model, batches);
  result.predictions[0] = (result.labels[0] + 1) % 3;  // wrong
  const testing::TempDir dir;
  EXPECT_THROW(save_report(dir / "missing" / "report.html", {}), IoError);
  save_report(dir / "report.html", {.title = "a < b",
                                    .history = &history,
                                    .evaluation = &result,
                                    .images = x,
                                    .samples = 2,
                                    .class_names = {"cat", "dog & co", "bird"},
                                    .profiler = &profiler,
                                    .memory = &memory});
  const std::string page = testing::contents(dir / "report.html");
  for (const char* part :
       {"<title>a &lt; b</title>", "<h2>Training</h2>", "Confusion matrix", "<h2>Wrong</h2>",
        "<h2>Right</h2>", "Time by layer", "Sequential.1", "optimizer: Adam", "<h2>Memory</h2>",
        "optimizer state", "Environment", "dog &amp; co", "prefers-color-scheme: dark"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_GT(count(page.substr(page.find("<pre>")), "\n"), 5) << "a line for each fact";
  EXPECT_EQ(count(page, "<img "), count(page, "src=\"data:image/png;base64,iVBORw0KGgo"));
  EXPECT_GE(count(page, "<img "), 2);
  for (const char* reference : {"href=", "src=\"http", "url(", "@import", "<script", "<link"})
    EXPECT_EQ(count(page, reference), 0) << reference;
  EXPECT_THROW(html_report({.evaluation = &result, .images = rand({2, 1, 4, 4})}), ShapeError);
  EXPECT_NE(html_report({}).find("Environment"), std::string::npos);
}

TEST(Report, AMetricWithTheNameOfAnotherIsShownOnce) {
  manual_seed(1);
  nn::Linear model(4, 3);
  optim::SGD sgd(model, 0.1);
  DataLoader batches(TensorDataset(rand({30, 4}), randint(0, 3, {30})), {.batch_size = 10});
  ConfusionMatrix matrix(3);
  std::ostringstream lines;
  const History history =
      fit(model, batches, sgd,
          {.epochs = 1, .validation = &batches, .metrics = {&matrix}, .progress = {.out = &lines}});
  EXPECT_EQ(count(lines.str(), " accuracy: "), 1) << lines.str();
  EXPECT_EQ(count(lines.str(), "val_accuracy: "), 1) << lines.str();
  const std::string page = html_report({.history = &history});
  EXPECT_EQ(count(page, "<th>accuracy</th>"), 1);
  EXPECT_EQ(count(page, "<figure class=\"chart\">"), 2);  // loss and accuracy
}

}  // namespace
}  // namespace tapegrad
