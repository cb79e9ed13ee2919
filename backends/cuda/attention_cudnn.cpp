// The graphs are those that cuDNN recognises: attention written as products, a softmax by its parts
// and a comparison of places, with the operations in this order. (What it recognises is told by
// NVIDIA's cudnn-frontend, which composes the same.)
#include "backends/cuda/attention_cudnn.h"

#include <map>

#include "backends/cuda/api.h"
#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/stream.h"

namespace tapegrad::backends::cuda {
namespace {

using Value = Graph::Value;
using Form = Graph::Form;

/// How q, k and v lie: [examples, heads, length, columns]. What else there is lies densely.
struct Problem {
  Form q, k, v;
  bool causal;

  Graph::Sizes of_y() const { return {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]}; }
  Form y() const { return Graph::dense(of_y(), q.type); }
  Form log_sums() const { return Graph::dense({q.sizes[0], q.sizes[1], q.sizes[2], 1}); }

  /// What a plan depends on.
  std::vector<int64_t> key(bool backward) const {
    std::vector<int64_t> key{backward, causal, q.type};
    for (const Form* each : {&q, &k, &v}) {
      key.insert(key.end(), each->sizes.begin(), each->sizes.end());
      key.insert(key.end(), each->steps.begin(), each->steps.end());
    }
    return key;
  }
};

/// x where a query sees the key, else what is `hidden`.
Value hide(Graph& g, Value x, Value hidden) {
  const Value query = g.place(x, 2), key = g.place(x, 3);
  return g.select(g.compare(CUDNN_POINTWISE_CMP_GE, query, key), x, hidden);
}

std::optional<GraphPlan> plan_forward(const Problem& p, GraphTarget target) {
  Graph g;
  const Value q = g.tensor(p.q), k = g.tensor(Graph::transposed(p.k)), v = g.tensor(p.v);
  const Value y = g.tensor(p.y()), log_sums = g.tensor(p.log_sums());
  const Value scale = g.number();
  Value scores = g.map(CUDNN_POINTWISE_MUL, g.matmul(q, k), scale);
  const Graph::Sizes sizes{p.q.sizes[0], p.q.sizes[1], p.q.sizes[2], p.k.sizes[2]};
  if (p.causal) scores = hide(g, scores, g.number());
  const Value largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores);
  const Value shares = g.map(CUDNN_POINTWISE_EXP, g.map(CUDNN_POINTWISE_SUB, scores, largest));
  const Value total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, shares);
  g.map(CUDNN_POINTWISE_ADD, largest, g.map(CUDNN_POINTWISE_LOG, total), log_sums);
  const Value weights = g.between(Graph::dense(sizes, p.q.type));
  g.map(CUDNN_POINTWISE_DIV, shares, total, weights);
  g.matmul(weights, v, y);
  return g.plan(target);
}

/// The formulas of attention_backward.cu.
std::optional<GraphPlan> plan_backward(const Problem& p, GraphTarget target) {
  Graph g;
  const cudnnDataType_t type = p.q.type;
  const Value q = g.tensor(p.q), k = g.tensor(Graph::transposed(p.k));
  const Value v = g.tensor(Graph::transposed(p.v)), y = g.tensor(p.y()), dy = g.tensor(p.y());
  const Value log_sums = g.tensor(p.log_sums()), totals = g.tensor(p.log_sums());
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

/// None where cuDNN does not read it: with more dimensions than four, columns that do not lie side
/// by side or are no multiple of eight, or rows that do not begin at multiples of 16 bytes.
std::optional<Form> form_of(const Tensor& x) {
  const int rank = x.rank();
  if (rank > 4 || x.shape()[rank - 1] % 8 != 0 || x.strides()[rank - 1] != 1 ||
      !is_fit_for_cudnn(x))
    return {};
  Form form = Graph::dense({1, 1, 1, 1}, cudnn_type(x.dtype()));
  for (int d = 3, own = rank - 1; d >= 0; --d, --own) {
    const int64_t size = own < 0 ? 1 : x.shape()[own];
    const int64_t dense = d == 3 ? 1 : form.steps[d + 1] * form.sizes[d + 1];
    form.sizes[d] = size;
    form.steps[d] = size == 1 ? dense : x.strides()[own];
    if (d < 3 && (form.steps[d] <= 0 || form.steps[d] % 8 != 0)) return {};
  }
  return form;
}

std::optional<Problem> problem_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  if (!is_cudnn_wanted() || size_of(q.dtype()) != 2) return {};
  const auto a = form_of(q), b = form_of(k), c = form_of(v);
  if (!a || !b || !c) return {};
  if (a->sizes[0] * a->sizes[1] * a->sizes[2] * b->sizes[2] < kFewestScores) return {};
  return Problem{*a, *b, *c, causal};
}

/// Null where there is none. While cuDNN is in use.
const GraphPlan* plan_for(const Problem& p, bool backward, cudnnHandle_t handle,
                          tapegrad::Device device) {
  using Plans = std::map<std::vector<int64_t>, std::optional<GraphPlan>>;
  static auto* all = new Plans[kMaxDevices];  // never destroyed
  Plans& plans = all[device.index];
  const std::vector<int64_t> key = p.key(backward);
  auto known = plans.find(key);
  if (known == plans.end()) {
    if (plans.size() >= 2 * kMostAttentions) return nullptr;
    stop_recording("cuDNN makes kernels for new sizes");
    const GraphTarget target{.handle = handle};
    known = plans.emplace(key, backward ? plan_backward(p, target) : plan_forward(p, target)).first;
  }
  return known->second ? &*known->second : nullptr;
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

}  // namespace

bool cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                     Tensor& y, Tensor& log_sums) {
  const auto problem = problem_of(q, k, v, causal);
  if (!problem) return false;
  const CudnnUse use(q.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/false, use.handle(), q.device());
  if (plan == nullptr) return false;
  const float factor = float(scale);
  std::vector<const void*> addresses{address_of(q), address_of(k),        address_of(v),
                                     address_of(y), address_of(log_sums), &factor};
  if (causal) addresses.push_back(&kHidden);
  return plan->run(use.handle(), addresses, q.device());
}

bool cudnn_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              bool causal, double scale, const Tensor& y, const Tensor& log_sums,
                              Tensor& dq, Tensor& dk, Tensor& dv) {
  const auto problem = problem_of(q, k, v, causal);
  if (!problem || !is_fit_for_cudnn(dy)) return false;
  const CudnnUse use(q.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/true, use.handle(), q.device());
  if (plan == nullptr) return false;
  const auto or_scratch = [](const Tensor& wanted, const Tensor& like) {
    return wanted ? wanted : like.empty_like(like.shape());
  };
  const Tensor all_dq = or_scratch(dq, q), all_dk = or_scratch(dk, k), all_dv = or_scratch(dv, v);
  const Tensor totals = log_sums.empty_like(log_sums.shape());
  const float factor = float(scale), one = 1;
  std::vector<const void*> addresses{address_of(q),
                                     address_of(k),
                                     address_of(v),
                                     address_of(y),
                                     address_of(dy),
                                     address_of(log_sums),
                                     address_of(totals),
                                     address_of(all_dq),
                                     address_of(all_dk),
                                     address_of(all_dv),
                                     &factor,
                                     &one};
  if (causal) addresses.push_back(&kHidden);
  return plan->run(use.handle(), addresses, q.device());
}

}  // namespace tapegrad::backends::cuda
