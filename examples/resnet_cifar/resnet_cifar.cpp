// A residual network on CIFAR-10 or Fashion-MNIST, and how long it takes to reach an accuracy. See
// README.md beside this file.
#include <csignal>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "images.h"
#include "resnet_cifar/cifar.h"

ABSL_FLAG(int64_t, blocks, 1, "residual blocks in each of three stages: 6 blocks + 2 layers");
ABSL_FLAG(int64_t, width, 16, "channels of the first stage; each further stage has twice as many");
ABSL_FLAG(int64_t, epochs, 3, "passes over the training images");
ABSL_FLAG(int64_t, batch_size, 128, "images in a step");
ABSL_FLAG(std::string, schedule, "onecycle", "onecycle or cosine");
ABSL_FLAG(double, lr, 0.2, "highest learning rate of SGD");
ABSL_FLAG(double, momentum, 0.9, "momentum of SGD");
ABSL_FLAG(double, weight_decay, 5e-4, "weight decay of SGD");
ABSL_FLAG(bool, augment, true, "shift and mirror training images at random");
ABSL_FLAG(std::string, amp, "", "bf16 or f16: mixed precision; empty: float32");
ABSL_FLAG(double, target, 0.85, "prints the time at which this accuracy is reached");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, order and augmentation");
ABSL_FLAG(int64_t, train, 0, "number of training images; 0 uses all");
ABSL_FLAG(int64_t, test, 0, "number of test images; 0 uses all");
ABSL_FLAG(std::string, cifar, "", "folder of CIFAR-10's binary files; if empty, --data_dir");
ABSL_FLAG(std::string, data_dir, "", examples::kDataHelp);
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(
    std::string, out, "",
    "folder for weights, accuracy.svg and the state of the run; if empty, nothing is written");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
namespace optim = tapegrad::optim;
using tapegrad::Variable;

namespace {

nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride) {
  return nn::Conv2d({.in_channels = in,
                     .out_channels = out,
                     .kernel_size = 3,
                     .stride = stride,
                     .padding = 1,
                     .bias = false});
}

/// Two convolutions beside a connection that is the input, or a convolution of one pixel where the
/// size changes (He et al. 2015).
struct Block : nn::Model<Block> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Sequential shortcut;  // empty: the input itself

  Block(int64_t in, int64_t out, int64_t stride)
      : conv1(conv3x3(in, out, stride)),
        conv2(conv3x3(out, out, 1)),
        norm1({.num_features = out}),
        norm2({.num_features = out}) {
    if (in != out || stride != 1)
      shortcut.push_back(nn::Conv2d({.in_channels = in,
                                     .out_channels = out,
                                     .kernel_size = 1,
                                     .stride = stride,
                                     .bias = false}));
  }
  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2)("shortcut", shortcut);
  }
  Variable forward(const Variable& x) const {
    const Variable y = norm2(conv2(tg::relu(norm1(conv1(x)))));
    return tg::relu(y + shortcut(x));
  }
};

nn::Sequential make_net(int64_t channels, int64_t blocks, int64_t width) {
  std::vector<nn::AnyModule> layers = {conv3x3(channels, width, 1),
                                       nn::BatchNorm2d({.num_features = width}), nn::ReLU()};
  int64_t in = width;
  for (int64_t stage = 0; stage < 3; ++stage)
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t out = width << stage;
      layers.push_back(Block(in, out, stage > 0 && i == 0 ? 2 : 1));
      in = out;
    }
  layers.push_back(nn::AdaptiveAvgPool2d(1));
  layers.push_back(nn::Flatten());
  layers.push_back(nn::Linear({.in_features = in, .out_features = 10}));
  return nn::Sequential(layers);
}

/// Shifts each image by up to `most` pixels in both directions, filling with zeros, and mirrors
/// half of the images. One gather on the device of the batch.
Variable augmented(const Variable& x, int64_t most) {
  const tg::NoGrad off;
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3), wide = w + 2 * most;
  const tg::TensorOptions ids{.dtype = tg::i64};
  const Variable padded = tg::reshape(tg::pad(x, {most, most, most, most}), {n, c, -1});
  const Variable row =
      tg::randint(0, 2 * most + 1, {n, 1, 1, 1}) + tg::reshape(tg::arange(h, ids), {1, 1, h, 1});
  const Variable column = tg::reshape(tg::arange(w, ids), {1, 1, 1, w});
  const Variable mirrored = tg::where(tg::randint(0, 2, {n, 1, 1, 1}) == 1, w - 1 - column, column);
  const Variable place =
      row * wide + tg::randint(0, 2 * most + 1, {n, 1, 1, 1}) + mirrored;  // [n, 1, h, w]
  const Variable index = tg::expand(tg::reshape(place, {n, 1, h * w}), {n, c, h * w});
  return tg::reshape(tg::gather(padded, 2, index), x.shape());
}

std::unique_ptr<optim::Scheduler> make_schedule(optim::SGD& sgd, int64_t steps) {
  const std::string name = absl::GetFlag(FLAGS_schedule);
  if (name == "onecycle")
    return std::make_unique<optim::OneCycleLR>(
        sgd, optim::OneCycleLROptions{.max_lr = absl::GetFlag(FLAGS_lr), .total_steps = steps + 1});
  if (name == "cosine")
    return std::make_unique<optim::CosineAnnealingLR>(
        sgd, optim::CosineAnnealingLROptions{.T_max = steps});
  throw tg::ArgumentError("--schedule: \"" + name + "\" is not onecycle or cosine");
}

std::optional<tg::DType> amp_dtype() {
  const std::string name = absl::GetFlag(FLAGS_amp);
  if (name.empty()) return {};
  if (name == "bf16" || name == "f16") return name == "bf16" ? tg::bf16 : tg::f16;
  throw tg::ArgumentError("--amp: \"" + name + "\" is not bf16 or f16");
}

/// Prints accuracy against the seconds of training, and returns both as a curve.
tg::PlotSeries time_to_accuracy(const tg::History& history, double target) {
  tg::PlotSeries curve{"test accuracy", {}, {}};
  std::cout << "\nepoch   seconds   test accuracy\n" << std::fixed;
  double seconds = 0, reached = -1;
  for (const tg::EpochResult& epoch : history.epochs) {
    seconds += epoch.seconds;
    curve.x.push_back(seconds);
    curve.y.push_back(epoch.val_accuracy);
    if (reached < 0 && epoch.val_accuracy >= target) reached = seconds;
    std::cout << std::setw(5) << epoch.epoch << std::setprecision(1) << std::setw(10) << seconds
              << std::setprecision(2) << std::setw(14) << 100 * epoch.val_accuracy << " %\n";
  }
  std::cout << 100 * target << " %: ";
  if (reached < 0)
    std::cout << "not reached\n";
  else
    std::cout << std::setprecision(1) << "reached after " << reached << " s\n";
  std::cout << std::defaultfloat;
  return curve;
}

void run() {
  const int64_t blocks = examples::in_range("--blocks", absl::GetFlag(FLAGS_blocks), int64_t(1));
  const int64_t width = examples::in_range("--width", absl::GetFlag(FLAGS_width), int64_t(1));
  const int64_t epochs = examples::in_range("--epochs", absl::GetFlag(FLAGS_epochs), int64_t(1));
  const int64_t batch_size =
      examples::in_range("--batch_size", absl::GetFlag(FLAGS_batch_size), int64_t(1));
  const int64_t train = examples::in_range("--train", absl::GetFlag(FLAGS_train), int64_t(0));
  const int64_t test = examples::in_range("--test", absl::GetFlag(FLAGS_test), int64_t(0));
  const double target = examples::in_range("--target", absl::GetFlag(FLAGS_target), 0.0, 1.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string checkpoint = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  tg::manual_seed(seed);

  const std::string folder = absl::GetFlag(FLAGS_cifar);
  auto [data, source] = folder.empty() ? examples::load_images(absl::GetFlag(FLAGS_data_dir))
                                       : examples::Images{cifar::load(folder), folder};
  examples::keep_first(data, train, test);
  const tg::Shape& shape = data.train.data().shape();
  nn::Sequential net = make_net(shape[1], blocks, width);
  std::cout << source << ": " << data.train.size() << " training and " << data.test.size()
            << " test images of " << shape[1] << " x " << shape[2] << " x " << shape[3]
            << "\nResNet-" << 6 * blocks + 2 << ", " << net.parameter_count() << " parameters, on "
            << tg::default_device() << "\n\n";

  tg::DeviceLoader batches(data.train, {.batch_size = batch_size, .shuffle = true, .seed = seed});
  tg::DeviceLoader test_set(data.test, {.batch_size = 500});
  optim::SGD sgd(net, {.lr = absl::GetFlag(FLAGS_lr),
                       .momentum = absl::GetFlag(FLAGS_momentum),
                       .weight_decay = absl::GetFlag(FLAGS_weight_decay),
                       .nesterov = absl::GetFlag(FLAGS_momentum) > 0});
  const auto schedule = make_schedule(sgd, epochs * batches.size());
  std::vector<tg::Callback> callbacks = {tg::per_step(*schedule)};
  if (absl::GetFlag(FLAGS_augment))
    callbacks.push_back({.before_batch = [&](tg::Training& run) {
      run.example.data = augmented(run.example.data, shape[3] / 8);
    }});
  const tg::History history = tg::fit(net, batches, sgd,
                                      {.epochs = epochs,
                                       .validation = &test_set,
                                       .amp = amp_dtype(),
                                       .checkpoint = checkpoint,
                                       .resume = absl::GetFlag(FLAGS_resume),
                                       .callbacks = callbacks});
  if (history.signal != 0) std::raise(history.signal);

  const tg::PlotSeries curve = time_to_accuracy(history, target);
  if (out.empty()) return;
  tg::save(out / "model.safetensors", net);
  tg::save_line_chart(
      out / "accuracy.svg", {curve},
      {.title = "Time to accuracy", .x_label = "seconds of training", .y_label = "accuracy"});
  std::cout << "written to " << out.string() << ": model.safetensors, accuracy.svg\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("resnet_cifar", "A residual network on small images.", argc, argv,
                               run);
}
