#include "ops/lstm_sequence.h"

#include "core/functional.h"
#include "core/op.h"
#include "core/tape.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit Kernel<void(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&)>
    lstm_cell{"lstm_cell"};
constinit Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor&, Tensor&, Tensor&)>
    lstm_cell_backward{"lstm_cell_backward"};

}  // namespace kernels

using namespace detail;

namespace {

/// The order of the steps.
struct Order {
  int64_t steps;
  bool backwards;

  int64_t operator[](int64_t i) const { return backwards ? steps - 1 - i : i; }
};

/// Entry t along the first dimension of a contiguous tensor, or nothing of nothing.
Tensor at(const Tensor& x, int64_t t) {
  if (!x) return {};
  Shape shape;
  for (int i = 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return x.with_layout({shape, contiguous_strides(shape), x.layout().offset + t * x.strides()[0]});
}

/// The same by ops that each have a gradient: what a gradient of the gradient is taken of.
std::vector<Variable> step_by_step(const std::vector<Variable>& inputs, bool backwards) {
  const Variable &from_input = inputs[0], &w_hh = inputs[3];
  Variable h = inputs[1], c = inputs[2];
  const Order order{from_input.size(0), backwards};
  std::vector<Variable> states(size_t(order.steps));
  for (int64_t i = 0; i < order.steps; ++i) {
    const auto gates = chunk(select(from_input, 0, order[i]) + linear(h, w_hh), 4, 1);
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    h = sigmoid(gates[3]) * tanh(c);
    states[size_t(order[i])] = h;
  }
  return {stack(states, 0), c};
}

struct LstmSequence {
  static constexpr std::string_view kName = "lstm";
  bool backwards;
  SavedInput<0> from_input{};  // for gradients of the gradient only
  SavedInput<1> h0{};
  SavedInput<2> c0{};
  SavedInput<3> w_hh{};
  SavedOutput<0> h{};
  SavedOutput<2> c{};
  SavedOutput<3> gates{};
  auto saved() { return std::tie(from_input, h0, c0, w_hh, h, c, gates); }

  static bool is_differentiable(size_t output) { return output < 2; }

  std::vector<Tensor> forward(const Tensor& from_input, const Tensor& h0, const Tensor& c0,
                              const Tensor& w_hh) {
    const Tensor x = from_input.contiguous();
    const int64_t steps = x.shape()[0], batch = x.shape()[1], hidden = w_hh.shape()[1];
    const Order order{steps, backwards};
    Tensor h = x.empty_like({steps, batch, hidden}), c = h.empty_like(h.shape());
    Tensor gates = x.empty_like(x.shape()), product = x.empty_like({batch, 4 * hidden});
    Tensor h_before = h0.contiguous(), c_before = c0.contiguous();
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = order[i];
      Tensor gates_now = at(gates, t), c_now = at(c, t), h_now = at(h, t);
      kernels::linear(h_before, w_hh, Tensor(), /*relu=*/false, product);
      kernels::lstm_cell(at(x, t), product, c_before, gates_now, c_now, h_now);
      h_before = std::move(h_now), c_before = std::move(c_now);
    }
    return {h, c_before.clone(), c, gates};
  }

  std::vector<Variable> backward(std::span<const Variable> dy, Needs needs) const {
    if (is_recording()) return differentiable_backward(dy);
    const Tensor& h = this->h.value();
    const Tensor& c = this->c.value();
    const Tensor& gates = this->gates.value();
    const Tensor& w = w_hh.value();
    const Order order{h.shape()[0], backwards};
    const Tensor first_c = c0.value().contiguous();
    const Tensor dh_each = dy[0].value_or_empty() ? dy[0].value().contiguous() : Tensor();
    Tensor dc = dy[1].value_or_empty() ? dy[1].value().contiguous() : Tensor(), dh;
    Tensor dgates = gates.empty_like(gates.shape());
    for (int64_t i = order.steps - 1; i >= 0; --i) {
      const int64_t t = order[i];
      Tensor dgates_now = at(dgates, t), dc_before = first_c.empty_like(first_c.shape());
      kernels::lstm_cell_backward(at(gates, t), i > 0 ? at(c, order[i - 1]) : first_c, at(c, t),
                                  at(dh_each, t), dh, dc, dgates_now, dc_before);
      dc = std::move(dc_before);
      if (i == 0 && !needs[1]) break;
      dh = first_c.empty_like(first_c.shape());
      kernels::matmul(dgates_now, w, dh);
    }
    std::vector<Variable> dx(4);
    if (needs[0]) dx[0] = Variable(dgates);
    if (needs[1]) dx[1] = Variable(dh);
    if (needs[2]) dx[2] = Variable(dc);
    if (needs[3]) dx[3] = weight_gradient(Variable(dgates), Variable(h), Variable(h0.value()));
    return dx;
  }

  /// dgates^T times the state before each step: all steps but the first in one product.
  Variable weight_gradient(const Variable& dgates, const Variable& h, const Variable& h0) const {
    const int64_t steps = h.size(0), rest = steps - 1;
    const auto product = [](const Variable& a, const Variable& b) { return matmul(t(a), b); };
    const Variable first = product(select(dgates, 0, backwards ? rest : 0), h0);
    if (rest == 0) return first;
    const Variable later = flatten(narrow(dgates, 0, backwards ? 0 : 1, rest), 0, 1);
    const Variable before = flatten(narrow(h, 0, backwards ? 1 : 0, rest), 0, 1);
    return product(later, before) + first;
  }

  std::vector<Variable> differentiable_backward(std::span<const Variable> dy) const {
    const Variable c_last = c0();
    const std::vector<Variable> seeds{dy[0] ? dy[0] : zeros_like(Variable(h.value())),
                                      dy[1] ? dy[1] : zeros_like(c_last)};
    return vjp([&](const std::vector<Variable>& xs) { return step_by_step(xs, backwards); },
               std::vector<Variable>{from_input(), h0(), c_last, w_hh()}, seeds,
               {.create_graph = true})
        .products;
  }
};

}  // namespace

std::vector<Variable> detail::lstm_sequence(const Variable& from_input, const Variable& h0,
                                            const Variable& c0, const Variable& w_hh,
                                            bool backwards, Where where) {
  return apply(LstmSequence{backwards}, where, from_input, h0, c0, w_hh);
}

}  // namespace tapegrad
