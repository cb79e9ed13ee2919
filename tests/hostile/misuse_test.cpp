// T78: programs that misuse the library: one graph and two threads, options that are no numbers,
// files that are something else, processes, locales, and models. programs_test.cpp has more.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <clocale>
#include <cmath>
#include <thread>

#include "core/autograd/derivatives.h"
#include "data/item_loader.h"
#include "data/loader.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/clip.h"
#include "optim/grad_scaler.h"
#include "optim/lbfgs.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/hostile/programs.h"
#include "tests/temp_dir.h"

namespace tapegrad::testing {
namespace {

// ---- The tape

TEST(HostileMisuse, T78_ALossThatIsALeafOrAConstant) {
  const Variable x = ones({}).requires_grad_();
  x.backward();
  EXPECT_EQ(x.grad().item(), 1);
  EXPECT_THROW(ones({}).backward(), AutogradError);
}

TEST(HostileMisuse, T78_TheSameLeafManyTimes) {
  const Variable x = leaf();
  Variable y = x;
  for (int i = 0; i < 64; ++i) y = y + x;
  sum(cat({y, x, x})).backward();
  EXPECT_EQ(values(x.grad()), (Values{67, 67, 67}));
}

TEST(HostileMisuse, T78_GradOfTheSameInputTwice) {
  const Variable x = leaf();
  const Variable y = sum(x * x);
  const std::vector<Variable> g = grad(y, {x, x});
  EXPECT_EQ(values(g[0]), values(g[1]));
}

TEST(HostileMisuse, T78_DerivativesOfHighOrder) {
  const Variable x = full({1}, 1.5, f64).requires_grad_();
  Variable y = sum(pow(x, 6));
  for (int order = 0; order < 6; ++order) y = sum(grad(y, x, {.create_graph = true}));
  EXPECT_NEAR(y.item(), 720, 1e-9);
  EXPECT_THROW(grad(y, x), AutogradError);  // a constant
}

TEST(HostileMisuse, T78_BackwardOnFourThreadsThroughSharedLeaves) {
  const Variable x = leaf();
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      try {
        for (int k = 0; k < 50; ++k) sum(exp(x) * 0 + x).backward();
      } catch (...) {
        ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(values(x.grad()), (Values{200, 200, 200}));
}

TEST(HostileMisuse, T78_OneGraphIsBackwardedByTwoThreads) {
  for (int round = 0; round < 20; ++round) {
    const Variable x = leaf();
    const Variable loss = sum(exp(x) * x);
    std::atomic<int> done{0}, refused{0}, other{0};
    const auto run = [&] {
      try {
        loss.backward({.retain_graph = true});
        ++done;
      } catch (const AutogradError&) {
        ++refused;
      } catch (...) {
        ++other;
      }
    };
    std::thread a(run), b(run);
    a.join();
    b.join();
    EXPECT_EQ(other, 0);
    EXPECT_EQ(done + refused, 2);
    EXPECT_NEAR(values(x.grad())[0], done * 2 * std::exp(1.0), 1e-4);
  }
}

TEST(HostileMisuse, T78_AHessianOfALossWithKinks) {
  const Variable x = tensor({-1.0, 0.0, 2.0}, f64);
  const Variable h = hessian([](const Variable& v) { return sum(abs(v) * v); }, x);
  EXPECT_EQ(h.shape(), (Shape{3, 3}));
  EXPECT_EQ(values(select(h, 0, 0))[0], -2);
}

// ---- Options: NaN, infinite, huge

TEST(HostileMisuse, T78_OptionsThatAreNotNumbers) {
  const double nan = std::nan("");
  const Variable x = ones({4});
  EXPECT_THROW(optim::SGD({leaf()}, nan), ArgumentError);
  EXPECT_THROW(optim::Adam({leaf()}, {.betas = {nan, 0.9}}), ArgumentError);
  EXPECT_THROW(optim::LBFGS({leaf()}, {.tolerance_grad = nan}), ArgumentError);
  EXPECT_THROW(dropout(x, nan), ArgumentError);
  EXPECT_THROW(dropout(x, -0.1), ArgumentError);
  EXPECT_THROW(bernoulli(full({3}, nan)), Error);
  EXPECT_THROW(randn({-1}), Error);
  EXPECT_THROW(randint(5, 5, {3}), ArgumentError);
  EXPECT_THROW(randint(5, 2, {3}), ArgumentError);
  EXPECT_THROW(multinomial(full({3}, -1.0), 2), Error);
  EXPECT_THROW(multinomial(zeros({3}), 2), Error);
  EXPECT_THROW(optim::clip_grad_norm_(std::vector<Variable>{leaf()}, nan), ArgumentError);
  EXPECT_THROW(nn::BatchNorm2d({.num_features = 3, .eps = nan}), ArgumentError);
  EXPECT_THROW(nn::LSTM({.input_size = 2, .hidden_size = 2, .dropout = nan}), ArgumentError);
  EXPECT_THROW(nn::Dropout(1.5), ArgumentError);
}

TEST(HostileMisuse, T78_RangesWithoutEnd) {
  EXPECT_THROW(arange(0, 10, 0), ArgumentError);
  EXPECT_THROW(arange(0.0, INFINITY), Error);
  EXPECT_THROW(arange(0.0, std::nan("")), Error);
  EXPECT_THROW(arange(0.0, 1.0, 1e-300), Error);
  EXPECT_THROW(linspace(0, 1, -1), Error);
  EXPECT_THROW(linspace(0, 1, INT64_MAX), Error);
  EXPECT_EQ(linspace(std::nan(""), 1, 2).numel(), 2);
  EXPECT_THROW(eye(INT64_MAX), Error);
  EXPECT_THROW(one_hot(tensor({0, 5}), 3), Error);
  EXPECT_THROW(one_hot(tensor({-1}), 3), Error);
  EXPECT_THROW(split(ones({3}), 0), Error);
  EXPECT_THROW(chunk(ones({3}), 0), Error);
  EXPECT_THROW(repeat(ones({3}), {int64_t(1) << 62}), Error);
  EXPECT_THROW(pad(ones({3}), {INT64_MAX, INT64_MAX}), Error);
}

TEST(HostileMisuse, T78_NumbersThatATypeCannotHold) {
  EXPECT_THROW(ones({2}, i32) + (int64_t(1) << 40), Error);
  EXPECT_THROW(full({2}, 300, u8), Error);
  EXPECT_THROW(full({2}, std::nan(""), i64), Error);
  EXPECT_THROW(full({2}, INFINITY, i32), Error);
  EXPECT_THROW(ones({2}, u8).fill_(-1), Error);
}

TEST(HostileMisuse, T78_DivisionsOfIntegers) {
  EXPECT_THROW(floor_divide(tensor({1, 2}), 0), Error);
  EXPECT_THROW(remainder(tensor({1, 2}), 0), Error);
  const int64_t low = INT64_MIN;
  const Variable x = tensor({low, low});
  EXPECT_EQ((floor_divide(x, -1)).numel(), 2);
  EXPECT_EQ(remainder(x, -1).to_vector<int64_t>()[0], 0);
  EXPECT_EQ(abs(x).numel(), 2);
}

// ---- Files

TEST(HostileMisuse, T78_FilesThatAreSomethingElse) {
  const TempDir dir;
  nn::Linear net(3, 2);
  EXPECT_THROW(load("/dev/null"), Error);
  EXPECT_THROW(load("/proc/self/mem"), Error);
  EXPECT_THROW(load((dir / "").string()), Error);
  EXPECT_THROW(load(std::string("a\0b", 3)), Error);
  EXPECT_THROW(load(std::string(100000, 'x')), Error);
  EXPECT_THROW(save("/dev/full", net), Error);
  EXPECT_THROW(save((dir / "no" / "folder").string(), net), Error);
  const std::string fifo = (dir / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(load(fifo), Error);  // does not wait for a writer
  const std::string loop = (dir / "loop").string();
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  EXPECT_THROW(load(loop), Error);
}

TEST(HostileMisuse, T78_AFileThatShrinksWhileItIsUsed) {
  const TempDir dir;
  const std::string path = (dir / "x.safetensors").string();
  save(path, {{"x", ones({1000})}});
  const TensorMap loaded = load(path);
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EQ(Variable(loaded.at("x")).to_vector<float>()[999], 1);
}

TEST(HostileMisuse, T78_NamesWithEveryCharacter) {
  const TempDir dir;
  const std::string path = (dir / "x.safetensors").string();
  const std::string name = "\"\\/\n\t\x01 \xc3\xa4";
  save(path, {{name, ones({2})}});
  EXPECT_EQ(load(path).count(name), 1u);
  EXPECT_THROW(save(path, {{"\xff\xfe", ones({2})}}), Error);  // not UTF-8
}

TEST(HostileMisuse, T78_AModelIsLoadedFromItsOwnViews) {
  nn::Linear net(3, 3);
  TensorMap state = net.state_dict();
  state["weight"] = Variable(state["weight"]).t().value();  // shares the memory it is copied to
  const Variable before = net.weight.detach().clone();
  net.load_state_dict(state);
  EXPECT_EQ(values(net.weight), values(before.t().contiguous()));
}

// ---- Processes and locales

TEST(HostileMisuse, T78_AChildProcessTrains) {
  nn::Sequential net(nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 2));
  sum(net(ones({256, 64}))).backward();  // starts the threads
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    int status = 1;
    try {
      optim::SGD opt(net, 0.1);
      opt.zero_grad();
      sum(net(ones({256, 64}))).backward();
      opt.step();
      status = 0;
    } catch (...) {
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(HostileMisuse, T78_ADecimalComma) {
  const TempDir dir;
  const char* before = std::setlocale(LC_ALL, nullptr);
  const std::string saved = before == nullptr ? "C" : before;
  if (std::setlocale(LC_ALL, "de_DE.UTF-8") == nullptr) std::setlocale(LC_ALL, "C.UTF-8");
  const std::string path = (dir / "x.safetensors").string();
  save(path, {{"x", tensor({1.5})}});
  EXPECT_EQ(load(path).count("x"), 1u);
  EXPECT_EQ(to_string(tensor({1.5})), "[1.5]");
  std::setlocale(LC_ALL, saved.c_str());
}

// ---- Models

TEST(HostileMisuse, T78_AModelThatCallsItself) {
  struct Deep : nn::Model<Deep> {
    nn::Linear fc{3, 3};
    int depth = 0;
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) {
      if (++depth >= 20) return fc(x);
      return tanh((*this)(fc(x)));
    }
  } net;
  sum(net(ones({1, 3}))).backward();
  EXPECT_TRUE(net.fc.weight.grad().defined());
}

TEST(HostileMisuse, T78_TiedWeightsOfOtherShapes) {
  nn::Linear a(3, 4), b(4, 3);
  b.weight = a.weight;  // [4, 3] where [3, 4] is expected
  EXPECT_THROW(b(ones({1, 4})), Error);
  b.weight = Variable();
  EXPECT_THROW(b(ones({1, 4})), Error);
}

TEST(HostileMisuse, T78_AStateOfAnotherModel) {
  nn::Linear a(3, 4), b(4, 3);
  const Values before = values(b.weight);
  EXPECT_THROW(b.load_state_dict(a.state_dict()), ArgumentError);
  EXPECT_THROW(b.load_state_dict({}), ArgumentError);
  TensorMap empty = b.state_dict();
  empty["weight"] = Tensor();
  EXPECT_THROW(b.load_state_dict(empty), Error);
  EXPECT_EQ(values(b.weight), before);
}

TEST(HostileMisuse, T78_EmptyLists) {
  EXPECT_THROW(cat(std::vector<Variable>{}), ArgumentError);
  EXPECT_THROW(stack(std::vector<Variable>{}), ArgumentError);
  EXPECT_THROW(optim::SGD(std::vector<Variable>{}, 0.1), ArgumentError);
  EXPECT_EQ(values(nn::Sequential()(ones({2}))), (Values{1, 1}));
  EXPECT_EQ(sum(ones({0, 3})).item(), 0);
  EXPECT_EQ(matmul(ones({0, 3}), ones({3, 0})).numel(), 0);
  EXPECT_EQ(values(matmul(ones({2, 0}), ones({0, 2}))), (Values{0, 0, 0, 0}));
  EXPECT_EQ(softmax(ones({0, 3}), 1).numel(), 0);
}

TEST(HostileMisuse, T78_AScalerWhoseGradientsAreAlwaysInfinite) {
  const Variable x = leaf();
  optim::SGD opt({x}, 0.1);
  optim::GradScaler scaler;
  for (int i = 0; i < 300; ++i) {
    opt.zero_grad();
    scaler.scale(sum(x * INFINITY)).backward();
    scaler.step(opt);
    scaler.update();
  }
  EXPECT_EQ(values(x), (Values{1, 1, 1}));
  opt.zero_grad();
  scaler.scale(sum(x)).backward();
  scaler.step(opt);
  scaler.update();
  EXPECT_NEAR(values(x)[0], 0.9, 1e-6);
}

TEST(HostileMisuse, T78_AScheduleThatOutgrowsItsNumbers) {
  optim::SGD opt({leaf()}, 1.0);
  optim::LambdaLR schedule(opt, [](int64_t t) { return t < 2 ? 1.0 : std::nan(""); });
  schedule.step();
  EXPECT_THROW(schedule.step(), ArgumentError);
  EXPECT_EQ(opt.lr(), 1.0);
  EXPECT_EQ(schedule.steps(), 1);
}

TEST(HostileMisuse, T78_ItemsThatThrowOnWorkers) {
  struct Items {
    int64_t size() const { return 20; }
    Variable get(int64_t i) const {
      if (i == 7) throw Thrown();
      return full({2}, double(i));
    }
  };
  ItemLoader loader(Items(), {.batch_size = 4, .num_workers = 3});
  int batches = 0;
  EXPECT_THROW(
      {
        for (const Variable& batch : loader) batches += batch.size(0) > 0;
      },
      Thrown);
  EXPECT_EQ(batches, 1);
}

}  // namespace
}  // namespace tapegrad::testing
