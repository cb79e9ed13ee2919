// Rows for recurrent cells, packed sequences, stacks of layers, and distributions.
#include "nn/distributions/distributions.h"
#include "nn/linear.h"
#include "nn/packed_sequence.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/transformer.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "tests/hostile/kit.h"

namespace tapegrad::testing {
namespace {

void differentiate(const Variable& y) {
  if (y.defined() && y.requires_grad()) sum(y).backward({.retain_graph = true});
}

void add_recurrent_rows(Table& table) {
  table.add(
      "LSTMCell::LSTMCell LSTMCell::forward GRUCell::GRUCell GRUCell::forward "
      "RNNCell::RNNCell RNNCell::forward RecurrentCell::members RecurrentCell::options",
      [](const Variable& x, const Variable& h, int64_t in, int64_t hidden) {
        nn::GRUCell gru(in, hidden);
        nn::RNNCell rnn(in, hidden);
        nn::LSTMCell lstm(in, hidden);
        gru.options();
        differentiate(gru(x)), differentiate(rnn(x)), lstm(x);
        differentiate(gru(x, h)), differentiate(rnn(x, h)), lstm(x, h, h);
      });
  table.add("pad_sequence pack_sequence", [](const Variables& xs, double value) {
    differentiate(nn::pad_sequence(xs, true, value));
    nn::pad_packed_sequence(nn::pack_sequence(xs));
  });
  table.add("unpad_sequence",
            [](const Variable& x, const std::vector<int64_t>& lengths, bool batch_first) {
              nn::unpad_sequence(x, lengths, batch_first);
            });
  table.add(
      "pack_padded_sequence pad_packed_sequence run_packed PackedSequence::data "
      "PackedSequence::batch_sizes",
      [](const Sequence& x, const std::vector<int64_t>& lengths, const Sequence& h) {
        const nn::PackedSequence free{x, lengths, true};
        attempt([&] { differentiate(free.data()); }, [&] { free.batch_sizes(); });
        const nn::PackedSequence packed = nn::pack_padded_sequence(x, lengths, true);
        nn::pad_packed_sequence(packed);
        nn::LSTM({.input_size = 4, .hidden_size = 4}).forward(packed);
        nn::GRU({.input_size = 4, .hidden_size = 4}).forward(packed, h);
      });
  table.add(
      "TransformerEncoder::TransformerEncoder TransformerEncoder::forward "
      "TransformerEncoder::members",
      [](const Sequence& x, const Variable& mask, int64_t layers) {
        const nn::TransformerEncoder encoder(
            nn::TransformerEncoderLayer({.d_model = 4, .nhead = 2, .dim_feedforward = 4}), layers);
        differentiate(encoder(x));
        encoder.forward(x, {.attn_mask = mask});
      });
}

void add_module_rows(Table& table) {
  table.add(
      "Module::apply Module::buffers Module::bytes Module::named_modules Model::bytes "
      "Model::cuda LoadReport::is_complete AnyModule::bool",
      [](int index) {
        nn::Sequential net({nn::Linear({.in_features = 3, .out_features = 2})});
        net.buffers(), net.named_modules(), net.bytes();
        net.load_state_dict(net.state_dict()).is_complete();
        net.apply([](nn::Module&) {});
        net.cuda(index);
      });
  table.add("Module::apply", [](bool on) {
    nn::Sequential net({nn::Linear({.in_features = 3, .out_features = 2})});
    if (on) net.apply({});
  });
  table.leave_out("for models, or does not compile",
                  "MemberVisitor::copies Parameter::Parameter ModuleCall::check_modules "
                  "ModuleCall::check_parameters ModuleCall::is_first ModuleCall::variable_of "
                  "to_shape");
}

void use(const distributions::Distribution& p, const Variable& value, const Shape& shape) {
  p.mean(), p.variance();
  differentiate(p.entropy());
  differentiate(p.log_prob(value));
  p.sample(shape);
  differentiate(p.rsample(shape));
}

void add_distribution_rows(Table& table) {
  using namespace distributions;
  table.add(
      "Normal::Normal Normal::entropy Normal::mean Normal::variance "
      "Distribution::Distribution Distribution::entropy Distribution::log_prob "
      "Distribution::mean Distribution::rsample Distribution::sample Distribution::variance "
      "kl_divergence",
      [](const Variable& a, const Variable& b, const Variable& value, const Shape& shape) {
        use(Normal(a, b), value, shape);
        differentiate(kl_divergence(Normal(a, b), Normal(b, a)));
      });
  table.add("Uniform::Uniform Uniform::entropy Uniform::mean Uniform::variance",
            [](const Variable& a, const Variable& b, const Variable& value, const Shape& shape) {
              use(Uniform(a, b), value, shape);
              differentiate(kl_divergence(Uniform(a, b), Uniform(b, a)));
            });
  table.add("Beta::Beta Beta::entropy Beta::mean Beta::variance",
            [](const Variable& a, const Variable& b, const Variable& value, const Shape& shape) {
              use(Beta(a, b), value, shape);
              differentiate(kl_divergence(Beta(a, b), Beta(b, a)));
            });
  table.add("Bernoulli::Bernoulli Bernoulli::entropy Bernoulli::mean Bernoulli::variance",
            [](const Variable& p, const Variable& value, const Shape& shape) {
              use(Bernoulli(Odds{.logits = p}), value, shape);
              use(Bernoulli(p), value, shape);
            });
  table.add("Categorical::Categorical Categorical::entropy Categorical::mean Categorical::variance",
            [](const Variable& p, const Labels& value, const Shape& shape) {
              use(Categorical(Odds{.logits = p}), value, shape);
              use(Categorical(p), value, shape);
            });
  table.add("Multinomial::Multinomial Multinomial::entropy Multinomial::mean Multinomial::variance",
            [](const Variable& p, const Variable& value, const Shape& shape, int64_t count) {
              if (count < 0 || count > 100) {
                Multinomial(count, p).log_prob(value);
                return;
              }
              use(Multinomial(count, p), value, shape);
            });
  table.add("Dirichlet::Dirichlet Dirichlet::entropy Dirichlet::mean Dirichlet::variance",
            [](const Variable& p, const Variable& value, const Shape& shape) {
              use(Dirichlet(p), value, shape);
            });
  table.add(
      "Parameter::Parameter Parameter::is_number Parameter::defined Parameter::as_variable "
      "Parameter::where OptionalParameter::OptionalParameter",
      [](double a, double b, const Variable& x) {
        attempt([&] { Normal(x, a).log_prob(b); }, [&] { Uniform(a, x).cdf(b); },
                [&] { LogNormal(a, x).icdf(b); }, [&] { NegativeBinomial(a, x).log_prob(b); });
        use(Normal(a, b), ones({2}), {2});
        use(Uniform(a, b), ones({2}), {2});
        use(Beta(a, b), ones({2}), {2});
        use(Bernoulli({.probs = a}), ones({2}), {2});
      });
}

}  // namespace

void add_sequence_rows(Table& table) {
  add_recurrent_rows(table);
  add_module_rows(table);
  add_distribution_rows(table);
}

}  // namespace tapegrad::testing
