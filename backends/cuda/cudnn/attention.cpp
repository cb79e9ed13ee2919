#include "backends/cuda/cudnn/attention.h"

#include <limits>

#include "backends/cuda/cudnn/attention_graph.h"

namespace tapegrad::backends::cuda {
namespace {

/// Tile size of queries and keys in cuDNN. If a tile extends beyond the last key, versions up to
/// 9.26 return NaN gradients for large negative scores (pytorch/pytorch issue 196678,
/// NVIDIA/cudnn-frontend issues 160 and 1072).
constexpr int64_t kTile = 128;
/// cudnn-frontend rejects 9.10 because of its bugs.
constexpr size_t kOldest = 91100;

/// Returns the form of x; nullopt if cuDNN does not support it: more than four dimensions, columns
/// that are not contiguous or not a multiple of eight, or rows that are not aligned to 16 bytes.
std::optional<Graph::Form> form_of(const Tensor& x) {
  const int rank = x.rank();
  if (rank > 4 || x.shape()[rank - 1] % 8 != 0 || x.strides()[rank - 1] != 1 ||
      !is_fit_for_cudnn(x))
    return {};
  Graph::Form form = Graph::dense({1, 1, 1, 1}, cudnn_type(x.dtype()));
  for (int d = 3, own = rank - 1; d >= 0; --d, --own) {
    const int64_t size = own < 0 ? 1 : x.shape()[own];
    const int64_t dense = d == 3 ? 1 : form.steps[d + 1] * form.sizes[d + 1];
    form.sizes[d] = size;
    form.steps[d] = size == 1 ? dense : x.strides()[own];
    if (d < 3 && (form.steps[d] <= 0 || form.steps[d] % 8 != 0)) return {};
  }
  return form;
}

std::optional<AttentionProblem> problem_of(const Tensor& q, const Tensor& k, const Tensor& v,
                                           bool causal) {
  if (!is_cudnn_wanted() || size_of(q.dtype()) != 2) return {};
  const auto a = form_of(q), b = form_of(k), c = form_of(v);
  if (!a || !b || !c) return {};
  const int64_t queries = a->sizes[2], keys = b->sizes[2];
  if (queries % kTile != 0 || keys % kTile != 0) return {};
  if (a->sizes[0] * a->sizes[1] * queries * keys < kFewestScores) return {};
  return AttentionProblem{*a, *b, *c, causal};
}

const GraphPlan* plan_for(const AttentionProblem& p, bool backward, const CudnnUse& use) {
  GraphKey key(backward ? GraphKind::kAttentionBackward : GraphKind::kAttention);
  key.add(p.q).add(p.k).add(p.v).add(p.causal);
  return plan_of(use, key, [&](GraphTarget target) -> std::optional<GraphPlan> {
    if (dnn().cudnnGetVersion() < kOldest) return {};
    return backward ? plan_attention_backward(p, target) : plan_attention(p, target);
  });
}

constexpr float kHidden = -std::numeric_limits<float>::infinity();

}  // namespace

bool cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                     Tensor& y, Tensor& log_sums) {
  const auto problem = problem_of(q, k, v, causal);
  if (!problem) return false;
  const CudnnUse use(q.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/false, use);
  if (plan == nullptr) return false;
  const float factor = float(scale);
  std::vector<const void*> addresses{address_of(q), address_of(k),        address_of(v),
                                     address_of(y), address_of(log_sums), &factor};
  if (causal) addresses.push_back(&kHidden);
  return plan->run(use, addresses);
}

bool cudnn_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              bool causal, double scale, const Tensor& y, const Tensor& log_sums,
                              Tensor& dq, Tensor& dk, Tensor& dv) {
  const auto problem = problem_of(q, k, v, causal);
  if (!problem || !is_fit_for_cudnn(dy)) return false;
  const CudnnUse use(q.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/true, use);
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
  return plan->run(use, addresses);
}

}  // namespace tapegrad::backends::cuda
