#include "tests/cases/operand.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>

namespace tapegrad::testing {
namespace {

std::vector<double> draw(const Input& input, size_t count, uint64_t seed) {
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
  std::vector<double> values(count);
  if (input.fill == Fill::kDistinct) {
    std::iota(values.begin(), values.end(), 0.0);
    std::shuffle(values.begin(), values.end(), bits);
    for (double& value : values) value = -2 + 4 * (value + 0.4 + 0.2 * uniform()) / double(count);
    return values;
  }
  for (double& value : values) {
    const double u = uniform();
    switch (input.fill) {
      case Fill::kNormal:
        value = u < 0.5 ? -2 + 3.9 * u : 0.05 + 3.9 * (u - 0.5);
        break;
      case Fill::kPositive:
        value = 0.2 + 2 * u;
        break;
      case Fill::kUnit:
        value = 0.05 + 0.9 * u;
        break;
      case Fill::kAboveOne:
        value = 1.2 + 2 * u;
        break;
      case Fill::kIntegers:
        value = std::floor(9 * u) - 4;
        break;
      case Fill::kBool:
        value = u < 0.5;
        break;
      case Fill::kIndices:
        value = std::floor(u * double(input.bound));
        break;
      case Fill::kDistinct:
        break;
    }
  }
  return values;
}

Tensor repeat_first_entry(const Tensor& x, int dim) {
  Shape one = x.shape();
  one[dim] = 1;
  Tensor entry = x.with_layout({one, x.strides(), x.layout().offset}).clone();
  StridedLayout wide = entry.layout();
  wide.shape = x.shape();
  wide.strides[dim] = 0;
  return entry.with_layout(wide);
}

/// Copies x into a tensor with the given layout in a buffer of `base` elements.
Tensor embed(const Tensor& x, int64_t base, const StridedLayout& layout) {
  const Number around = with_type(x.dtype(), []<typename T>(TypeTag<T>) -> Number {
    if constexpr (std::is_integral_v<T>)
      return std::numeric_limits<T>::max();
    else
      return std::numeric_limits<double>::quiet_NaN();
  });
  Tensor storage = Tensor::full({base}, around, x.dtype());
  const Tensor y = storage.with_layout(layout), from = x.contiguous();
  const size_t size = size_t(size_of(x.dtype()));
  const std::byte* bytes = from.storage().data() + size_t(from.layout().offset) * size;
  for_each_index(x.shape(), [&](int64_t flat, const std::vector<int64_t>& index) {
    int64_t at = layout.offset;
    for (int i = 0; i < x.rank(); ++i) at += index[size_t(i)] * layout.strides[i];
    std::memcpy(storage.storage().data() + size_t(at) * size, bytes + size_t(flat) * size, size);
  });
  return y;
}

/// Copies x into dense memory in which dimension order[0] is outermost.
Tensor in_order(const Tensor& x, const std::vector<int>& order) {
  StridedLayout layout{x.shape(), x.shape(), 0};
  int64_t step = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    layout.strides[order[size_t(i)]] = step;
    step *= x.shape()[order[size_t(i)]];
  }
  return embed(x, x.numel(), layout);
}

}  // namespace

Tensor make_operand(const Input& input, DType dtype, uint64_t seed) {
  const auto values = draw(input, size_t(numel(input.shape)), seed);
  if (input.fill == Fill::kBool) dtype = boolean;
  if (input.fill == Fill::kIndices) dtype = i64;
  return Tensor::from<double>(values, input.shape).to(dtype);
}

Array to_array(const Tensor& x) {
  if (!x) return {};
  return {x.shape(), Variable(x).to_vector<double>()};
}

std::string name(Arrangement arrangement) {
  constexpr const char* kNames[] = {"transposed", "step 2",         "offset",
                                    "reversed",   "expanded first", "expanded last"};
  return kNames[int(arrangement)];
}

Tensor arrange(const Tensor& x, Arrangement arrangement) {
  const int rank = x.rank();
  std::vector<int> order(size_t(rank), 0);
  std::iota(order.begin(), order.end(), 0);
  switch (arrangement) {
    case Arrangement::kTransposed:
      if (rank < 2) return {};
      std::swap(order[size_t(rank - 1)], order[size_t(rank - 2)]);
      return in_order(x, order);
    case Arrangement::kReversed:
      if (rank < 3) return {};
      std::reverse(order.begin(), order.end());
      return in_order(x, order);
    case Arrangement::kStepTwo: {
      if (rank < 1) return {};
      StridedLayout layout{x.shape(), contiguous_strides(x.shape()), 0};
      for (int i = 0; i < rank; ++i) layout.strides[i] *= 2;
      return embed(x, 2 * x.numel(), layout);
    }
    case Arrangement::kOffset: {
      Shape larger = x.shape();
      for (int i = 0; i < rank; ++i) larger[i] += 2;
      StridedLayout layout{x.shape(), contiguous_strides(larger), 1};
      for (int i = 0; i < rank; ++i) layout.offset += layout.strides[i];
      return embed(x, numel(larger) + 1, layout);
    }
    case Arrangement::kExpandedFirst:
      return rank < 1 || x.numel() == 0 ? Tensor() : repeat_first_entry(x, 0);
    case Arrangement::kExpandedLast:
      return rank < 2 || x.numel() == 0 ? Tensor() : repeat_first_entry(x, rank - 1);
  }
  return {};
}

Tensor move_to(Device device, const Tensor& x) {
  if (!x || x.device() == device) return x;
  const int64_t count = int64_t(x.storage().bytes()) / size_of(x.dtype());
  return x.with_layout({{count}, {1}, 0}).to(device).with_layout(x.layout());
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = a.to(cpu).contiguous(), y = b.to(cpu).contiguous();
  return with_type(a.dtype(), [&]<typename T>(TypeTag<T>) {
    const T *p = x.data<T>(), *q = y.data<T>();
    for (int64_t i = 0; i < x.numel(); ++i)
      if (std::memcmp(p + i, q + i, sizeof(T)) != 0 &&
          !(std::isnan(double(Compute<T>(p[i]))) && std::isnan(double(Compute<T>(q[i])))))
        return false;
    return true;
  });
}

double epsilon(DType dtype) {
  switch (dtype) {
    case f16:
      return 0x1p-10;
    case bf16:
      return 0x1p-7;
    case f32:
      return 0x1p-23;
    case f64:
      return 0x1p-52;
    default:
      return 0;
  }
}

double largest_magnitude(const Array& x) {
  double result = 0;
  for (double value : x.values)
    if (std::isfinite(value)) result = std::max(result, std::abs(value));
  return result;
}

std::string mismatch(const Array& got, const Array& expected, double tolerance) {
  return mismatch(got, expected, tolerance, largest_magnitude(expected));
}

std::string mismatch(const Array& got, const Array& expected, double tolerance, double scale) {
  std::ostringstream text;
  if (got.shape != expected.shape || got.values.size() != expected.values.size()) {
    text << "shape " << got.shape << " instead of " << expected.shape;
    return text.str();
  }
  for (size_t i = 0; i < got.values.size(); ++i) {
    const double x = got.values[i], y = expected.values[i];
    if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance * scale)
      continue;
    text.precision(17);
    text << "element " << i << " of " << got.shape << " is " << x << " instead of " << y;
    text << " (" << std::abs(x - y) / scale << " of the scale, allowed " << tolerance << ')';
    return text.str();
  }
  return {};
}

}  // namespace tapegrad::testing
