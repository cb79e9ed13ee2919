// Finds a bottleneck: trains a small slow network, uses the profiler to find the slow layer and
// then the slow op in its gradient, compares faster implementations, and profiles the repaired
// network. See README.md beside this file.
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "images.h"

ABSL_FLAG(int64_t, steps, 100, "training steps that are measured");
ABSL_FLAG(int64_t, batch_size, 8, "images in a step");
ABSL_FLAG(int64_t, evaluate, 60'000, "largest number of images of the timed evaluation");
ABSL_FLAG(uint64_t, seed, 1, "seed of the weights and the order");
ABSL_FLAG(std::string, data_dir, "", examples::kDataHelp);
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(bool, verify, false, "train the predicted epoch and print its time");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using tg::Variable;

namespace {

// ---- Three gradients of 2 x 2 max pooling -----------------------------------------------------

/// Returns the four pixels of each block as a row: [n, c, h, w] -> [n c h/2 w/2, 4].
Variable rows_of_blocks(const Variable& x) {
  const int64_t n = x.size(0), c = x.size(1), blocks = x.size(2) * x.size(3) / 4;
  const Variable columns = tg::unfold(x, {.kernel_size = 2, .stride = 2});
  return tg::reshape(tg::transpose(tg::reshape(columns, {n, c, 4, blocks}), 2, 3), {-1, 4});
}

/// The textbook method: writes each gradient into a matrix of zeros at the position of its maximum,
/// then folds the rows back into an image.
Variable spread_by_index(const Variable& dy, const Variable& winners, const tg::Shape& shape) {
  const int64_t n = shape[0], c = shape[1], blocks = shape[2] * shape[3] / 4;
  const tg::TensorOptions there{.device = dy.device()};
  Variable rows = tg::zeros({dy.numel(), 4}, there);
  tg::index_put_(rows, {tg::arange(dy.numel(), there), winners}, tg::flatten(dy));
  const Variable columns =
      tg::reshape(tg::transpose(tg::reshape(rows, {n, c, blocks, 4}), 2, 3), {n, 4 * c, blocks});
  return tg::fold(columns, {shape[2], shape[3]}, {.kernel_size = 2, .stride = 2});
}

/// Gives the gradient to every pixel that equals its block's maximum: a product with a 0/1 mask.
Variable spread_by_mask(const Variable& dy, const Variable& x, const Variable& y) {
  const int64_t n = x.size(0), c = x.size(1), h = y.size(2), w = y.size(3);
  const auto in_blocks = [&](const Variable& v) { return tg::reshape(v, {n, c, h, 1, w, 1}); };
  const Variable mask = tg::reshape(x, {n, c, h, 2, w, 2}) == in_blocks(y);
  return tg::reshape(mask.to(dy.dtype()) * in_blocks(dy), x.shape());
}

/// Maximum of each block, computed as in textbooks: the positions of the maxima are found together
/// with the values.
struct PoolByIndex {
  static constexpr std::string_view kName = "pool_by_index";
  tg::Shape shape{};
  Variable winners{};

  tg::Tensor forward(const tg::Tensor& x) {
    shape = x.shape();
    const Variable rows = rows_of_blocks(Variable(x));
    winners = tg::argmax(rows, 1);
    return tg::reshape(tg::amax(rows, {1}), {shape[0], shape[1], shape[2] / 2, shape[3] / 2})
        .value();
  }
  Variable backward(const Variable& dy) const { return spread_by_index(dy, winners, shape); }
};

struct PoolByMask {
  static constexpr std::string_view kName = "pool_by_mask";
  tg::SavedInput<0> x{};
  tg::SavedOutput<0> y{};
  auto saved() { return std::tie(x, y); }

  tg::Tensor forward(const tg::Tensor& x) {
    return tg::max_pool2d(Variable(x), {.kernel_size = 2}).value();
  }
  Variable backward(const Variable& dy) const { return spread_by_mask(dy, x(), y()); }
};

using Pooling = Variable (*)(const Variable& x);

Variable pool_by_index(const Variable& x) {
  return tg::apply(PoolByIndex{}, tg::Where::current(), x);
}
Variable pool_by_mask(const Variable& x) {
  return tg::apply(PoolByMask{}, tg::Where::current(), x);
}
Variable pool(const Variable& x) { return tg::max_pool2d(x, {.kernel_size = 2}); }
/// Moves the images to the CPU and the maxima back; their gradients go the other way.
Variable pool_on_cpu(const Variable& x) { return pool_by_index(x.cpu()).to(x.device()); }

struct Way {
  const char* name;
  Pooling pooling;
};
/// Fourth variant, for a GPU: the slow layer on the CPU.
std::vector<Way> ways() {
  std::vector<Way> all = {
      {"by index", pool_by_index}, {"by mask", pool_by_mask}, {"tapegrad's", pool}};
  if (tg::default_device() != tg::cpu) all.push_back({"on the CPU", pool_on_cpu});
  return all;
}

// ---- The network ------------------------------------------------------------------------------

struct PoolLayer : nn::Stateless<PoolLayer> {
  Pooling pooling;
  explicit PoolLayer(Pooling pooling) : pooling(pooling) {}
  Variable forward(const Variable& x) const { return pooling(x); }
};

struct Net : nn::Model<Net> {
  nn::Conv2d conv{{.in_channels = 1, .out_channels = 10, .kernel_size = 3, .padding = 1}};
  PoolLayer pooling;
  nn::Linear dense{{.in_features = 10 * 14 * 14, .out_features = 100}};
  nn::Linear output{{.in_features = 100, .out_features = 10}};

  explicit Net(Pooling pooling) : pooling(pooling) {}
  void members(nn::Members& m) override {
    m("conv", conv)("pooling", pooling)("dense", dense)("output", output);
  }
  Variable forward(const Variable& x) const {
    return output(tg::relu(dense(tg::flatten(pooling(tg::relu(conv(x))), 1))));
  }
};

void train(Net& net, tg::Loader& batches, int64_t steps) {
  tg::optim::SGD sgd(net, 0.05);
  Variable loss;
  for (const auto& [x, y] : batches) {
    if (steps-- == 0) break;
    sgd.zero_grad();
    loss = tg::cross_entropy(net(x), y);
    loss.backward();
    sgd.step();
  }
  if (loss.defined()) loss.item();  // waits for a GPU, so that only the steps are timed
}

// ---- The search -------------------------------------------------------------------------------

void title(const std::string& text) { std::cout << "\n== " << text << "\n\n"; }

/// Times the error rate of several numbers of images, and of several batch sizes.
void time_evaluation(const tg::TensorDataset& images) {
  title("1. What evaluation costs");
  Net net(pool);
  std::cout << "images  batch        ms  us/image\n" << std::fixed;
  const auto time = [&](int64_t count, int64_t batch_size) {
    if (count > std::min(images.size(), absl::GetFlag(FLAGS_evaluate))) return;
    tg::DeviceLoader batches(images.take(count), {.batch_size = batch_size});
    const double seconds = tg::evaluate(net, batches).seconds;
    std::cout << std::setw(6) << count << std::setw(7) << batch_size << std::setprecision(1)
              << std::setw(10) << seconds * 1e3 << std::setw(10) << seconds * 1e6 / double(count)
              << '\n';
  };
  for (const int64_t batch_size : {1, 10, 100, 500}) time(1000, batch_size);
  for (const int64_t count : {10'000, 60'000}) time(count, 500);
}

/// Shows the ops inside the rule as the ops of a layer.
struct InsideTheRule : nn::Stateless<InsideTheRule> {
  static constexpr std::string_view kName = "pooling's rule";
  Variable forward(const Variable& dy, const Variable& winners, const tg::Shape& shape) const {
    return spread_by_index(dy, winners, shape);
  }
};

void look_inside_the_rule(int64_t batch_size, int64_t times) {
  title("4. Inside the gradient of pooling, op by op");
  const Variable x = tg::randn({batch_size, 10, 28, 28}), dy = tg::randn({batch_size, 10, 14, 14});
  const Variable winners = tg::argmax(rows_of_blocks(x), 1);
  const InsideTheRule rule;
  tg::Profiler profiler;
  for (int64_t i = 0; i < times; ++i) rule(dy, winners, x.shape());
  profiler.stop();
  std::cout << profiler;
}

void compare_ways(int64_t batch_size) {
  title("5. Other ways back");
  const Variable x = tg::randn({batch_size, 10, 28, 28}, {.requires_grad = true});
  const Variable dy = tg::randn({batch_size, 10, 14, 14});
  std::cout << "of [" << batch_size << ", 10, 28, 28] to [" << batch_size
            << ", 10, 14, 14]; the memory is that of forward and backward at the peak:\n";
  Variable expected;
  double first = 0;
  for (const auto& [name, pooling] : ways()) {
    const Variable y = pooling(x);
    const auto back = [&] { return tg::grad(y, {&x, 1}, dy, {.retain_graph = true})[0]; };
    const Variable dx = back();
    if (!expected.defined()) expected = dx;
    if (!tg::allclose(dx, expected))
      throw tg::Error(std::string(name) + ": another gradient, without a tie");
    const tg::Timing timing = tg::timeit(back, {.min_seconds = 0.05});
    if (first == 0) first = timing.seconds;
    const tg::TimeReport both_ways = tg::time_calls([&] {
      tg::grad(pooling(x), {&x, 1}, dy);
    });  // with what forward saves
    std::cout << "  " << std::left << std::setw(12) << name << std::right << std::setprecision(1)
              << std::setw(7) << first / timing.seconds << "x   " << timing << ", "
              << double(both_ways.peak_bytes) / 1024 << " KiB\n";
  }
  std::cout << "without ties they agree\n";
}

void show_ties() {
  title("6. Where two pixels are the largest");
  const Variable x = tg::tensor({5.0, 5.0, 1.0, 5.0}, {.requires_grad = true});
  std::cout << "the gradient 1 of the block 5 5 / 1 5:\n";
  for (const auto& [name, pooling] : ways()) {
    const Variable y = pooling(tg::reshape(x, {1, 1, 2, 2}));
    std::cout << "  " << std::left << std::setw(12) << name << std::right;
    for (const double dx : tg::grad(tg::sum(y), x).to_vector<double>())
      std::cout << std::setprecision(0) << std::setw(3) << dx;
    std::cout << '\n';
  }
  std::cout
      << "An index sends it to one pixel, and so do we: to the first in row-major order. A mask\n"
         "sends all of it to each: blocks with ties count several times. Behind a ReLU that is\n"
         "common (a block of zeros), and harmless there, since its derivative at 0 is 0.\n";
}

void run() {
  tg::manual_seed(absl::GetFlag(FLAGS_seed));
  const int64_t batch_size =
      examples::in_range("--batch_size", absl::GetFlag(FLAGS_batch_size), int64_t(1));
  examples::in_range("--evaluate", absl::GetFlag(FLAGS_evaluate), int64_t(0));
  const int64_t steps = examples::in_range("--steps", absl::GetFlag(FLAGS_steps), int64_t(1));
  examples::use_device(absl::GetFlag(FLAGS_device));
  const auto [data, source] = examples::load_images(absl::GetFlag(FLAGS_data_dir));
  const tg::TensorDataset& train_set = data.train;
  std::cout << train_set.size() << " images from " << source << '\n';
  tg::DeviceLoader batches(train_set, {.batch_size = batch_size, .shuffle = true});
  time_evaluation(train_set);

  title("2. A training step, and the epoch that it foretells");
  Net slow(pool_by_index);
  train(slow, batches, 5);  // fills caches
  tg::Profiler profiler;
  train(slow, batches, steps);
  profiler.stop();
  profiler.print(std::cout, {.steps_per_epoch = batches.size()});

  title("3. Backward alone: which layer?");
  profiler.print(std::cout, {.pass = tg::Pass::kBackward});

  look_inside_the_rule(batch_size, steps);
  compare_ways(batch_size);
  show_ties();

  title("7. The epoch again");
  for (const auto& [name, pooling] : ways()) {
    Net net(pooling);
    train(net, batches, 5);
    const double before = tg::steady_seconds();
    train(net, batches, steps);
    const double step = (tg::steady_seconds() - before) / double(std::min(steps, batches.size()));
    std::cout << "  " << std::left << std::setw(12) << name << std::right << std::setprecision(3)
              << step * 1e3 << " ms a step, " << std::setprecision(1)
              << step * double(batches.size()) << " s an epoch\n";
  }

  title("8. The next bottleneck");
  Net net(pool);
  train(net, batches, 5);
  tg::Profiler after;
  train(net, batches, steps);
  after.stop();
  after.print(std::cout, {.steps_per_epoch = batches.size()});

  if (!absl::GetFlag(FLAGS_verify)) return;
  const tg::TimeReport epoch = tg::time_calls([&] { train(net, batches, batches.size()); });
  std::cout << "\nan epoch of this network, trained to its end: " << epoch << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("bottleneck",
                               "Finds what makes the training of a small CNN slow, and mends it.",
                               argc, argv, run);
}
