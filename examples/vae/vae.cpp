// A variational autoencoder learns to draw images. See README.md beside this file.
#include <algorithm>
#include <iostream>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "images.h"
#include "png.h"
#include "vae/model.h"

ABSL_FLAG(int64_t, epochs, 5, "passes over the training images");
ABSL_FLAG(int64_t, train, 60'000, "number of training images");
ABSL_FLAG(int64_t, test, 10'000, "number of test images");
ABSL_FLAG(int64_t, batch_size, 128, "images in a step");
ABSL_FLAG(int64_t, width, 400, "units of the hidden layers");
ABSL_FLAG(int64_t, code, 20, "size of the code");
ABSL_FLAG(double, lr, 1e-3, "learning rate of Adam");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, order and noise");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, data_dir, "", examples::kDataHelp);
ABSL_FLAG(std::string, out, "",
          "folder for model.safetensors, samples.png, copies.png and the state of the run");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;
namespace optim = tapegrad::optim;
using tapegrad::Variable;

namespace {

constexpr int64_t kSide = 28, kPixels = kSide * kSide;

double test_loss(const vae::Vae& model, const Variable& images) {
  const tg::NoGrad no_grad;
  double sum = 0;
  for (const Variable& part : tg::split(images, 500)) sum += model(part).item() * part.size(0);
  return sum / double(images.size(0));
}

/// Returns the first rows of images, each pixel a probability.
Variable pictures(const Variable& logits) {
  return reshape(sigmoid(logits), {logits.size(0), kSide, kSide});
}

/// Returns the first images, at most `most`, as rows [images, pixels] on the default device.
Variable first_rows(const Variable& images, int64_t most) {
  return flatten(tg::narrow(images, 0, 0, std::min(most, images.size(0))), 1)
      .to(tg::default_device());
}

/// Trains the model, and continues the run whose state is in `checkpoint`, if it is to be resumed.
void train_model(vae::Vae& model, const Variable& train, const Variable& test,
                 const std::string& checkpoint) {
  optim::Adam optimizer(model, absl::GetFlag(FLAGS_lr));
  tg::History history;
  tg::TrainingState state;
  state("model", model)("optimizer", optimizer)("history", history);
  examples::resume_run(state, checkpoint, absl::GetFlag(FLAGS_resume));
  double best = INFINITY;
  for (int64_t epoch = int64_t(history.epochs.size()) + 1; epoch <= absl::GetFlag(FLAGS_epochs);
       ++epoch) {
    tg::RunningMean mean;
    for (const Variable& rows :
         tg::split(tg::randperm(train.size(0)), absl::GetFlag(FLAGS_batch_size))) {
      const double start = tg::steady_seconds();
      const Variable x = tg::index_select(train, 0, rows);
      optimizer.zero_grad();
      const Variable loss = model(x);
      loss.backward();
      optimizer.step();
      mean.add(loss);
      best = std::min(best, tg::steady_seconds() - start);
    }
    history.epochs.push_back(
        {.epoch = epoch, .loss = mean.value(), .val_loss = test_loss(model, test)});
    std::cout << "epoch " << epoch << ": loss " << mean.value() << ", test "
              << history.epochs.back().val_loss << std::endl;
    if (!checkpoint.empty()) state.save(checkpoint);
  }
  examples::print_fastest_step(best);
}

/// Writes images drawn from random codes, test images with their copies, and the weights.
void write_results(const vae::Vae& model, const Variable& test, const std::filesystem::path& out) {
  const tg::NoGrad no_grad;
  examples::save_png((out / "samples.png").string(),
                     pictures(model.decode(tg::randn({48, absl::GetFlag(FLAGS_code)}))), 12);
  const Variable shown = tg::narrow(test, 0, 0, std::min<int64_t>(12, test.size(0)));
  const Variable originals = reshape(shown, {shown.size(0), kSide, kSide});
  examples::save_png((out / "copies.png").string(),
                     tg::cat({originals, pictures(model.decode(model.encode(shown).mean))}),
                     shown.size(0));
  tg::save((out / "model.safetensors").string(), model);
  std::cout << "written to " << out.string() << ": samples.png (drawn from random codes), "
            << "copies.png (test images above, their copies below), model.safetensors\n";
}

void run() {
  examples::at_least(1, {{"--train", absl::GetFlag(FLAGS_train)},
                         {"--test", absl::GetFlag(FLAGS_test)},
                         {"--batch_size", absl::GetFlag(FLAGS_batch_size)},
                         {"--width", absl::GetFlag(FLAGS_width)},
                         {"--code", absl::GetFlag(FLAGS_code)}});
  examples::at_least(0, {{"--epochs", absl::GetFlag(FLAGS_epochs)}});
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string checkpoint = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  const auto [data, source] = examples::load_images(absl::GetFlag(FLAGS_data_dir));
  if (source != tg::kFashionMnistDir && absl::GetFlag(FLAGS_data_dir).empty())
    std::cout << tg::kFashionMnistDir << " does not exist (Debian's package "
              << "dataset-fashion-mnist): using " << source << '\n';
  const Variable train = first_rows(data.train.data(), absl::GetFlag(FLAGS_train));
  const Variable test = first_rows(data.test.data(), absl::GetFlag(FLAGS_test));

  vae::Vae model(kPixels, absl::GetFlag(FLAGS_width), absl::GetFlag(FLAGS_code));
  model.to(tg::default_device());
  std::cout << source << ": " << train.size(0) << " training and " << test.size(0)
            << " test images; " << model.parameter_count() << " parameters on "
            << tg::default_device() << '\n';
  train_model(model, train, test, checkpoint);
  if (!out.empty()) write_results(model, test, out);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("vae", "Learns to draw images from random codes.", argc, argv, run);
}
