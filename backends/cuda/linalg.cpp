// Linear algebra by cuSOLVER and cuBLAS, else by the CPU.
#include "ops/linalg.h"

#include "backends/cuda/blas/triangular.h"
#include "backends/cuda/cusolver/factors.h"
#include "backends/cuda/device/matrices.h"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/by_cpu.h"
#include "ops/internal/exchanged_rows.h"

namespace tapegrad::backends::cuda {
namespace {

/// kRun(TypeTag<T>, arguments...) returns false if the library does not compute the arguments.
template <auto kRun>
struct ByCusolver {
  static constexpr std::string_view kName = "cusolver";
  static bool accepts(const auto&...) { return true; }
  template <typename T>
  static bool run(TypeTag<T> type, auto&... arguments) {
    return kRun(type, arguments...);
  }
};

struct ByCublas {
  static constexpr std::string_view kName = "cublas";
  static bool accepts(const auto&...) { return true; }
  template <typename T>
  static bool run(TypeTag<T>, const Tensor& a, kernels::Triangle triangle, Tensor& b) {
    return solve_triangle<T>(a, triangle, b);
  }
};

template <auto& kKernel, auto kRun>
void set_cusolver() {
  set_implementations<kKernel, ByCusolver<kRun>, ByCpu<kKernel>>(TypeList<float, double>{});
}

}  // namespace

void register_linalg() {
  using namespace cusolver;
  set_cusolver<kernels::lu_factor,
               []<typename T>(TypeTag<T>, auto&... a) { return lu_factor<T>(a...); }>();
  set_cusolver<kernels::lu_solve,
               []<typename T>(TypeTag<T>, auto&... a) { return lu_solve<T>(a...); }>();
  set_cusolver<kernels::cholesky,
               []<typename T>(TypeTag<T>, auto&... a) { return cholesky<T>(a...); }>();
  set_cusolver<kernels::qr_factor,
               []<typename T>(TypeTag<T>, auto&... a) { return qr_factor<T>(a...); }>();
  set_cusolver<kernels::qr_form,
               []<typename T>(TypeTag<T>, auto&... a) { return qr_form<T>(a...); }>();
  set_cusolver<kernels::svd, []<typename T>(TypeTag<T>, auto&... a) { return svd<T>(a...); }>();
  set_cusolver<kernels::eigh, []<typename T>(TypeTag<T>, auto&... a) { return eigh<T>(a...); }>();
  set_implementations<kernels::triangular_solve, ByCublas, ByCpu<kernels::triangular_solve>>(
      TypeList<float, double>{});
  set<kernels::exchanged_rows>(TypeList<int64_t>{}, [](auto, auto&... a) { exchanged_rows(a...); });
}

}  // namespace tapegrad::backends::cuda
