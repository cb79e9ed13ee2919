// Spellings of PyTorch, NumPy, Keras, scikit-learn and torchmetrics that users type from memory.
// Each expectation is one guess; see guess.h.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "tapegrad.h"
#include "tests/error_message.h"
#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::expect_error;

TEST(FirstGuessNames, AxisAndKeepdims) {
  const Variable x = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  GUESS("[[6],[15]]", sum(x, {.axis = 1, .keepdims = true}));
  GUESS("[[6],[15]]", x.sum({.axis = -1, .keepdims = true}));
  GUESS("3.5", mean(x, {.axis = {0, 1}}));
  GUESS("float64", mean(x, {.axis = 1, .dtype = f64}).dtype());
  GUESS("[4, 10, 18]", prod(x, {.axis = 0}));
  GUESS("[3, 6], [2, 2]", max(x, {.axis = 1}));
  GUESS("[[1],[4]]", amin(x, {.axis = 1, .keepdims = true}));
  GUESS("[1, 1, 1]", argmax(x, {.axis = 0}));
  GUESS("[[1, 1, 1]]", x.argmax({.axis = 0, .keepdims = true}));
  GUESS("[true, true]", any(x > 2, {.axis = 1}));
  GUESS("[false, true]", all(x > 3, {.axis = 1}));
  GUESS("[[2.25, 2.25, 2.25]]", var(x, {.correction = 0, .axis = 0, .keepdims = true}));
  GUESS("[1.5, 1.5, 1.5]", x.std({.correction = 0, .axis = 0}));
  EXPECT_TRUE(logsumexp(x, {.axis = 1}).equal(logsumexp(x, 1)));
  GUESS("[6, 15]", sum(x, 1, f64));
  GUESS("float64", sum(x, 1, f64).dtype());
  GUESS("[2, 5]", mean(x.to(i64), {1}, f32));
  expect_error<ArgumentError>("give .dim = [0] or .axis = [1], not both",
                              [&] { sum(x, {.dim = 0, .axis = 1}); });
  expect_error<ArgumentError>("give .dim = 0 or .axis = 1, not both",
                              [&] { argmax(x, {.dim = 0, .axis = 1}); });
}

TEST(FirstGuessNames, LayersWithPositionsAndNames) {
  const Variable image = ones({1, 3, 8, 8});
  GUESS("[1, 4, 4, 4]", nn::Conv2d(3, 4, 1, 2, {.bias = false})(image).shape());
  GUESS("[1, 4, 4, 8]", nn::Conv2d(3, 4, {1, 1}, {2, 1}, {.bias = false})(image).shape());
  GUESS("[1, 4, 4]", nn::Conv1d(3, 4, 3, 2, {.padding = 1})(ones({1, 3, 8})).shape());
  GUESS("[1, 4, 3, 3, 3]", nn::Conv3d(3, 4, 2, 1, {.bias = false})(ones({1, 3, 4, 4, 4})).shape());
  GUESS("[1, 4, 16, 16]", nn::ConvTranspose2d(3, 4, 4, 2, {.padding = 1})(image).shape());
  GUESS("[1, 3, 5, 5]", nn::FractionalMaxPool2d(2, 5)(image).shape());
  GUESS("[1, 3, 4, 4]", nn::FractionalMaxPool2d(2, {.output_ratio = {0.5, 0.5}})(image).shape());
  GUESS("[1, 3, 4, 5]", fractional_max_pool2d(image, {2, 3}, {.output_size = {4, 5}}).shape());
  const nn::TransformerEncoderLayer layer({.d_model = 8, .nhead = 2, .batch_first = true});
  const nn::TransformerEncoder encoder(layer, {.num_layers = 2});
  GUESS("[3, 2, 8]", nn::TransformerEncoderLayer(8, 2, 32, 0.1, "gelu")(ones({3, 2, 8})).shape());
  EXPECT_EQ(encoder.layers.size(), 2u);
  EXPECT_EQ(
      nn::TransformerDecoder(nn::TransformerDecoderLayer(8, 2), {.num_layers = 3}).layers.size(),
      3u);
  const auto [y, h, c] = nn::LSTM(4, 8, {.batch_first = true, .proj_size = 3})(ones({2, 5, 4}));
  GUESS("[2, 5, 3]", y.shape());
  GUESS("[1, 2, 3]", h.shape());
  GUESS("[1, 2, 8]", c.shape());
  const auto packed = nn::utils::rnn::pack_sequence({ones({3, 2}), ones({1, 2})}, false);
  GUESS("[2, 1, 1]", packed.batch_sizes());
}

TEST(FirstGuessNames, PaddingCountsFromTheEnd) {
  const nn::Embedding words(4, 3, {.padding_idx = -1});
  GUESS("[0, 0, 0]", words.weight[3]);
  EXPECT_NE(words.weight[0].abs().sum().item(), 0);
  GUESS("[0, 0, 0]", nn::Embedding(4, 3, -2).weight[2]);
  sum(words(tensor({0, 3, 3}))).backward();
  GUESS("[[1, 1, 1],[0, 0, 0],[0, 0, 0],[0, 0, 0]]", words.weight.grad());
  const Variable rows = ones({4, 3}).requires_grad_();
  sum(embedding(tensor({0, 3, 3}), rows, -1)).backward();
  GUESS("[[1, 1, 1],[0, 0, 0],[0, 0, 0],[0, 0, 0]]", rows.grad());
  GUESS("[[1, 1, 1],[2, 2, 2]]",
        embedding_bag(tensor({{0, 3}, {1, 2}}), ones({4, 3}), {.mode = "sum", .padding_idx = -1}));
  const auto frozen = nn::Embedding::from_pretrained(ones({4, 3}), {.padding_idx = -1});
  GUESS("[4, 3]", frozen.weight.shape());
  expect_error<IndexError>("padding_idx -5 is not one of 4 rows",
                           [] { nn::Embedding(4, 3, {.padding_idx = -5}); });
  expect_error<IndexError>("names_of_others_test.cpp", [&] { embedding(tensor({0}), rows, 4); });
}

TEST(FirstGuessNames, DataSetsAndSplits) {
  const Variable x = arange(20).to(f32).view({10, 2}), y = arange(10);
  TensorDataset data(x, y);
  EXPECT_EQ((data + data).size(), 20);
  EXPECT_EQ(DataLoader(data, 4, {.drop_last = true}).size(), 2);
  EXPECT_EQ(DataLoader(data, 4, true, {.num_workers = 2, .drop_last = true}).size(), 2);
  auto [x_train, x_test, y_train, y_test] =
      train_test_split(x, y, {.test_size = 0.2, .random_state = 42});
  GUESS("[8, 2]", x_train.shape());
  GUESS("[2, 2]", x_test.shape());
  EXPECT_TRUE(x_train.select(1, 0).equal(2.0 * y_train.to(f32)));
  EXPECT_TRUE(x_test.select(1, 0).equal(2.0 * y_test.to(f32)));
  std::set<int64_t> all;
  for (const Variable& part : {y_train, y_test})
    for (const int64_t i : part.to_vector<int64_t>()) all.insert(i);
  EXPECT_EQ(all.size(), 10u);
  GUESS("[8, 9]", train_test_split(x, y, {.test_size = 2, .shuffle = false})[3]);
  GUESS("[7, 2]", train_test_split(x, y)[0].shape());
  expect_error<ArgumentError>("a test_size of 10 of 10 rows leaves a part empty",
                              [&] { train_test_split(x, y, {.test_size = 10}); });
  for (const auto& [train, test] : KFold(5, {.shuffle = true, .random_state = 42}).split(data)) {
    EXPECT_EQ(train.size(), 8u);
    EXPECT_EQ(test.size(), 2u);
  }
  expect_error<ArgumentError>("WeightedRandomSampler: num_samples is 0, not at least 1", [] {
    WeightedRandomSampler(tensor({0.1, 0.9}), 0);
  });
}

TEST(FirstGuessNames, Training) {
  const Variable x = randn({12, 4}), y = randint(0, 3, {12});
  nn::Linear model(4, 3);
  fit(model, TensorDataset(x, y), optim::Adam(model.parameters(), 1e-3),
      {.epochs = 1, .batch_size = 4, .verbose = 0});
  optim::SGD sgd(model.parameters(), 0.1);
  optim::lr_scheduler::ReduceLROnPlateau plateau(sgd, "max", {.factor = 0.5, .patience = 0});
  plateau.step(1.0);
  plateau.step(0.5);
  EXPECT_EQ(sgd.lr(), 0.05);
  metrics::Precision precision({.num_classes = 3, .average = "macro"});
  metrics::F1 f1({.num_classes = 3, .average = "micro"});
  const Variable scores = one_hot(tensor({0, 1, 2, 0}), 3).to(f32);
  f1.update(scores, tensor({0, 1, 2, 1}));
  precision.update(scores, tensor({0, 1, 2, 1}));
  EXPECT_EQ(f1.compute(), 0.75);
  EXPECT_NEAR(precision.compute(), 2.5 / 3, 1e-12);
  metrics::Accuracy accuracy({.task = "multiclass", .num_classes = 3});
  accuracy.update(scores, tensor({0, 1, 2, 1}));
  EXPECT_EQ(accuracy.compute(), 0.75);
  expect_error<ArgumentError>("Accuracy: .task is \"multilabel\", not multiclass or binary",
                              [] { Accuracy({.task = "multilabel"}); });
  metrics::MeanSquaredError mse;
  metrics::R2Score r2;
  metrics::AUROC auroc;
  mse.update(ones({2}), zeros({2}));
  EXPECT_EQ(mse.compute(), 1);
  expect_error<ArgumentError>("LinearLR: start_factor is 0, not in (0, 1]",
                              [&] { optim::LinearLR(sgd, 0.0, 1.0, 5); });
  expect_error<ArgumentError>("end_factor is 1.5, not in [0, 1]",
                              [&] { optim::LinearLR(sgd, 0.5, 1.5, 5); });
}

TEST(FirstGuessNames, TensorBoardAsACallback) {
  const testing::TempDir dir;
  nn::Linear model(4, 3);
  optim::SGD sgd(model, 0.1);
  TensorBoard board((dir / "a").string());
  fit(model, randn({8, 4}), randint(0, 3, {8}), sgd,
      {.epochs = 1, .verbose = 0, .callbacks = {board, TensorBoard((dir / "b").string())}});
  for (const char* run : {"a", "b"}) {
    uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir / run))
      bytes += entry.file_size();
    EXPECT_GT(bytes, 200u) << run;
  }
}

TEST(FirstGuessNames, ErrorsNameTheLine) {
  expect_error<ArgumentError>("names_of_others_test.cpp", [] { metrics::F1(1); });
  expect_error<ArgumentError>("names_of_others_test.cpp", [] { KFold(10).split(4); });
  const nn::ModuleDict heads({{"a", nn::Linear(2, 2)}, {"b", nn::ReLU()}});
  expect_error<IndexError>("no module is called \"c\"; there are a, b", [&] { heads["c"]; });
  expect_error<IndexError>("names_of_others_test.cpp", [&] { heads.at("c"); });
}

TEST(FirstGuessNames, SparseInitialisation) {
  const Variable w = nn::init::sparse_(empty({10, 6}), 0.25);
  GUESS("[3, 3, 3, 3, 3, 3]", sum(w == 0, 0));  // ceil(0.25 * 10) zeros in each column
  EXPECT_LT(w.abs().max().item(), 0.1);
  expect_error<ArgumentError>("sparsity", [] { nn::init::sparse_(empty({2, 2}), 1.5); });
  expect_error<ShapeError>("sparse_: a matrix, not [3]",
                           [] { nn::init::sparse_(empty({3}), 0.5); });
}

TEST(FirstGuessNames, DistributionsRefuseNaN) {
  expect_error<ArgumentError>("Normal: loc == loc is required",
                              [] { distributions::Normal(NAN, 1.0); });
  expect_error<ArgumentError>("Laplace: loc == loc", [] { distributions::Laplace(NAN, 1.0); });
  expect_error<ArgumentError>("Cauchy: loc == loc", [] { distributions::Cauchy(NAN, 1.0); });
  expect_error<ArgumentError>("Gumbel: loc == loc", [] { distributions::Gumbel(NAN, 1.0); });
  expect_error<ArgumentError>("VonMises: loc == loc", [] { distributions::VonMises(NAN, 1.0); });
  expect_error<ArgumentError>("StudentT: loc == loc",
                              [] { distributions::StudentT(2.0, NAN, 1.0); });
  expect_error<ArgumentError>("names_of_others_test.cpp", [] {
    distributions::Normal(tensor({0.0, NAN}), ones({2}));
  });
}

}  // namespace
}  // namespace tapegrad
