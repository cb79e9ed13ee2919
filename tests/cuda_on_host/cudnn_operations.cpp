// Operations of cuDNN's graphs, computed in double and rounded to the type of the result.
#include <cmath>
#include <limits>

#include "cudnn_parts.h"

namespace coh {

TensorForm::TensorForm(const Bag& tensor)
    : id(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
      type(tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
      is_stored(!tensor.has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) ||
                !tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)),
      is_number(tensor.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
                tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
  const auto all_sizes = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto all_steps = tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  for (std::size_t d = 0; d < 4; ++d) sizes[d] = all_sizes[d], steps[d] = all_steps[d];
}
std::int64_t TensorForm::extent() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 4; ++d) last += (sizes[d] - 1) * steps[d];
  return last + 1;
}
std::int64_t TensorForm::place(std::int64_t index) const {
  std::int64_t at = 0;
  for (std::size_t d = 4; d-- > 0; index /= sizes[d]) at += index % sizes[d] * steps[d];
  return at;
}

double rounded(double value, cudnnDataType_t type) {
  if (!is_float(type) || type == CUDNN_DATA_DOUBLE) return value;
  float kept = 0;
  store(&kept, of_cuda(type), 0, value);
  return load(&kept, of_cuda(type), 0);
}

namespace {

TensorForm form(const Bag& operation, cudnnBackendAttributeName_t name) {
  return TensorForm(operation.part(name));
}

/// Returns whether each size of x equals that of `to` or is 1.
bool broadcasts(const TensorForm& x, const TensorForm& to) {
  for (std::size_t d = 0; d < 4; ++d)
    if (x.sizes[d] != to.sizes[d] && x.sizes[d] != 1) return false;
  return true;
}
/// Position in x of element `index` of `to`.
std::size_t source(std::int64_t index, const TensorForm& to, const TensorForm& x) {
  std::int64_t at = 0, step = 1;
  for (std::size_t d = 4; d-- > 0; index /= to.sizes[d]) {
    at += (x.sizes[d] == 1 ? 0 : index % to.sizes[d]) * step;
    step *= x.sizes[d];
  }
  return std::size_t(at);
}

cudnnPointwiseMode_t mode_of(const Bag& operation) {
  return operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
      .get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}
std::size_t operands_of(cudnnPointwiseMode_t mode) {
  switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_GEN_INDEX:
      return 1;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
      return 2;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return 3;
    default:
      fail("cuDNN: a pointwise mode that cuda_on_host does not have");
  }
}
double pointwise(cudnnPointwiseMode_t mode, double x, double y, double condition) {
  switch (mode) {
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_ADD:
      return x + y;
    case CUDNN_POINTWISE_SUB:
      return x - y;
    case CUDNN_POINTWISE_MUL:
      return x * y;
    case CUDNN_POINTWISE_DIV:
      return x / y;
    case CUDNN_POINTWISE_CMP_GE:
      return x >= y;
    default:
      return condition != 0 ? x : y;
  }
}

constexpr cudnnBackendAttributeName_t kOperands[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};

const char* why_not_pointwise(const Bag& operation) {
  const cudnnPointwiseMode_t mode = mode_of(operation);
  const TensorForm y = form(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  for (std::size_t i = 0; i < 3; ++i) {
    if (operation.has(kOperands[i]) != (i < operands_of(mode))) return "operands of a mode";
    if (operation.has(kOperands[i]) && !broadcasts(form(operation, kOperands[i]), y))
      return "sizes of a pointwise operation";
  }
  if ((mode == CUDNN_POINTWISE_GEN_INDEX) != (y.type == CUDNN_DATA_INT32) ||
      (mode == CUDNN_POINTWISE_CMP_GE) != (y.type == CUDNN_DATA_BOOLEAN))
    return "type of a pointwise operation";
  return nullptr;
}
void run_pointwise(const Bag& operation, const TensorForm& y, GraphValues& values) {
  const cudnnPointwiseMode_t mode = mode_of(operation);
  std::vector<double>& to = values[y.id];
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                          .get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
    std::int64_t inner = 1;
    for (std::size_t d = 3; d > std::size_t(axis); --d) inner *= y.sizes[d];
    for (std::int64_t i = 0; i < y.numel(); ++i)
      to[std::size_t(i)] = double(i / inner % y.sizes[std::size_t(axis)]);
    return;
  }
  std::vector<std::vector<double>> x(3, std::vector<double>(to.size()));
  for (std::size_t k = 0; k < operands_of(mode); ++k) {
    const TensorForm from = form(operation, kOperands[k]);
    const std::vector<double>& all = values.at(from.id);
    if (from.sizes == y.sizes)
      x[k] = all;
    else
      for (std::size_t i = 0; i < to.size(); ++i) x[k][i] = all[source(std::int64_t(i), y, from)];
  }
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = pointwise(mode, x[0][i], x[1][i], x[2][i]);
}

const char* why_not_reduction(const Bag& operation) {
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const TensorForm y = form(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  return broadcasts(y, x) ? nullptr : "sizes of a reduction";
}
void run_reduction(const Bag& operation, const TensorForm& y, GraphValues& values) {
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const bool is_max =
      operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
          .get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX;
  std::vector<double>& to = values[y.id];
  std::fill(to.begin(), to.end(), is_max ? -std::numeric_limits<double>::infinity() : 0);
  const std::vector<double>& from = values.at(x.id);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double& result = to[source(i, x, y)];
    const double value = from[std::size_t(i)];
    result = !is_max ? result + value : value > result || std::isnan(value) ? value : result;
  }
}

const char* why_not_matmul(const Bag& operation) {
  const TensorForm a = form(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const TensorForm b = form(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const TensorForm c = form(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  for (std::size_t d = 0; d < 2; ++d)
    if (a.sizes[d] != b.sizes[d] || a.sizes[d] != c.sizes[d]) return "matrices of a product";
  return a.sizes[3] == b.sizes[2] && c.sizes[2] == a.sizes[2] && c.sizes[3] == b.sizes[3]
             ? nullptr
             : "sizes of a product";
}
void run_matmul(const Bag& operation, const TensorForm& c, GraphValues& values) {
  const TensorForm a = form(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const TensorForm b = form(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const std::size_t rows = std::size_t(c.sizes[2]), columns = std::size_t(c.sizes[3]);
  const std::size_t inner = std::size_t(a.sizes[3]);
  const double *x = values.at(a.id).data(), *y = values.at(b.id).data();
  double* z = values[c.id].data();
  std::fill_n(z, c.numel(), 0.0);
  for (std::int64_t matrix = 0; matrix < c.sizes[0] * c.sizes[1]; ++matrix) {
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < inner; ++k)
        for (std::size_t j = 0; j < columns; ++j)
          z[i * columns + j] += x[i * inner + k] * y[k * columns + j];
    x += rows * inner, y += inner * columns, z += rows * columns;
  }
}

const char* why_not_reshape(const Bag& operation) {
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  const TensorForm y = form(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  return x.numel() == y.numel() && x.extent() == y.extent() ? nullptr : "a reshape";
}
/// Copies the elements; their order does not change.
void run_reshape(const Bag& operation, const TensorForm& y, GraphValues& values) {
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  const std::vector<double>& from = values.at(x.id);
  std::vector<double> memory(std::size_t(x.extent()));
  for (std::int64_t i = 0; i < x.numel(); ++i)
    memory[std::size_t(x.place(i))] = from[std::size_t(i)];
  for (std::int64_t i = 0; i < y.numel(); ++i)
    values[y.id][std::size_t(i)] = memory[std::size_t(y.place(i))];
}

}  // namespace

const char* why_not(const Bag& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return why_not_pointwise(operation);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return why_not_reduction(operation);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return why_not_matmul(operation);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return why_not_reshape(operation);
    default:
      return why_not_of_images(operation);
  }
}

std::vector<std::int64_t> run_operation(const Bag& operation, GraphValues& values) {
  const auto run = [&](cudnnBackendAttributeName_t result, auto compute) {
    const TensorForm y = form(operation, result);
    values[y.id].resize(std::size_t(y.numel()));
    compute(operation, y, values);
    for (double& value : values[y.id]) value = rounded(value, y.type);
    return std::vector{y.id};
  };
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return run(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, run_pointwise);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return run(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, run_reduction);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return run(CUDNN_ATTR_OPERATION_MATMUL_CDESC, run_matmul);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return run(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, run_reshape);
    default:
      return run_of_images(operation, values);
  }
}

}  // namespace coh
