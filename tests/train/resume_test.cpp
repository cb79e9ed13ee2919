// T53: ten steps in one process equal five steps, a file, and five steps in a new process.
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "core/tape/recording.h"
#include "data/loader.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/combined_schedulers.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"
#include "train/training_state.h"

namespace tapegrad::testing {
namespace {

constexpr int kSteps = 10;
constexpr int64_t kRows = 28,
                  kBatch = 4;  // seven steps per epoch, so the second half starts within an epoch

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(nn::Sequential&)>;

/// The first layer has its own learning rate.
std::vector<optim::ParamGroup> groups_of(const nn::Sequential& net) {
  std::vector<Variable> all = net.parameters();
  return {{.params = {all[0], all[1]}, .lr = 0.003},
          {.params = {all.begin() + 2, all.end()}, .weight_decay = 0.01}};
}

const std::map<std::string, MakeOptimizer> kOptimizers = {
    {"sgd",
     [](nn::Sequential& net) {
       return std::make_unique<optim::SGD>(groups_of(net),
                                           optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
     }},
    {"adam",
     [](nn::Sequential& net) { return std::make_unique<optim::Adam>(groups_of(net), 0.01); }},
    {"adamw",
     [](nn::Sequential& net) { return std::make_unique<optim::AdamW>(groups_of(net), 0.01); }},
    {"rmsprop",
     [](nn::Sequential& net) { return std::make_unique<optim::RMSprop>(groups_of(net), 0.01); }},
};

/// A run with the statistics of a batch norm, the random numbers of dropout, a warm-up and a
/// shuffled loader.
struct TrainingRun {
  nn::Sequential net{nn::Linear({.in_features = 6, .out_features = 16}),
                     nn::BatchNorm1d({.num_features = 16}), nn::ReLU(), nn::Dropout(0.3),
                     nn::Linear({.in_features = 16, .out_features = 3})};
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::CosineAnnealingLR cosine;
  optim::WarmupLR warmup;
  DataLoader batches;
  TrainingState state;

  TrainingRun(const std::string& kind, uint64_t seed)
      : optimizer(kOptimizers.at(kind)(seeded(net, seed))),
        cosine(*optimizer, {.T_max = 20}),
        warmup(*optimizer, cosine, {.warmup_steps = 7}),
        batches(data(), {.batch_size = kBatch, .shuffle = true, .seed = 3}) {
    state("model", net)("optimizer", *optimizer)("schedule", warmup)("batches", batches);
  }

  /// Different initial weights for each run, so that equal weights must come from the file.
  static nn::Sequential& seeded(nn::Sequential& net, uint64_t seed) {
    manual_seed(seed);
    NoGrad off;
    for (Variable& p : net.parameters()) uniform_(p, -0.5, 0.5);
    return net;
  }

  static TensorDataset data() {
    RandomGenerator fixed(99);
    const Variable x = randn({kRows, 6}, {}, fixed);
    return TensorDataset(x, randint(0, 3, {kRows}, {}, fixed));
  }

  void train(int steps) {
    while (true) {
      for (auto& [x, y] : batches) {
        optimizer->zero_grad();
        cross_entropy(net(x), y).backward();
        optimizer->step();
        warmup.step();
        if (--steps == 0) return;
      }
    }
  }
};

class Resume : public ::testing::TestWithParam<std::string> {};

/// Runs one test of this program in a new process, even if it is disabled.
int run_in_new_process(const std::string& filter) {
  std::string program = "/proc/self/exe", only = "--gtest_filter=" + filter,
              disabled = "--gtest_also_run_disabled_tests";
  char* arguments[] = {program.data(), only.data(), disabled.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0) return -1;
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_P(Resume, T53_GoesOnInANewProcessBitForBit) {
  const TempDir dir;
  TrainingRun whole(GetParam(), 1);
  whole.train(kSteps);
  whole.state.save((dir / "whole.safetensors").string());

  TrainingRun half(GetParam(), 1);
  half.train(kSteps / 2);
  half.state.save((dir / "half.safetensors").string());

  setenv("TAPEGRAD_RESUME_DIR", dir.path().c_str(), 1);
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string index = test.substr(test.find('/'));
  ASSERT_EQ(run_in_new_process("*DISABLED_SecondHalf" + index), 0);

  const TensorMap one = load((dir / "whole.safetensors").string());
  const TensorMap two = load((dir / "resumed.safetensors").string());
  ASSERT_GT(one.size(), 20u);
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, tensor] : one) {
    ASSERT_TRUE(two.contains(name)) << name;
    EXPECT_EQ(Variable(two.at(name)).to_vector<double>(), Variable(tensor).to_vector<double>())
        << name;
  }
}

/// The second half of the test above, which starts it.
TEST_P(Resume, DISABLED_SecondHalf) {
  const std::filesystem::path dir = std::getenv("TAPEGRAD_RESUME_DIR");
  TrainingRun run(GetParam(), 2);
  run.state.load((dir / "half.safetensors").string());
  run.train(kSteps - kSteps / 2);
  run.state.save((dir / "resumed.safetensors").string());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Resume, ::testing::Values("sgd", "adam", "adamw", "rmsprop"),
                         [](const auto& info) { return info.param; });

TEST(TrainingState, AFileThatDoesNotFitChangesNothing) {
  const TempDir dir;
  TrainingRun other("sgd", 1);
  other.train(3);
  const std::string path = (dir / "sgd.safetensors").string();
  other.state.save(path);

  TrainingRun run("adam", 2);
  run.train(2);
  const std::string before_path = (dir / "before.safetensors").string();
  run.state.save(before_path);
  const std::string message = message_of<ArgumentError>([&] { run.state.load(path); });
  EXPECT_NE(message.find("sgd.safetensors: optimizer: "), std::string::npos) << message;
  const std::string after_path = (dir / "after.safetensors").string();
  run.state.save(after_path);
  EXPECT_EQ(contents(after_path), contents(before_path)) << "the model was restored first";
}

TEST(TrainingState, HoldsVariablesAndCounters) {
  const TempDir dir;
  const std::string path = (dir / "run").string();
  Variable w = tensor({1.0, 2.0}).requires_grad_();
  int64_t step = 7;
  TrainingState state;
  state("w", w)("step", step);
  state.save(path);
  w = tensor({3.0, 4.0}).requires_grad_();
  step = 9;
  state.load(path);
  EXPECT_EQ(w.to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_TRUE(w.requires_grad());
  EXPECT_EQ(step, 7);

  w = tensor({1.0, 2.0, 3.0});
  const std::string text = message_of<ArgumentError>([&] { state.load(path); });
  EXPECT_NE(text.find("run: w: the variable is float32 [3], that of the file float32 [2]"),
            std::string::npos)
      << text;
  EXPECT_EQ(w.to_vector<double>(), (std::vector<double>{1, 2, 3}));
}

TEST(TrainingState, NamesAreWordsAndDifferent) {
  TrainingRun run("sgd", 1);
  EXPECT_NE(message_of<ArgumentError>([&] { run.state("model", run.net); }).find("two parts"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { run.state("a.b", run.net); }).find("without points"),
            std::string::npos);
  EXPECT_NE(message_of<ArgumentError>([&] { run.state("", run.net); }).find("word"),
            std::string::npos);
}

}  // namespace
}  // namespace tapegrad::testing
