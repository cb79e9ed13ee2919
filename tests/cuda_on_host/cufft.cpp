// The cuFFT calls of the backend: the toolkit's prototypes, which check and record their arguments.
// The kernels of the CPU compute the results from the recorded arguments. Values that cuFFT leaves
// undefined are overwritten: workspaces and the operands of complex-to-real transforms are
// overwritten, and the ends of a half spectrum must be real.
#include <cufft.h>

#include <cstring>
#include <map>

#include "backends/cuda/runtime/library.h"
#include "factors.h"
#include "ops/fft.h"

using namespace coh;
namespace kernels = tapegrad::kernels;

namespace {

struct Places {
  long long stride, distance;
};
struct Plan {
  cufftType type{};
  long long n = 0, count = 0;
  Places in{}, out{};
  bool allocates = true;
  void* workspace = nullptr;
  cudaStream_t stream = nullptr;

  std::size_t workspace_size() const { return n > 1 ? std::size_t(16 * n + 40) : 0; }
};
std::map<cufftHandle, Plan>& plans() {
  static auto& all = *new std::map<cufftHandle, Plan>;
  return all;
}

const char* name_of(cufftType type) {
  switch (type) {
    case CUFFT_R2C:
      return "R2C";
    case CUFFT_C2R:
      return "C2R";
    case CUFFT_C2C:
      return "C2C";
    case CUFFT_D2Z:
      return "D2Z";
    case CUFFT_Z2D:
      return "Z2D";
    default:
      return "Z2Z";
  }
}

/// Signals of `length` elements of `numbers` numbers each, as a tensor [count, length, numbers].
template <typename T>
Tensor gathered(const T* from, const Plan& plan, Places at, long long length, int numbers) {
  Tensor x = Tensor::empty({plan.count, length, numbers}, kDTypeOf<T>);
  T* to = x.data<T>();
  for (long long i = 0; i < plan.count; ++i)
    for (long long j = 0; j < length; ++j)
      for (int k = 0; k < numbers; ++k)
        *to++ = from[(i * at.distance + j * at.stride) * numbers + k];
  return x;
}
template <typename T>
void scatter(const Tensor& x, T* to, const Plan& plan, Places at, long long length, int numbers) {
  const T* from = x.data<T>();
  for (long long i = 0; i < plan.count; ++i)
    for (long long j = 0; j < length; ++j)
      for (int k = 0; k < numbers; ++k)
        to[(i * at.distance + j * at.stride) * numbers + k] = *from++;
}

template <typename T>
cufftResult execute(cufftHandle handle, cufftType type, T* x, T* y, int direction) {
  const auto found = plans().find(handle);
  if (found == plans().end() || found->second.type != type) return CUFFT_INVALID_PLAN;
  const Plan plan = found->second;
  if (plan.workspace_size() > 0 && plan.workspace == nullptr) return CUFFT_NO_WORKSPACE;
  for (const void* p : {static_cast<const void*>(x), static_cast<const void*>(y)})
    if (reinterpret_cast<std::uintptr_t>(p) % (2 * sizeof(T)) != 0) return CUFFT_UNALIGNED_DATA;
  if (x == y) fail("cuFFT: a transform in place, which the strides of the stand-in do not support");
  require_device(x, y, plan.workspace);
  note_library_call(joined("exec ", name_of(type), direction == CUFFT_INVERSE ? " inverse" : ""));
  const bool from_real = type == CUFFT_R2C || type == CUFFT_D2Z;
  const bool to_real = type == CUFFT_C2R || type == CUFFT_Z2D;
  const cudaError_t queued = enqueue(plan.stream, [=] {
    poison(plan.workspace, plan.workspace_size());
    const long long half = plan.n / 2 + 1;
    const long long in = to_real ? half : plan.n, out = from_real ? half : plan.n;
    const Tensor given = gathered(x, plan, plan.in, in, from_real ? 1 : 2);
    Tensor result = Tensor::empty({plan.count, out, to_real ? 1 : 2}, kDTypeOf<T>);
    if (from_real) {
      kernels::rfft.at(DeviceType::kCpu, kDTypeOf<T>)(given, 1.0, 1.0, result);
    } else if (to_real) {
      for (long long i = 0; i < plan.count; ++i) {
        const T* signal = given.data<T>() + i * in * 2;
        if (signal[1] != 0 || (plan.n % 2 == 0 && signal[plan.n + 1] != 0))
          fail("cuFFT: a half spectrum whose ends are not real");
      }
      kernels::irfft.at(DeviceType::kCpu, kDTypeOf<T>)(given, 1.0, 1.0, result);
      for (long long i = 0; i < plan.count; ++i)
        for (long long j = 0; j < in; ++j)
          poison(x + 2 * (i * plan.in.distance + j * plan.in.stride), 2 * sizeof(T));
    } else {
      kernels::fft.at(DeviceType::kCpu, kDTypeOf<T>)(given, direction == CUFFT_INVERSE, 1.0,
                                                     result);
    }
    scatter(result, y, plan, plan.out, out, to_real ? 1 : 2);
  });
  return queued == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

}  // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle* handle) {
  static cufftHandle newest = 0;
  plans()[*handle = ++newest];
  return CUFFT_SUCCESS;
}
cufftResult cufftDestroy(cufftHandle handle) {
  return plans().erase(handle) == 1 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates) {
  plans().at(handle).allocates = allocates != 0;
  return CUFFT_SUCCESS;
}
cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long* n, long long* around_x,
                                long long x_stride, long long x_distance, long long* around_y,
                                long long y_stride, long long y_distance, cufftType type,
                                long long count, std::size_t* workspace) {
  if (is_capturing()) fail("cuFFT makes a plan while a graph is captured");
  if (do_libraries_refuse()) return CUFFT_NOT_SUPPORTED;
  if (rank != 1 || n[0] < 1 || count < 1 || around_x == nullptr || around_y == nullptr ||
      x_stride < 1 || y_stride < 1)
    return CUFFT_INVALID_VALUE;
  Plan& plan = plans().at(handle);
  if (plan.allocates) fail("cuFFT allocates its workspace itself");
  plan.type = type;
  plan.n = n[0];
  plan.count = count;
  plan.in = {x_stride, x_distance};
  plan.out = {y_stride, y_distance};
  *workspace = plan.workspace_size();
  note_library_call(joined("plan ", name_of(type), ", n ", n[0], ", ", count, " signals, ",
                           x_stride, " ", x_distance, " to ", y_stride, " ", y_distance));
  return CUFFT_SUCCESS;
}
cufftResult cufftSetWorkArea(cufftHandle handle, void* workspace) {
  plans().at(handle).workspace = workspace;
  return CUFFT_SUCCESS;
}
cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  plans().at(handle).stream = stream;
  return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* x, cufftComplex* y, int direction) {
  return execute(plan, CUFFT_C2C, &x->x, &y->x, direction);
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* x, cufftDoubleComplex* y,
                         int direction) {
  return execute(plan, CUFFT_Z2Z, &x->x, &y->x, direction);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* x, cufftComplex* y) {
  return execute(plan, CUFFT_R2C, x, &y->x, CUFFT_FORWARD);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* x, cufftDoubleComplex* y) {
  return execute(plan, CUFFT_D2Z, x, &y->x, CUFFT_FORWARD);
}
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* x, cufftReal* y) {
  return execute(plan, CUFFT_C2R, &x->x, y, CUFFT_FORWARD);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* x, cufftDoubleReal* y) {
  return execute(plan, CUFFT_Z2D, &x->x, y, CUFFT_FORWARD);
}

}  // extern "C"

#define TG_FUNCTION(name) \
  if (std::strcmp(function, #name) == 0) return reinterpret_cast<void*>(&name)

void* tapegrad::backends::cuda::find_in_cufft(const char* function) {
  TG_FUNCTION(cufftCreate);
  TG_FUNCTION(cufftDestroy);
  TG_FUNCTION(cufftSetAutoAllocation);
  TG_FUNCTION(cufftMakePlanMany64);
  TG_FUNCTION(cufftSetWorkArea);
  TG_FUNCTION(cufftSetStream);
  TG_FUNCTION(cufftExecC2C);
  TG_FUNCTION(cufftExecR2C);
  TG_FUNCTION(cufftExecC2R);
  TG_FUNCTION(cufftExecZ2Z);
  TG_FUNCTION(cufftExecD2Z);
  TG_FUNCTION(cufftExecZ2D);
  coh::fail("a function of cuFFT that cuda_on_host does not have");
}
