// group_norm of x [n, channels, size]. The channels of a group are neighbours, so the group of an
// example is one row of memory.
#include <cmath>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/row_moments.h"
#include "ops/internal/group_norm_kernels.h"

namespace tapegrad::backends::cpu {
namespace {

struct Groups {
  int64_t examples, channels, size;  // of x
  int64_t rows, together;            // groups of all examples, and channels of a group

  Groups(const Shape& x, int64_t rows)
      : examples(x[0]), channels(x[1]), size(x[2]), rows(rows), together(x[0] * x[1] / rows) {}
  /// The first channel of a row.
  int64_t first(int64_t row) const { return row * together % channels; }
};

/// Calls run(offset, count) for blocks of a channel of one example.
template <typename Run>
void for_each_block_of(int64_t size, const Run& run) {
  for (int64_t i = 0; i < size; i += kBlock) run(i, std::min(kBlock, size - i));
}

template <typename T>
void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& means, Tensor& invstds) {
  using V = Compute<T>;
  const Groups g(x.shape(), means.numel());
  const std::vector<V> scale = numbers_of<T>(weight, g.channels, 1),
                       shift = numbers_of<T>(bias, g.channels, 0);
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t start = row * g.together * g.size;
    const Moments moments = moments_of(xs + start, g.together * g.size);
    const V mean = V(moments.mean), invstd = V(1 / std::sqrt(moments.var + eps));
    means.data<V>()[row] = mean;
    invstds.data<V>()[row] = invstd;
    V buffer[kBlock], results[kBlock];
    for (int64_t c = 0; c < g.together; ++c) {
      const V factor = scale[size_t(g.first(row) + c)], offset = shift[size_t(g.first(row) + c)];
      for_each_block_of(g.size, [&](int64_t i, int64_t count) {
        const int64_t at = start + c * g.size + i;
        const V* from = load_values(xs + at, 1, count, buffer);
        V* to = place_values(ys + at, results);
        for (int64_t j = 0; j < count; ++j) to[j] = (from[j] - mean) * invstd * factor + offset;
        store_values(to, count, ys + at);
      });
    }
  }
}

/// dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)) with g = dy * weight, by the sums of dy
/// and of dy * x_hat over each channel of each example.
template <typename T>
void group_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& means,
                         const Tensor& invstds, const Tensor& weight, Tensor& dx, Tensor& dweight,
                         Tensor& dbias) {
  using V = Compute<T>;
  const Groups g(x.shape(), means.numel());
  const std::vector<V> scale = numbers_of<T>(weight, g.channels, 1);
  const T *xs = x.data<T>(), *dys = dy.data<T>();
  T* dxs = dx ? dx.data<T>() : nullptr;
  std::vector<double> sums(size_t(g.examples * g.channels)), products(sums.size());
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t first = row * g.together;  // channel of all examples
    const V mean = means.data<V>()[row], invstd = invstds.data<V>()[row];
    V x_buffer[kBlock], dy_buffer[kBlock], terms[kBlock];
    double sum = 0, product = 0;
    for (int64_t c = first; c < first + g.together; ++c) {
      for_each_block_of(g.size, [&](int64_t i, int64_t count) {
        const V* xv = load_values(xs + c * g.size + i, 1, count, x_buffer);
        const V* dyv = load_values(dys + c * g.size + i, 1, count, dy_buffer);
        for (int64_t j = 0; j < count; ++j) terms[j] = dyv[j] * ((xv[j] - mean) * invstd);
        sums[size_t(c)] += reduce_block(SumOf<V>{}, dyv, count);
        products[size_t(c)] += reduce_block(SumOf<V>{}, terms, count);
      });
      const double factor = double(scale[size_t(c % g.channels)]);
      sum += factor * sums[size_t(c)];
      product += factor * products[size_t(c)];
    }
    if (dxs == nullptr) continue;
    const double count = double(g.together * g.size);
    const V shift = V(sum / count), slope = V(product / count);
    for (int64_t c = first; c < first + g.together; ++c) {
      const V factor = scale[size_t(c % g.channels)];
      for_each_block_of(g.size, [&](int64_t i, int64_t count) {
        const int64_t at = c * g.size + i;
        const V* xv = load_values(xs + at, 1, count, x_buffer);
        const V* dyv = load_values(dys + at, 1, count, dy_buffer);
        V* to = place_values(dxs + at, terms);
        for (int64_t j = 0; j < count; ++j)
          to[j] = invstd * (dyv[j] * factor - shift - (xv[j] - mean) * invstd * slope);
        store_values(to, count, dxs + at);
      });
    }
  }
  const auto add_up = [&](const std::vector<double>& parts, Tensor& y) {
    if (!y) return;
    for (int64_t c = 0; c < g.channels; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < g.examples; ++n) sum += parts[size_t(n * g.channels + c)];
      y.data<T>()[c] = convert<T>(sum);
    }
  };
  add_up(products, dweight);
  add_up(sums, dbias);
}

}  // namespace

void register_group_norm() {
  set<kernels::group_norm>(kFloatTypes,
                           []<typename T>(Type<T>, auto&... a) { group_norm<T>(a...); });
  set<kernels::group_norm_backward>(
      kFloatTypes, []<typename T>(Type<T>, auto&... a) { group_norm_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
