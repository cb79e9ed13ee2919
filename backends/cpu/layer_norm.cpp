// layer_norm over the rows of x [rows, n].
#include <cmath>

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
class Numbers {
 public:
  Numbers(const Tensor& x, int64_t count, double standard) {
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
  if (rows == 0) return;  // n may be anything
  const Numbers<T> scale(weight, n, 1), shift(bias, n, 0);
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
  });
}

/// Gradient of one row: dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)), g = dy * weight.
/// Adds dy to dbias and dy * x_hat to dweight unless these are null.
template <typename T>
void row_backward(const T* x, const T* dy, int64_t n, Compute<T> mean, Compute<T> invstd,
                  const Compute<T>* weight, T* dx, double* dweight, double* dbias) {
  using V = Compute<T>;
  alignas(64) V x_buffer[kBlock], dy_buffer[kBlock], x_hat[kBlock], g[kBlock];
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

/// The gradients of some rows of one call. The number of pieces depends on the size only; each
/// piece has its own sums, which are added in order.
template <typename T>
class Gradient {
  using V = Compute<T>;

 public:
  static int64_t pieces_of(int64_t rows, int64_t n) {
    return std::clamp<int64_t>(rows * n / (kParallel / 2), 1, std::clamp<int64_t>(rows, 1, 64));
  }
  static int64_t start_of(int64_t piece, int64_t rows, int64_t n) {
    return piece * rows / pieces_of(rows, n);
  }
  /// The number of sums.
  static int64_t sums_of(int64_t rows, int64_t n, const Tensor& dweight, const Tensor& dbias) {
    return pieces_of(rows, n) * n * (int64_t(bool(dweight)) + int64_t(bool(dbias)));
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

  /// Computes a row and adds it to the sums of a piece.
  void run(int64_t row, int64_t piece, double* sums) const {
    sums += piece * n_ * (int64_t(has_weight_) + int64_t(has_bias_));
    double* bias_sums = has_bias_ ? sums + (has_weight_ ? n_ : 0) : nullptr;
    row_backward(x_ + row * n_, dy_ + row * n_, n_, mean_[row], invstd_[row], scale_.data(),
                 dx_ != nullptr ? dx_ + row * n_ : nullptr, has_weight_ ? sums : nullptr,
                 bias_sums);
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
  int64_t n_;
  Numbers<T> scale_;
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
      const int64_t end = Rows::start_of(piece + 1, rows, n);
      for (int64_t row = Rows::start_of(piece, rows, n); row < end; ++row)
        gradient.run(row, piece, sums.data());
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
              const int64_t pieces = Gradient<T>::pieces_of(block.all, x.shape()[1]);
              for (int64_t row = 0; row < block.count; ++row) {
                const int64_t piece = ((block.first + row + 1) * pieces - 1) / block.all;
                gradient.run(row, piece, reinterpret_cast<double*>(block.sums));
              }
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
