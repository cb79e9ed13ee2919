// An LSTM language model of words. See README.md beside this file.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "lstm_lm/model.h"
#include "text.h"
#include "word2vec/vocabulary.h"

ABSL_FLAG(std::string, text, examples::kLicences,
          "text file or folder, for example ptb.train.txt or build/corpus/kjv.txt");
ABSL_FLAG(int64_t, max_words, 0, "number of words of the text; 0 uses all");
ABSL_FLAG(int64_t, epochs, 8, "passes over the text");
ABSL_FLAG(int64_t, batch_size, 20, "parallel columns of the text");
ABSL_FLAG(int64_t, steps, 20, "number of words that a gradient covers");
ABSL_FLAG(int64_t, width, 200, "features of a word and of the state");
ABSL_FLAG(int64_t, layers, 2, "LSTM layers");
ABSL_FLAG(double, dropout, 0.0, "dropout probability of inputs and between layers");
ABSL_FLAG(double, lr, 1.0, "learning rate of SGD, for the loss summed over --steps");
ABSL_FLAG(int64_t, flat, 4,
          "epochs with the full learning rate, which halves after each later epoch");
ABSL_FLAG(double, clip, 5.0, "largest norm of the gradient");
ABSL_FLAG(bool, amp, false, "mixed precision: bfloat16 by autocast");
ABSL_FLAG(std::string, prompt, "you may", "beginning of the sampled sentence");
ABSL_FLAG(int64_t, sample, 40, "number of sampled words");
ABSL_FLAG(uint64_t, seed, 1, "seed of weights, dropout and sampled words");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, out, "",
          "folder for model.safetensors, perplexity.svg and the state of the run");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
namespace optim = tapegrad::optim;
using lstm_lm::LanguageModel;
using lstm_lm::LstmState;
using tapegrad::Variable;

namespace {

/// Cuts ids into columns that are read in parallel: [words per column, batch].
Variable columns(const std::vector<int64_t>& ids, int64_t batch) {
  const int64_t rows = int64_t(ids.size()) / batch;
  if (rows < 2)
    throw tg::ArgumentError(std::to_string(ids.size()) +
                            " words are too few for --batch_size=" + std::to_string(batch));
  const std::vector<int64_t> used(ids.begin(), ids.begin() + std::ptrdiff_t(rows * batch));
  return transpose(tg::tensor(used, {batch, rows}), 0, 1).to(tg::default_device());
}

/// Runs the text through the model in pieces and hands each loss, a mean over words, to `use`.
/// Returns exp(mean loss).
template <typename Use>
double perplexity(const LanguageModel& model, const Variable& text, int64_t steps, Use use) {
  LstmState state;
  tg::RunningMean mean;
  for (int64_t at = 0; at + 1 < text.size(0); at += steps) {
    const int64_t count = std::min(steps, text.size(0) - 1 - at);
    if (at > 0) state = state.detach();
    Variable loss;
    {
      const tg::Autocast amp(tg::bf16, absl::GetFlag(FLAGS_amp));
      loss = cross_entropy(model.forward(tg::narrow(text, 0, at, count), state),
                           flatten(tg::narrow(text, 0, at + 1, count)));
    }
    use(loss);
    mean.add(loss, double(count));
  }
  return std::exp(mean.value());
}

void continue_text(const LanguageModel& model, const word2vec::Vocabulary& vocabulary) {
  const tg::NoGrad no_grad;
  LstmState state;
  Variable logits;
  const auto read = [&](int64_t id) {
    logits = model.forward(tg::tensor({id}, {1, 1}).to(tg::default_device()), state);
  };
  std::istringstream words(absl::GetFlag(FLAGS_prompt));
  for (std::string word; words >> word;) {
    read(vocabulary.id(word));
    std::cout << word << ' ';
  }
  if (!logits.defined()) throw tg::ArgumentError("--prompt needs a word");
  for (int64_t i = 0; i < absl::GetFlag(FLAGS_sample); ++i) {
    const auto id = int64_t(tg::multinomial(tg::softmax(flatten(logits), 0), 1).item());
    std::cout << vocabulary.words[size_t(id)] << ' ';
    read(id);
  }
  std::cout << "...\n";
}

void check_flags() {
  examples::at_least(1, {{"--batch_size", absl::GetFlag(FLAGS_batch_size)},
                         {"--steps", absl::GetFlag(FLAGS_steps)},
                         {"--width", absl::GetFlag(FLAGS_width)},
                         {"--layers", absl::GetFlag(FLAGS_layers)}});
  examples::at_least(0, {{"--epochs", absl::GetFlag(FLAGS_epochs)},
                         {"--flat", absl::GetFlag(FLAGS_flat)},
                         {"--max_words", absl::GetFlag(FLAGS_max_words)},
                         {"--sample", absl::GetFlag(FLAGS_sample)}});
  examples::in_range("--dropout", absl::GetFlag(FLAGS_dropout), 0.0, 0.99);
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  examples::in_range("--clip", absl::GetFlag(FLAGS_clip), 1e-6);
}

void run() {
  check_flags();
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string file = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  const int64_t most = absl::GetFlag(FLAGS_max_words);
  const word2vec::Corpus corpus =
      word2vec::read_corpus(absl::GetFlag(FLAGS_text), most > 0 ? size_t(most) : SIZE_MAX);
  const auto cut = corpus.ids.end() - std::ptrdiff_t(corpus.ids.size() / 10);
  const int64_t batch = absl::GetFlag(FLAGS_batch_size), steps = absl::GetFlag(FLAGS_steps);
  const Variable text = columns({corpus.ids.begin(), cut}, batch);
  const Variable held_out = columns({cut, corpus.ids.end()}, batch);

  LanguageModel model({.words = corpus.vocabulary.size(),
                       .width = absl::GetFlag(FLAGS_width),
                       .layers = absl::GetFlag(FLAGS_layers),
                       .dropout = absl::GetFlag(FLAGS_dropout)});
  model.to(tg::default_device());
  std::cout << absl::GetFlag(FLAGS_text) << ": " << corpus.ids.size() << " words, "
            << corpus.vocabulary.size() << " different; " << model.parameter_count()
            << " parameters on " << tg::default_device() << '\n';

  optim::SGD optimizer(model, absl::GetFlag(FLAGS_lr));
  tg::History history;
  tg::TrainingState state;
  state("model", model)("optimizer", optimizer)("history", history);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));
  double best = INFINITY;
  for (int64_t epoch = int64_t(history.epochs.size()) + 1; epoch <= absl::GetFlag(FLAGS_epochs);
       ++epoch) {
    if (epoch > absl::GetFlag(FLAGS_flat)) optimizer.set_lr(optimizer.lr() / 2);
    double last = tg::steady_seconds();
    model.train();
    const double training = perplexity(model, text, steps, [&](const Variable& loss) {
      optimizer.zero_grad();
      (loss * double(steps)).backward();  // the rate is for a sum over the steps
      optim::clip_grad_norm_(model, absl::GetFlag(FLAGS_clip));
      optimizer.step();
      const double now = tg::steady_seconds();
      best = std::min(best, now - std::exchange(last, now));
    });
    model.eval();
    const tg::NoGrad no_grad;
    const double other = perplexity(model, held_out, steps, [](const Variable&) {});
    std::cout << "epoch " << epoch << ", rate " << optimizer.lr() << ": perplexity " << training
              << ", held out " << other << std::endl;
    history.epochs.push_back(
        {.epoch = epoch, .more = {{"perplexity", training}, {"val_perplexity", other}}});
    if (!file.empty()) state.save(file);
  }
  examples::print_fastest_step(best);
  std::cout << '\n';
  model.eval();
  continue_text(model, corpus.vocabulary);
  if (out.empty()) return;
  tg::save((out / "model.safetensors").string(), model);
  tg::save_line_chart(
      (out / "perplexity.svg").string(),
      {history.series("perplexity", "training"), history.series("val_perplexity", "held out")},
      {.title = "Perplexity", .x_label = "epoch", .log_y = true});
  std::cout << "written to " << out.string() << ": model.safetensors, perplexity.svg\n";
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("lstm_lm", "Learns a text word by word and continues it.", argc,
                               argv, run);
}
