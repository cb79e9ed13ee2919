#include <algorithm>
#include <concepts>
#include <optional>

#include "backends/cpu/dnnl/matmul_dnnl.h"
#include "backends/cpu/fast/linear_narrow.h"
#include "backends/cpu/fast/tiny_products.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/matrices.h"
#include "backends/cpu/tools/optional.h"
#include "backends/cpu/tools/product.h"
#include "backends/cpu/tools/share.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "ops/linear.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cpu {
namespace {

/// Types in which gemm() computes.
template <typename T>
concept Exact = std::integral<T> || std::floating_point<T>;
/// Types in which oneDNN's matmul primitive computes.
template <typename T>
concept Multiplied = std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

/// Choices for a product that oneDNN's matmul primitive computes.
struct DnnlPlan {
  bool rounded;  // float operands are rounded to bfloat16 first
};

/// Plan for a m x k times b k x n, both plain; nullopt if oneDNN's primitive does not suit them.
std::optional<DnnlPlan> dnnl_plan(DType dtype, int64_t m, int64_t n, int64_t k, Matrix<float> a,
                                  Matrix<float> b, MatmulPrecision precision) {
  if (m == 0 || n == 0 || k == 0) return {};
  const bool is_short = suits_bfloat16(m, n, k);
  if (dtype == bf16) return is_short ? std::optional(DnnlPlan{false}) : std::nullopt;
  if (precision == MatmulPrecision::kMedium && is_short) return DnnlPlan{true};
  return suits_dnnl(m, n, k, a, b) ? std::optional(DnnlPlan{false}) : std::nullopt;
}

template <typename T>
void multiply_by(DnnlPlan plan, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b,
                 const T* bias, T* c) {
  if constexpr (std::is_same_v<T, float>)
    multiply_dnnl(m, n, k, a, b, bias, c, plan.rounded);
  else
    multiply_dnnl(m, n, k, a, b, bias, c);
}

/// y = a b for each matrix of the batch; all operands have the same leading dimensions.
struct MatmulDnnl {
  static constexpr std::string_view kName = "dnnl";
  static bool is_available() { return has_dnnl_blocks(); }
  static std::optional<DnnlPlan> accepts(const Tensor& a, const Tensor& b, const Tensor& y) {
    const int r = y.rank();
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    if (r > 2 && m * n * k <= kParallelProduct) return {};
    return dnnl_plan(y.dtype(), m, n, k, plain_layout<float>(a), plain_layout<float>(b),
                     matmul_precision());
  }
  template <Multiplied T>
  static void run(TypeTag<T>, DnnlPlan plan, const Tensor& a0, const Tensor& b0, Tensor& y) {
    const Tensor a = plain(a0), b = plain(b0);
    const int r = y.rank();
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    const int64_t batch = y.numel() / (m * n);
    for (int64_t i = 0; i < batch; ++i)
      multiply_by<T>(plan, m, n, k, matrix<T>(a, batch_offset(a, i)),
                     matrix<T>(b, batch_offset(b, i)), nullptr, y.data<T>() + i * m * n);
  }
};

/// A batch of small products of bfloat16, by one call.
struct MatmulBatchDnnl {
  static constexpr std::string_view kName = "dnnl batch";
  static bool is_available() { return has_dnnl_blocks(); }
  static bool accepts(const Tensor& a, const Tensor& b, const Tensor& y) {
    const int r = y.rank();
    if (r < 3 || y.dtype() != bf16 || y.numel() == 0) return false;
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    return std::min({m, n, k}) >= kLeastOfBatch && m * n * k <= kParallelProduct &&
           suits_bfloat16(y.numel() / n, n, k) && batch_step(a) > 0 && batch_step(b) > 0 &&
           is_plain(m, k, a.strides()[r - 2], a.strides()[r - 1]) &&
           is_plain(k, n, b.strides()[r - 2], b.strides()[r - 1]);
  }
  static void run(TypeTag<bfloat16>, const Tensor& a, const Tensor& b, Tensor& y) {
    const int r = y.rank();
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    multiply_dnnl(y.numel() / (m * n), m, n, k, matrix<bfloat16>(a), batch_step(a),
                  matrix<bfloat16>(b), batch_step(b), y.data<bfloat16>());
  }

 private:
  static constexpr int64_t kLeastOfBatch = 16;  // smaller matrices fill the library's blocks badly
};

struct MatmulGemm {
  static constexpr std::string_view kName = "gemm";
  template <Exact T>
  static void run(TypeTag<T>, const Tensor& a0, const Tensor& b0, Tensor& y) {
    const Tensor a = plain(a0), b = plain(b0);
    const int r = y.rank();
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    if (y.numel() == 0) return;
    T* to = y.data<T>();
    share_products(y.numel() / (m * n), m * n * std::max<int64_t>(k, 1), [&](int64_t i) {
      gemm(m, n, k, matrix<T>(a, batch_offset(a, i)), matrix<T>(b, batch_offset(b, i)),
           to + i * m * n, n);
    });
  }
};

/// Types that are widened to float.
template <typename T>
concept Widened = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Returns whether a product widens its operands while it packs them, which takes no pass of its
/// own.
bool widens_in_passing(int64_t m, int64_t n, int64_t k) {
  return std::min({m, n, k}) >= 16 && m * n * k >= kParallelProduct;
}

/// Sixteen-bit floats: accumulates in float and rounds once.
struct MatmulInFloat {
  static constexpr std::string_view kName = "float";
  template <Widened T>
  static void run(TypeTag<T>, const Tensor& a, const Tensor& b, Tensor& y) {
    Tensor wide = Tensor::empty(y.shape(), f32);
    const int r = y.rank();
    const int64_t m = y.shape()[r - 2], n = y.shape()[r - 1], k = a.shape()[r - 1];
    if (widens_in_passing(m, n, k)) {
      for (int64_t i = 0; i < y.numel() / (m * n); ++i)
        multiply_blocks(m, n, k, matrix<T>(a, batch_offset(a, i)), matrix<T>(b, batch_offset(b, i)),
                        wide.data<float>() + i * m * n, n, Update::kStore);
    } else {
      const Tensor wide_a = a.to(f32), wide_b = b.to(f32);
      if (MatmulTiny::accepts(wide_a, wide_b, wide))
        MatmulTiny::run(TypeTag<float>{}, wide_a, wide_b, wide);
      else
        MatmulGemm::run(TypeTag<float>{}, wide_a, wide_b, wide);
    }
    kernels::copy(wide, y);
  }
};

/// Memory for the sums of a linear layer: the operand of a GELU is kept if its gradient needs it.
Tensor sums(const Epilogue& epilogue, const Tensor& y) { return epilogue.at ? epilogue.at : y; }

/// Plan for y = x w^T, x [n, in], w [out, in].
std::optional<DnnlPlan> dnnl_plan(const Tensor& x, const Tensor& w, const Tensor& y,
                                  MatmulPrecision precision) {
  return dnnl_plan(y.dtype(), y.shape()[0], y.shape()[1], x.shape()[1], plain_layout<float>(x),
                   transposed(plain_layout<float>(w)), precision);
}

struct LinearDnnl {
  static constexpr std::string_view kName = "dnnl";
  static bool is_available() { return has_dnnl_blocks(); }
  static std::optional<DnnlPlan> accepts(const Tensor& x, const Tensor& w, const Tensor&,
                                         const Epilogue&, const Tensor& y) {
    return dnnl_plan(x, w, y, matmul_precision());
  }
  template <Multiplied T>
  static void run(TypeTag<T>, DnnlPlan plan, const Tensor& x0, const Tensor& w0, const Tensor& bias,
                  const Epilogue& epilogue, Tensor& y) {
    const Tensor x = plain(x0), w = plain(w0), row = contiguous(bias), z = sums(epilogue, y);
    multiply_by<T>(plan, y.shape()[0], y.shape()[1], x.shape()[1], matrix<T>(x),
                   transposed(matrix<T>(w)), row ? row.data<T>() : nullptr, z.data<T>());
    kernels::run_epilogue(epilogue, z, y);
  }
};

struct LinearGemm {
  static constexpr std::string_view kName = "gemm";
  template <Exact T>
  static void run(TypeTag<T>, const Tensor& x0, const Tensor& w0, const Tensor& bias,
                  const Epilogue& epilogue, Tensor& y) {
    const Tensor x = plain(x0), w = plain(w0), row = contiguous(bias), z = sums(epilogue, y);
    const int64_t n = y.shape()[0], out = y.shape()[1];
    if (row && n * out > 32768) {
#pragma omp parallel for
      for (int64_t i = 0; i < n; ++i) std::copy_n(row.data<T>(), out, z.data<T>() + i * out);
    } else if (row) {  // a parallel region of one thread allocates a team
      for (int64_t i = 0; i < n; ++i) std::copy_n(row.data<T>(), out, z.data<T>() + i * out);
    }
    gemm(n, out, x.shape()[1], matrix<T>(x), transposed(matrix<T>(w)), z.data<T>(), out,
         /*accumulate=*/bool(row));
    kernels::run_epilogue(epilogue, z, y);
  }
};

/// Sixteen-bit floats: calls run() with operands converted to float, and rounds its result once.
/// The epilogue is that of rounded values.
template <typename Run>
void linear_in_float(const Tensor& x, const Tensor& w, const Tensor& bias, const Epilogue& epilogue,
                     Tensor& y, Run run) {
  Tensor wide = Tensor::empty(y.shape(), f32), z = sums(epilogue, y);
  run(x.to(f32), w.to(f32), bias ? bias.to(f32) : bias, wide);
  kernels::copy(wide, z);
  kernels::run_epilogue(epilogue, z, y);
}

/// Implementation of linear by the float products that suit the sizes, with full precision.
struct LinearInFloat {
  static constexpr std::string_view kName = "float";
  static bool accepts(const Tensor&, const Tensor&, const Tensor&, const Epilogue&, const Tensor&) {
    return true;
  }
  template <Widened T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& w, const Tensor& bias,
                  const Epilogue& epilogue, Tensor& y) {
    const int64_t n = y.shape()[0], out = y.shape()[1], in = x.shape()[1];
    if (widens_in_passing(n, out, in)) {
      Tensor wide = Tensor::empty(y.shape(), f32), z = sums(epilogue, y);
      if (bias) kernels::copy(bias, wide);
      multiply_blocks(n, out, in, matrix<T>(x), transposed(matrix<T>(w)), wide.data<float>(), out,
                      bias ? Update::kAdd : Update::kStore);
      kernels::copy(wide, z);
      kernels::run_epilogue(epilogue, z, y);
      return;
    }
    constexpr TypeTag<float> kFloat;
    linear_in_float(x, w, bias, epilogue, y, [&](auto x, auto w, auto bias, Tensor& y) {
      if (LinearNarrow::accepts(x, w, bias, {}, y))
        LinearNarrow::run(kFloat, x, w, bias, {}, y);
      else if (const auto plan = dnnl_plan(x, w, y, MatmulPrecision::kHighest))
        LinearDnnl::run(kFloat, *plan, x, w, bias, {}, y);
      else
        LinearGemm::run(kFloat, x, w, bias, {}, y);
    });
  }
};
struct LinearGemmInFloat {
  static constexpr std::string_view kName = "gemm";
  static void run(OneOf<float16, bfloat16>, const Tensor& x, const Tensor& w, const Tensor& bias,
                  const Epilogue& epilogue, Tensor& y) {
    linear_in_float(x, w, bias, epilogue, y, [&](auto x, auto w, auto bias, Tensor& y) {
      LinearGemm::run(TypeTag<float>{}, x, w, bias, {}, y);
    });
  }
};

struct LinearBackwardProducts {
  static constexpr std::string_view kName = "products";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db) {
    kernels::linear_backward_by_products(dy, behind, x, weight, front, dx, dw, db);
  }
};

}  // namespace

void register_matmul() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  constexpr TypeList<float16, bfloat16, float, double, uint8_t, int32_t, int64_t> kTypes{};
  set_implementations<kernels::matmul, MatmulTiny, MatmulDnnl, MatmulBatchDnnl, MatmulGemm,
                      MatmulInFloat>(kCpu, kTypes);
  kernels::linear.set_rows(DeviceType::kCpu, f32, LinearNarrow::kRows);
  kernels::linear_backward.set_rows(DeviceType::kCpu, f32, LinearBackwardNarrow::kRows);
  set_implementations<kernels::linear, LinearNarrow, LinearDnnl, LinearInFloat, LinearGemm,
                      LinearGemmInFloat>(kCpu, kTypes);
  set_implementations<kernels::linear_backward, LinearBackwardNarrow, LinearBackwardProducts>(
      kCpu, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
