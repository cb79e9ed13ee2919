// The cuBLASLt calls of the backend: the toolkit's prototypes, implemented by plain loops. Checks
// the requirements of the header, and offers no algorithm for operands that are not aligned to 16
// bytes, which tensor cores require.
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "blas_numbers.h"
#include "cublaslt_calls.h"

using namespace coh;

namespace {

struct Operation {
  cublasComputeType_t compute;
  std::int32_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  void* beside = nullptr;
  std::int64_t beside_ld = 0;
};
struct Layout {
  cudaDataType type;
  std::int64_t rows, columns, ld;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

template <typename T, typename Native>
T& of(Native native) {
  return *reinterpret_cast<T*>(native);
}
template <typename T>
cublasStatus_t read(T& value, const void* from, std::size_t size) {
  if (from == nullptr || size != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, size);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
std::int64_t bytes_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/// Returns whether the sizes match.
bool fits(const Operation& o, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = o.a == CUBLAS_OP_T, tb = o.b == CUBLAS_OP_T;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.ld >= a.rows &&
         b.ld >= b.rows && d.ld >= d.rows;
}

bool has(const Operation& o, cublasLtEpilogue_t part) {
  return (o.epilogue & std::uint32_t(part)) == std::uint32_t(part);
}
bool writes_beside(const Operation& o) { return has(o, CUBLASLT_EPILOGUE_GELU_AUX); }
bool reads_beside(const Operation& o) { return has(o, CUBLASLT_EPILOGUE_DGELU); }

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_gradient(double x) {
  const double scale = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}

bool has_algorithm(const Operation& o, const Layout& a, const Layout& b, const Layout& d) {
  constexpr std::uint32_t kKnown[] = {CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
                                      CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,
                                      CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
                                      CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                      CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADB};
  if (writes_beside(o) || reads_beside(o)) {
    if (o.beside == nullptr || !is_aligned(o.beside) || o.beside_ld < d.rows ||
        o.beside_ld % 8 != 0)
      return false;
  }
  for (const Layout* x : {&a, &b, &d})
    if (x->ld * bytes_of(x->type) % 16 != 0) return false;
  return a.type != CUDA_R_64F && is_aligned(o.vector) &&
         is_supported(a.type, b.type, d.type, o.compute) &&
         std::find(std::begin(kKnown), std::end(kKnown), o.epilogue) != std::end(kKnown);
}

int calls = 0, gelus = 0, gelu_gradients = 0;
bool relu_drops_nan = false;

}  // namespace

int coh::cublaslt_calls() { return calls; }
int coh::cublaslt_gelus() { return gelus; }
int coh::cublaslt_gelu_gradients() { return gelu_gradients; }
void coh::cublaslt_relu_drops_nan(bool drops) { relu_drops_nan = drops; }

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != (compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F))
    return CUBLAS_STATUS_INVALID_VALUE;
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete &of<Operation>(operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, std::size_t size) {
  auto& o = of<Operation>(operation);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return read(o.a, from, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return read(o.b, from, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return read(o.epilogue, from, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return read(o.vector, from, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return read(o.beside, from, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return read(o.beside_ld, from, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, std::int64_t(rows), std::int64_t(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &of<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, std::size_t size) {
  auto& p = of<Preference>(preference);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return read(p.workspace, from, size);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return read(p.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], from, size);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  const auto& o = of<Operation>(operation);
  *count = 0;
  if (wanted < 1 || !fits(o, of<Layout>(a), of<Layout>(b), of<Layout>(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const std::uint32_t alignment : of<Preference>(preference).alignments)
    if (alignment < 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!has_algorithm(o, of<Layout>(a), of<Layout>(b), of<Layout>(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  results[0] = {};
  results[0].algo.data[0] = 1 + o.epilogue;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void*, std::size_t,
                              cudaStream_t stream) {
  const Operation o = of<Operation>(operation);
  const Layout la = of<Layout>(a_layout), lb = of<Layout>(b_layout), ld = of<Layout>(d_layout);
  if (!fits(o, la, lb, ld) || c != d || *static_cast<const float*>(alpha) != 1 ||
      *static_cast<const float*>(beta) != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!has_algorithm(o, la, lb, ld) || algorithm->data[0] != 1 + o.epilogue || !is_aligned(a) ||
      !is_aligned(b) || !is_aligned(d))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const void* p : {a, b, static_cast<const void*>(d), static_cast<const void*>(o.vector),
                        static_cast<const void*>(o.beside)})
    check_argument(&p, sizeof(p), "an operand of cuBLASLt");
  ++calls;
  gelus += has(o, CUBLASLT_EPILOGUE_GELU);
  gelu_gradients += reads_beside(o);
  const cudaError_t queued = enqueue(stream, [=, drops = relu_drops_nan] {
    if (skips_arithmetic) return;
    const auto ta = cublasOperation_t(o.a), tb = cublasOperation_t(o.b);
    const std::int64_t depth = ta == CUBLAS_OP_N ? la.columns : la.rows;
    for (std::int64_t j = 0; j < ld.columns; ++j) {
      for (std::int64_t i = 0; i < ld.rows; ++i) {
        double sum = has(o, CUBLASLT_EPILOGUE_BIAS) ? load(o.vector, ld.type, i) : 0;
        for (std::int64_t l = 0; l < depth; ++l)
          sum +=
              load(a, la.type, place(ta, i, l, la.ld)) * load(b, lb.type, place(tb, l, j, lb.ld));
        const bool negative = sum < 0 || (drops && std::isnan(sum));
        const std::int64_t place_beside = i + j * o.beside_ld;
        if (has(o, CUBLASLT_EPILOGUE_RELU) && negative) sum = 0;
        if (writes_beside(o)) store(o.beside, ld.type, place_beside, sum);
        if (has(o, CUBLASLT_EPILOGUE_GELU)) sum = gelu(sum);
        if (reads_beside(o)) sum *= gelu_gradient(load(o.beside, ld.type, place_beside));
        store(d, ld.type, i + j * ld.ld, sum);
      }
      if (o.epilogue != CUBLASLT_EPILOGUE_BGRADB) continue;
      double sum = 0;
      for (std::int64_t l = 0; l < depth; ++l) sum += load(b, lb.type, place(tb, l, j, lb.ld));
      store(o.vector, ld.type, j, sum);
    }
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
