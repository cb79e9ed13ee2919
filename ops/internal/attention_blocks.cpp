#include "ops/internal/attention_blocks.h"

#include "core/autograd/derivatives.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(attention) attention{"attention"};
constinit decltype(attention_backward) attention_backward{"attention_backward"};

}  // namespace kernels

using namespace detail;

namespace {

/// Returns the leading dimensions: all except the last `count`.
Shape without_last(const Shape& shape, int count) {
  Shape first;
  for (int i = 0; i + count < shape.rank(); ++i) first.push_back(shape[i]);
  return first;
}

/// Expands the leading dimensions of x, without copying.
Variable of_batch(const Variable& x, Shape batch) {
  batch.push_back(x.size(-2));
  batch.push_back(x.size(-1));
  return x.shape() == batch ? x : expand(x, batch);
}

struct BlockAttention {
  static constexpr std::string_view kName = "scaled_dot_product_attention";
  static constexpr size_t kRequired = 3;  // the mask is optional
  bool causal;
  double scale;
  kernels::ShareDropout dropout;
  SavedInput<0> q{};
  SavedInput<1> k{};
  SavedInput<2> v{};
  SavedInput<3> mask{};
  SavedOutput<0> y{};
  SavedOutput<1> log_sums{};
  auto saved() { return std::tie(q, k, v, mask, y, log_sums); }

  static bool is_differentiable(size_t output) { return output == 0; }

  std::vector<Tensor> forward(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& mask) {
    const Shape rows = without_last(q.shape(), 1);
    Shape of_y = rows;
    of_y.push_back(v.shape()[v.rank() - 1]);
    const DType precise = size_of(q.dtype()) == 2 ? f32 : q.dtype();
    Tensor y = q.empty_like(of_y), log_sums = Tensor::empty(rows, precise, q.device());
    kernels::attention(q, k, v, mask, causal, scale, dropout.p, dropout.state, y, log_sums);
    return {y, log_sums};
  }

  std::vector<Tensor> kernel_backward(std::span<const Tensor> dy, Needs needs) const {
    const auto wanted = [&](int i, const Tensor& x) {
      return needs[i] ? x.empty_like(x.shape()) : Tensor();
    };
    Tensor dq = wanted(0, q.value()), dk = wanted(1, k.value()), dv = wanted(2, v.value());
    kernels::attention_backward(dy[0].contiguous(), q.value(), k.value(), v.value(),
                                mask ? mask.value() : Tensor(), causal, scale, dropout.p,
                                dropout.state, y.value(), log_sums.value(), dq, dk, dv);
    return {dq, dk, dv, Tensor()};
  }

  std::vector<Variable> backward(std::span<const Variable> dy) const {
    const AttentionOptions options{
        .attn_mask = mask ? mask() : Variable(), .dropout_p = dropout.p, .is_causal = causal};
    RandomGenerator generator;
    if (dropout.p > 0) generator.set_state(dropout.state);  // ends the recording of a step
    auto products = vjp(
                        [&](const std::vector<Variable>& xs) -> std::vector<Variable> {
                          return {attention_by_ops(xs[0], xs[1], xs[2], options, scale, generator)};
                        },
                        std::vector<Variable>{q(), k(), v()}, std::vector<Variable>{dy[0]},
                        {.create_graph = true})
                        .products;
    products.emplace_back();
    return products;
  }
};

}  // namespace

Variable detail::attention_in_blocks(const Variable& query, const Variable& key,
                                     const Variable& value, const AttentionOptions& options,
                                     double scale, RandomGenerator& generator, Where where) {
  const Variable& mask = options.attn_mask;
  const bool fits = options.dropout_p >= 0 && options.dropout_p < 1 && query.numel() > 0 &&
                    key.numel() > 0 && value.numel() > 0;
  if (!fits || (mask.defined() && (mask.requires_grad() || mask.device() != query.device())))
    return {};
  constexpr std::string_view kName = BlockAttention::kName;
  const Shape batch = broadcast(
      kName, broadcast(kName, without_last(query.shape(), 2), without_last(key.shape(), 2)),
      without_last(value.shape(), 2));
  const Variable q = of_batch(query, batch), k = of_batch(key, batch), v = of_batch(value, batch);
  Tensor y, log_sums;  // accepts() does not look at results
  if (!kernels::attention.accepts(q.value(), k.value(), v.value(),
                                  mask.defined() ? mask.value() : Tensor(), options.is_causal,
                                  scale, options.dropout_p, RandomState(), y, log_sums))
    return {};
  Shape of_scores = without_last(q.shape(), 1);
  of_scores.push_back(key.size(-2));
  Variable whole;
  if (mask.defined()) {
    if (mask.dtype() != boolean && mask.dtype() != query.dtype()) return {};
    whole = expand(mask, of_scores);  // throws the error for a wrong shape
  }
  kernels::ShareDropout dropout{.p = options.dropout_p};
  if (dropout.p > 0) dropout.state = generator.draw(uint64_t(numel(of_scores)));
  return apply(BlockAttention{options.is_causal, scale, dropout}, where, q, k, v, whole)[0];
}

}  // namespace tapegrad
