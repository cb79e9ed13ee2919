#include "tests/cases/op_case.h"

#include <algorithm>

#include "core/base/error.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad::testing {

std::vector<Variable> packed_images(std::vector<Variable> inputs) {
  Variable& x = inputs[0];
  const int64_t channels = x.size(1);
  const Variable copies = eye(channels, {}, {.dtype = x.dtype(), .device = x.device()});
  x = conv2d(x, reshape(copies, {channels, channels, 1, 1}));
  return inputs;
}

Reference elementwise(double (*f)(double)) {
  return [f](const std::vector<Array>& inputs) {
    Array y = inputs.at(0);
    for (double& value : y.values) value = f(value);
    return y;
  };
}

Reference elementwise(double (*f)(double, double)) {
  return [f](const std::vector<Array>& inputs) {
    const Array &a = inputs.at(0), &b = inputs.at(1);
    const int rank = std::max(a.shape.rank(), b.shape.rank());
    // Returns the size of x in dimension i of the result; missing leading dimensions count as 1.
    const auto size = [rank](const Array& x, int i) {
      const int own = i - (rank - x.shape.rank());
      return own < 0 ? 1 : x.shape[own];
    };
    Array y;
    for (int i = 0; i < rank; ++i) y.shape.push_back(size(a, i) == 1 ? size(b, i) : size(a, i));
    for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& index) {
      const auto at = [&](const Array& x) {
        int64_t flat = 0;
        for (int i = 0; i < rank; ++i)
          flat = flat * size(x, i) + (size(x, i) == 1 ? 0 : index[size_t(i)]);
        return x.values.at(size_t(flat));
      };
      y.values.push_back(f(at(a), at(b)));
    });
    return y;
  };
}

void for_each_index(const Shape& shape,
                    const std::function<void(int64_t, const std::vector<int64_t>&)>& visit) {
  std::vector<int64_t> index(size_t(shape.rank()));
  const int64_t count = numel(shape);
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(flat, index);
    for (int i = shape.rank() - 1; i >= 0 && ++index[size_t(i)] == shape[i]; --i)
      index[size_t(i)] = 0;
  }
}

int64_t flat_index(const Shape& shape, const std::vector<int64_t>& index) {
  if (index.size() != size_t(shape.rank()))
    fail<ShapeError>("flat_index: ", index.size(), " indices for shape ", shape);
  int64_t flat = 0;
  for (int i = 0; i < shape.rank(); ++i) flat = flat * shape[i] + index[size_t(i)];
  return flat;
}

}  // namespace tapegrad::testing
