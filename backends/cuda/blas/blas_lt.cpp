#include "backends/cuda/blas/blas_lt.h"

#include <cublasLt.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/container/node_hash_map.h"

#include "backends/cuda/runtime/address.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/library.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {
namespace {

/// The cuBLASLt functions in use, with the prototypes of its header.
struct CublasLt {
  const Found<decltype(cublasLtCreate)> create{find_in_cublas_lt("cublasLtCreate")};
  const Found<decltype(cublasLtMatmul)> matmul{find_in_cublas_lt("cublasLtMatmul")};
  const Found<decltype(cublasLtMatmulAlgoGetHeuristic)> choose{
      find_in_cublas_lt("cublasLtMatmulAlgoGetHeuristic")};
  const Found<decltype(cublasLtMatmulDescCreate)> create_operation{
      find_in_cublas_lt("cublasLtMatmulDescCreate")};
  const Found<decltype(cublasLtMatmulDescDestroy)> destroy_operation{
      find_in_cublas_lt("cublasLtMatmulDescDestroy")};
  const Found<decltype(cublasLtMatmulDescSetAttribute)> set_operation{
      find_in_cublas_lt("cublasLtMatmulDescSetAttribute")};
  const Found<decltype(cublasLtMatmulPreferenceCreate)> create_preference{
      find_in_cublas_lt("cublasLtMatmulPreferenceCreate")};
  const Found<decltype(cublasLtMatmulPreferenceDestroy)> destroy_preference{
      find_in_cublas_lt("cublasLtMatmulPreferenceDestroy")};
  const Found<decltype(cublasLtMatmulPreferenceSetAttribute)> set_preference{
      find_in_cublas_lt("cublasLtMatmulPreferenceSetAttribute")};
  const Found<decltype(cublasLtMatrixLayoutCreate)> create_layout{
      find_in_cublas_lt("cublasLtMatrixLayoutCreate")};
  const Found<decltype(cublasLtMatrixLayoutDestroy)> destroy_layout{
      find_in_cublas_lt("cublasLtMatrixLayoutDestroy")};
};
const CublasLt& lt() {
  static const CublasLt opened;
  return opened;
}

/// Returns the largest power of two, at most 256, that divides an address.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return uint32_t(address & -address);
}

cublasLtEpilogue_t kind_of(const LtEpilogue& e) {
  const bool bias = e.bias != nullptr;
  if (e.row_sums != nullptr) return CUBLASLT_EPILOGUE_BGRADB;
  if (e.gelu_at != nullptr) return CUBLASLT_EPILOGUE_DGELU;
  if (e.before_gelu != nullptr)
    return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  if (e.gelu) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  if (e.relu) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Operands of the epilogue: a vector, and a matrix with the layout of c.
struct Beside {
  void *vector, *matrix;
  int64_t ld;  // in numbers
};
Beside beside_of(const LtEpilogue& e, int64_t ldc) {
  return {e.row_sums != nullptr ? e.row_sums : const_cast<void*>(e.bias),
          e.gelu_at != nullptr ? const_cast<void*>(e.gelu_at) : e.before_gelu, ldc};
}

/// All properties that the choice of an algorithm depends on. a and b are in cuBLASLt's order,
/// which is column-major: it computes c^T = b^T a^T.
struct Problem {
  int64_t rows, columns, depth;
  int64_t lda, ldb, ldc;
  cudaDataType_t type, result;
  cublasComputeType_t compute;
  cublasOperation_t a, b;
  cublasLtEpilogue_t epilogue;
  std::array<uint32_t, 5> alignments;  // of a, b, c, and of the vector and the matrix beside c

  bool operator==(const Problem&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.rows, p.columns, p.depth, p.lda, p.ldb, p.ldc, p.type,
                      p.result, p.compute, p.a, p.b, p.epilogue, p.alignments);
  }
};

/// Descriptors of a problem and the algorithm that cuBLASLt's heuristic prefers.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_found = false;

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout != nullptr) lt().destroy_layout(layout);         // errors are ignored
    if (operation != nullptr) lt().destroy_operation(operation);  // errors are ignored
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(lt().set_operation(operation, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
  void set_pointers(const Beside& beside) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, beside.vector);
    if (beside.matrix != nullptr) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside.matrix);
  }
};

cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld,
                              cublasOperation_t operation = CUBLAS_OP_N) {
  if (operation == CUBLAS_OP_T) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  check(lt().create_layout(&made, type, uint64_t(rows), uint64_t(columns), ld),
        "cublasLtMatrixLayoutCreate");
  return made;
}

class Preference {
 public:
  Preference() { check(lt().create_preference(&native_), "cublasLtMatmulPreferenceCreate"); }
  ~Preference() { lt().destroy_preference(native_); }  // errors are ignored
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <typename T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    check(lt().set_preference(native_, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t native() const { return native_; }

 private:
  cublasLtMatmulPreference_t native_ = nullptr;
};

/// The cuBLASLt handle and plans of a device, used by one thread at a time. Never destroyed.
struct Library {
  static constexpr size_t kMostPlans = 1024;

  Mutex mutex;
  cublasLtHandle_t handle ABSL_GUARDED_BY(mutex) = nullptr;
  absl::node_hash_map<Problem, Plan> plans ABSL_GUARDED_BY(mutex);

  /// Returns the plan with the pointers of its epilogue set.
  Plan& plan_for(const Problem& p, const Beside& beside) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (const auto known = plans.find(p); known != plans.end()) {
      if (known->second.is_found) known->second.set_pointers(beside);
      return known->second;
    }
    if (plans.size() >= kMostPlans) plans.clear();
    Plan& plan = plans[p];
    check(lt().create_operation(&plan.operation, p.compute, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    plan.set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t(p.a));
    plan.set(CUBLASLT_MATMUL_DESC_TRANSB, int32_t(p.b));
    plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t(p.epilogue));
    plan.set_pointers(beside);  // the heuristic considers their alignment
    if (beside.matrix != nullptr) plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, beside.ld);
    plan.a = layout(p.type, p.rows, p.depth, p.lda, p.a);
    plan.b = layout(p.type, p.depth, p.columns, p.ldb, p.b);
    plan.c = layout(p.result, p.rows, p.columns, p.ldc);
    Preference preference;
    preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(kWorkspace));
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.alignments[0]);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.alignments[1]);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.alignments[2]);
    preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.alignments[2]);
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status = lt().choose(handle, plan.operation, plan.a, plan.b, plan.c,
                                              plan.c, preference.native(), 1, &best, &count);
    plan.is_found =
        status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
    plan.algorithm = best.algo;
    return plan;
  }
};
Library& library_of(tapegrad::Device device) {
  static auto* all = new Library[kMaxDevices];
  return all[device.index];
}

/// Returns whether the ReLU of numbers that include NaN, by a product with the epilogue, keeps the
/// NaN.
bool try_relu_of_nan(const Tensor& where) {
  constexpr int64_t kSize = 16;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  static constexpr double kSums[kSize] = {kNaN, 1,    0, -1, 0,  -2, kNaN, 3,
                                          -0.0, kNaN, 2, 1,  -1, 0,  0,    kNaN};
  std::vector<double> first_column(kSize * kSize), first_row(kSize * kSize);
  for (size_t i = 0; i < kSize; ++i) first_column[i * kSize] = 1, first_row[i] = kSums[i];
  const auto matrix = [&](const std::vector<double>& values) {
    return Tensor::from<double>(values, {kSize, kSize}).to(where.dtype()).to(where.device());
  };
  const Tensor a = matrix(first_column), b = matrix(first_row), c = matrix(first_row);
  const auto dense = [](const Tensor& x) { return Matrices{address_of(x), false, kSize, 0}; };
  if (!gemm_with({.relu = true}, {kSize, kSize, kSize, 1, c.dtype(), c.dtype()}, dense(a), dense(b),
                 address_of(c), kSize, c))
    return false;
  const Tensor on_host = c.to(cpu).to(f64);
  for (int64_t i = 0; i < c.numel(); ++i) {
    const double got = on_host.data<double>()[i], sum = kSums[i % kSize];
    if (std::isnan(sum) ? !std::isnan(got) : got != std::max(sum, 0.0)) return false;
  }
  return true;
}

}  // namespace

bool relu_of_cublas_lt_keeps_nan(const Tensor& where) {
  enum Known : uint8_t { kUntried, kKeepsNaN, kDropsNaN };
  static std::atomic<uint8_t> known[kMaxDevices][kDTypeCount]{};
  std::atomic<uint8_t>& here = known[where.device().index][int(where.dtype())];
  if (here == kUntried) {
    if (is_recording_graph()) return false;
    here = try_relu_of_nan(where) ? kKeepsNaN : kDropsNaN;
  }
  return here == kKeepsNaN;
}

bool gemm_with(const LtEpilogue& epilogue, const Product& p, const Matrices& a, const Matrices& b,
               void* c, int64_t ldc, const Tensor& where) {
  if (p.dtype == f64 || p.m == 0 || p.n == 0 || p.k == 0 || !lt().create) return false;
  if ((epilogue.gelu || epilogue.gelu_at != nullptr) && p.dtype == f32 &&
      compute_type(f32) == CUBLAS_COMPUTE_32F)
    return false;
  const auto operation = [](const Matrices& x) { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const Beside beside = beside_of(epilogue, ldc);
  const Problem problem{.rows = p.n,
                        .columns = p.m,
                        .depth = p.k,
                        .lda = b.ld,
                        .ldb = a.ld,
                        .ldc = ldc,
                        .type = data_type(p.dtype),
                        .result = data_type(p.result),
                        .compute = compute_type(p.dtype),
                        .a = operation(b),
                        .b = operation(a),
                        .epilogue = kind_of(epilogue),
                        .alignments = {alignment_of(b.data), alignment_of(a.data), alignment_of(c),
                                       alignment_of(beside.vector), alignment_of(beside.matrix)}};
  const cudaStream_t stream = stream_of(where);
  const Tensor workspace = workspace_of(where.device(), stream);
  Library& library = library_of(where.device());
  const MutexLock lock(library.mutex);
  if (library.handle == nullptr) check(lt().create(&library.handle), "cublasLtCreate");
  Plan& plan = library.plan_for(problem, beside);
  if (!plan.is_found) return false;
  const float one = 1, zero = 0;
  check(lt().matmul(library.handle, plan.operation, &one, b.data, plan.a, a.data, plan.b, &zero, c,
                    plan.c, c, plan.c, &plan.algorithm, workspace.data<uint8_t>(), kWorkspace,
                    stream),
        "cublasLtMatmul");
  return true;
}

}  // namespace tapegrad::backends::cuda
