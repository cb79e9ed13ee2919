// Packed sequences and cells, compared with each sequence run alone.
#include "nn/packed_sequence.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "nn/recurrent.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

void expect_near(const Variable& a, const Variable& b, double tolerance = 1e-13) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << i;
}

TEST(PackedSequence, Pads) {
  const std::vector<Variable> sequences = {ones({2, 3}), 2 * ones({4, 3}), 3 * ones({1, 3})};
  const Variable x = pad_sequence(sequences);
  EXPECT_EQ(x.shape(), (Shape{4, 3, 3}));
  EXPECT_EQ(select(select(x, 2, 0), 1, 0).to_vector<float>(), (std::vector<float>{1, 1, 0, 0}));
  const Variable y = pad_sequence(sequences, true, -1);
  EXPECT_EQ(y.shape(), (Shape{3, 4, 3}));
  EXPECT_EQ(select(select(y, 2, 0), 0, 2).to_vector<float>(), (std::vector<float>{3, -1, -1, -1}));
  EXPECT_TRUE(pad_sequence(sequences, {.batch_first = true, .padding_value = -1}).equal(y));
  const auto [padded, lengths] = pad_packed_sequence(pack_sequence(sequences));
  EXPECT_EQ(lengths, (std::vector<int64_t>{2, 4, 1}));
  EXPECT_EQ(padded.shape(), x.shape());
  EXPECT_THROW(pad_sequence({}), ArgumentError);
  EXPECT_THROW(pack_padded_sequence(x, {1, 2}), ArgumentError);
  EXPECT_THROW(pack_padded_sequence(x, {1, 2, 0}), ArgumentError);
  EXPECT_THROW(pack_padded_sequence(x, {1, 2, 5}), ArgumentError);
}

// Values of torch.nn.utils.rnn.pack_padded_sequence(x, [2, 4, 1], enforce_sorted=False).
TEST(PackedSequence, HasPyTorchsDataAndBatchSizes) {
  const Variable x = arange(24, {.dtype = f64}).reshape({4, 3, 2});
  for (const bool batch_first : {false, true}) {
    const PackedSequence packed =
        pack_padded_sequence(batch_first ? transpose(x, 0, 1) : x, {2, 4, 1}, batch_first);
    EXPECT_EQ(packed.batch_sizes().to_vector<int64_t>(), (std::vector<int64_t>{3, 2, 1, 1}));
    expect_near(packed.data(),
                tensor({2.0, 3.0, 0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 6.0, 7.0, 14.0, 15.0, 20.0, 21.0})
                    .reshape({7, 2}));
  }
  EXPECT_THROW(PackedSequence().data(), ArgumentError);
}

TEST(Recurrent, WeightsOfTheFirstLayerHaveNames) {
  const LSTM lstm(2, 3, {.num_layers = 2, .bidirectional = true});
  const auto named = lstm.named_parameters();
  EXPECT_TRUE(lstm.weight_ih_l0().is_same(named["weight_ih_l0"]));
  EXPECT_TRUE(lstm.weight_hh_l0().is_same(named["weight_hh_l0"]));
  EXPECT_TRUE(lstm.bias_ih_l0().is_same(named["bias_ih_l0"]));
  EXPECT_TRUE(lstm.bias_hh_l0().is_same(named["bias_hh_l0"]));
  EXPECT_THROW(GRU(2, 3, {.bias = false}).bias_ih_l0(), ArgumentError);
}

/// Runs a batch of sequences at once and one by one; compares outputs, states and gradients.
template <typename Layer>
void expect_as_alone(Layer layer, bool batch_first) {
  manual_seed(1);
  layer.to(f64);
  const std::vector<int64_t> lengths = {3, 5, 1, 5, 4};
  Variable x = randn(batch_first ? Shape{5, 6, 2} : Shape{6, 5, 2}, {.dtype = f64});
  x.requires_grad_();
  const auto packed = layer(pack_padded_sequence(x, lengths, batch_first));
  const Variable& y = packed.output.padded;
  EXPECT_EQ(y.size(batch_first ? 1 : 0), 5);
  const int batch_dim = batch_first ? 0 : 1, time_dim = batch_first ? 1 : 0;
  Variable total;
  for (int64_t i = 0; i < 5; ++i) {
    const int64_t length = lengths[size_t(i)];
    const Variable alone = narrow(narrow(x, batch_dim, i, 1), time_dim, 0, length);
    const auto expected = layer(alone);
    const Variable mine = narrow(y, batch_dim, i, 1);
    expect_near(narrow(mine, time_dim, 0, length), expected[0]);
    if (length < 5) {
      const Variable rest = narrow(mine, time_dim, length, 5 - length);
      expect_near(rest, 0.0 * rest, 0);
    }
    expect_near(narrow(packed.h, 1, i, 1), expected[1]);
    if constexpr (requires { packed.c; }) expect_near(narrow(packed.c, 1, i, 1), expected[2]);
    const Variable part = sum(expected[0] * expected[0]) + sum(expected[1] * 2.0);
    total = total.defined() ? total + part : part;
  }
  std::vector<Variable> leaves = layer.parameters();
  leaves.push_back(x);
  const auto gradients_of = [&](const Variable& loss) {
    return grad(std::span(&loss, 1), leaves, {}, {.retain_graph = true});
  };
  const auto got = gradients_of(sum(y * y) + sum(packed.h * 2.0)), expected = gradients_of(total);
  for (size_t i = 0; i < leaves.size(); ++i) expect_near(got[i], expected[i], 1e-12);
}

TEST(PackedSequence, RunsAsEachSequenceAlone) {
  expect_as_alone(LSTM(2, 3), false);
  expect_as_alone(GRU(2, 3, 2), false);
  expect_as_alone(RNN({.input_size = 2, .hidden_size = 3, .batch_first = true}), true);
  for (const bool batch_first : {false, true}) {
    const RecurrentOptions options{.input_size = 2,
                                   .hidden_size = 3,
                                   .num_layers = 2,
                                   .batch_first = batch_first,
                                   .bidirectional = true};
    expect_as_alone(LSTM(options), batch_first);
    expect_as_alone(GRU(options), batch_first);
  }
}

TEST(PackedSequence, TakesInitialStates) {
  LSTM lstm(2, 3);
  const Variable x = randn({4, 2, 2}), h = randn({1, 2, 3}), c = randn({1, 2, 3});
  const auto [packed, h1, c1] = lstm(pack_padded_sequence(x, {2, 4}), h, c);
  const auto [y, h2, c2] = lstm(narrow(x, 0, 0, 2), h, c);
  expect_near(narrow(h1, 1, 0, 1), narrow(h2, 1, 0, 1), 1e-6);
  expect_near(narrow(c1, 1, 0, 1), narrow(c2, 1, 0, 1), 1e-6);
}

TEST(PackedSequence, LengthsThatDoNotFit) {
  const Variable x = randn({4, 3, 2});
  LSTM lstm(2, 3);
  GRU gru(2, 3);
  RNN rnn(2, 3);
  for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
           {}, {2}, {2, 3}, {2, 3, 1, 4}, {0, 3, 2}, {0, 0, 0}, {-1, 2, 3}, {5, 3, 1}}) {
    const PackedSequence packed{x, lengths};
    EXPECT_THROW(lstm(packed), ArgumentError);
    EXPECT_THROW(gru(packed), ArgumentError);
    EXPECT_THROW(rnn(packed), ArgumentError);
    EXPECT_THROW(pad_packed_sequence(packed), ArgumentError);
  }
  EXPECT_THROW(lstm(PackedSequence{}), ArgumentError);
  EXPECT_THROW(pack_padded_sequence(x, tensor({2.5, 1.0, 1.0})), DTypeError);
  EXPECT_THROW(pack_padded_sequence(x, ones({1, 3}, i64)), ShapeError);
}

TEST(PackedSequence, StatesThatDoNotFit) {
  const PackedSequence packed = pack_padded_sequence(randn({4, 3, 2}), {2, 4, 1});
  GRU gru(2, 3);
  LSTM lstm(2, 3);
  for (const Shape& shape : {Shape{1, 7, 3}, Shape{1, 1, 3}, Shape{4, 3, 3}, Shape{3, 3}})
    EXPECT_THROW(gru(packed, zeros(shape)), ShapeError);
  EXPECT_THROW(lstm(packed, zeros({1, 3, 3}), zeros({1, 4, 3})), ShapeError);
}

TEST(PackedSequence, PaddingIsZeroBehindTheEnds) {
  const Variable x = arange(1, 13, {.dtype = f32}).reshape({4, 3, 1}).requires_grad_();
  const auto [y, lengths] = pad_packed_sequence(pack_padded_sequence(x, {2, 3, 1}));
  EXPECT_EQ(y.shape(), (Shape{3, 3, 1}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 0, 0, 8, 0}));
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0}));
  const Variable z = full({2, 3, 1}, NAN);
  const auto [first, same] = pad_packed_sequence(pack_padded_sequence(z, {1, 3}, true), true);
  EXPECT_TRUE(std::isnan(first.to_vector<float>()[0]));
  EXPECT_EQ(first.to_vector<float>()[1], 0);
}

template <typename Cell, typename Layer>
void copy_weights(Cell& cell, const Layer& layer) {
  cell.weight_ih = layer.weights[0], cell.weight_hh = layer.weights[1];
  cell.bias_ih = layer.weights[2], cell.bias_hh = layer.weights[3];
}

TEST(RecurrentCell, StepsAsTheLayer) {
  const Variable x = randn({3, 2, 4});
  LSTM lstm(4, 5);
  LSTMCell lstm_cell(4, 5);
  copy_weights(lstm_cell, lstm);
  Variable h, c;
  for (int64_t t = 0; t < 3; ++t) {
    auto [h1, c1] = lstm_cell(select(x, 0, t), h, c);
    h = h1, c = c1;
  }
  const auto [y, h_n, c_n] = lstm(x);
  expect_near(h, select(h_n, 0, 0), 1e-6);
  expect_near(c, select(c_n, 0, 0), 1e-6);

  GRU gru(4, 5);
  GRUCell gru_cell(4, 5);
  copy_weights(gru_cell, gru);
  expect_near(gru_cell(select(x, 0, 1), gru_cell(select(x, 0, 0))), select(gru(x)[0], 0, 1), 1e-6);
  RNN rnn({.input_size = 4, .hidden_size = 5}, Nonlinearity::kRelu);
  RNNCell rnn_cell(4, 5, true, Nonlinearity::kRelu);
  copy_weights(rnn_cell, rnn);
  expect_near(rnn_cell(select(x, 0, 1), rnn_cell(select(x, 0, 0))), select(rnn(x)[0], 0, 1), 1e-6);
  EXPECT_EQ(LSTMCell(4, 5, false).parameters().size(), 2u);
  EXPECT_EQ(rnn_cell.named_parameters()[2].name, "bias_ih");
}

}  // namespace
}  // namespace tapegrad::nn
