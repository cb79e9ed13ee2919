// Word vectors by CBOW or skip-gram with negative sampling. See README.md beside this file.
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"
#include "word2vec/vocabulary.h"

ABSL_FLAG(std::string, model, "cbow", "cbow or skipgram");
ABSL_FLAG(std::string, corpus, "build/corpus/kjv.txt",
          "text file or folder, for example ptb.train.txt; a missing default file is replaced by "
          "the licence texts of Debian");
ABSL_FLAG(int64_t, window, 5, "context words on each side");
ABSL_FLAG(int64_t, hidden, 100, "length of a word vector");
ABSL_FLAG(int64_t, negatives, 5, "words drawn for each true word");
ABSL_FLAG(int64_t, batch_size, 100, "words in a step");
ABSL_FLAG(int64_t, epochs, 10, "passes over the corpus");
ABSL_FLAG(int64_t, max_words, 0, "number of words of the corpus; 0 uses all");
ABSL_FLAG(double, lr, 1e-3, "learning rate of Adam");
ABSL_FLAG(bool, sparse, true, "gradients of the tables as rows, with SparseAdam");
ABSL_FLAG(bool, compare, false, "time steps with dense gradients and with rows, then stop");
ABSL_FLAG(int64_t, print_every, 20, "iterations between two printed lines");
ABSL_FLAG(uint64_t, seed, 1, "seed of vectors, order and drawn words");
ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(std::string, out, "",
          "folder for vectors.safetensors, loss.svg and the state of the run");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");
ABSL_FLAG(std::string, load, "", "file of word vectors to use instead of training");
ABSL_FLAG(std::vector<std::string>, similar, {}, "words whose neighbours are printed: king,year");
ABSL_FLAG(std::vector<std::string>, analogies, {},
          "triples a:b:c, printed as a:b = c:?; for example king:man:queen");

namespace tg = tapegrad;
namespace nn = tapegrad::nn;
namespace optim = tapegrad::optim;
using tapegrad::Variable;
using namespace word2vec;

namespace {

constexpr const char* kDefaultCorpus = "build/corpus/kjv.txt";
using examples::kLicences;

/// Draws words with probabilities proportional to count^0.75.
class UnigramSampler {
 public:
  UnigramSampler(const Corpus& corpus, double power = 0.75) {
    std::vector<double> weights(size_t(corpus.vocabulary.size()));
    for (const int64_t id : corpus.ids) ++weights[size_t(id)];
    double sum = 0;
    for (double& weight : weights) weight = sum += std::pow(weight, power);
    for (double& weight : weights) weight /= sum;
    bounds_ = tg::tensor(weights, {int64_t(weights.size())}).to(tg::f64).to(tg::default_device());
  }
  Variable draw(const tg::Shape& shape) const {
    return tg::searchsorted(bounds_, tg::rand(shape, {.dtype = tg::f64}), /*right=*/true);
  }

 private:
  Variable bounds_;  // cumulative probabilities
};

/// Two tables: vectors of words that are read, and vectors of words that are predicted. The loss of
/// a true word and of each drawn word is the cross entropy of "is this the word?", summed over the
/// words of an example and averaged over the batch.
struct Word2Vec : nn::Model<Word2Vec> {
  nn::Embedding in, out;
  bool is_cbow;
  int64_t negatives;

  Word2Vec(int64_t words, int64_t hidden, bool is_cbow, int64_t negatives, bool sparse)
      : in({.num_embeddings = words, .embedding_dim = hidden, .sparse = sparse}),
        out({.num_embeddings = words, .embedding_dim = hidden, .sparse = sparse}),
        is_cbow(is_cbow),
        negatives(negatives) {
    for (nn::Embedding* table : {&in, &out}) nn::init::normal_(table->weight, 0.0, 0.01);
  }
  void members(nn::Members& m) override { m("in", in)("out", out); }

  Variable loss(const Variable& contexts, const Variable& targets,
                const UnigramSampler& sampler) const {
    const int64_t batch = targets.size(0);
    const Variable read = is_cbow ? tg::mean(in(contexts), {1}) : in(targets);  // [batch, hidden]
    const Variable true_words = is_cbow ? tg::unsqueeze(targets, 1) : contexts;
    const int64_t positive = true_words.size(1);
    const Variable words = tg::cat({true_words, sampler.draw({batch, positive * negatives})}, 1);
    const Variable scores =
        tg::flatten(tg::matmul(out(words), tg::unsqueeze(read, 2)), 1);  // [batch, words]
    Variable labels = tg::zeros(scores.shape());
    Variable ones = tg::narrow(labels, 1, 0, positive);
    tg::fill_(ones, 1.0);
    return tg::binary_cross_entropy_with_logits(scores, labels,
                                                {.reduction = tg::Reduction::kSum}) /
           double(batch);
  }
};

std::unique_ptr<optim::Optimizer> make_optimizer(const Word2Vec& model, bool sparse) {
  if (sparse) return std::make_unique<optim::SparseAdam>(model, absl::GetFlag(FLAGS_lr));
  return std::make_unique<optim::Adam>(model, absl::GetFlag(FLAGS_lr));
}

Word2Vec make_model(const Corpus& corpus, bool sparse) {
  const std::string model = absl::GetFlag(FLAGS_model);
  if (model != "cbow" && model != "skipgram")
    throw tg::ArgumentError("--model: \"" + model + "\" is not cbow or skipgram");
  tg::manual_seed(absl::GetFlag(FLAGS_seed));
  return Word2Vec(corpus.vocabulary.size(), absl::GetFlag(FLAGS_hidden), model == "cbow",
                  absl::GetFlag(FLAGS_negatives), sparse);
}

/// Each word that has a whole window, with the words around it.
tg::TensorDataset windows_of(const std::vector<int64_t>& ids, int64_t window) {
  const int64_t count = int64_t(ids.size()) - 2 * window;
  if (count < 1)
    throw tg::ArgumentError("the corpus has " + std::to_string(ids.size()) +
                            " words, too few for --window=" + std::to_string(window));
  const Variable text = tg::Variable(tg::Tensor::from<int64_t>(ids, {int64_t(ids.size())}));
  std::vector<Variable> columns;
  for (int64_t at = 0; at <= 2 * window; ++at)
    if (at != window) columns.push_back(tg::narrow(text, 0, at, count));
  return tg::TensorDataset(tg::stack(columns, 1), tg::narrow(text, 0, window, count));
}

/// Returns the printed losses over the steps. The state of the run is saved after every epoch, if
/// there is a file for it.
tg::History train_vectors(Word2Vec& model, optim::Optimizer& optimizer, tg::Loader& batches,
                          const UnigramSampler& sampler, const std::string& file) {
  const int64_t epochs = absl::GetFlag(FLAGS_epochs), every = absl::GetFlag(FLAGS_print_every);
  tg::History history;
  int64_t epoch = 0, steps = 0;
  tg::TrainingState state;
  state("model", model)("optimizer", optimizer)("batches", batches)("history", history);
  state("epoch", epoch)("steps", steps);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));
  const double start = tg::steady_seconds();
  while (epoch < epochs) {
    ++epoch;
    const double epoch_start = tg::steady_seconds();
    int64_t iteration = 0;
    tg::RunningMean mean;
    for (const auto& [contexts, targets] : batches) {
      optimizer.zero_grad();
      const Variable loss = model.loss(contexts, targets, sampler);
      loss.backward();
      optimizer.step();
      mean.add(loss);
      ++steps;
      if (++iteration % every != 0) continue;
      std::cout << "| epoch " << epoch << " |  iter " << iteration << " / " << batches.size()
                << " | time " << int64_t(tg::steady_seconds() - start) << "[s] | loss "
                << std::fixed << std::setprecision(2) << mean.value() << '\n'
                << std::defaultfloat << std::setprecision(6);
      history.epochs.push_back({.epoch = steps, .loss = mean.value()});
      mean = {};
    }
    const double seconds = tg::steady_seconds() - epoch_start;
    std::cout << "epoch " << epoch << " on " << tg::default_device() << ": " << seconds << " s, "
              << seconds * 1e3 / double(batches.size()) << " ms per step\n";
    if (!file.empty()) state.save(file);
  }
  return history;
}

/// Prints the time of a step and the bytes that its gradients and updates read and write: a dense
/// gradient is filled and added to, then gradient, table and two moments are read, and three of
/// them written. For rows, table and moments are also gathered and written back.
void compare(const Corpus& corpus, tg::Loader& batches, const UnigramSampler& sampler) {
  std::cout << "                 ms per step   MB of gradients and updates per step\n";
  for (const bool sparse : {false, true}) {
    const Word2Vec model = make_model(corpus, sparse);
    const auto optimizer = make_optimizer(model, sparse);
    double rows = 0, best = 1e9;
    int64_t steps = 0;
    for (const auto& [contexts, targets] : batches) {
      const double start = tg::steady_seconds();
      optimizer->zero_grad();
      const Variable loss = model.loss(contexts, targets, sampler);
      loss.backward();
      for (const nn::Embedding* table : {&model.in, &model.out}) {
        const tg::RowGradientPtr gradient = tg::row_gradient(table->weight);
        rows += double(gradient ? gradient->rows().shape()[0] : table->weight.size(0));
      }
      optimizer->step();
      loss.item();  // waits for a GPU
      if (steps > 2) best = std::min(best, tg::steady_seconds() - start);
      if (++steps == 100) break;
    }
    const double passes = sparse ? 2 + 7 + 3 * 4 : 2 + 7;
    std::cout << (sparse ? "rows alone " : "dense      ") << std::fixed << std::setprecision(2)
              << std::setw(12) << best * 1e3 << std::setw(16)
              << rows / double(steps) * double(model.in.weight.size(1)) * 4 * passes / 1e6
              << std::defaultfloat << "   (" << int64_t(rows / double(steps)) << " of "
              << 2 * corpus.vocabulary.size() << " rows)\n";
  }
}

/// Returns the words of a question of --analogies. Throws ArgumentError unless there are three.
std::array<std::string, 3> words_of(const std::string& triple) {
  std::istringstream text(triple);
  std::array<std::string, 3> words;
  auto& [a, b, c] = words;
  if (!std::getline(text, a, ':') || !std::getline(text, b, ':') || !std::getline(text, c))
    throw tg::ArgumentError("--analogies: \"" + triple + "\" is not a:b:c");
  return words;
}

/// Throws ArgumentError for a question that ask() cannot answer with the words of the vocabulary.
void check_questions(const Vocabulary& vocabulary) {
  for (const std::string& word : absl::GetFlag(FLAGS_similar)) vocabulary.id(word);
  for (const std::string& triple : absl::GetFlag(FLAGS_analogies))
    for (const std::string& word : words_of(triple)) vocabulary.id(word);
}

void ask(const WordVectors& vectors) {
  for (const std::string& word : absl::GetFlag(FLAGS_similar))
    most_similar(vectors, word, 5, std::cout);
  for (const std::string& triple : absl::GetFlag(FLAGS_analogies)) {
    const auto [a, b, c] = words_of(triple);
    analogy(vectors, a, b, c, 5, std::cout);
  }
}

Corpus read_corpus_of_flags() {
  std::string path = absl::GetFlag(FLAGS_corpus);
  if (path == kDefaultCorpus && !std::filesystem::exists(path)) {
    std::cout << "no " << path << " (examples/word2vec/corpus.sh writes it): reading " << kLicences
              << '\n';
    path = kLicences;
  }
  const int64_t most = absl::GetFlag(FLAGS_max_words);
  Corpus corpus = read_corpus(path, most > 0 ? size_t(most) : SIZE_MAX);
  std::cout << path << ": " << corpus.ids.size() << " words, " << corpus.vocabulary.size()
            << " different\n";
  return corpus;
}

void run() {
  examples::at_least(1, {{"--window", absl::GetFlag(FLAGS_window)},
                         {"--hidden", absl::GetFlag(FLAGS_hidden)},
                         {"--negatives", absl::GetFlag(FLAGS_negatives)},
                         {"--batch_size", absl::GetFlag(FLAGS_batch_size)},
                         {"--print_every", absl::GetFlag(FLAGS_print_every)}});
  examples::at_least(0, {{"--epochs", absl::GetFlag(FLAGS_epochs)},
                         {"--max_words", absl::GetFlag(FLAGS_max_words)}});
  examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string run_file = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  if (const std::string file = absl::GetFlag(FLAGS_load); !file.empty())
    return ask(load_vectors(file));

  const Corpus corpus = read_corpus_of_flags();
  check_questions(corpus.vocabulary);
  const UnigramSampler sampler(corpus);
  tg::DeviceLoader batches(windows_of(corpus.ids, absl::GetFlag(FLAGS_window)),
                           {.batch_size = absl::GetFlag(FLAGS_batch_size),
                            .shuffle = true,
                            .drop_last = true,
                            .seed = absl::GetFlag(FLAGS_seed)});
  if (batches.size() == 0)
    throw tg::ArgumentError("--batch_size: " + std::to_string(absl::GetFlag(FLAGS_batch_size)) +
                            " is more than the windows of the corpus");
  if (absl::GetFlag(FLAGS_compare)) return compare(corpus, batches, sampler);

  Word2Vec model = make_model(corpus, absl::GetFlag(FLAGS_sparse));
  const auto optimizer = make_optimizer(model, absl::GetFlag(FLAGS_sparse));
  const tg::History history = train_vectors(model, *optimizer, batches, sampler, run_file);
  WordVectors vectors{model.in.weight.detach().cpu(), corpus.vocabulary};
  if (!out.empty()) {
    const std::string file = out / "vectors.safetensors";
    save_vectors(file, vectors);
    const WordVectors loaded = load_vectors(file);
    if (loaded.vocabulary.words != vectors.vocabulary.words ||
        tg::any(loaded.matrix != vectors.matrix.to(tg::f16).to(tg::f32)))
      throw tg::Error(file + " does not hold the vectors that were saved");
    vectors = loaded;
    tg::save_line_chart(out / "loss.svg", {history.series("loss", "loss")},
                        {.title = "Negative-sampling loss", .x_label = "iterations"});
    std::cout << "written to " << out.string() << ": vectors.safetensors ("
              << std::filesystem::file_size(file) << " bytes), loss.svg\n";
  }
  ask(vectors);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("word2vec", "Learns word vectors from a text.", argc, argv, run);
}
