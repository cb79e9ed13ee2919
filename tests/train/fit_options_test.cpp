// Options and callbacks of fit(), compared with loops written by hand.
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"
#include "train/fit.h"
#include "train/interrupt.h"

namespace tapegrad {
namespace {

using testing::message_of;

const ProgressOptions kQuiet{.style = ProgressStyle::kNone};

TensorDataset points(int64_t n, uint64_t seed = 1) {
  RandomGenerator generator(seed);
  const NoGrad no_grad;
  const Variable x = randn({n, 4}, {}, generator);
  return TensorDataset(x, (sum(x, {1}) > 0).to(i64));
}

nn::Sequential make_net() {
  manual_seed(5);
  return nn::Sequential({nn::Linear({.in_features = 4, .out_features = 8}), nn::Tanh(),
                         nn::Linear({.in_features = 8, .out_features = 2})});
}

std::vector<float> weights_of(const nn::Module& model) {
  std::vector<float> all;
  for (const Variable& each : model.parameters())
    for (const float value : each.to_vector<float>()) all.push_back(value);
  return all;
}

TEST(FitOptions, TheWholeRecipeEqualsALoopWrittenByHand) {
  const TensorDataset data = points(60);
  nn::Sequential by_hand = make_net(), by_fit = make_net();
  std::vector<double> losses;
  Ema hand_average(by_hand, {.decay = 0.9});
  {
    optim::SGD sgd(by_hand, {.lr = 0.5, .momentum = 0.9});
    optim::CosineAnnealingLR schedule(sgd, {.T_max = 12});
    optim::GradScaler scaler({.init_scale = 1024});
    DataLoader batches(data, {.batch_size = 8, .shuffle = true});
    for (int epoch = 0; epoch < 3; ++epoch) {
      RunningMean mean;
      int64_t number = 0;
      for (auto& [x, y] : batches) {
        const int64_t group = number / 2 * 2;  // eight batches, the last one of four examples
        const double examples = double(std::min<int64_t>((group + 2) * 8, 60) - group * 8);
        if (number++ % 2 == 0) sgd.zero_grad();
        Variable loss;
        {
          const Autocast amp(f16);
          loss = cross_entropy(by_hand(x), y);
        }
        scaler.scale(loss * (double(x.size(0)) / examples)).backward();
        mean.add(loss, double(x.size(0)));
        if (number % 2 != 0) continue;
        scaler.unscale_(sgd);
        optim::clip_grad_norm_(by_hand, 0.1);
        optim::clip_grad_value_(by_hand, 0.05);
        scaler.step(sgd);
        scaler.update();
        hand_average.update();
        schedule.step();
      }
      losses.push_back(mean.value());
    }
  }
  Ema average(by_fit, {.decay = 0.9});
  optim::SGD sgd(by_fit, {.lr = 0.5, .momentum = 0.9});
  optim::CosineAnnealingLR schedule(sgd, {.T_max = 12});
  DataLoader batches(data, {.batch_size = 8, .shuffle = true});
  const History history = fit(by_fit, batches, sgd,
                              {.epochs = 3,
                               .amp = f16,
                               .scaler = {.init_scale = 1024},
                               .accumulate = 2,
                               .clip_norm = 0.1,
                               .clip_value = 0.05,
                               .average = &average,
                               .progress = kQuiet,
                               .callbacks = {per_step(schedule)}});
  EXPECT_EQ(weights_of(by_fit), weights_of(by_hand));
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(history.epochs[i].loss, losses[i]);
  EXPECT_EQ(schedule.steps(), 12);
  EXPECT_EQ(average.updates(), 12);
  const UseAverage one(average), two(hand_average);
  EXPECT_EQ(weights_of(by_fit), weights_of(by_hand));
}

TEST(FitOptions, AccumulatedBatchesEqualALargeOne) {
  const TensorDataset data = points(50);  // the last group has one batch of two examples
  nn::Sequential small = make_net(), large = make_net();
  optim::SGD small_sgd(small, 0.5), large_sgd(large, 0.5);
  DataLoader small_batches(data, {.batch_size = 8, .shuffle = true});
  DataLoader large_batches(data, {.batch_size = 24, .shuffle = true});
  const History one =
      fit(small, small_batches, small_sgd, {.epochs = 2, .accumulate = 3, .progress = kQuiet});
  const History two = fit(large, large_batches, large_sgd, {.epochs = 2, .progress = kQuiet});
  const std::vector<float> a = weights_of(small), b = weights_of(large);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  EXPECT_NEAR(one.epochs[1].loss, two.epochs[1].loss, 1e-6);
}

TEST(FitOptions, PartsHaveTheirOwnOptimizers) {
  nn::Sequential net = make_net();
  std::vector<Variable> all = net.parameters();
  optim::SGD first({all[0], all[1]}, {.lr = 0});
  optim::Adam second({all[2], all[3]}, 0.1);
  const std::vector<float> before = all[0].to_vector<float>(), head = all[2].to_vector<float>();
  DataLoader batches(points(16), {.batch_size = 8});
  fit(net, batches, {&first, &second}, {.progress = kQuiet});
  EXPECT_EQ(all[0].to_vector<float>(), before);
  EXPECT_NE(all[2].to_vector<float>(), head);
  EXPECT_THROW(fit(net, batches, Optimizers{}), ArgumentError);
}

TEST(FitOptions, CallbacksAreCalledInOrder) {
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(points(16), {.batch_size = 8});
  std::string calls;
  double norm = -1;
  const auto note = [&](char letter) { return [&, letter](Training&) { calls += letter; }; };
  fit(net, batches, sgd,
      {.epochs = 2,
       .clip_norm = 1e-3,
       .progress = kQuiet,
       .callbacks = {{.before_training = note('<'),
                      .before_epoch = note('('),
                      .before_batch =
                          [&](Training& run) {
                            calls += 'b';
                            run.example.data = run.example.data * 2;
                          },
                      .after_backward =
                          [&](Training&) {
                            calls += 'g';
                            norm = optim::clip_grad_norm_(net, 1e9);
                          },
                      .after_step =
                          [&](Training& run) {
                            calls += 's';
                            EXPECT_TRUE(run.output.defined());
                            EXPECT_GT(run.loss.item(), 0);
                          },
                      .after_epoch = note(')'),
                      .after_training = note('>')},
                     {.after_epoch = [](Training& run) { run.stop("enough"); }}}});
  EXPECT_EQ(calls, "<(bgsbgs)>");
  EXPECT_GT(norm, 1e-3) << "before clipping";
}

History history_of(std::initializer_list<double> losses) {
  History history;
  for (const double loss : losses)
    history.epochs.push_back({.epoch = int64_t(history.epochs.size()) + 1, .loss = loss});
  return history;
}

TEST(FitOptions, EarlyStop) {
  const Callback stop = early_stop({.patience = 2, .min_delta = 0.1});
  EXPECT_EQ(stop.stop(history_of({3})), "");
  EXPECT_EQ(stop.stop(history_of({3, 2.95})), "");
  EXPECT_EQ(stop.stop(history_of({3, 2.95, 2})), "");
  EXPECT_NE(stop.stop(history_of({3, 2.95, 2.91})).find("since epoch 1: 3"), std::string::npos);
  EXPECT_NE(stop.stop(history_of({3, kNaN, kNaN})), "");
  History better = history_of({1, 1, 1});
  for (EpochResult& epoch : better.epochs) epoch.more = {{"val_f1", double(epoch.epoch)}};
  EXPECT_EQ(early_stop({.monitor = "val_f1"}).stop(better), "");
  EXPECT_NE(early_stop({.monitor = "val_f1", .better = Better::kSmaller}).stop(better), "");
  EXPECT_NE(stop_at("val_f1", 3).stop(better).find("reached 3"), std::string::npos);
  EXPECT_EQ(stop_at("val_f1", 3.5).stop(better), "");
  EXPECT_NE(stop_at("loss", 1).stop(better), "");
  const std::string message = message_of<ArgumentError>([&] { stop_at("f2", 1).stop(better); });
  EXPECT_NE(message.find("loss, val_f1"), std::string::npos) << message;
  EXPECT_THROW(early_stop({.patience = 0}), ArgumentError);
}

TEST(FitOptions, FilesOfCallbacks) {
  const testing::TempDir dir;
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.5);
  Swa average(net);
  DataLoader batches(points(32), {.batch_size = 8}), test(points(16, 2), {.batch_size = 16});
  const History history =
      fit(net, batches, sgd,
          {.epochs = 3,
           .validation = &test,
           .average = &average,
           .progress = kQuiet,
           .callbacks = {save_best(dir / "best"), save_every(dir / "last"),
                         save_every(dir / "at{epoch}", 2), log_csv(dir / "run.csv"),
                         log_jsonl(dir / "run.jsonl")}});
  EXPECT_TRUE(std::filesystem::exists(dir / "best"));
  EXPECT_TRUE(std::filesystem::exists(dir / "at2"));
  EXPECT_FALSE(std::filesystem::exists(dir / "at3"));
  const std::string csv = testing::contents(dir / "run.csv");
  EXPECT_EQ(csv.rfind("epoch,loss,accuracy,val_loss,val_accuracy,lr,seconds\n1,", 0), 0u) << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  const std::string json = testing::contents(dir / "run.jsonl");
  EXPECT_EQ(json.rfind("{\"epoch\": 1, \"loss\": ", 0), 0u) << json;
  // The saved model has the weights that were evaluated: the averaged ones.
  nn::Sequential loaded = make_net();
  load(dir / "last", loaded);
  EXPECT_EQ(evaluate(loaded, test).loss, history.epochs.back().val_loss);
  EXPECT_NE(evaluate(net, test).loss, history.epochs.back().val_loss);
  average.copy_to_model();
  EXPECT_EQ(evaluate(net, test).loss, history.epochs.back().val_loss);
}

TEST(FitOptions, AveragesOfWeights) {
  nn::Sequential net({nn::Linear({.in_features = 1, .out_features = 1, .bias = false}),
                      nn::BatchNorm1d({.num_features = 1})});
  Variable weight = net.parameters()[0];
  const auto set = [&](double value) {
    const NoGrad no_grad;
    fill_(weight, value);
  };
  set(1);
  Ema ema(net, {.decay = 0.75});
  Swa swa(net, {.start = 1, .every = 2});
  for (const double value : {5.0, 9.0, 100.0, 1.0}) {
    set(value);
    ema.update();
    swa.update();
  }
  {
    const UseAverage use(ema);  // 1, 2, 3.75, 27.8125, 21.109375
    EXPECT_EQ(weight.item(), 21.109375);
  }
  EXPECT_EQ(weight.item(), 1);
  {
    const UseAverage use(swa);  // of updates 2 and 4
    EXPECT_EQ(weight.item(), 5);
  }
  Swa other(net);
  other.load_state_dict(swa.state_dict());
  other.copy_to_model();
  EXPECT_EQ(weight.item(), 5);
  EXPECT_EQ(other.updates(), 4);
  EXPECT_THROW(other.load_state_dict({}), ArgumentError);
  EXPECT_THROW(Ema(net, {.decay = 1}), ArgumentError);
  EXPECT_THROW(Swa(net, {.every = 0}), ArgumentError);
  nn::Linear of_unknown_size({.out_features = 2});
  EXPECT_THROW(Swa{of_unknown_size}, ArgumentError);
}

TEST(FitOptions, InvalidOnesAreRefused) {
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(points(8), {.batch_size = 8});
  EXPECT_THROW(fit(net, batches, sgd, {.epochs = -1}), ArgumentError);
  EXPECT_THROW(fit(net, batches, sgd, {.amp = f32}), DTypeError);
  EXPECT_THROW(fit(net, batches, sgd, {.accumulate = 0}), ArgumentError);
  EXPECT_THROW(fit(net, batches, sgd, {.checkpoint_steps = -1}), ArgumentError);
  EXPECT_THROW(fit(net, batches, sgd, {.checkpoint_epochs = 0}), ArgumentError);
  EXPECT_THROW(fit(net, batches, sgd, {.clip_norm = -1.0}), ArgumentError);
}

TEST(FitOptions, CheckpointsOfSomeEpochs) {
  const testing::TempDir dir;
  const std::string path = dir / "run";
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(points(8), {.batch_size = 8});
  std::string existed;
  fit(net, batches, sgd,
      {.epochs = 5,
       .checkpoint = path,
       .checkpoint_epochs = 2,
       .progress = kQuiet,
       .callbacks = {{.before_epoch = [&](Training&) {
         existed += std::filesystem::remove(path) ? '1' : '0';
       }}}});
  EXPECT_EQ(existed, "00101") << "after epochs 2 and 4";
  EXPECT_TRUE(std::filesystem::exists(path)) << "after the last epoch";
}

TEST(FitOptions, ASignalEndsTheEpochAndSaysWhere) {
  const testing::TempDir dir;
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(points(64), {.batch_size = 8});
  std::ostringstream out;
  const auto train = [&](int signal, const std::string& checkpoint) {
    return fit(net, batches, sgd,
               {.epochs = 4,
                .checkpoint = checkpoint,
                .progress = {.out = &out},
                .callbacks = {{.before_batch = [signal](Training& run) {
                  if (signal != 0 && run.epoch == 2 && run.batch == 3) std::raise(signal);
                }}}});
  };
  const std::string path = dir / "run.safetensors";
  const History stopped = train(SIGTERM, path);
  EXPECT_EQ(stopped.signal, SIGTERM);
  EXPECT_TRUE(stopped.stopped_early);
  EXPECT_EQ(stopped.epochs.size(), 1u);
  EXPECT_NE(out.str().find("SIGTERM: stopped in epoch 2 after batch 3 of 8; saved to " + path),
            std::string::npos)
      << out.str();
  const History rest = train(0, path);
  EXPECT_EQ(rest.epochs.size(), 4u);
  EXPECT_EQ(rest.signal, 0);
  EXPECT_NE(out.str().find("continues in epoch 2 after batch 3 of 8"), std::string::npos);
  batches.set_epoch(0);
  EXPECT_EQ(train(SIGINT, "").stop_reason, "SIGINT");
  EXPECT_NE(out.str().find("nothing was saved"), std::string::npos);
  EXPECT_EXIT(
      {
        { const Interrupt none; }
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "")
      << "the default handler is back";
}

TEST(FitOptions, SignalsAreLeftAloneOnRequest) {
  nn::Sequential net = make_net();
  optim::SGD sgd(net, 0.1);
  DataLoader batches(points(8), {.batch_size = 8});
  for (const bool handled : {true, false}) {
    bool is_default = false;
    const auto look = [&](Training&) {
      struct sigaction now;
      sigaction(SIGTERM, nullptr, &now);
      is_default = now.sa_handler == SIG_DFL;
    };
    fit(net, batches, sgd,
        {.epochs = 1,
         .handle_signals = handled,
         .progress = kQuiet,
         .callbacks = {{.before_batch = look}}});
    EXPECT_EQ(is_default, !handled);
  }
}

}  // namespace
}  // namespace tapegrad
