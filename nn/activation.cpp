#include "nn/activation.h"

#include "nn/weighted.h"
#include "ops/create.h"

namespace tapegrad::nn {

PReLU::PReLU(int64_t num_parameters, double init) {
  require_option("PReLU", ".num_parameters", num_parameters);
  weight = full({num_parameters}, init, {.dtype = default_dtype(), .requires_grad = true});
}

Variable Unflatten::forward(const Variable& x, Where where) const {
  const int at = normalize_dim("Unflatten", dim, x.rank());
  Shape shape;
  int64_t rest = x.size(at);
  for (int64_t size : unflattened_size)
    if (size > 0) rest /= size;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) shape.push_back(x.size(i));
    if (i == at)
      for (int64_t size : unflattened_size) shape.push_back(size < 0 ? rest : size);
  }
  return reshape(x, shape, where);
}

}  // namespace tapegrad::nn
