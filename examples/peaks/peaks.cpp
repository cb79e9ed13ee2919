// Regression of MATLAB's peaks surface with a network of 171 parameters, 2 -> 20 -> 5 -> 1; full
// batch, Adam. See README.md beside this file.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"

ABSL_FLAG(int64_t, epochs, 2000, "steps over all rows; start with 100");
ABSL_FLAG(int64_t, batch_size, 0, "rows in a step; 0 uses all");
ABSL_FLAG(double, lr, 0.08, "learning rate of Adam");
ABSL_FLAG(uint64_t, seed, 1, "seed of the weights");
ABSL_FLAG(int, seeds, 1,
          "number of seeds to train, from --seed on; prints each loss and the median");
ABSL_FLAG(int64_t, rows, 40'000, "rows of the data: a grid of the nearest square number");
ABSL_FLAG(std::string, device, "",
          "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU and then a GPU, if there is one");
ABSL_FLAG(bool, graph, false, "record the training step and replay it");
ABSL_FLAG(std::string, out, "",
          "folder for peaks.svg and the state of the run; if empty, nothing is written");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");
ABSL_FLAG(bool, sweep, false, "time an epoch for 100 to 40,000 rows instead");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;

namespace {

/// 3 (1-x)^2 exp(-x^2 - (y+1)^2) - 10 (x/5 - x^3 - y^5) exp(-x^2 - y^2) - exp(-(x+1)^2 - y^2) / 3
tg::Variable peaks(const tg::Variable& x, const tg::Variable& y) {
  using tg::exp, tg::pow, tg::square;
  return 3.0 * square(1.0 - x) * exp(-square(x) - square(y + 1.0)) -
         10.0 * (x / 5.0 - pow(x, 3) - pow(y, 5)) * exp(-square(x) - square(y)) -
         exp(-square(x + 1.0) - square(y)) / 3.0;
}

/// n * n rows (x, y) of a grid over [-3, 3]^2; x varies fastest.
tg::Variable grid(int64_t n) {
  const tg::Variable axis = tg::linspace(-3, 3, n);
  return tg::stack({tg::repeat(axis, {n}), tg::repeat_interleave(axis, n, 0)}, 1);
}

tg::Variable column(const tg::Variable& rows, int64_t which) {
  return tg::narrow(rows, 1, which, 1);
}

/// Normal rather than uniform: fewer seeds end in a local minimum with dead units in the narrow
/// layer. See README.md.
void glorot(tg::Variable& weight, tg::Variable& bias) {
  nn::init::xavier_normal_(weight);
  nn::init::zeros_(bias);
}

nn::Sequential make_model() {
  return nn::Sequential({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                         nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                         nn::Linear({.in_features = 5, .out_features = 1})},
                        {.init = glorot});
}

/// Result of a training run.
struct Trained {
  double loss;                       // of all rows, after the last step
  std::vector<double> epoch_losses;  // in each step, before its update
};

Trained train(nn::Sequential& model, const tg::Variable& x, const tg::Variable& y, int64_t epochs,
              std::ostream* out, const std::string& checkpoint = {}) {
  tg::optim::Adam optimizer(model, absl::GetFlag(FLAGS_lr));
  const int64_t rows = x.size(0), asked = absl::GetFlag(FLAGS_batch_size);
  tg::DeviceLoader batches(tg::TensorDataset(x, y),
                           {.batch_size = asked > 0 ? asked : rows, .shuffle = asked > 0});
  const tg::History history = tg::fit(
      model, batches, optimizer,
      {.epochs = epochs,
       .loss = [](const auto& output, const auto& target) { return tg::mse_loss(output, target); },
       .accuracy = false,
       .stop_below = -1,
       .checkpoint = checkpoint,
       .resume = absl::GetFlag(FLAGS_resume),
       .checkpoint_epochs = std::max<int64_t>(1, epochs / 10),
       .graph = absl::GetFlag(FLAGS_graph),
       .progress = {.style = tg::ProgressStyle::kNone},
       .on_epoch =
           [&](const tg::EpochResult& result) {
             if (out != nullptr && result.epoch % std::max<int64_t>(1, epochs / 10) == 0)
               *out << "epoch " << std::setw(5) << result.epoch << "  loss " << result.loss
                    << std::endl;
             return true;
           }});
  if (history.signal != 0) std::raise(history.signal);
  if (out != nullptr && !history.not_graphed.empty())
    *out << "no graph: " << history.not_graphed << '\n';
  tg::NoGrad off;
  Trained result{tg::mse_loss(model(x), y).item(), {}};
  for (const tg::EpochResult& epoch : history.epochs) result.epoch_losses.push_back(epoch.loss);
  return result;
}

/// Prints milliseconds per epoch for several numbers of rows, to find where another device pays
/// off.
void sweep(const tg::Variable& x, const tg::Variable& y) {
  std::cout << "  rows    ms per epoch\n";
  for (int64_t rows : {100, 200, 400, 1000, 4000, 10'000, 40'000}) {
    if (rows > x.size(0)) break;
    nn::Sequential model = make_model();
    const int64_t epochs = std::max<int64_t>(20, 400'000 / rows);
    const auto some_x = tg::narrow(x, 0, 0, rows), some_y = tg::narrow(y, 0, 0, rows);
    train(model, some_x, some_y, 5, nullptr);
    const auto report = tg::time_calls([&] { train(model, some_x, some_y, epochs, nullptr); });
    std::cout << std::setw(6) << rows << std::setw(16) << report.seconds * 1e3 / double(epochs)
              << '\n';
  }
}

/// One training run on a device, from the same untrained network as the others.
struct DeviceRun {
  tg::Device device;
  nn::Sequential model;
  Trained trained;
  tg::TimeReport cost;
};

DeviceRun run_on(tg::Device device, const nn::Sequential& untrained, const tg::Variable& x,
                 const tg::Variable& y, const std::string& checkpoint, std::ostream* out) {
  DeviceRun run{device, untrained.clone(), {}, {}};
  const auto [inputs, targets, model] = std::tuple(x, y, run.model) | device;
  const int64_t epochs = absl::GetFlag(FLAGS_epochs);
  run.cost = tg::time_calls(
      [&] { run.trained = train(run.model, inputs, targets, epochs, out, checkpoint); }, 1, device);
  return run;
}

/// Returns the devices to use if neither the flag nor the environment selects one: the CPU, and a
/// GPU if there is one.
std::vector<tg::Device> devices_to_train_on() {
  const char* environment = std::getenv("TAPEGRAD_DEVICE");
  const bool is_chosen = !absl::GetFlag(FLAGS_device).empty() || (environment && *environment);
  if (is_chosen) return {tg::default_device()};
  if (tg::is_available(tg::gpu)) return {tg::cpu, tg::gpu};
  return {tg::cpu};
}

/// Data, and the networks trained on the CPU and on the GPU, on a grid of 40 x 40 that they have
/// not seen. The untrained network takes the place of a network that is missing.
void plot(const std::vector<DeviceRun>& runs, const nn::Sequential& untrained,
          const std::filesystem::path& path) {
  constexpr int64_t kSide = 40;
  const tg::NoGrad off;
  const tg::Variable axis = tg::linspace(-3, 3, kSide, {.device = tg::cpu}),
                     rows = grid(kSide) | tg::cpu;
  std::vector<tg::Surface> panels;
  const auto add = [&](const std::string& title, const tg::Variable& z, tg::SurfaceStyle style) {
    panels.push_back({title, axis, axis, tg::reshape(z, {kSide, kSide}), style});
  };
  const auto add_network = [&](const std::string& title, const nn::Sequential& network) {
    nn::Sequential here = network.clone() | tg::cpu;
    add(title, here(rows), tg::SurfaceStyle::kWireframe);
  };
  add("data", peaks(column(rows, 0), column(rows, 1)), tg::SurfaceStyle::kSurface);
  if (runs.size() == 1) add_network("untrained", untrained);
  for (const DeviceRun& run : runs) add_network("trained on " + to_string(run.device), run.model);
  tg::save_surfaces(path, panels);
  std::cout << "written: " << path.string() << '\n';
  if (runs.size() == 1)
    std::cout << "it shows the untrained network instead of one trained on "
              << (runs[0].device == tg::cpu ? tg::gpu : tg::cpu) << ": "
              << (tg::is_available(tg::gpu) ? "only " + to_string(runs[0].device) + " was asked for"
                                            : tg::why_unavailable(tg::gpu))
              << '\n';
}

/// Prints the runs side by side. Throws Error if the losses of the first steps differ by more than
/// 1e-5 of the loss; later, rounding is amplified by the high learning rate.
void compare(const std::vector<DeviceRun>& runs) {
  std::cout << "\ndevice     seconds   ms/epoch   allocations   peak MiB        loss\n";
  for (const DeviceRun& run : runs)
    std::cout << std::left << std::setw(8) << to_string(run.device) << std::right << std::setw(10)
              << run.cost.seconds << std::setw(11)
              << run.cost.seconds * 1e3 / double(run.trained.epoch_losses.size()) << std::setw(14)
              << run.cost.allocations << std::setw(11) << double(run.cost.peak_bytes) / (1 << 20)
              << std::setw(12) << run.trained.loss << '\n';
  const std::vector<double>&one = runs[0].trained.epoch_losses,
        &other = runs[1].trained.epoch_losses;
  constexpr size_t kFirstSteps = 10;
  for (size_t i = 0; i < std::min(kFirstSteps, one.size()); ++i)
    if (!(std::abs(one[i] - other[i]) <= 1e-5 * std::abs(one[i])))
      throw tg::Error("the losses of step " + std::to_string(i + 1) +
                      " differ: " + std::to_string(one[i]) + " and " + std::to_string(other[i]));
  std::cout << "the losses of the first " << std::min(kFirstSteps, one.size())
            << " steps agree to 1e-5\n";
}

void run() {
  examples::in_range("--epochs", absl::GetFlag(FLAGS_epochs), int64_t(0));
  const int seeds = examples::in_range("--seeds", absl::GetFlag(FLAGS_seeds), 1);
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  examples::in_range("--batch_size", absl::GetFlag(FLAGS_batch_size), int64_t(0));
  const int64_t rows = examples::in_range("--rows", absl::GetFlag(FLAGS_rows), int64_t(4));
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string checkpoint = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  const tg::Variable x = grid(std::llround(std::sqrt(double(rows)))),
                     y = peaks(column(x, 0), column(x, 1));
  if (absl::GetFlag(FLAGS_sweep)) return sweep(x, y);

  const std::vector<tg::Device> devices = devices_to_train_on();
  const uint64_t first = absl::GetFlag(FLAGS_seed);
  std::vector<double> losses;
  for (uint64_t seed = first; seed < first + uint64_t(seeds); ++seed) {
    tg::manual_seed(seed);
    const nn::Sequential untrained = make_model();
    if (seeds <= 1)
      std::cout << x.size(0) << " rows, " << untrained.parameter_count() << " parameters\n";
    std::vector<DeviceRun> runs;
    for (const tg::Device device : devices) {
      const bool has_checkpoint = seed == first && runs.empty();
      runs.push_back(run_on(device, untrained, x, y, has_checkpoint ? checkpoint : "",
                            seeds <= 1 ? &std::cout : nullptr));
      std::cout << "seed " << seed << " on " << device << ": loss " << runs.back().trained.loss
                << ", " << runs.back().cost << '\n';
    }
    losses.push_back(runs[0].trained.loss);
    if (runs.size() > 1) compare(runs);
    if (!out.empty() && seed == first) plot(runs, untrained, out / "peaks.svg");
  }
  std::sort(losses.begin(), losses.end());
  if (losses.size() > 1)
    std::cout << "median loss " << (losses[(losses.size() - 1) / 2] + losses[losses.size() / 2]) / 2
              << " over " << losses.size() << " seeds\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("peaks", "A network learns the peaks surface.", argc, argv, run);
}
