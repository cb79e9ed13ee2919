// The cuDNN calls of the backend: the toolkit's prototypes, implemented by plain loops. The list of
// algorithms contains traps: unsuitable algorithms, whose use is an error, come before the two
// suitable ones, and for some problems the first suitable one reports when called that it is not
// supported. Kernels of even height are not supported at all.
#include <cstring>

#include "backends/cuda/runtime/library.h"
#include "cudnn_calls.h"
#include "cudnn_parts.h"

using namespace coh;

namespace {

/// Sizes of a tensor or a filter.
struct Sizes {
  cudnnDataType_t type = CUDNN_DATA_INT8;
  int n[4] = {};  // dimension 1 is channels
  bool channels_last = false;

  std::int64_t numel() const { return std::int64_t(n[0]) * n[1] * n[2] * n[3]; }
  std::size_t place(int a, int b, int c, int d) const {
    return channels_last ? std::size_t(((std::int64_t(a) * n[2] + c) * n[3] + d) * n[1] + b)
                         : std::size_t(((std::int64_t(a) * n[1] + b) * n[2] + c) * n[3] + d);
  }
};
struct Convolution {
  int padding[2] = {}, stride[2] = {}, dilation[2] = {};
  int groups = 1;
  cudnnDataType_t compute = CUDNN_DATA_INT8;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

template <typename T, typename Native>
T& of(Native native) {
  return *reinterpret_cast<T*>(native);
}
template <typename T, typename Native>
cudnnStatus_t create(Native* made) {
  *made = reinterpret_cast<Native>(new T);
  return CUDNN_STATUS_SUCCESS;
}
template <typename T, typename Native>
cudnnStatus_t destroy(Native native) {
  delete &of<T>(native);
  return CUDNN_STATUS_SUCCESS;
}

std::int64_t bytes_of(const Sizes& s) { return s.numel() * size_of(s.type); }

cudnnStatus_t set_sizes(Sizes& sizes, cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                        int c, int h, int w) {
  if ((format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC) || !is_float(type))
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
  sizes = {type, {n, c, h, w}, format == CUDNN_TENSOR_NHWC};
  return sizes.numel() < std::int64_t{1} << 31 ? CUDNN_STATUS_SUCCESS
                                               : CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
}

/// The three operands of a convolution, y = w * x.
struct Operands {
  Sizes x, w, y;
  Convolution c;

  bool fit() const {
    if (x.type != w.type || x.type != y.type || x.channels_last != w.channels_last ||
        x.channels_last != y.channels_last ||
        c.compute != (x.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT) ||
        x.n[0] != y.n[0] || x.n[1] != w.n[1] * c.groups || w.n[0] != y.n[1] ||
        w.n[0] % c.groups != 0)
      return false;
    for (int d = 0; d < 2; ++d)
      if (y.n[d + 2] !=
          (x.n[d + 2] + 2 * c.padding[d] - c.dilation[d] * (w.n[d + 2] - 1) - 1) / c.stride[d] + 1)
        return false;
    return true;
  }
  /// Channels last requires 16-bit types and channels in multiples of eight.
  bool is_known() const {
    return !x.channels_last ||
           (bytes_of(x) == 2 * x.numel() && w.n[0] % 8 == 0 && w.n[1] % 8 == 0 && c.groups == 1);
  }
  /// Workspace of the first suitable algorithm. With a stride of 3 it exceeds the memory of a small
  /// device.
  std::size_t workspace() const {
    return c.stride[0] == 3 ? std::size_t{16} << 20 : 128 + std::size_t(x.n[1]);
  }
};

constexpr std::size_t kTooMuch = std::size_t(1) << 40;

/// kPlain and kFast are suitable; kFast stands for Winograd in the gradients.
enum Algorithm { kPlain, kFast, kUnfit, kFourier, kHuge };
template <typename T>
struct Names;
template <>
struct Names<cudnnConvolutionFwdAlgo_t> {
  static constexpr cudnnConvolutionFwdAlgo_t all[] = {
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
      CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
      CUDNN_CONVOLUTION_FWD_ALGO_DIRECT};
};
template <>
struct Names<cudnnConvolutionBwdDataAlgo_t> {
  static constexpr cudnnConvolutionBwdDataAlgo_t all[] = {
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD};
};
template <>
struct Names<cudnnConvolutionBwdFilterAlgo_t> {
  static constexpr cudnnConvolutionBwdFilterAlgo_t all[] = {
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED,
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING,
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3};
};

template <typename Answer>
cudnnStatus_t answer(const Operands& o, int wanted, int* count, Answer* answers) {
  using Name = decltype(Answer::algo);
  *count = 0;
  if (!o.fit()) fail("cuDNN: a convolution whose sizes or types do not fit");
  if (o.w.n[2] % 2 == 0 || !o.is_known()) return CUDNN_STATUS_NOT_SUPPORTED;
  const cudnnMathType_t math = o.c.math;
  const auto add = [&](Algorithm a, cudnnDeterminism_t determinism, cudnnMathType_t type,
                       std::size_t memory, cudnnStatus_t status = CUDNN_STATUS_SUCCESS) {
    if (*count == wanted) return;
    answers[(*count)++] = {.algo = Names<Name>::all[a],
                           .status = status,
                           .time = -1,
                           .memory = memory,
                           .determinism = determinism,
                           .mathType = type,
                           .reserved = {}};
  };
  add(kUnfit, CUDNN_NON_DETERMINISTIC, math, 0);
  add(kFourier, CUDNN_DETERMINISTIC, math, 0);
  add(kUnfit, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 0);
  if (math == CUDNN_FMA_MATH) add(kUnfit, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH, 0);
  add(kHuge, CUDNN_DETERMINISTIC, math, kTooMuch);
  add(kUnfit, CUDNN_DETERMINISTIC, math, 0, CUDNN_STATUS_NOT_SUPPORTED);
  add(kFast, CUDNN_DETERMINISTIC, math, o.workspace());
  add(kPlain, CUDNN_DETERMINISTIC, CUDNN_DEFAULT_MATH, 0);
  return CUDNN_STATUS_SUCCESS;
}

template <typename Name>
int index_of(Name name) {
  const auto& all = Names<Name>::all;
  return int(std::find(std::begin(all), std::end(all), name) - std::begin(all));
}

template <typename Name>
cudnnStatus_t workspace_of(const Operands& o, Name name, std::size_t* bytes) {
  if (!o.fit()) return CUDNN_STATUS_BAD_PARAM;
  const int a = index_of(name);
  *bytes = a == kFast ? o.workspace() : a == kHuge ? kTooMuch : 0;
  return CUDNN_STATUS_SUCCESS;
}

std::vector<double> load_all(const void* p, const Sizes& s) {
  std::vector<double> values(std::size_t(s.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load(p, of_cuda(s.type), std::int64_t(i));
  return values;
}
void store_all(void* p, const Sizes& s, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    store(p, of_cuda(s.type), std::int64_t(i), values[i]);
}

/// Calls visit with the positions in x, w and y of every product.
template <typename Visit>
void for_each_product(const Operands& o, const Visit& visit) {
  const int out = o.w.n[0] / o.c.groups, in = o.w.n[1];
  for (int n = 0; n < o.x.n[0]; ++n)
    for (int k = 0; k < o.w.n[0]; ++k)
      for (int c = 0; c < in; ++c)
        for (int i = 0; i < o.y.n[2]; ++i)
          for (int j = 0; j < o.y.n[3]; ++j)
            for (int u = 0; u < o.w.n[2]; ++u)
              for (int v = 0; v < o.w.n[3]; ++v) {
                const int row = i * o.c.stride[0] + u * o.c.dilation[0] - o.c.padding[0];
                const int column = j * o.c.stride[1] + v * o.c.dilation[1] - o.c.padding[1];
                if (row < 0 || row >= o.x.n[2] || column < 0 || column >= o.x.n[3]) continue;
                visit(o.x.place(n, k / out * in + c, row, column), o.w.place(k, c, u, v),
                      o.y.place(n, k, i, j));
              }
}

int calls = 0;
bool used_tensor_cores = false, used_winograd = false, used_channels_last = false;

/// Computes `result`, one of the three operands, from the other two.
template <typename Name>
cudnnStatus_t convolve(cudnnHandle_t handle, const Operands& o, Name name, const void* alpha,
                       const void* beta, const void* x, const void* w, const void* y,
                       const void* result, void* workspace, std::size_t bytes) {
  const bool wide = o.x.type == CUDNN_DATA_DOUBLE;
  const auto scale = [&](const void* p) {
    return wide ? *static_cast<const double*>(p) : double(*static_cast<const float*>(p));
  };
  const int a = index_of(name);
  std::size_t needed = 0;
  if (!o.fit() || !o.is_known() || scale(alpha) != 1 || scale(beta) != 0 ||
      (a != kFast && a != kPlain) || o.c.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ||
      workspace_of(o, name, &needed) != CUDNN_STATUS_SUCCESS)
    return CUDNN_STATUS_BAD_PARAM;
  if (bytes < needed || (needed > 0 && workspace == nullptr))
    return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  const std::pair<const void*, const Sizes*> operands[] = {{x, &o.x}, {w, &o.w}, {y, &o.y}};
  for (const auto& [p, sizes] : operands) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0)
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    check_operand(p, bytes_of(*sizes), "an operand of cuDNN");
  }
  if (a == kFast && o.c.dilation[1] != 1) return CUDNN_STATUS_NOT_SUPPORTED;
  check_argument(&workspace, sizeof(workspace), "the workspace of cuDNN");
  ++calls;
  used_tensor_cores = o.c.math != CUDNN_FMA_MATH;
  used_channels_last = o.x.channels_last;
  used_winograd = a == kFast && !std::is_same_v<Name, cudnnConvolutionFwdAlgo_t>;
  const cudaError_t queued = enqueue(stream_of(handle), [=] {
    if (skips_arithmetic) return;
    if (needed > 0) poison(workspace, needed);
    std::vector<double> xs, ws, ys;
    const auto fill = [&](std::vector<double>& values, const void* p, const Sizes& s) {
      values = p == result ? std::vector<double>(std::size_t(s.numel())) : load_all(p, s);
    };
    fill(xs, x, o.x), fill(ws, w, o.w), fill(ys, y, o.y);
    for_each_product(o, [&](std::size_t i, std::size_t j, std::size_t k) {
      if (result == y)
        ys[k] += xs[i] * ws[j];
      else if (result == x)
        xs[i] += ys[k] * ws[j];
      else
        ws[j] += xs[i] * ys[k];
    });
    if (result == y)
      store_all(const_cast<void*>(y), o.y, ys);
    else if (result == x)
      store_all(const_cast<void*>(x), o.x, xs);
    else
      store_all(const_cast<void*>(w), o.w, ws);
  });
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

Operands operands_of(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                     cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t y) {
  return {of<Sizes>(x), of<Sizes>(w), of<Sizes>(y), of<Convolution>(c)};
}

}  // namespace

int coh::cudnn_calls() { return calls; }
bool coh::cudnn_used_tensor_cores() { return used_tensor_cores; }
bool coh::cudnn_used_winograd() { return used_winograd; }
bool coh::cudnn_used_channels_last() { return used_channels_last; }

extern "C" {

std::size_t cudnnGetVersion() { return 91900; }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (breaks_capture()) return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  return create<CudnnHandle>(handle);
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  of<CudnnHandle>(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "status of cuda_on_host";
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
  std::snprintf(message, size, "of cuda_on_host");
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  return create<Sizes>(made);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy<Sizes>(tensor);
}
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  return set_sizes(of<Sizes>(tensor), format, type, n, c, h, w);
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  return create<Sizes>(made);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy<Sizes>(filter);
}
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  return set_sizes(of<Sizes>(filter), format, type, k, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  return create<Convolution>(made);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy<Convolution>(convolution);
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
    return CUDNN_STATUS_BAD_PARAM;
  if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
  of<Convolution>(convolution) = {.padding = {pad_h, pad_w},
                                  .stride = {stride_h, stride_w},
                                  .dilation = {dilation_h, dilation_w},
                                  .compute = compute};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  of<Convolution>(convolution).groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math) {
  of<Convolution>(convolution).math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w,
                                                     cudnnConvolutionDescriptor_t c,
                                                     cudnnTensorDescriptor_t y, int wanted,
                                                     int* count,
                                                     cudnnConvolutionFwdAlgoPerf_t* answers) {
  return answer(operands_of(x, w, c, y), wanted, count, answers);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnTensorDescriptor_t x, int wanted, int* count,
    cudnnConvolutionBwdDataAlgoPerf_t* answers) {
  return answer(operands_of(x, w, c, y), wanted, count, answers);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t w, int wanted, int* count,
    cudnnConvolutionBwdFilterAlgoPerf_t* answers) {
  return answer(operands_of(x, w, c, y), wanted, count, answers);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t w,
                                                      cudnnConvolutionDescriptor_t c,
                                                      cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm,
                                                      std::size_t* bytes) {
  return workspace_of(operands_of(x, w, c, y), algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t, cudnnFilterDescriptor_t w,
                                                           cudnnTensorDescriptor_t y,
                                                           cudnnConvolutionDescriptor_t c,
                                                           cudnnTensorDescriptor_t x,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return workspace_of(operands_of(x, w, c, y), algorithm, bytes);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
    cudnnConvolutionDescriptor_t c, cudnnFilterDescriptor_t w,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return workspace_of(operands_of(x, w, c, y), algorithm, bytes);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                      cudnnTensorDescriptor_t x, const void* x_data,
                                      cudnnFilterDescriptor_t w, const void* w_data,
                                      cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                      std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y, void* y_data) {
  return convolve(handle, operands_of(x, w, c, y), algorithm, alpha, beta, x_data, w_data, y_data,
                  y_data, workspace, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t w, const void* w_data,
                                           cudnnTensorDescriptor_t y, const void* y_data,
                                           cudnnConvolutionDescriptor_t c,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x, void* x_data) {
  return convolve(handle, operands_of(x, w, c, y), algorithm, alpha, beta, x_data, w_data, y_data,
                  x_data, workspace, bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                             cudnnTensorDescriptor_t x, const void* x_data,
                                             cudnnTensorDescriptor_t y, const void* y_data,
                                             cudnnConvolutionDescriptor_t c,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void* workspace, std::size_t bytes, const void* beta,
                                             cudnnFilterDescriptor_t w, void* w_data) {
  return convolve(handle, operands_of(x, w, c, y), algorithm, alpha, beta, x_data, w_data, y_data,
                  w_data, workspace, bytes);
}

}  // extern "C"

#define TG_FUNCTION(name) \
  if (std::strcmp(function, #name) == 0) return reinterpret_cast<void*>(&name)

void* tapegrad::backends::cuda::find_in_cudnn(const char* function) {
  TG_FUNCTION(cudnnGetVersion);
  TG_FUNCTION(cudnnCreate);
  TG_FUNCTION(cudnnSetStream);
  TG_FUNCTION(cudnnGetErrorString);
  TG_FUNCTION(cudnnGetLastErrorString);
  TG_FUNCTION(cudnnCreateTensorDescriptor);
  TG_FUNCTION(cudnnSetTensor4dDescriptor);
  TG_FUNCTION(cudnnDestroyTensorDescriptor);
  TG_FUNCTION(cudnnCreateFilterDescriptor);
  TG_FUNCTION(cudnnSetFilter4dDescriptor);
  TG_FUNCTION(cudnnDestroyFilterDescriptor);
  TG_FUNCTION(cudnnCreateConvolutionDescriptor);
  TG_FUNCTION(cudnnSetConvolution2dDescriptor);
  TG_FUNCTION(cudnnSetConvolutionGroupCount);
  TG_FUNCTION(cudnnSetConvolutionMathType);
  TG_FUNCTION(cudnnDestroyConvolutionDescriptor);
  TG_FUNCTION(cudnnGetConvolutionForwardAlgorithm_v7);
  TG_FUNCTION(cudnnGetConvolutionForwardWorkspaceSize);
  TG_FUNCTION(cudnnConvolutionForward);
  TG_FUNCTION(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  TG_FUNCTION(cudnnGetConvolutionBackwardDataWorkspaceSize);
  TG_FUNCTION(cudnnConvolutionBackwardData);
  TG_FUNCTION(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  TG_FUNCTION(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  TG_FUNCTION(cudnnConvolutionBackwardFilter);
  TG_FUNCTION(cudnnBackendCreateDescriptor);
  TG_FUNCTION(cudnnBackendDestroyDescriptor);
  TG_FUNCTION(cudnnBackendSetAttribute);
  TG_FUNCTION(cudnnBackendGetAttribute);
  TG_FUNCTION(cudnnBackendFinalize);
  TG_FUNCTION(cudnnBackendExecute);
  coh::fail("a function of cuDNN that cuda_on_host does not have");
}
