#include "nn/recurrent.h"

#include <cmath>
#include <sstream>

#include "nn/weighted.h"
#include "ops/create.h"

namespace tapegrad::nn {

template <typename Self>
Recurrent<Self>::Recurrent(RecurrentOptions options, int64_t gates) : options_(options) {
  require_option(Self::kName, ".input_size", options.input_size);
  require_option(Self::kName, ".hidden_size", options.hidden_size);
  require_option(Self::kName, ".num_layers", options.num_layers);
  const int64_t hidden = options.hidden_size, directions = options.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(double(hidden));
  const auto add = [&](const Shape& shape) {
    Variable weight = empty(shape);
    weights.push_back(init::uniform_(weight, -bound, bound).requires_grad_());
  };
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      add({gates * hidden, layer == 0 ? options.input_size : hidden * directions});
      add({gates * hidden, hidden});
      for (int i = 0; options.bias && i < 2; ++i) add({gates * hidden});
    }
}

template <typename Self>
void Recurrent<Self>::members(Members& m) {
  const char* const kinds[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  const size_t per_cell = options_.bias ? 4 : 2, directions = options_.bidirectional ? 2 : 1;
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t cell = i / per_cell;
    m(std::string(kinds[i % per_cell]) + "_l" + std::to_string(cell / directions) +
          (cell % directions == 1 ? "_reverse" : ""),
      weights[i]);
  }
}

template <typename Self>
std::string Recurrent<Self>::options() const {
  std::ostringstream text;
  text << "input_size=" << options_.input_size << ", hidden_size=" << options_.hidden_size;
  if (options_.num_layers != 1) text << ", num_layers=" << options_.num_layers;
  if (!options_.bias) text << ", bias=false";
  if (options_.batch_first) text << ", batch_first=true";
  if (options_.dropout != 0) text << ", dropout=" << options_.dropout;
  if (options_.bidirectional) text << ", bidirectional=true";
  return text.str();
}

template <typename Self>
tapegrad::RecurrentOptions Recurrent<Self>::run_options() const {
  return {.num_layers = options_.num_layers,
          .bidirectional = options_.bidirectional,
          .batch_first = options_.batch_first,
          .dropout = options_.dropout,
          .training = this->is_training()};
}

template class Recurrent<LSTM>;
template class Recurrent<GRU>;
template class Recurrent<RNN>;

LSTM::LSTM(RecurrentOptions options) : Recurrent(options, 4) {}
GRU::GRU(RecurrentOptions options) : Recurrent(options, 3) {}
RNN::RNN(RecurrentOptions options, Nonlinearity nonlinearity)
    : Recurrent(options, 1), nonlinearity_(nonlinearity) {}

}  // namespace tapegrad::nn
