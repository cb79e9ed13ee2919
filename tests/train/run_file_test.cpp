// Runs of fit() that are killed, stopped, or cannot save, continue bit for bit from their
// checkpoint. TAPEGRAD_KILLS sets the number of processes that are killed at random moments.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"
#include "train/fit.h"

namespace tapegrad::testing {
namespace {

constexpr int64_t kEpochs = 3;

/// A run with everything that has a state: batch norm, dropout, two optimizers, schedules, a scaled
/// float16 step, averaged weights, accumulated gradients and shuffled batches. Its checkpoint is
/// written after every second update.
struct Trainer {
  nn::Sequential net;
  std::vector<Variable> weights;
  optim::Adam adam;
  optim::SGD sgd;
  optim::CosineAnnealingLR cosine;
  optim::ReduceLROnPlateau plateau;
  Ema average;
  DataLoader batches, validation;

  explicit Trainer(int workers = 0, int64_t batch_size = 4)
      : net(make_net()),
        weights(net.parameters()),
        adam(some(0, 2), 0.01),
        sgd(some(2, weights.size()), {.lr = 0.05, .momentum = 0.9}),
        cosine(adam, {.T_max = 30}),
        plateau(sgd, {.patience = 0}),
        average(net, {.decay = 0.9}),
        batches(data(44, 1), {.batch_size = batch_size, .shuffle = true, .num_workers = workers}),
        validation(data(12, 2), {.batch_size = 8}) {}

  static nn::Sequential make_net() {
    manual_seed(7);
    return nn::Sequential({nn::Linear({.in_features = 6, .out_features = 16}),
                           nn::BatchNorm1d({.num_features = 16}), nn::ReLU(), nn::Dropout(0.3),
                           nn::Linear({.in_features = 16, .out_features = 3})});
  }
  static TensorDataset data(int64_t rows, uint64_t seed) {
    RandomGenerator fixed(seed);
    const Variable x = randn({rows, 6}, {}, fixed);
    return TensorDataset(x, randint(0, 3, {rows}, {}, fixed));
  }
  std::vector<Variable> some(size_t begin, size_t end) const {
    return {weights.begin() + int64_t(begin), weights.begin() + int64_t(end)};
  }

  History train(const std::string& path, std::vector<Callback> more = {},
                int64_t epochs = kEpochs) {
    more.insert(more.begin(), {per_step(cosine), per_epoch(plateau)});
    return fit(net, batches, {&adam, &sgd},
               {.epochs = epochs,
                .validation = &validation,
                .amp = f16,
                .accumulate = 2,
                .clip_norm = 0.5,
                .average = &average,
                .checkpoint = path,
                .checkpoint_steps = 2,
                .progress = {.style = ProgressStyle::kNone},
                .callbacks = std::move(more)});
  }
};

void expect_same_run(const std::string& path, const std::string& expected) {
  const TensorMap one = load(path), two = load(expected);
  ASSERT_EQ(one.size(), two.size());
  for (const auto& [name, tensor] : two) {
    ASSERT_TRUE(one.contains(name)) << name;
    if (name == "checksum" || name == "fit.history.seconds") continue;
    const std::vector<double> a = Variable(one.at(name)).to_vector<double>(),
                              b = Variable(tensor).to_vector<double>();
    ASSERT_EQ(a.size(), b.size()) << name;
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
          << name << ' ' << i << ": " << a[i] << " instead of " << b[i];
  }
}

/// Starts the whole run in a new process, with its own number of workers.
pid_t start_process(const std::string& path, int workers) {
  setenv("TAPEGRAD_RUN", path.c_str(), 1);
  setenv("TAPEGRAD_WORKERS", std::to_string(workers).c_str(), 1);
  std::string program = "/proc/self/exe", only = "--gtest_filter=*DISABLED_WholeRun",
              disabled = "--gtest_also_run_disabled_tests", brief = "--gtest_brief=1";
  char* arguments[] = {program.data(), only.data(), disabled.data(), brief.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  return child;
}

int wait_for(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST(Checkpoint, DISABLED_WholeRun) {
  Trainer(std::atoi(std::getenv("TAPEGRAD_WORKERS"))).train(std::getenv("TAPEGRAD_RUN"));
}

TEST(Checkpoint, AKilledRunContinuesBitForBit) {
  const TempDir dir;
  const std::string whole = dir / "whole.safetensors", path = dir / "run.safetensors";
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(wait_for(start_process(whole, 0)), 0);
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  const char* asked = std::getenv("TAPEGRAD_KILLS");
  std::mt19937_64 random(3);
  int kills = asked != nullptr ? std::atoi(asked) : 20, killed = 0, resumed = 0;
  while (killed < kills) {
    const pid_t child = start_process(path, killed % 3);
    // Every second process has written a checkpoint, however busy the machine is.
    for (int i = 0; killed % 2 == 1 && i < 30000 && !std::filesystem::exists(path); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(
        random() % uint64_t(duration.count() / (killed % 2 == 1 ? 4 : 1) + 1)));
    kill(child, SIGKILL);
    const int status = wait_for(child);
    if (WIFSIGNALED(status)) {
      ++killed;
      resumed += std::filesystem::exists(path);
      if (killed % 4 != 0) continue;  // a run is killed several times
      ASSERT_EQ(wait_for(start_process(path, killed % 3)), 0);
    }
    expect_same_run(path, whole);
    if (HasFatalFailure()) return;
    std::filesystem::remove(path);
  }
  EXPECT_GT(resumed, kills / 4) << "most were killed before the first checkpoint";
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path()))
    ++files;
  EXPECT_LE(files, 2) << "temporary files of killed processes are removed";
}

TEST(Checkpoint, AFinishedRunIsNotRepeatedAndCanBeExtended) {
  const TempDir dir;
  const std::string whole = dir / "whole", path = dir / "run";
  Trainer().train(whole);
  Trainer().train(path, {}, 1);
  EXPECT_EQ(Trainer().train(path, {}, 1).times.steps(), 0);
  const History rest = Trainer().train(path);
  EXPECT_EQ(rest.epochs.size(), size_t(kEpochs));
  expect_same_run(path, whole);
}

TEST(Checkpoint, AnEarlyStopIsRemembered) {
  const TempDir dir;
  const std::string path = dir / "run";
  const Callback stop{.stop = [](const History& history) -> std::string {
    return history.epochs.size() == 2 ? "two are enough" : "";
  }};
  EXPECT_EQ(Trainer().train(path, {stop}).epochs.size(), 2u);
  const History again = Trainer().train(path, {stop});
  EXPECT_EQ(again.times.steps(), 0);
  EXPECT_EQ(again.stop_reason, "two are enough");
}

TEST(Checkpoint, AnExceptionInTheMiddle) {
  const TempDir dir;
  const std::string whole = dir / "whole", path = dir / "run";
  Trainer().train(whole);
  EXPECT_THROW(Trainer().train(path, {{.before_batch =
                                           [](Training& run) {
                                             if (run.epoch == 2 && run.batch == 6)
                                               throw std::runtime_error("broken");
                                           }}}),
               std::runtime_error);
  Trainer(2).train(path);
  expect_same_run(path, whole);
}

TEST(Checkpoint, ErrorsSayWhatToDo) {
  const TempDir dir;
  const std::string path = dir / "run";
  Trainer().train(path, {}, 1);
  const std::string before = contents(path);
  const auto error_of = [&](auto call) { return message_of<Error>(call); };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  std::string text = error_of([&] { Trainer(0, 5).train(path); });
  has(text, "batch_size is 5, that of the file 4");
  has(text, "to start anew, remove the file or choose another .checkpoint");

  {
    Trainer run;
    optim::SGD other(run.net, 0.1);
    text = error_of([&] { fit(run.net, run.batches, other, {.checkpoint = path}); });
    has(text, "the file has the parts ");
    has(text, "optimizer2");
  }

  TensorMap newer = load(path);
  newer["format"] = Tensor::full({}, 7, i64);
  newer["unknown.part"] = Tensor::full({}, 7, i64);
  save(dir / "newer", newer);
  text = error_of([&] { Trainer().train(dir / "newer"); });
  has(text, "the file has format 7");
  has(text, "use a newer version");

  put(dir / "cut", before.substr(0, before.size() / 2));
  has(error_of([&] { Trainer().train(dir / "cut"); }), "remove the file");

  text = error_of([&] { Trainer().train(dir / "no/folder/run"); });
  has(text, "No such file or directory");
  has(text, "choose a .checkpoint in a folder that can be written");
  EXPECT_EQ(contents(path), before);
}

/// Runs code in a forked process, which must print nothing and exit with 0.
void expect_in_fork(const std::function<bool()>& code) {
  const pid_t child = fork();
  if (child == 0) _exit(code() ? 0 : 1);
  EXPECT_EQ(wait_for(child), 0);
}

TEST(Checkpoint, AFullDiskLeavesTheLastCheckpoint) {
  const TempDir dir;
  const std::string whole = dir / "whole", path = dir / "run";
  Trainer().train(whole);
  Trainer().train(path, {}, 1);
  const std::string before = contents(path);
  // The process may write no file that is as large as a checkpoint, as on a full disk.
  expect_in_fork([&] {
    Trainer run;
    const rlimit limit{before.size() / 2, before.size() / 2};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text = message_of<IoError>([&] { run.train(path); });
    if (text.find("the last checkpoint is unchanged: make room") != std::string::npos) return true;
    std::fprintf(stderr, "%s\n", text.c_str());
    return false;
  });
  EXPECT_EQ(contents(path), before);
  Trainer().train(path);
  expect_same_run(path, whole);
}

TEST(Checkpoint, AFolderWithoutPermission) {
  const TempDir dir;
  const std::string folder = dir / "folder", path = folder + "/run";
  std::filesystem::create_directory(folder);
  Trainer().train(path, {}, 1);
  using enum std::filesystem::perms;
  std::filesystem::permissions(dir.path(), all);
  std::filesystem::permissions(path, owner_read | owner_write);
  std::filesystem::permissions(folder, owner_all | others_exec | others_read);
  expect_in_fork([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return true;  // the owner may always write
    if (geteuid() != 65534) return true;
    const std::string text = message_of<IoError>([&] { Trainer().train(path); });
    if (text.find("Permission denied; choose a .checkpoint in a folder") != std::string::npos)
      return true;
    std::fprintf(stderr, "%s\n", text.c_str());
    return false;
  });
}

}  // namespace
}  // namespace tapegrad::testing
