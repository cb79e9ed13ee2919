// One network in float64, float32, bfloat16, float16 and int8: effects of fewer bits on accuracy,
// time and memory. See README.md beside this file.
#include <cmath>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "images.h"

ABSL_FLAG(int64_t, epochs, 3, "passes over the training images");
ABSL_FLAG(int64_t, train, 0, "number of training images; 0 uses all");
ABSL_FLAG(int64_t, test, 0, "number of test images; 0 uses all");
ABSL_FLAG(int64_t, batch_size, 128, "images in a step");
ABSL_FLAG(double, lr, 1e-3, "learning rate of Adam");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights and order");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, data_dir, "", examples::kDataHelp);
ABSL_FLAG(std::string, out, "",
          "folder that keeps the weights and the states of the runs; empty: removed at the end");
ABSL_FLAG(bool, resume, false, "continue the runs whose states are in --out");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
using tapegrad::Variable;

namespace {

constexpr double kMostDifference = 0.5;  // points of accuracy between float64 and float32

nn::Sequential make_net() {
  tg::manual_seed(absl::GetFlag(FLAGS_seed));
  return nn::Sequential(
      {nn::Flatten(), nn::Linear({.out_features = 256}), nn::ReLU(),
       nn::Linear({.out_features = 128}), nn::ReLU(), nn::Linear({.out_features = 10})},
      {.input_shape = {{1, 28, 28}}});
}

/// Training mode: the type of the parameters, and that of matrix products if it differs.
struct Mode {
  const char* name;
  tg::DType stored;
  std::optional<tg::DType> autocast = {};
};

/// In half precision the loss is scaled by a power of two, so that small gradients do not underflow
/// to 0. Adam divides by the magnitude of the gradients, so the scale has no other effect.
double loss_scale(const Mode& mode) { return mode.stored == tg::f16 ? 1024 : 1; }

/// The state of the run is saved after every epoch, if there is a file for it.
void train_in(nn::Sequential& net, const tg::TensorDataset& images, const Mode& mode,
              const std::string& file) {
  tg::DeviceLoader batches(images, {.batch_size = absl::GetFlag(FLAGS_batch_size),
                                    .shuffle = true,
                                    .seed = absl::GetFlag(FLAGS_seed)});
  tg::optim::Adam adam(net, absl::GetFlag(FLAGS_lr));
  int64_t epoch = 0;
  tg::TrainingState state;
  state("net", net)("optimizer", adam)("batches", batches)("epoch", epoch);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));
  while (epoch < absl::GetFlag(FLAGS_epochs)) {
    for (const auto& [x, y] : batches) {
      adam.zero_grad();
      std::optional<tg::Autocast> amp;
      if (mode.autocast) amp.emplace(*mode.autocast);
      const Variable logits = net(x.to(mode.stored));
      const Variable wide = mode.stored == tg::f64 ? logits : logits.to(tg::f32);
      const Variable loss = tg::cross_entropy(wide, y) * loss_scale(mode);
      amp.reset();
      loss.backward();
      adam.step();
    }
    ++epoch;
    if (!file.empty()) state.save(file);
  }
  tg::sum(net.parameters().front()).item();  // waits for a GPU
}

using Network = std::function<Variable(const Variable&)>;

struct Result {
  double accuracy, loss, seconds;
  Variable logits;  // float64 on the CPU
};

Result evaluate(const Network& net, const tg::TensorDataset& images) {
  const tg::NoGrad off;
  tg::DeviceLoader batches(images, {.batch_size = 500});
  std::vector<Variable> logits;
  const double start = tg::steady_seconds();
  for (const auto& [x, y] : batches) logits.push_back(net(x).to(tg::f64));
  const Variable all = tg::cat(logits, 0).cpu();
  const double seconds = tg::steady_seconds() - start;
  const Variable targets = images.target().cpu();
  return {100 * tg::count_correct(all, targets).item() / double(images.size()),
          tg::cross_entropy(all, targets).item(), seconds, all};
}

double megabytes(int64_t bytes) { return double(bytes) / 1e6; }

// ---- int8 ---------------------------------------------------------------------------------------

/// Rounds rows of x to integers in [-127, 127] times a scale per row: x = values * scale.
struct Quantised {
  Variable values;  // int8 [n, d]
  Variable scale;   // float32 [n, 1]

  explicit Quantised(const Variable& x) {
    scale = tg::maximum(tg::amax(tg::abs(x), {1}, /*keepdim=*/true), 1e-12) / 127.0;
    values = tg::round(x / scale).to(tg::i8);
  }
};

/// A linear layer whose weights are int8 with a scale per output channel. The input is quantised
/// with a scale per row, and the product is computed in int32.
struct Int8Linear {
  Quantised weight;
  Variable bias;

  explicit Int8Linear(const nn::Linear& layer) : weight(layer.weight), bias(layer.bias) {}
  Variable operator()(const Variable& x) const {
    const Quantised in(x);
    const Variable product =
        tg::matmul(in.values.to(tg::i32), tg::transpose(weight.values.to(tg::i32), 0, 1));
    return product.to(tg::f32) * in.scale * tg::transpose(weight.scale, 0, 1) + bias;
  }
};

struct Int8Net {
  std::vector<Int8Linear> layers;

  explicit Int8Net(nn::Sequential& net) {
    const tg::NoGrad off;
    for (const size_t i : {1, 3, 5}) layers.emplace_back(dynamic_cast<nn::Linear&>(net[i]));
  }
  Variable operator()(const Variable& images) const {
    Variable x = tg::flatten(images, 1);
    for (size_t i = 0; i < layers.size(); ++i)
      x = i + 1 < layers.size() ? tg::relu(layers[i](x)) : layers[i](x);
    return x;
  }
  tg::TensorMap state() const {
    tg::TensorMap tensors;
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string name = "fc" + std::to_string(i + 1);
      tensors[name + ".weight"] = layers[i].weight.values.value();
      tensors[name + ".scale"] = layers[i].weight.scale.value();
      tensors[name + ".bias"] = layers[i].bias.value();
    }
    return tensors;
  }
};

// ---- Tables -------------------------------------------------------------------------------------

void print_training_line(const std::string& name, const Result& result, double seconds,
                         int64_t peak_bytes, int64_t file_bytes) {
  std::cout << std::left << std::setw(26) << name << std::right << std::fixed
            << std::setprecision(2) << std::setw(10) << result.accuracy << std::setprecision(4)
            << std::setw(9) << result.loss << std::setprecision(2) << std::setw(9) << seconds
            << std::setw(10) << megabytes(peak_bytes) << std::setw(9) << megabytes(file_bytes)
            << std::endl;
}

void print_inference_line(const std::string& name, const Result& result, const Result& reference,
                          int64_t file_bytes) {
  std::cout << std::left << std::setw(26) << name << std::right << std::fixed
            << std::setprecision(2) << std::setw(10) << result.accuracy << std::setw(8)
            << result.accuracy - reference.accuracy << std::setprecision(4) << std::setw(12)
            << tg::amax(tg::abs(result.logits - reference.logits)).item() << std::setprecision(3)
            << std::setw(9) << result.seconds << std::setprecision(2) << std::setw(9)
            << megabytes(file_bytes) << std::endl;
}

int64_t saved(const std::filesystem::path& file, const nn::Sequential& net) {
  tg::save(file, net);
  return int64_t(std::filesystem::file_size(file));
}

/// Trains a network in each mode, and prints a line for each. The runs keep their states in `out`
/// if `is_kept`. Returns the float32 network. Throws Error if the accuracies in float64 and float32
/// differ by more than kMostDifference.
nn::Sequential train_in_each_mode(const tg::Mnist& data, const std::filesystem::path& out,
                                  bool is_kept) {
  std::cout << "trained in                accuracy%     loss  seconds   peak MB  file MB\n";
  const std::vector<Mode> modes = {{"float64", tg::f64},
                                   {"float32", tg::f32},
                                   {"bfloat16 by autocast", tg::f32, tg::bf16},
                                   {"weights stored in float16", tg::f16}};
  std::vector<double> accuracies;
  nn::Sequential trained = make_net();
  for (const Mode& mode : modes) {
    nn::Sequential net = make_net();  // equal weights for all, rounded to the mode's type
    net.to(mode.stored);
    const std::string file = "run_" + std::to_string(accuracies.size()) + ".safetensors";
    const tg::TimeReport cost =
        tg::time_calls([&] { train_in(net, data.train, mode, is_kept ? out / file : ""); }, 1,
                       tg::default_device());
    const Result result =
        evaluate([&](const Variable& x) { return net(x.to(mode.stored)); }, data.test);
    print_training_line(mode.name, result, cost.seconds, cost.peak_bytes,
                        saved(out / "trained.safetensors", net));
    accuracies.push_back(result.accuracy);
    if (mode.stored == tg::f32 && !mode.autocast) trained = net.clone();
  }
  const double difference = std::abs(accuracies[0] - accuracies[1]);
  if (difference > kMostDifference)
    throw tg::Error("float64 and float32 differ by more than " + std::to_string(kMostDifference) +
                    " points");
  std::cout << "float64 and float32 differ by " << std::setprecision(2) << difference
            << " points\n";
  return trained;
}

/// Evaluates a float32 network, and the network in narrower types, and prints a line for each.
void evaluate_in_each_type(nn::Sequential trained, const tg::TensorDataset& test,
                           const std::filesystem::path& out) {
  std::cout << "\nthe float32 net used in   accuracy%    drop  max |dlogit|  seconds  file MB\n";
  const auto float32 = [](const nn::Sequential& net) {
    return [&net](const Variable& x) { return net(x); };
  };
  const Result reference = evaluate(float32(trained), test);
  print_inference_line("float32", reference, reference,
                       saved(out / "float32.safetensors", trained));
  for (const tg::DType dtype : {tg::f16, tg::bf16}) {
    nn::Sequential net = trained.clone();
    net.to(dtype);
    const auto file = out / (std::string(tg::name(dtype)) + ".safetensors");
    print_inference_line(std::string(tg::name(dtype)),
                         evaluate([&](const Variable& x) { return net(x.to(dtype)); }, test),
                         reference, saved(file, net));
  }
  const auto half = out / "reloaded.safetensors";
  tg::save(half, trained, {.dtype = tg::f16});
  nn::Sequential reloaded = make_net();
  tg::load(half, reloaded);  // back to float32
  print_inference_line("float32 from a f16 file", evaluate(float32(reloaded), test), reference,
                       int64_t(std::filesystem::file_size(half)));
  const Int8Net int8(trained);
  tg::save(out / "int8.safetensors", int8.state());
  print_inference_line("int8, product in int32", evaluate(int8, test), reference,
                       int64_t(std::filesystem::file_size(out / "int8.safetensors")));
}

void run() {
  examples::in_range("--epochs", absl::GetFlag(FLAGS_epochs), int64_t(1));
  examples::in_range("--batch_size", absl::GetFlag(FLAGS_batch_size), int64_t(1));
  examples::in_range("--train", absl::GetFlag(FLAGS_train), int64_t(0));
  examples::in_range("--test", absl::GetFlag(FLAGS_test), int64_t(0));
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const bool is_kept = !examples::run_file(out, absl::GetFlag(FLAGS_resume)).empty();
  examples::use_device(absl::GetFlag(FLAGS_device));
  const examples::ScratchFolder scratch;
  if (out.empty()) out = scratch.path();

  auto [data, source] = examples::load_images(absl::GetFlag(FLAGS_data_dir));
  examples::keep_first(data, absl::GetFlag(FLAGS_train), absl::GetFlag(FLAGS_test));
  std::cout << data.train.size() << " training and " << data.test.size() << " test images, "
            << source << "; 784 -> 256 -> 128 -> 10, " << absl::GetFlag(FLAGS_epochs)
            << " epochs on " << tg::default_device() << "\n\n";
  evaluate_in_each_type(train_in_each_mode(data, out, is_kept), data.test, out);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("precision", "One network in 64, 32, 16 and 8 bits.", argc, argv,
                               run);
}
