// T75: options, files and loaded states that make no sense are refused before anything has changed,
// and the message names the value.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <locale>

#include "core/inspect/runtime_info.h"
#include "core/inspect/tape_picture.h"
#include "data/loader.h"
#include "io/safetensors.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"
#include "train/plot.h"
#include "train/training_state.h"

namespace tapegrad::testing {
namespace {

using namespace optim;

using Values = std::vector<double>;
Values values(const Variable& x) { return x.to_vector<double>(); }
template <typename T = double>
Variable leaf(const std::vector<T>& values) {
  return Variable(Tensor::from<T>(values, {int64_t(values.size())})).requires_grad_();
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Expects an ArgumentError for each value.
template <typename Try>
void refuse(const char* what, std::initializer_list<double> refused, const Try& attempt) {
  for (const double value : refused) {
    SCOPED_TRACE(std::string(what) + " = " + std::to_string(value));
    EXPECT_THROW(attempt(value), ArgumentError);
  }
}

TEST(HostileOptions, T75_Optimizers) {
  const auto p = [] { return leaf({1, 2}); };
  refuse("lr", {kNan, -1, kInf, -kInf}, [&](double v) { SGD(Params{p()}, SGDOptions{.lr = v}); });
  refuse("momentum", {kNan, -1, kInf}, [&](double v) { SGD({p()}, SGDOptions{.momentum = v}); });
  refuse("dampening", {kNan, -1, kInf}, [&](double v) { SGD({p()}, SGDOptions{.dampening = v}); });
  refuse("weight_decay", {kNan, -1, kInf},
         [&](double v) { SGD({p()}, SGDOptions{.weight_decay = v}); });
  refuse("betas.first", {kNan, -1, 1, 1.5}, [&](double v) {
    Adam({p()}, AdamOptions{.betas = {v, 0.9}});
  });
  refuse("betas.second", {kNan, -1, 1, 1.5}, [&](double v) {
    Adam({p()}, AdamOptions{.betas = {0.9, v}});
  });
  refuse("eps", {kNan, -1, kInf}, [&](double v) { AdamW({p()}, AdamWOptions{.eps = v}); });
  refuse("alpha", {kNan, -1, 1.5, kInf},
         [&](double v) { RMSprop({p()}, RMSpropOptions{.alpha = v}); });
  refuse("rho", {kNan, -1, 1.5}, [&](double v) { Adadelta({p()}, AdadeltaOptions{.rho = v}); });
  refuse("lr_decay", {kNan, -1}, [&](double v) { Adagrad({p()}, AdagradOptions{.lr_decay = v}); });
  refuse("max_norm", {kNan, -1}, [&](double v) { clip_grad_norm_({p()}, v); });
  refuse("norm_type", {kNan, -1, 0}, [&](double v) { clip_grad_norm_({p()}, 1, v); });
  refuse("clip_value", {kNan, -1}, [&](double v) { clip_grad_value_({p()}, v); });
}

TEST(HostileOptions, T75_Schedules) {
  SGD sgd({leaf({1})}, 0.1);
  EXPECT_THROW(MultiStepLR(sgd, {.milestones = {}}), ArgumentError);
  EXPECT_THROW(MultiStepLR(sgd, {.milestones = {-1, 3}}), ArgumentError);
  EXPECT_THROW(optim::ReduceLROnPlateau(sgd, {.patience = -1}), ArgumentError);
  EXPECT_THROW(optim::ReduceLROnPlateau(sgd, {.cooldown = -1}), ArgumentError);
  refuse("threshold", {kNan, -1},
         [&](double v) { optim::ReduceLROnPlateau(sgd, {.threshold = v}); });
  refuse("min_lr", {kNan, -1}, [&](double v) { optim::ReduceLROnPlateau(sgd, {.min_lr = v}); });
  refuse("factor", {kNan, -1, 1}, [&](double v) { optim::ReduceLROnPlateau(sgd, {.factor = v}); });
  refuse("gamma", {kNan, -1}, [&](double v) { ExponentialLR(sgd, v); });
}

TEST(HostileOptions, T75_OneCycleLastsTheWholeLoop) {
  SGD sgd({leaf({1})}, 0.1);
  OneCycleLR schedule(sgd, {.max_lr = 1, .total_steps = 10});
  for (int batch = 0; batch < 10; ++batch) schedule.step();
  EXPECT_NEAR(sgd.lr(), 1.0 / 25 / 1e4, 1e-15);
  EXPECT_NE(message_of<ArgumentError>([&] { schedule.step(); }).find("step 11 of 10"),
            std::string::npos);
  EXPECT_NEAR(sgd.lr(), 1.0 / 25 / 1e4, 1e-15);
}

TEST(HostileOptions, T75_LoadedStates) {
  SGD sgd({leaf({1, 2})}, SGDOptions{.lr = 0.1, .momentum = 0.9});
  const TensorMap good = sgd.state_dict();
  const auto refuse_state = [](auto& target, TensorMap state, const char* name,
                               const Tensor& value) {
    SCOPED_TRACE(name);
    state[name] = value;
    const TensorMap before = target.state_dict();
    EXPECT_THROW(target.load_state_dict(state), ArgumentError);
    for (const auto& [key, tensor] : target.state_dict())
      EXPECT_EQ(values(Variable(tensor)), values(Variable(before.at(key)))) << key;
  };
  const auto real = [](double value) { return Tensor::full({}, value, f64); };
  const auto whole = [](int64_t value) { return Tensor::full({}, value, i64); };
  for (const double rate : {kNan, -1.0, kInf}) {
    refuse_state(sgd, good, "groups.0.lr", real(rate));
    refuse_state(sgd, good, "groups.0.weight_decay", real(rate));
  }
  refuse_state(sgd, good, "groups.0.params", whole(2));
  refuse_state(sgd, good, "groups.0.params", Tensor::full({2}, 1, i64));
  TensorMap stepped = good;
  stepped["state.0.momentum_buffer"] = Tensor::full({2}, 0.0, f64);
  refuse_state(sgd, stepped, "state.0.step", whole(-3));

  OneCycleLR schedule(sgd, {.max_lr = 1, .total_steps = 10});
  schedule.step();
  const TensorMap steps = schedule.state_dict();
  refuse_state(schedule, steps, "step", whole(-1));
  refuse_state(schedule, steps, "step",
               whole(11));  // the schedule refuses it only as it applies it
  refuse_state(schedule, steps, "base_lrs", Tensor::full({1}, kNan, f64));
  refuse_state(schedule, steps, "base_lrs", Tensor::full({1}, -1.0, f64));
  optim::ReduceLROnPlateau plateau(sgd, {});
  const TensorMap plain = plateau.state_dict();
  refuse_state(plateau, plain, "best", real(kNan));
  refuse_state(plateau, plain, "bad_steps", whole(-1));
  refuse_state(plateau, plain, "cooling", whole(-1));
}

TEST(HostileOptions, T75_ScaleOfGradientsRecovers) {
  GradScaler scaler;
  const Variable x = leaf<float>({1});
  SGD sgd({x}, 0.0);
  const auto step = [&](float seed) {
    x.zero_grad();
    scaler.scale(x * 1.0).backward(Variable(Tensor::full({1}, seed, f32)));
    scaler.step(sgd);
    scaler.update();
  };
  for (int i = 0; i < 1200; ++i) step(std::numeric_limits<float>::infinity());
  EXPECT_GT(scaler.state_dict().at("scale").item(), 0);
  for (int i = 0; i < 2100; ++i) step(1);
  EXPECT_GT(scaler.state_dict().at("scale").item(), 0x1p-126);
}

TEST(HostileOptions, T75_AScalerKnowsOptimizersNotAddresses) {
  GradScaler scaler;
  const Variable x = leaf<float>({1});
  alignas(SGD) std::byte memory[sizeof(SGD)];
  for (int i = 0; i < 2; ++i) {  // both optimizers have the same address
    auto* sgd = new (memory) SGD({x}, 0.1);
    scaler.scale(sum(x)).backward();
    EXPECT_TRUE(scaler.step(*sgd));
    sgd->~SGD();
  }
  scaler.update();
}

/// A model, an optimizer and a schedule, saved and loaded as one.
struct WholeRun {
  nn::Linear net{{.in_features = 3, .out_features = 2}};
  SGD sgd{net.parameters(), SGDOptions{.lr = 0.1, .momentum = 0.9}};
  OneCycleLR schedule;
  DataLoader loader;
  TrainingState state;

  explicit WholeRun(int64_t total_steps = 10, int64_t batch_size = 2, uint64_t seed = 1,
                    int64_t rows = 10)
      : schedule(sgd, {.max_lr = 1, .total_steps = total_steps}),
        loader(TensorDataset(arange(rows), Variable()),
               {.batch_size = batch_size, .shuffle = true, .seed = seed}) {
    state("model", net)("optimizer", sgd)("schedule", schedule)("batches", loader);
  }
  Values all() const {
    Values result{sgd.lr()};
    for (const TensorMap& part : {net.state_dict(), sgd.state_dict(), schedule.state_dict()})
      for (const auto& [name, tensor] : part)
        for (const double value : values(Variable(tensor))) result.push_back(value);
    return result;
  }
  /// Loading the file is an error that changes nothing.
  template <typename E>
  void refuse(const std::string& path) {
    const Values before = all();
    EXPECT_THROW(state.load(path), E);
    EXPECT_EQ(all(), before);
  }
};

TEST(HostileOptions, T75_TrainingStates) {
  const TempDir dir;
  const std::string path = (dir / "run.safetensors").string();
  WholeRun saved;
  for (int i = 0; i < 8; ++i) saved.schedule.step();
  saved.state.save(path);
  WholeRun whole;
  whole.state.load(path);
  EXPECT_EQ(whole.all(), saved.all());
  WholeRun(5).refuse<ArgumentError>(
      path);  // the schedule has no step 8; the optimizer came before it
  WholeRun(10, 3).refuse<ArgumentError>(path);
  WholeRun(10, 2, 7).refuse<ArgumentError>(path);
  WholeRun(10, 2, 1, 12).refuse<ArgumentError>(path);
  TensorMap more = load(path);
  more["another.x"] = Tensor::full({}, 1, i64);
  const std::string other = (dir / "other.safetensors").string();
  save(other, more);
  WholeRun().refuse<Error>(other);
}

TEST(HostileOptions, T75_AFlippedBitOfATrainingState) {
  const TempDir dir;
  const std::string path = (dir / "run.safetensors").string(),
                    damaged = (dir / "damaged.safetensors").string();
  WholeRun saved;
  saved.state.save(path);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  for (size_t at = 8 + header; at < bytes.size(); at += 7) {
    std::string changed = bytes;
    changed[at] ^= 1;
    std::ofstream(damaged, std::ios::binary) << changed;
    WholeRun().refuse<Error>(damaged);
  }
}

TEST(HostileOptions, T56_AHeaderThatGoesOnBehindItsEnd) {
  const TempDir dir;
  const std::string path = (dir / "x.safetensors").string();
  const auto write = [&](std::string header) {
    const uint64_t size = header.size();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&size), 8);
    out << header;
  };
  write("{}      ");  // padding is what the format allows
  EXPECT_TRUE(load(path).empty());
  const char garbage[] = "{}\0garbage}";
  write(std::string(garbage, sizeof garbage - 1));
  EXPECT_THROW(load(path), FormatError);
  write(std::string("{}") + '\0');
  EXPECT_THROW(load(path), FormatError);
}

TEST(HostileOptions, T75_OneCpu) {
  const Device third{DeviceType::kCpu, 3};
  EXPECT_THROW(parse_device("cpu:3"), ArgumentError);
  EXPECT_EQ(parse_device("cpu:0"), cpu);
  EXPECT_THROW(zeros({2}, {.device = third}), DeviceError);
  EXPECT_THROW(zeros({2}).to(third), DeviceError);
  EXPECT_THROW(set_default_device(third), DeviceError);
}

/// 1.000,5
struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(HostileOptions, T75_TextIsTheSameInEveryLocale) {
  const Variable x = ones({1234, 1}).requires_grad_(), y = sum(x * 0.5);
  const auto texts = [&] {
    return std::vector<std::string>{tape_svg(y),
                                    tape_dot(y),
                                    line_chart({{{"a", {0.5, 1234.5}, {0.25, 1e6}}}}, {}),
                                    message_of<ShapeError>([&] { ones({1234}) + ones({5678}); }),
                                    nn::Linear({.in_features = 1, .out_features = 1234}).options(),
                                    nn::Dropout(0.5).options(),
                                    nn::BatchNorm2d({.num_features = 1234}).options(),
                                    nn::Conv2d({.out_channels = 1234, .kernel_size = 3}).options(),
                                    message_of<Error>([&] {
                                      nn::Linear({.in_features = 1, .out_features = 1234})
                                          .load_state_dict({{"weight", ones({5678, 1}).value()}});
                                    }),
                                    runtime_info()};
  };
  const std::vector<std::string> plain = texts();
  const std::locale before = std::locale::global(std::locale(std::locale(), new Commas));
  const std::vector<std::string> elsewhere = texts();
  std::locale::global(before);
  EXPECT_EQ(elsewhere, plain);
}

}  // namespace
}  // namespace tapegrad::testing
