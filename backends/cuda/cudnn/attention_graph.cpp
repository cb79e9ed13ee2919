#include "backends/cuda/cudnn/attention_graph.h"

namespace tapegrad::backends::cuda {
namespace {

using Value = Graph::Value;
using Form = Graph::Form;

Form form_of_y(const AttentionProblem& p) {
  return Graph::dense({p.q.sizes[0], p.q.sizes[1], p.q.sizes[2], p.v.sizes[3]}, p.q.type);
}
Form form_of_log_sums(const AttentionProblem& p) {
  return Graph::dense({p.q.sizes[0], p.q.sizes[1], p.q.sizes[2], 1});
}

/// Returns x where a query sees the key, else `hidden`.
Value hide(Graph& g, Value x, Value hidden) {
  const Value query = g.place(x, 2), key = g.place(x, 3);
  return g.select(g.compare(CUDNN_POINTWISE_CMP_GE, query, key), x, hidden);
}

}  // namespace

std::optional<GraphPlan> plan_attention(const AttentionProblem& p, GraphTarget target) {
  Graph g;
  const Value q = g.tensor(p.q), k = g.tensor(Graph::transposed(p.k)), v = g.tensor(p.v);
  const Value y = g.tensor(form_of_y(p)), log_sums = g.tensor(form_of_log_sums(p));
  const Value scale = g.number();

  Value scores = g.map(CUDNN_POINTWISE_MUL, g.matmul(q, k), scale);
  if (p.causal) scores = hide(g, scores, g.number());
  const Value largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Value shares = g.map(CUDNN_POINTWISE_EXP, g.map(CUDNN_POINTWISE_SUB, scores, largest));
  const Value total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, shares);
  g.map(CUDNN_POINTWISE_ADD, largest, g.map(CUDNN_POINTWISE_LOG, total), log_sums);
  const Value weights = g.between(Graph::dense(g.sizes(shares), p.q.type));
  g.map(CUDNN_POINTWISE_DIV, shares, total, weights);
  g.matmul(weights, v, y);
  return g.plan(target);
}

std::optional<GraphPlan> plan_attention_backward(const AttentionProblem& p, GraphTarget target) {
  Graph g;
  const cudnnDataType_t type = p.q.type;
  const Value q = g.tensor(p.q);
  const Value k = g.tensor(Graph::transposed(p.k)), v = g.tensor(Graph::transposed(p.v));
  const Value y = g.tensor(form_of_y(p)), dy = g.tensor(form_of_y(p));
  const Value log_sums = g.tensor(form_of_log_sums(p)), totals = g.tensor(form_of_log_sums(p));
  const Value dq = g.tensor(Graph::dense(p.q.sizes, type));
  const Value dk = g.tensor(Graph::dense(p.k.sizes, type));
  const Value dv = g.tensor(Graph::dense(p.v.sizes, type));
  const Value scale = g.number(), one = g.number();

  const Value products = g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.map(CUDNN_POINTWISE_MUL, dy, y));
  g.map(CUDNN_POINTWISE_MUL, products, one, totals);
  Value scores = g.map(CUDNN_POINTWISE_MUL, g.matmul(q, k), scale);
  scores = g.map(CUDNN_POINTWISE_SUB, scores, log_sums);
  if (p.causal) scores = hide(g, scores, g.number());
  const Value weights = g.map(CUDNN_POINTWISE_EXP, scores);
  g.matmul(g.transpose(weights, type), dy, dv);
  const Value above = g.map(CUDNN_POINTWISE_SUB, g.matmul(dy, v), totals);
  const Value slopes =
      g.map(CUDNN_POINTWISE_MUL, g.map(CUDNN_POINTWISE_MUL, above, weights), scale);
  g.matmul(g.transpose(slopes, type), q, dk);
  g.matmul(slopes, g.transpose(k, type), dq);
  return g.plan(target);
}

}  // namespace tapegrad::backends::cuda
