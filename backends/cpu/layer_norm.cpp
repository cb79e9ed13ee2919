// layer_norm over the rows of x [rows, n].
#include <cmath>
#include <utility>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/independent_rows.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/row_moments.h"
#include "ops/norm.h"

namespace tapegrad::backends::cpu {
namespace {

/// A row of numbers as the kernels compute with them; `standard` if x is empty.
template <typename T>
class RowNumbers {
 public:
  RowNumbers(const Tensor& x, int64_t count, double standard) {
    if constexpr (std::is_same_v<T, Compute<T>>)
      if (x) data_ = x.data<T>();
    if (data_ != nullptr) return;
    copy_ = numbers_of<T>(x, count, standard);
    data_ = copy_.data();
  }
  const Compute<T>* data() const { return data_; }

 private:
  std::vector<Compute<T>> copy_;
  const Compute<T>* data_ = nullptr;
};

template <typename T>
void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& means, Tensor& invstds) {
  using V = Compute<T>;
  using B = xsimd::batch<V>;
  constexpr int64_t kSize = int64_t(B::size);
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  if (rows == 0) return;  // no rows, of any size
  const RowNumbers<T> scale(weight, n, 1), shift(bias, n, 0);
  const V *w = scale.data(), *b = shift.data();
  T* to = y.data<T>();
  share_tasks(rows, x.numel() > kParallel, [&](int64_t row) {
    const T* from = x.data<T>() + row * n;
    const Moments moments = moments_of(from, n);
    const V mean = V(moments.mean), invstd = V(1 / std::sqrt(moments.var + eps));
    means.data<V>()[row] = mean;
    invstds.data<V>()[row] = invstd;
    alignas(64) V buffer[kBlock], results[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t count = std::min(kBlock, n - i);
      const V* xs = load_values(from + i, 1, count, buffer);
      T* into = to + row * n + i;
      V* ys = place_values(into, results);
      const auto normalise = [&](const auto& value, const auto& factor, const auto& offset) {
        return (value - mean) * invstd * factor + offset;
      };
      int64_t j = 0;
      // Explicit vectors: the compiler would use half of each register.
      for (; j + kSize <= count; j += kSize) {
        fetch_to_write(into + n + j);  // the next row
        normalise(B::load_unaligned(xs + j), B::load_unaligned(w + i + j),
                  B::load_unaligned(b + i + j))
            .store_unaligned(ys + j);
      }
      for (; j < count; ++j) ys[j] = normalise(xs[j], w[i + j], b[i + j]);
      store_values(ys, count, into);
    }
  });
}

/// Sums over rows, or null if not wanted.
template <typename V>
struct RowSums {
  V *weight = nullptr, *bias = nullptr;
};

/// Gradient of one row: dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = dy * weight.
/// Adds dy to sums.bias and dy * x_hat to sums.weight. `kAll`: dx and both sums are wanted.
template <bool kAll, typename T, typename V = Compute<T>>
void layer_norm_row_backward(const T* x, const T* dy, int64_t n, V mean, V invstd, const V* weight,
                             T* dx, RowSums<V> sums) {
  using B = xsimd::batch<V>;
  constexpr int64_t kLane = int64_t(B::size);
  double sum = 0, product = 0;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = std::min(first + kBlock, n);
    // The part of each element in the sums, for a register or one number.
    const auto visit = [&](const auto& x_now, const auto& dy_now, const auto& factor, auto& g_sum,
                           auto& product_sum, const auto& add, int64_t i) {
      const auto x_hat = (x_now - mean) * invstd;
      if (kAll || sums.bias != nullptr) add(sums.bias + i, dy_now);
      if (kAll || sums.weight != nullptr) add(sums.weight + i, dy_now * x_hat);
      const auto g = dy_now * factor;
      g_sum += g;
      product_sum += g * x_hat;
    };
    B g_sums(V(0)), products(V(0));
    V g_rest = 0, product_rest = 0;
    int64_t i = first;
    for (; i + kLane <= end; i += kLane)
      visit(
          load_batch(x + i), load_batch(dy + i), B::load_unaligned(weight + i), g_sums, products,
          [](V* to, B value) { (B::load_unaligned(to) + value).store_unaligned(to); }, i);
    for (; i < end; ++i)
      visit(
          Compute<T>(x[i]), Compute<T>(dy[i]), weight[i], g_rest, product_rest,
          [](V* to, V value) { *to += value; }, i);
    sum += double(xsimd::hadd(g_sums) + g_rest);
    product += double(xsimd::hadd(products) + product_rest);
  }
  if (!kAll && dx == nullptr) return;
  const V shift = V(sum / double(n)), slope = V(product / double(n));
  const auto gradient = [&](const auto& x_now, const auto& dy_now, const auto& factor) {
    return invstd * (dy_now * factor - shift - (x_now - mean) * invstd * slope);
  };
  int64_t i = 0;
  for (; i + kLane <= n; i += kLane)
    store_batch(dx + i,
                gradient(load_batch(x + i), load_batch(dy + i), B::load_unaligned(weight + i)));
  for (; i < n; ++i) dx[i] = convert<T>(gradient(Compute<T>(x[i]), Compute<T>(dy[i]), weight[i]));
}

/// The gradients of some rows of one call. The number of pieces depends on the size only; each
/// piece has its own sums, which are added in order. A piece adds kGroup rows in the compute type,
/// and their sums in double.
template <typename T>
class Gradient {
  using V = Compute<T>;
  static constexpr bool kGrouped = !std::is_same_v<V, double>;
  static constexpr int64_t kGroup = 8;

 public:
  static int64_t pieces_of(int64_t rows, int64_t n) {
    return std::clamp<int64_t>(rows * n / (kParallel / 2), 1, std::clamp<int64_t>(rows, 1, 64));
  }
  static int64_t start_of(int64_t piece, int64_t rows, int64_t n) {
    return piece * rows / pieces_of(rows, n);
  }
  /// Returns the number of doubles for sums: those of all pieces, and behind them those of groups.
  static int64_t sums_of(int64_t rows, int64_t n, const Tensor& dweight, const Tensor& dbias) {
    const int64_t sums = pieces_of(rows, n) * n * (int64_t(bool(dweight)) + int64_t(bool(dbias)));
    return kGrouped ? sums + (sums + 1) / 2 : sums;
  }

  Gradient(const Tensor& x, const Tensor& dy, const Tensor& mean, const Tensor& invstd,
           const Tensor& weight, const Tensor& dx, const Tensor& dweight, const Tensor& dbias)
      : n_(x.shape()[1]),
        scale_(weight, n_, 1),
        x_(x.data<T>()),
        dy_(dy.data<T>()),
        mean_(mean.data<V>()),
        invstd_(invstd.data<V>()),
        dx_(dx ? dx.data<T>() : nullptr),
        has_weight_(dweight),
        has_bias_(dbias) {}

  /// Computes rows [first, last) of an operand of which they are rows `offset + first` and so on of
  /// `all`, and adds them to the sums.
  void run(int64_t offset, int64_t first, int64_t last, int64_t all, double* sums) const {
    const int64_t pieces = pieces_of(all, n_), width = n_ * (int64_t(has_weight_) + has_bias_);
    for (int64_t row = first; row < last;) {
      const int64_t piece = ((offset + row + 1) * pieces - 1) / all;
      const int64_t start = start_of(piece, all, n_) - offset;
      const int64_t end = start_of(piece + 1, all, n_) - offset;
      double* total = sums + piece * width;
      V* group;
      if constexpr (kGrouped)
        group = reinterpret_cast<V*>(sums + pieces * width) + piece * width;
      else
        group = total;
      for (; row < std::min(last, end); ++row) {
        run_row(row, group);
        if (kGrouped && ((row - start) % kGroup == kGroup - 1 || row + 1 == end))
          for (int64_t j = 0; j < width; ++j) total[j] += double(std::exchange(group[j], V(0)));
      }
    }
  }

  static void add_up(const double* sums, int64_t rows, int64_t n, Tensor& dweight, Tensor& dbias) {
    const int64_t pieces = pieces_of(rows, n);
    const int64_t step = n * (int64_t(bool(dweight)) + int64_t(bool(dbias)));
    for (Tensor* y : {&dweight, &dbias}) {
      if (!*y) continue;
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t piece = 0; piece < pieces; ++piece) sum += sums[piece * step + j];
        y->data<T>()[j] = convert<T>(sum);
      }
      sums += n;
    }
  }

 private:
  void run_row(int64_t row, V* sums) const {
    const T *x = x_ + row * n_, *dy = dy_ + row * n_;
    T* dx = dx_ != nullptr ? dx_ + row * n_ : nullptr;
    const V mean = mean_[row], invstd = invstd_[row];
    const RowSums<V> into{has_weight_ ? sums : nullptr,
                          has_bias_ ? sums + (has_weight_ ? n_ : 0) : nullptr};
    if (dx != nullptr && has_weight_ && has_bias_)
      layer_norm_row_backward<true>(x, dy, n_, mean, invstd, scale_.data(), dx, into);
    else
      layer_norm_row_backward<false>(x, dy, n_, mean, invstd, scale_.data(), dx, into);
  }

  int64_t n_;
  RowNumbers<T> scale_;
  const T *x_, *dy_;
  const V *mean_, *invstd_;
  T* dx_;
  bool has_weight_, has_bias_;
};

template <typename T>
void layer_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& mean,
                         const Tensor& invstd, const Tensor& weight, Tensor& dx, Tensor& dweight,
                         Tensor& dbias) {
  using Rows = Gradient<T>;
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  std::vector<double> sums(size_t(Rows::sums_of(rows, n, dweight, dbias)));
  if (rows > 0) {
    const Rows gradient(x, dy, mean, invstd, weight, dx, dweight, dbias);
    const int64_t pieces = Rows::pieces_of(rows, n);
    share_tasks(pieces, x.numel() > kParallel, [&](int64_t piece) {
      gradient.run(0, Rows::start_of(piece, rows, n), Rows::start_of(piece + 1, rows, n), rows,
                   sums.data());
    });
  }
  Rows::add_up(sums.data(), rows, n, dweight, dbias);
}

/// Functions of layer_norm_backward for blocks of rows.
template <typename T>
constinit const RowFunctions<const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&, Tensor&, Tensor&, Tensor&>
    kGradientRows{
        .divided = 0b101111,
        .sums = 0b11000000,
        .divide = [](const Tensor& x, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     Tensor&, Tensor& dweight, Tensor& dbias) -> RowDivision {
          const int64_t rows = x.shape()[0], n = x.shape()[1];
          if (n < kFewestColumns) return {};
          RowDivision division{.rows = rows};
          if (!dweight && !dbias) return division;
          division.sum_bytes =
              size_t(Gradient<T>::sums_of(rows, n, dweight, dbias)) * sizeof(double);
          for (int64_t piece = 0; piece < Gradient<T>::pieces_of(rows, n); ++piece)
            division.starts.push_back(Gradient<T>::start_of(piece, rows, n));
          return division;
        },
        .run =
            [](const RowBlock& block, const Tensor& x, const Tensor& dy, const Tensor& mean,
               const Tensor& invstd, const Tensor& weight, Tensor& dx, Tensor& dweight,
               Tensor& dbias) {
              const Gradient<T> gradient(x, dy, mean, invstd, weight, dx, dweight, dbias);
              gradient.run(block.first, 0, block.count, block.all,
                           reinterpret_cast<double*>(block.sums));
            },
        .finish =
            [](const std::byte* sums, const Tensor& x, const Tensor&, const Tensor&, const Tensor&,
               const Tensor&, Tensor&, Tensor& dweight, Tensor& dbias) {
              Gradient<T>::add_up(reinterpret_cast<const double*>(sums), x.shape()[0], x.shape()[1],
                                  dweight, dbias);
            },
    };

}  // namespace

void register_layer_norm() {
  set<kernels::layer_norm>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { layer_norm<T>(a...); });
  set<kernels::layer_norm_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { layer_norm_backward<T>(a...); });

  constexpr auto kRows = [](const Tensor& x, const Tensor&, const Tensor&, double, const Tensor&,
                            const Tensor&, const Tensor&) {
    return x.shape()[1] >= kFewestColumns ? x.shape()[0] : 0;
  };
  set_independent_rows<kernels::layer_norm, 0b1110001, kRows>(kFloatTypes);
  []<typename... Ts>(TypeList<Ts...>) {
    (kernels::layer_norm_backward.set_rows(DeviceType::kCpu, kDTypeOf<Ts>, kGradientRows<Ts>), ...);
  }(kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
