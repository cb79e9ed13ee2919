// Short ways to make variables and to read their values.
#pragma once

#include <vector>

#include "core/tape/variable.h"
#include "tests/error_message.h"

namespace tapegrad::testing {

template <typename T = double>
Variable make(const std::vector<T>& values, const Shape& shape) {
  return Variable(Tensor::from<T>(values, shape));
}
template <typename T = double>
Variable make(const std::vector<T>& values) {
  return make<T>(values, {int64_t(values.size())});
}
/// Variables that require a gradient.
template <typename T = double>
Variable leaf(const std::vector<T>& values, const Shape& shape) {
  return make<T>(values, shape).requires_grad_();
}
template <typename T = double>
Variable leaf(const std::vector<T>& values) {
  return make<T>(values).requires_grad_();
}

using Values = std::vector<double>;
inline Values values(const Variable& x) { return x.to_vector<double>(); }

}  // namespace tapegrad::testing
