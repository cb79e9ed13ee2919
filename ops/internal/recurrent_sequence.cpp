#include "ops/internal/recurrent_sequence.h"

#include "core/autograd/derivatives.h"
#include "core/dispatch/implementations.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/internal/matrix_views.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(lstm_cell) lstm_cell{"lstm_cell"};
constinit decltype(lstm_cell_backward) lstm_cell_backward{"lstm_cell_backward"};
constinit decltype(gru_cell) gru_cell{"gru_cell"};
constinit decltype(gru_cell_backward) gru_cell_backward{"gru_cell_backward"};
constinit decltype(pack_factor) pack_factor{"pack_factor"};
constinit decltype(multiply_by_packed) multiply_by_packed{
    "multiply_by_packed", [](const Tensor& a, const Tensor&, const Tensor&, Tensor& y) {
      return 2 * a.numel() * y.shape()[1];
    }};

}  // namespace kernels

using namespace detail;

namespace {

/// The order of the steps.
struct StepOrder {
  int64_t steps;
  bool backwards;

  int64_t operator[](int64_t i) const { return backwards ? steps - 1 - i : i; }
};

/// Entry t along the first dimension of a contiguous tensor; empty for an empty tensor.
Tensor at(const Tensor& x, int64_t t) {
  if (!x) return {};
  Shape shape;
  for (int i = 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return x.with_layout(contiguous_layout(shape, x.layout().offset + t * x.strides()[0]));
}

constexpr int64_t kFewestSteps = 6;  // that pay for another layout of a factor

/// The factor b [k, n] of products with `rows` rows in each of `steps` steps. Packing a large b
/// once takes as long as one or two products that read it in another layout.
class StepFactor {
 public:
  StepFactor(const Tensor& b, const Tensor& bias, int64_t rows, int64_t steps) : bias_(bias) {
    constexpr int64_t kMostRows = 128, kFewestElements = 1 << 19, kUnit = 64;
    if (steps < kFewestSteps || rows == 0 || rows > kMostRows || b.numel() < kFewestElements ||
        only_fallbacks() || !kernels::pack_factor.has(b.device().type, b.dtype()))
      return;
    const auto rounded = [&](int dim) { return (b.shape()[dim] + kUnit - 1) / kUnit * kUnit; };
    packed_ = b.empty_like({rounded(0), rounded(1)});
    kernels::pack_factor(b, bias_, rows, packed_);
  }

  explicit operator bool() const { return bool(packed_); }
  /// Computes y = a b + bias if the factor is packed; otherwise returns false.
  bool multiply(const Tensor& a, Tensor& y) const {
    if (packed_) kernels::multiply_by_packed(a, packed_, bias_, y);
    return bool(packed_);
  }

 private:
  Tensor bias_, packed_;
};

/// Products of states and w [out, in], whose `batch` rows are those of the states, in each of
/// `steps` steps. The CPU's product packs the rows of a small weight in every step; a copy whose
/// columns are contiguous is not packed. The copy takes as long as packing in a few steps. With
/// many rows packing costs little, and with few rows the product is bounded by memory.
class StepLayer {
 public:
  StepLayer(const Tensor& w, const Tensor& bias, int64_t batch, int64_t steps)
      : factor_(transposed(w), bias, batch, steps), w_(w), bias_(bias) {
    constexpr int64_t kFewestRows = 4, kMostRows = 64, kMostElements = 1 << 20;
    if (w.device() == cpu && w.dtype() == f32 && steps >= kFewestSteps && batch >= kFewestRows &&
        batch <= kMostRows && w.numel() <= kMostElements && !factor_)
      w_ = transposed(transposed(w).contiguous());
  }
  void operator()(const Tensor& states, Tensor& product) const {
    if (!factor_.multiply(states, product)) kernels::linear(states, w_, bias_, {}, product);
  }

 private:
  StepFactor factor_;
  Tensor w_, bias_;
};

/// Returns the gradient of w_hh: transposed gradients of the products times the state before each
/// step. All steps except the first are one product.
Variable weight_gradient(const Variable& dproducts, const Variable& h, const Variable& h0,
                         bool backwards) {
  const int64_t steps = h.size(0), rest = steps - 1;
  const auto product = [](const Variable& a, const Variable& b) { return matmul(t(a), b); };
  const Variable first = product(select(dproducts, 0, backwards ? rest : 0), h0);
  if (rest == 0) return first;
  const Variable later = flatten(narrow(dproducts, 0, backwards ? 0 : 1, rest), 0, 1);
  const Variable before = flatten(narrow(h, 0, backwards ? 1 : 0, rest), 0, 1);
  return product(later, before) + first;
}

// Composed of differentiable ops, for gradients of the gradient.

std::vector<Variable> lstm_by_ops(const std::vector<Variable>& inputs, bool backwards) {
  const Variable &from_input = inputs[0], &w_hh = inputs[3];
  Variable h = inputs[1], c = inputs[2];
  const StepOrder order{from_input.size(0), backwards};
  std::vector<Variable> states(size_t(order.steps));
  for (int64_t i = 0; i < order.steps; ++i) {
    const auto gates = chunk(select(from_input, 0, order[i]) + linear(h, w_hh), 4, 1);
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    h = sigmoid(gates[3]) * tanh(c);
    states[size_t(order[i])] = h;
  }
  return {stack(states, 0), c};
}

/// Composed of differentiable ops, for gradients of the gradient. `inputs` omits the bias if there
/// is none.
std::vector<Variable> gru_by_ops(const std::vector<Variable>& inputs, bool backwards) {
  const Variable &from_input = inputs[0], &w_hh = inputs[2];
  const Variable b_hh = inputs.size() > 3 ? inputs[3] : Variable();
  Variable h = inputs[1];
  const StepOrder order{from_input.size(0), backwards};
  std::vector<Variable> states(size_t(order.steps));
  for (int64_t i = 0; i < order.steps; ++i) {
    const auto x = chunk(select(from_input, 0, order[i]), 3, 1);
    const auto product = chunk(linear(h, w_hh, b_hh), 3, 1);
    const Variable r = sigmoid(x[0] + product[0]), z = sigmoid(x[1] + product[1]);
    const Variable n = tanh(x[2] + r * product[2]);
    h = n + z * (h - n);
    states[size_t(order[i])] = h;
  }
  return {stack(states, 0)};
}

struct LstmSequence {
  static constexpr std::string_view kName = "lstm";
  bool backwards;
  SavedInput<0> from_input{};  // only for gradients of the gradient
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
    const StepOrder order{steps, backwards};
    Tensor h = x.empty_like({steps, batch, hidden}), c = h.empty_like(h.shape());
    Tensor gates = x.empty_like(x.shape()), product = x.empty_like({batch, 4 * hidden});
    Tensor h_before = h0.contiguous(), c_before = c0.contiguous();
    const StepLayer multiply(w_hh, {}, batch, steps);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = order[i];
      Tensor gates_now = at(gates, t), c_now = at(c, t), h_now = at(h, t);
      multiply(h_before, product);
      kernels::lstm_cell(at(x, t), product, c_before, gates_now, c_now, h_now);
      h_before = std::move(h_now), c_before = std::move(c_now);
    }
    return {h, c_before.clone(), c, gates};
  }

  std::vector<Tensor> kernel_backward(std::span<const Tensor> dy, Needs needs) const {
    const Tensor& h = this->h.value();
    const Tensor& c = this->c.value();
    const Tensor& gates = this->gates.value();
    const Tensor& w = w_hh.value();
    const StepOrder order{h.shape()[0], backwards};
    const Tensor first_c = c0.value().contiguous(), dh_each = contiguous_or_empty(dy[0]);
    Tensor dc = contiguous_or_empty(dy[1]), dh;
    Tensor dgates = gates.empty_like(gates.shape());
    const StepFactor factor(w, {}, first_c.shape()[0], order.steps);
    for (int64_t i = order.steps - 1; i >= 0; --i) {
      const int64_t t = order[i];
      Tensor dgates_now = at(dgates, t), dc_before = first_c.empty_like(first_c.shape());
      kernels::lstm_cell_backward(at(gates, t), i > 0 ? at(c, order[i - 1]) : first_c, at(c, t),
                                  at(dh_each, t), dh, dc, dgates_now, dc_before);
      dc = std::move(dc_before);
      if (i == 0 && !needs[1]) break;
      dh = first_c.empty_like(first_c.shape());
      if (!factor.multiply(dgates_now, dh)) kernels::matmul(dgates_now, w, dh);
    }
    std::vector<Tensor> dx(4);
    if (needs[0]) dx[0] = dgates;
    if (needs[1]) dx[1] = dh;
    if (needs[2]) dx[2] = dc;
    if (needs[3])
      dx[3] =
          weight_gradient(Variable(dgates), Variable(h), Variable(h0.value()), backwards).value();
    return dx;
  }

  std::vector<Variable> backward(std::span<const Variable> dy) const {
    const Variable c_last = c0();
    const std::vector<Variable> seeds{dy[0].defined() ? dy[0] : zeros_like(Variable(h.value())),
                                      dy[1].defined() ? dy[1] : zeros_like(c_last)};
    return vjp([&](const std::vector<Variable>& xs) { return lstm_by_ops(xs, backwards); },
               std::vector<Variable>{from_input(), h0(), c_last, w_hh()}, seeds,
               {.create_graph = true})
        .products;
  }
};

struct GruSequence {
  static constexpr std::string_view kName = "gru";
  static constexpr size_t kRequired = 3;  // the bias is optional
  bool backwards;
  SavedInput<0> from_input{};  // this and the bias: only for gradients of the gradient
  SavedInput<1> h0{};
  SavedInput<2> w_hh{};
  SavedInput<3> b_hh{};
  SavedOutput<0> h{};
  SavedOutput<1> gates{};
  auto saved() { return std::tie(from_input, h0, w_hh, b_hh, h, gates); }

  static bool is_differentiable(size_t output) { return output == 0; }

  std::vector<Tensor> forward(const Tensor& from_input, const Tensor& h0, const Tensor& w_hh,
                              const Tensor& b_hh) {
    const Tensor x = from_input.contiguous(), bias = b_hh ? b_hh.contiguous() : b_hh;
    const int64_t steps = x.shape()[0], batch = x.shape()[1], hidden = w_hh.shape()[1];
    const StepOrder order{steps, backwards};
    Tensor h = x.empty_like({steps, batch, hidden});
    Tensor gates = x.empty_like({steps, batch, 4 * hidden});
    Tensor product = x.empty_like({batch, 3 * hidden}), h_before = h0.contiguous();
    const StepLayer multiply(w_hh, bias, batch, steps);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = order[i];
      Tensor gates_now = at(gates, t), h_now = at(h, t);
      multiply(h_before, product);
      kernels::gru_cell(at(x, t), product, h_before, gates_now, h_now);
      h_before = std::move(h_now);
    }
    return {h, gates};
  }

  /// r scales the product inside n, so the gradients of the input's contribution and of the product
  /// differ.
  std::vector<Tensor> kernel_backward(std::span<const Tensor> dy, Needs needs) const {
    const Tensor& h = this->h.value();
    const Tensor& gates = this->gates.value();
    const Tensor& w = w_hh.value();
    const StepOrder order{h.shape()[0], backwards};
    const Tensor first_h = h0.value().contiguous(), dh_each = contiguous_or_empty(dy[0]);
    Tensor dx = gates.empty_like({order.steps, h.shape()[1], w.shape()[0]});
    Tensor dproducts = dx.empty_like(dx.shape()), dh, direct;
    const StepFactor factor(w, {}, first_h.shape()[0], order.steps);
    for (int64_t i = order.steps - 1; i >= 0; --i) {
      const int64_t t = order[i];
      Tensor dx_now = at(dx, t), dproduct = at(dproducts, t);
      Tensor direct_before = first_h.empty_like(first_h.shape());
      kernels::gru_cell_backward(at(gates, t), i > 0 ? at(h, order[i - 1]) : first_h,
                                 at(dh_each, t), dh, direct, dx_now, dproduct, direct_before);
      direct = std::move(direct_before);
      if (i == 0 && !needs[1]) break;
      dh = first_h.empty_like(first_h.shape());
      if (!factor.multiply(dproduct, dh)) kernels::matmul(dproduct, w, dh);
    }
    std::vector<Tensor> results(4);
    if (needs[0]) results[0] = dx;
    if (needs[1]) results[1] = (Variable(dh) + Variable(direct)).value();
    const Variable each(dproducts);
    if (needs[2])
      results[2] = weight_gradient(each, Variable(h), Variable(h0.value()), backwards).value();
    if (needs[3]) results[3] = sum(each, {0, 1}).value();
    return results;
  }

  std::vector<Variable> backward(std::span<const Variable> dy) const {
    std::vector<Variable> inputs{from_input(), h0(), w_hh()};
    if (b_hh) inputs.push_back(b_hh());
    const std::vector<Variable> seeds{dy[0].defined() ? dy[0] : zeros_like(Variable(h.value()))};
    auto results = vjp([&](const std::vector<Variable>& xs) { return gru_by_ops(xs, backwards); },
                       inputs, seeds, {.create_graph = true})
                       .products;
    results.resize(4);
    return results;
  }
};

}  // namespace

std::vector<Variable> detail::lstm_sequence(const Variable& from_input, const Variable& h0,
                                            const Variable& c0, const Variable& w_hh,
                                            bool backwards, Where where) {
  return apply(LstmSequence{backwards}, where, from_input, h0, c0, w_hh);
}

Variable detail::gru_sequence(const Variable& from_input, const Variable& h0, const Variable& w_hh,
                              const Variable& b_hh, bool backwards, Where where) {
  return apply(GruSequence{backwards}, where, from_input, h0, w_hh, b_hh)[0];
}

}  // namespace tapegrad
