// A transformer learns a text letter by letter and continues it. See README.md beside this file.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "char_gpt/model.h"
#include "flags.h"
#include "text.h"

ABSL_FLAG(std::string, text, examples::kLicences, "text file, or folder of text files");
ABSL_FLAG(int64_t, steps, 600, "training steps");
ABSL_FLAG(int64_t, batch_size, 16, "pieces of text in a step");
ABSL_FLAG(int64_t, length, 128, "letters of a piece");
ABSL_FLAG(int64_t, width, 128, "features of a letter");
ABSL_FLAG(int64_t, heads, 4, "attention heads; must divide --width");
ABSL_FLAG(int64_t, layers, 4, "transformer blocks");
ABSL_FLAG(double, lr, 1e-3, "highest learning rate of AdamW");
ABSL_FLAG(bool, amp, false, "mixed precision: bfloat16 by autocast");
ABSL_FLAG(std::string, prompt, "The ", "beginning of the sampled text");
ABSL_FLAG(int64_t, sample, 400, "number of sampled letters");
ABSL_FLAG(double, temperature, 0.8, "divisor of the logits; small values take likely letters");
ABSL_FLAG(bool, cache, true, "keep keys and values while sampling");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, pieces and sampled letters");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, out, "", "folder for model.safetensors, loss.svg and the state of the run");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;
namespace optim = tapegrad::optim;
using tapegrad::Variable;

namespace {

constexpr int64_t kStepsOfALine = 100;

struct Batch {
  Variable x, y;  // [batch, length]; y is the letter after each letter of x
};

/// Draws pieces of the text at random positions.
Batch draw(const Variable& text, int64_t batch, int64_t length) {
  const Variable starts = tg::randint(0, text.size(0) - length, {batch, 1});
  const Variable places = starts + tg::arange(length);
  return {tg::take(text, places), tg::take(text, places + 1)};
}

Variable loss_of(const char_gpt::Gpt& model, const Batch& batch) {
  const tg::Autocast amp(tg::bf16, absl::GetFlag(FLAGS_amp));
  return cross_entropy(flatten(model(batch.x), 0, 1), flatten(batch.y));
}

/// Mean loss on pieces of the text that training does not read.
double held_out_loss(const char_gpt::Gpt& model, const Variable& text, int64_t batch,
                     int64_t length) {
  const tg::NoGrad no_grad;
  double sum = 0;
  constexpr int kBatches = 8;
  for (int i = 0; i < kBatches; ++i) sum += loss_of(model, draw(text, batch, length)).item();
  return sum / kBatches;
}

/// Rises for a tenth of the steps, then falls to a tenth along a cosine.
double rate(int64_t step, int64_t steps) {
  const double high = absl::GetFlag(FLAGS_lr), warm = std::max(1.0, double(steps) / 10);
  if (double(step) < warm) return high * double(step + 1) / warm;
  const double done = (double(step) - warm) / std::max(1.0, double(steps) - warm);
  return high * (0.1 + 0.45 * (1 + std::cos(M_PI * done)));
}

/// Draws one letter from the logits [1, length, letters] of the last letter.
int64_t next_letter(const Variable& logits) {
  const Variable last = tg::select(tg::select(logits, 0, 0), 0, -1);
  const Variable share = tg::softmax(last / absl::GetFlag(FLAGS_temperature), -1);
  return int64_t(tg::multinomial(share, 1).item());
}

Variable row(const std::vector<int64_t>& ids, size_t most) {
  const size_t count = std::min(most, ids.size());
  const std::vector<int64_t> last(ids.end() - std::ptrdiff_t(count), ids.end());
  return tg::tensor(last, {1, int64_t(count)}).to(tg::default_device());
}

/// Continues the ids by `count` letters. A full cache is made again from the second half of its
/// letters, so that each letter sees at least that many.
void extend(const char_gpt::Gpt& model, std::vector<int64_t>& ids, int64_t count) {
  const tg::NoGrad no_grad;
  const tg::Autocast amp(tg::bf16, absl::GetFlag(FLAGS_amp));
  const size_t length = size_t(model.options.length);
  char_gpt::Cache cache;
  for (int64_t i = 0; i < count; ++i) {
    if (!absl::GetFlag(FLAGS_cache)) {
      ids.push_back(next_letter(model(row(ids, length))));
      continue;
    }
    if (cache.length == int64_t(length)) cache = {};
    const size_t fresh = cache.length > 0 ? 1 : std::max<size_t>(1, length / 2);
    ids.push_back(next_letter(model.forward(row(ids, fresh), cache)));
  }
}

/// Returns the losses of training and of held-out text after every hundred steps. The state of the
/// run is saved then, if there is a file for it.
tg::History train(char_gpt::Gpt& model, const Variable& text, const Variable& held_out,
                  const std::string& file) {
  const int64_t steps = absl::GetFlag(FLAGS_steps), batch = absl::GetFlag(FLAGS_batch_size),
                length = absl::GetFlag(FLAGS_length);
  optim::AdamW optimizer(model, {.lr = absl::GetFlag(FLAGS_lr), .weight_decay = 0.1});
  tg::History history;
  int64_t step = 0;
  tg::TrainingState state;
  state("model", model)("optimizer", optimizer)("history", history)("step", step);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));
  tg::RunningMean mean;
  double best = INFINITY;
  while (step < steps) {
    const double start = tg::steady_seconds();
    optimizer.set_lr(rate(step++, steps));
    optimizer.zero_grad();
    const Variable loss = loss_of(model, draw(text, batch, length));
    loss.backward();
    optim::clip_grad_norm_(model, 1.0);
    optimizer.step();
    mean.add(loss);
    best = std::min(best, tg::steady_seconds() - start);
    if (step % kStepsOfALine != 0 && step != steps) continue;
    const double other = held_out_loss(model, held_out, batch, length);
    history.epochs.push_back({.epoch = step, .loss = mean.value(), .val_loss = other});
    std::cout << "step " << step << ": loss " << mean.value() << ", held out " << other
              << std::endl;
    mean = {};
    if (!file.empty()) state.save(file);
  }
  examples::print_fastest_step(best);
  std::cout << '\n';
  return history;
}

void run() {
  examples::at_least(1, {{"--batch_size", absl::GetFlag(FLAGS_batch_size)},
                         {"--length", absl::GetFlag(FLAGS_length)},
                         {"--width", absl::GetFlag(FLAGS_width)},
                         {"--heads", absl::GetFlag(FLAGS_heads)},
                         {"--layers", absl::GetFlag(FLAGS_layers)}});
  examples::at_least(
      0, {{"--steps", absl::GetFlag(FLAGS_steps)}, {"--sample", absl::GetFlag(FLAGS_sample)}});
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  examples::in_range("--temperature", absl::GetFlag(FLAGS_temperature), 1e-3);
  if (absl::GetFlag(FLAGS_width) % absl::GetFlag(FLAGS_heads) != 0)
    throw tg::ArgumentError("--heads must divide --width");
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  if (prompt.empty()) throw tg::ArgumentError("--prompt needs a letter");
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string file = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  const std::string text = examples::read_text(absl::GetFlag(FLAGS_text));
  const examples::Letters letters(text);
  std::vector<int64_t> ids = letters.encode(prompt);
  const int64_t length = absl::GetFlag(FLAGS_length), held_out = int64_t(text.size()) / 10;
  if (held_out <= length)
    throw tg::ArgumentError("a tenth of the text has " + std::to_string(held_out) +
                            " letters, too few for --length=" + std::to_string(length));
  const Variable all =
      tg::tensor(letters.encode(text), {int64_t(text.size())}).to(tg::default_device());
  char_gpt::Gpt model({.letters = letters.size(),
                       .length = length,
                       .width = absl::GetFlag(FLAGS_width),
                       .heads = absl::GetFlag(FLAGS_heads),
                       .layers = absl::GetFlag(FLAGS_layers)});
  model.to(tg::default_device());
  std::cout << absl::GetFlag(FLAGS_text) << ": " << text.size() << " letters, " << letters.size()
            << " different; " << model.parameter_count() << " parameters on "
            << tg::default_device() << '\n';

  const tg::History history = train(model, tg::narrow(all, 0, 0, all.size(0) - held_out),
                                    tg::narrow(all, 0, all.size(0) - held_out, held_out), file);

  const double start = tg::steady_seconds();
  extend(model, ids, absl::GetFlag(FLAGS_sample));
  const double seconds = tg::steady_seconds() - start;
  for (const int64_t id : ids) std::cout << letters.letter(id);
  std::cout << "\n\n"
            << absl::GetFlag(FLAGS_sample) << " letters in " << seconds << " s ("
            << (absl::GetFlag(FLAGS_cache) ? "with" : "without")
            << " a cache of keys and values)\n";
  if (out.empty()) return;
  tg::save((out / "model.safetensors").string(), model);
  tg::save_line_chart((out / "loss.svg").string(),
                      {history.series("loss", "training"), history.series("val_loss", "held out")},
                      {.title = "Nats per letter", .x_label = "step"});
  std::cout << "written to " << out.string() << ": model.safetensors, loss.svg\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("char_gpt", "Learns a text letter by letter and continues it.", argc,
                               argv, run);
}
