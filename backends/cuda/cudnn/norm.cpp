#include "backends/cuda/cudnn/norm.h"

#include "backends/cuda/cudnn/image_graphs.h"

namespace tapegrad::backends::cuda {
namespace {

bool are_fit(std::initializer_list<const Tensor*> all) {
  for (const Tensor* x : all)
    if (*x && !is_fit_for_cudnn(*x)) return false;
  return true;
}

std::optional<BatchNormProblem> problem_of(const Tensor& x) {
  const Shape& s = x.shape();
  if (!is_cudnn_wanted() || size_of(x.dtype()) != 2 || x.numel() < kFewestNormalized ||
      s[2] % 8 != 0)
    return {};
  return BatchNormProblem{Graph::channels_last({s[0], s[2], s[1], 1}, cudnn_type(x.dtype()))};
}

const GraphPlan* plan_for(const BatchNormProblem& p, bool backward, const CudnnUse& use) {
  GraphKey key(backward ? GraphKind::kBatchNormBackward : GraphKind::kBatchNorm);
  return plan_of(use, key.add(p.x), [&](GraphTarget target) {
    return backward ? plan_batch_norm_backward(p, target) : plan_batch_norm(p, target);
  });
}

Tensor all_of(double value, const Tensor& like) {
  return Tensor::full(like.shape(), value, like.dtype(), like.device());
}

}  // namespace

bool cudnn_batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                      Tensor& y, Tensor& mean, Tensor& var, Tensor& invstd) {
  const auto problem = problem_of(x);
  if (!problem || !are_fit({&x, &y, &weight, &bias})) return false;
  const CudnnUse use(x.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/false, use);
  if (plan == nullptr) return false;
  // The population variance is obtained as a running variance: it starts at zero and is updated
  // with the unbiased variance by this momentum. Computing it as 1 / invstd^2 - eps would lose it
  // where it is smaller than eps.
  const double count = double(x.numel() / mean.numel());
  const float margin = float(eps), momentum = float((count - 1) / count);
  const Tensor zeros = all_of(0, mean), next_mean = mean.empty_like(mean.shape());
  const Tensor scale = weight ? weight : all_of(1, mean), shift = bias ? bias : zeros;
  const void* const addresses[] = {address_of(x),     address_of(y),     address_of(scale),
                                   address_of(shift), address_of(mean),  address_of(invstd),
                                   address_of(zeros), address_of(zeros), address_of(next_mean),
                                   address_of(var),   &margin,           &momentum};
  return plan->run(use, addresses);
}

bool cudnn_batch_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                               const Tensor& invstd, const Tensor& weight, Tensor& dx,
                               Tensor& dweight, Tensor& dbias) {
  const auto problem = problem_of(x);
  if (!problem || !are_fit({&x, &dy, &dx, &weight})) return false;
  const CudnnUse use(x.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/true, use);
  if (plan == nullptr) return false;
  const auto or_scratch = [&](const Tensor& wanted) {
    return wanted ? wanted : mean.empty_like(mean.shape());
  };
  const Tensor scale = weight ? weight : all_of(1, mean);
  const Tensor all_dweight = or_scratch(dweight), all_dbias = or_scratch(dbias);
  const void* const addresses[] = {
      address_of(x),    address_of(dy),     address_of(dx),          address_of(scale),
      address_of(mean), address_of(invstd), address_of(all_dweight), address_of(all_dbias)};
  return plan->run(use, addresses);
}

}  // namespace tapegrad::backends::cuda
