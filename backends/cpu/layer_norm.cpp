// layer_norm over the rows of x [rows, n].
#include <cmath>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/row_moments.h"
#include "ops/norm.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename T>
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& means, Tensor& invstds) {
  using V = Compute<T>;
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  if (rows == 0) return;  // n may be anything
  const std::vector<V> scale = numbers_of<T>(weight, n, 1), shift = numbers_of<T>(bias, n, 0);
  const V *w = scale.data(), *b = shift.data();
  T* to = y.data<T>();
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = x.data<T>() + row * n;
    const Moments moments = moments_of(from, n);
    const V mean = V(moments.mean), invstd = V(1 / std::sqrt(moments.var + eps));
    means.data<V>()[row] = mean;
    invstds.data<V>()[row] = invstd;
    V buffer[kBlock], results[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      const V* xs = load_values(from + i, 1, count, buffer);
      T* into = to + row * n + i;
      V* ys = place_values(into, results);
      const auto normalise = [&](const auto& value, const auto& factor, const auto& offset) {
        return (value - mean) * invstd * factor + offset;
      };
      int64_t j = 0;
      for (; j + kSize <= count; j += kSize) {  // by whole registers, because the compiler uses
                                                // half of each
        fetch_to_write(into + n + j);           // the next row
        normalise(B::load_unaligned(xs + j), B::load_unaligned(w + i + j),
                  B::load_unaligned(b + i + j))
            .store_unaligned(ys + j);
      }
      for (; j < count; ++j) ys[j] = normalise(xs[j], w[i + j], b[i + j]);
      store_values(ys, count, into);
    }
  }
}

/// Gradient of one row: dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = dy * weight.
/// Adds dy to dbias and dy * x_hat to dweight unless these are null.
template <typename T>
void row_backward(const T* x, const T* dy, int64_t n, Compute<T> mean, Compute<T> invstd,
                  const Compute<T>* weight, T* dx, double* dweight, double* dbias) {
  using V = Compute<T>;
  V x_buffer[kBlock], dy_buffer[kBlock], x_hat[kBlock], g[kBlock];
  const auto load = [&](int64_t i, int64_t count) {  // computes x_hat and returns dy
    const V* xs = load_values(x + i, 1, count, x_buffer);
    for (int64_t j = 0; j < count; ++j) x_hat[j] = (xs[j] - mean) * invstd;
    return load_values(dy + i, 1, count, dy_buffer);
  };
  double sum = 0, product = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const V* dys = load(i, count);
    if (dbias != nullptr)
      for (int64_t j = 0; j < count; ++j) dbias[i + j] += double(dys[j]);
    if (dweight != nullptr)
      for (int64_t j = 0; j < count; ++j) dweight[i + j] += double(dys[j] * x_hat[j]);
    if (dx == nullptr) continue;
    for (int64_t j = 0; j < count; ++j) {
      g[j] = dys[j] * weight[i + j];
      x_hat[j] *= g[j];
    }
    sum += reduce_block(SumOf<V>{}, g, count);
    product += reduce_block(SumOf<V>{}, x_hat, count);
  }
  if (dx == nullptr) return;
  const V shift = V(sum / double(n)), slope = V(product / double(n));
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    const V* dys = load(i, count);
    V* results = place_values(dx + i, g);
    for (int64_t j = 0; j < count; ++j)
      results[j] = invstd * (dys[j] * weight[i + j] - shift - x_hat[j] * slope);
    store_values(results, count, dx + i);
  }
}

template <typename T>
void layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                         const Tensor& invstd, const Tensor& weight, Tensor& dx, Tensor& dweight,
                         Tensor& dbias) {
  using V = Compute<T>;
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const std::vector<V> scale = rows > 0 ? numbers_of<T>(weight, n, 1) : std::vector<V>();
  // The number of pieces depends on the size only; each piece has its own sums, which are added in
  // order.
  const int64_t pieces =
      std::clamp<int64_t>(x.numel() / (kParallel / 2), 1, std::clamp<int64_t>(rows, 1, 64));
  std::vector<double> dweights(dweight ? pieces * n : 0), dbiases(dbias ? pieces * n : 0);
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t row = piece * rows / pieces; row < (piece + 1) * rows / pieces; ++row)
      row_backward(x.data<T>() + row * n, dy.data<T>() + row * n, n, mean.data<V>()[row],
                   invstd.data<V>()[row], scale.data(), dx ? dx.data<T>() + row * n : nullptr,
                   dweight ? dweights.data() + piece * n : nullptr,
                   dbias ? dbiases.data() + piece * n : nullptr);
  const auto add_up = [&](const std::vector<double>& parts, Tensor& y) {
    if (!y) return;
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece) sum += parts[piece * n + j];
      y.data<T>()[j] = convert<T>(sum);
    }
  };
  add_up(dweights, dweight);
  add_up(dbiases, dbias);
}

}  // namespace

void register_layer_norm() {
  set<kernels::layer_norm>(kFloatTypes,
                           []<typename T>(Type<T>, auto&... a) { layer_norm<T>(a...); });
  set<kernels::layer_norm_backward>(
      kFloatTypes, []<typename T>(Type<T>, auto&... a) { layer_norm_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
