// Trains a small network on 28 x 28 images. See README.md beside this file.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "images.h"

ABSL_FLAG(std::string, net, "keras", "keras, scratch, lenet or mlp");
ABSL_FLAG(std::string, optimizer, "adam",
          "adam, adadelta (rate 1.0), adadelta_keras (rate 0.001), sgd, rmsprop");
ABSL_FLAG(double, lr, 0, "learning rate; 0 uses the optimizer's default");
ABSL_FLAG(int64_t, epochs, 1, "passes over the training images");
ABSL_FLAG(int64_t, batch_size, 0, "images in a step; 0 uses 8 for scratch and 128 otherwise");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, order and dropout");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(bool, distributed, false,
          "train on all ranks that a launcher started; each takes a shard");
ABSL_FLAG(double, timeout, 0,
          "seconds that a rank waits for the others; 0 uses TAPEGRAD_DIST_TIMEOUT or else 300");
ABSL_FLAG(bool, graph, false, "record the training step and replay it");
ABSL_FLAG(std::string, data_dir, "", examples::kDataHelp);
ABSL_FLAG(int64_t, train, 0, "number of training images; 0 uses all");
ABSL_FLAG(int64_t, test, 0, "number of test images; 0 uses all");
ABSL_FLAG(double, stop_below, 1e-8, "stop after an epoch with a smaller loss");
ABSL_FLAG(bool, evaluate_train, false, "evaluate the training images, too, after every epoch");
ABSL_FLAG(std::string, out, "",
          "folder for weights, error curve and the state of the run; if empty, nothing is written");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");
ABSL_FLAG(std::string, progress, "keras", "keras, marks (fifty of them) or none");
ABSL_FLAG(std::string, labels, "long", "long (true labels: ...) or text (correct: ...)");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
namespace optim = tapegrad::optim;
using tapegrad::Variable;

// The network of --net=keras, which README.md prints; tests/docs/readme.sh compares both texts.
struct Net : nn::Model<Net> {
  nn::Conv2d conv1{{.out_channels = 32, .kernel_size = 3}};
  nn::Conv2d conv2{{.out_channels = 64, .kernel_size = 3}};
  nn::Linear fc1{{.out_features = 128}};
  nn::Linear fc2{{.out_features = 10}};

  Net() {
    nn::initialize(*this, nn::init::keras);
    infer({1, 28, 28});  // sets the input sizes that the layers leave out
  }
  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("fc1", fc1)("fc2", fc2);
  }
  Variable forward(const Variable& x) const {
    Variable y = max_pool2d(relu(conv2(relu(conv1(x)))), {.kernel_size = 2});
    y = flatten(dropout(y, 0.25, is_training()), 1);
    return fc2(dropout(relu(fc1(y)), 0.5, is_training()));
  }
};

namespace {

struct NetChoice {
  nn::AnyModule net;
  int64_t parameters;  // expected number, counted by hand
};

NetChoice make_net(const std::string& name) {
  if (name == "keras") return {Net(), 320 + 18'496 + 1'179'776 + 1'290};
  if (name == "scratch") {
    nn::LayerBuilder layers({1, 28, 28});  // ReLU, and weights in +-0.05
    layers.add('c', {.out = 10, .kernel_size = 3, .padding = 1})
        .add('p', {.kernel_size = 2})
        .add('m', {.out = 100})
        .add('o', {.out = 10});
    return {layers.model(), 100 + 196'100 + 1'010};
  }
  if (name == "lenet")
    return {
        nn::Sequential(
            {nn::Conv2d({.out_channels = 6, .kernel_size = 5, .padding = 2}), nn::Tanh(),
             nn::AvgPool2d({.kernel_size = 2}), nn::Conv2d({.out_channels = 16, .kernel_size = 5}),
             nn::Tanh(), nn::AvgPool2d({.kernel_size = 2}), nn::Flatten(),
             nn::Linear({.out_features = 120}), nn::Tanh(), nn::Linear({.out_features = 84}),
             nn::Tanh(), nn::Linear({.out_features = 10})},
            {.input_shape = {{1, 28, 28}}, .init = nn::init::keras}),
        156 + 2'416 + 48'120 + 10'164 + 850};
  if (name == "mlp")
    return {nn::Sequential({nn::Flatten(), nn::Linear({.out_features = 512}), nn::ReLU(),
                            nn::Dropout(0.2), nn::Linear({.out_features = 512}), nn::ReLU(),
                            nn::Dropout(0.2), nn::Linear({.out_features = 10})},
                           {.input_shape = {{1, 28, 28}}, .init = nn::init::keras}),
            401'920 + 262'656 + 5'130};
  throw tg::ArgumentError("--net: \"" + name + "\" is not keras, scratch, lenet or mlp");
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, double lr,
                                                 const nn::Module& model) {
  std::unique_ptr<optim::Optimizer> made;
  if (name == "adam")
    made = std::make_unique<optim::Adam>(model);
  else if (name == "adadelta")
    made = std::make_unique<optim::Adadelta>(
        model, optim::AdadeltaOptions{.lr = 1.0, .rho = 0.95, .eps = 1e-7});
  else if (name == "adadelta_keras")
    made = std::make_unique<optim::Adadelta>(model, optim::AdadeltaOptions::keras());
  else if (name == "sgd")
    made = std::make_unique<optim::SGD>(model, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
  else if (name == "rmsprop")
    made = std::make_unique<optim::RMSprop>(model, 1e-3);
  else
    throw tg::ArgumentError("--optimizer: \"" + name +
                            "\" is not adam, adadelta, adadelta_keras, sgd or rmsprop");
  if (lr > 0) made->set_lr(lr);
  return made;
}

tg::ProgressStyle progress_style(const std::string& name) {
  if (name == "keras") return tg::ProgressStyle::kKeras;
  if (name == "marks") return tg::ProgressStyle::kMarks;
  if (name == "none") return tg::ProgressStyle::kNone;
  throw tg::ArgumentError("--progress: \"" + name + "\" is not keras, marks or none");
}

/// Rank 0 prints.
void silence_other_ranks(const tg::dist::Communicator& world) {
  static struct : std::streambuf {
    int overflow(int c) override { return c; }
  } nothing;
  if (!world.is_first()) std::cout.rdbuf(&nothing);
}

/// Prints the first 16 labels and predictions and the accuracy, as the text does that the net
/// "scratch" is from.
void print_as_text(const std::string& title, const tg::Evaluation& result) {
  const auto line = [](const char* name, const std::vector<int64_t>& classes) {
    std::cout << name;
    for (size_t i = 0; i < std::min<size_t>(16, classes.size()); ++i)
      std::cout << ' ' << classes[i];
    std::cout << '\n';
  };
  const int64_t right = std::llround(result.accuracy * double(result.count));
  std::cout << title << '\n';
  line("correct:", result.labels);
  line("predict:", result.predictions);
  std::cout << "accuracy rate: " << std::fixed << std::setprecision(2) << 100 * result.accuracy
            << " % (" << right << '/' << result.count << ")\n"
            << std::defaultfloat << std::setprecision(6);
}

/// Returns the ranks of the program. Each rank has its own device, and only the first one prints.
tg::dist::Communicator start_ranks() {
  tg::dist::InitOptions start;
  if (const double timeout = examples::in_range("--timeout", absl::GetFlag(FLAGS_timeout), 0.0);
      timeout > 0)
    start.timeout = timeout;
  const auto world =
      absl::GetFlag(FLAGS_distributed) ? tg::dist::init(start) : tg::dist::Communicator();
  silence_other_ranks(world);
  if (const auto device = tg::default_device(); world.size() > 1 && device != tg::cpu)
    tg::set_default_device(
        {device.type, int8_t(tg::dist::local_rank() % tg::cuda::device_count())});
  return world;
}

void write_files(const std::filesystem::path& out, nn::Module& model, const tg::History& history) {
  tg::save(out / "model.safetensors", model);
  tg::save(out / "model_f16.safetensors", model, {.dtype = tg::f16});
  history.save_error_curves(out / "error.svg");
  std::cout << "\nwritten to " << out.string() << ": model.safetensors ("
            << std::filesystem::file_size(out / "model.safetensors")
            << " bytes), model_f16.safetensors ("
            << std::filesystem::file_size(out / "model_f16.safetensors") << " bytes), error.svg\n";
}

void run() {
  const double lr = examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  const int64_t epochs = examples::in_range("--epochs", absl::GetFlag(FLAGS_epochs), int64_t(0));
  int64_t batch_size =
      examples::in_range("--batch_size", absl::GetFlag(FLAGS_batch_size), int64_t(0));
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const bool resume = absl::GetFlag(FLAGS_resume);
  const std::string checkpoint = examples::run_file(out, resume);
  const int64_t train_images =
      examples::in_range("--train", absl::GetFlag(FLAGS_train), int64_t(0));
  const int64_t test_images = examples::in_range("--test", absl::GetFlag(FLAGS_test), int64_t(0));
  const std::string labels = absl::GetFlag(FLAGS_labels);
  if (labels != "long" && labels != "text")
    throw tg::ArgumentError("--labels: \"" + labels + "\" is not long or text");
  const tg::ProgressStyle style = progress_style(absl::GetFlag(FLAGS_progress));
  examples::use_device(absl::GetFlag(FLAGS_device));
  const tg::dist::Communicator world = start_ranks();
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  tg::manual_seed(seed);

  auto [data, source] = examples::load_images(absl::GetFlag(FLAGS_data_dir));
  examples::keep_first(data, train_images, test_images);
  const auto& [train, test] = data;
  std::cout << source << "\nx_train shape: " << train.data().shape() << '\n'
            << train.size() << " train samples\n"
            << test.size() << " test samples\n\n";

  const auto [net, parameters] = make_net(absl::GetFlag(FLAGS_net));
  nn::Module& model = *net;
  if (model.parameter_count() != parameters)
    throw tg::Error("the net has " + std::to_string(model.parameter_count()) + " parameters, not " +
                    std::to_string(parameters));
  std::cout << nn::summary(model, {1, 28, 28}) << '\n';

  if (batch_size == 0) batch_size = absl::GetFlag(FLAGS_net) == "scratch" ? 8 : 128;
  tg::DeviceLoader batches(
      train, {.batch_size = batch_size, .shuffle = true, .seed = seed, .shard = world});
  tg::DeviceLoader train_set(train, {.batch_size = 500});
  tg::DeviceLoader test_set(test, {.batch_size = 500});
  const auto optimizer = make_optimizer(absl::GetFlag(FLAGS_optimizer), lr, model);

  const tg::History history = tg::fit(model, batches, *optimizer,
                                      {.epochs = epochs,
                                       .validation = &test_set,
                                       .evaluate_train = absl::GetFlag(FLAGS_evaluate_train),
                                       .stop_below = absl::GetFlag(FLAGS_stop_below),
                                       .checkpoint = checkpoint,
                                       .resume = resume,
                                       .graph = absl::GetFlag(FLAGS_graph),
                                       .world = world,
                                       .progress = {.style = style}});

  if (history.signal != 0) std::raise(history.signal);
  if (!history.not_graphed.empty()) std::cout << "no graph: " << history.not_graphed << '\n';
  std::cout << '\n';
  const tg::Evaluation on_train = tg::evaluate(model, train_set);
  const tg::Evaluation result = tg::evaluate(model, test_set);
  labels == "text" ? print_as_text("train", on_train) : on_train.print("train");
  labels == "text" ? print_as_text("test", result) : result.print("test");
  std::cout << "Test loss: " << result.loss << "\nTest accuracy: " << result.accuracy << "\n\n";
  history.times.print(std::cout, batches.size());

  if (!out.empty() && world.is_first()) write_files(out, model, history);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("mnist_cnn", "Trains a CNN or an MLP on 28 x 28 images.", argc, argv,
                               run);
}
