#include "backends/cuda/conv_cudnn.h"

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <compare>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cpu/fast_paths.h"
#include "backends/cuda/api.h"
#include "backends/cuda/library.h"
#include "backends/cuda/stream.h"
#include "core/cuda.h"
#include "core/error.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t(1) << 30;
constexpr size_t kMostPlans = 1024;
constexpr int kMostAnswers = 32;

/// A function of cuDNN with the prototype of its header.
#define TG_CUDNN(name) \
  const Found<decltype(::name)> name { find_in_cudnn(#name) }
struct Cudnn {
  TG_CUDNN(cudnnGetVersion);
  TG_CUDNN(cudnnCreate);
  TG_CUDNN(cudnnSetStream);
  TG_CUDNN(cudnnGetErrorString);
  TG_CUDNN(cudnnGetLastErrorString);
  TG_CUDNN(cudnnCreateTensorDescriptor);
  TG_CUDNN(cudnnSetTensor4dDescriptor);
  TG_CUDNN(cudnnDestroyTensorDescriptor);
  TG_CUDNN(cudnnCreateFilterDescriptor);
  TG_CUDNN(cudnnSetFilter4dDescriptor);
  TG_CUDNN(cudnnDestroyFilterDescriptor);
  TG_CUDNN(cudnnCreateConvolutionDescriptor);
  TG_CUDNN(cudnnSetConvolution2dDescriptor);
  TG_CUDNN(cudnnSetConvolutionGroupCount);
  TG_CUDNN(cudnnSetConvolutionMathType);
  TG_CUDNN(cudnnDestroyConvolutionDescriptor);
  TG_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionForwardWorkspaceSize);
  TG_CUDNN(cudnnConvolutionForward);
  TG_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize);
  TG_CUDNN(cudnnConvolutionBackwardData);
  TG_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  TG_CUDNN(cudnnConvolutionBackwardFilter);
};
#undef TG_CUDNN
const Cudnn& dnn() {
  static const Cudnn opened;
  return opened;
}

std::string describe(cudnnStatus_t status) {
  char details[256] = "";
  dnn().cudnnGetLastErrorString(details, sizeof(details));
  return std::string(dnn().cudnnGetErrorString(status)) + (details[0] != 0 ? ": " : "") + details;
}
void check(cudnnStatus_t status, std::string_view call) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail<tapegrad::cuda::CudaError>(current_op(), ": ", call, ": ", describe(status));
}
#define TG_DNN(call, ...) check(dnn().call(__VA_ARGS__), #call)

bool is_category(cudnnStatus_t status, cudnnStatus_t category) {
  return CUDNN_STATUS_CATEGORY(int(status)) == int(category);
}

/// Dies with its owner; *descriptor is what cuDNN takes.
template <typename T, auto kCreate, auto kDestroy>
class Descriptor {
 public:
  Descriptor() { check((dnn().*kCreate)(&native_), "the creation of a descriptor"); }
  ~Descriptor() { (dnn().*kDestroy)(native_); }  // may fail
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  T operator*() const { return native_; }

 private:
  T native_ = nullptr;
};
using TensorDescriptor = Descriptor<cudnnTensorDescriptor_t, &Cudnn::cudnnCreateTensorDescriptor,
                                    &Cudnn::cudnnDestroyTensorDescriptor>;
using FilterDescriptor = Descriptor<cudnnFilterDescriptor_t, &Cudnn::cudnnCreateFilterDescriptor,
                                    &Cudnn::cudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Descriptor<cudnnConvolutionDescriptor_t, &Cudnn::cudnnCreateConvolutionDescriptor,
               &Cudnn::cudnnDestroyConvolutionDescriptor>;

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case f16:
      return CUDNN_DATA_HALF;
    case bf16:
      return CUDNN_DATA_BFLOAT16;
    case f32:
      return CUDNN_DATA_FLOAT;
    default:
      return CUDNN_DATA_DOUBLE;
  }
}

enum class Result { kY, kX, kWeight };

/// What the choice of an algorithm depends on.
struct Problem {
  Result result;
  DType dtype;
  bool tf32;      // allowed
  bool winograd;  // likewise; never of sixteen bits, which it would round on the way
  std::array<int, 4> x, weight, y;  // channels first
  std::array<int, 2> padding, stride, dilation;
  int groups;
  ImageLayout layout;

  auto operator<=>(const Problem&) const = default;

  bool is_exact() const { return dtype == f32 && !tf32; }
};

/// An algorithm, and how it is to be called.
struct Way {
  int algorithm;
  cudnnMathType_t math;
  size_t workspace;
};

/// A NaN or an infinity would come out at places whose windows do not hold it, in the whole image.
bool is_fourier(cudnnConvolutionFwdAlgo_t a) {
  return a == CUDNN_CONVOLUTION_FWD_ALGO_FFT || a == CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING;
}
bool is_fourier(cudnnConvolutionBwdDataAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT ||
         a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING;
}
bool is_fourier(cudnnConvolutionBwdFilterAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
         a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING;
}
bool is_winograd(cudnnConvolutionFwdAlgo_t a) {
  return a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
         a == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
}
bool is_winograd(cudnnConvolutionBwdDataAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
         a == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
}
bool is_winograd(cudnnConvolutionBwdFilterAlgo_t a) {
  return a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
         a == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
}

/// How a problem is computed: descriptors, and the ways that are fit, the fastest first. That is
/// what cuDNN thinks: nothing is measured, so that a program run again takes the same way.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const Problem& p) : problem_(p) {
    const cudnnDataType_t type = data_type(p.dtype);
    const cudnnTensorFormat_t format =
        p.layout == ImageLayout::kChannelsLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    TG_DNN(cudnnSetTensor4dDescriptor, *x_, format, type, p.x[0], p.x[1], p.x[2], p.x[3]);
    TG_DNN(cudnnSetTensor4dDescriptor, *y_, format, type, p.y[0], p.y[1], p.y[2], p.y[3]);
    TG_DNN(cudnnSetFilter4dDescriptor, *weight_, type, format, p.weight[0], p.weight[1],
           p.weight[2], p.weight[3]);
    TG_DNN(cudnnSetConvolution2dDescriptor, *convolution_, p.padding[0], p.padding[1], p.stride[0],
           p.stride[1], p.dilation[0], p.dilation[1], CUDNN_CROSS_CORRELATION,
           p.dtype == f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    TG_DNN(cudnnSetConvolutionGroupCount, *convolution_, p.groups);
    find(handle);
  }

  /// False where there is no way, or too little memory for any.
  bool run(cudnnHandle_t handle, const Tensor& x, const Tensor& weight, const Tensor& y) {
    for (auto way = ways_.begin(); way != ways_.end();) {
      Tensor workspace;
      try {
        if (way->workspace > 0)
          workspace = Tensor::empty({int64_t(way->workspace)}, u8, x.device());
      } catch (const OutOfMemory&) {
        ++way;
        continue;
      }
      TG_DNN(cudnnSetConvolutionMathType, *convolution_, way->math);
      const cudnnStatus_t status =
          call(handle, *way, workspace, address(x), address(weight), address(y));
      if (status == CUDNN_STATUS_SUCCESS) return true;
      if (!is_category(status, CUDNN_STATUS_NOT_SUPPORTED)) check(status, name());
      way = ways_.erase(way);
    }
    return false;
  }

  /// Of the first element.
  static std::byte* address(const Tensor& x) {
    return x.storage().data() + x.layout().offset * size_of(x.dtype());
  }

 private:
  void find(cudnnHandle_t handle) {
    const auto first = problem_.is_exact()     ? CUDNN_FMA_MATH
                       : problem_.dtype == f64 ? CUDNN_DEFAULT_MATH
                                               : CUDNN_TENSOR_OP_MATH;
    TG_DNN(cudnnSetConvolutionMathType, *convolution_, first);
    const Cudnn& d = dnn();
    switch (problem_.result) {
      case Result::kY:
        return find<cudnnConvolutionFwdAlgoPerf_t>(d.cudnnGetConvolutionForwardAlgorithm_v7,
                                                   d.cudnnGetConvolutionForwardWorkspaceSize,
                                                   handle, *x_, *weight_, *convolution_, *y_);
      case Result::kX:
        return find<cudnnConvolutionBwdDataAlgoPerf_t>(
            d.cudnnGetConvolutionBackwardDataAlgorithm_v7,
            d.cudnnGetConvolutionBackwardDataWorkspaceSize, handle, *weight_, *y_, *convolution_,
            *x_);
      case Result::kWeight:
        return find<cudnnConvolutionBwdFilterAlgoPerf_t>(
            d.cudnnGetConvolutionBackwardFilterAlgorithm_v7,
            d.cudnnGetConvolutionBackwardFilterWorkspaceSize, handle, *x_, *y_, *convolution_,
            *weight_);
    }
  }
  template <typename Answer, typename Ask, typename SizeOf, typename... Descriptors>
  void find(const Ask& ask, const SizeOf& size_of_workspace, cudnnHandle_t handle,
            Descriptors... descriptors) {
    Answer answers[kMostAnswers];
    int count = 0;
    const cudnnStatus_t status = ask(handle, descriptors..., kMostAnswers, &count, answers);
    if (is_category(status, CUDNN_STATUS_NOT_SUPPORTED) ||
        is_category(status, CUDNN_STATUS_BAD_PARAM))  // it takes fewer geometries than there are
      return;
    check(status, "cudnnGetConvolution...Algorithm_v7");
    for (const Answer& a : std::span(answers, size_t(count))) {
      if (a.status != CUDNN_STATUS_SUCCESS || a.determinism != CUDNN_DETERMINISTIC ||
          a.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION || is_fourier(a.algo) ||
          (is_winograd(a.algo) && !problem_.winograd) ||
          (problem_.is_exact() && a.mathType == CUDNN_TENSOR_OP_MATH))
        continue;
      Way way{int(a.algo), problem_.is_exact() ? CUDNN_FMA_MATH : a.mathType, 0};
      TG_DNN(cudnnSetConvolutionMathType, *convolution_, way.math);
      if (size_of_workspace(handle, descriptors..., a.algo, &way.workspace) ==
              CUDNN_STATUS_SUCCESS &&
          way.workspace <= kMostWorkspace)
        ways_.push_back(way);
    }
  }

  cudnnStatus_t call(cudnnHandle_t handle, const Way& way, const Tensor& workspace, void* x,
                     void* weight, void* y) const {
    const double wide[2] = {1, 0};
    const float narrow[2] = {1, 0};
    const bool is_wide = problem_.dtype == f64;
    const void* one = is_wide ? static_cast<const void*>(wide) : narrow;
    const void* zero = is_wide ? static_cast<const void*>(wide + 1) : narrow + 1;
    void* work = workspace ? workspace.data<uint8_t>() : nullptr;
    switch (problem_.result) {
      case Result::kY:
        return dnn().cudnnConvolutionForward(handle, one, *x_, x, *weight_, weight, *convolution_,
                                             cudnnConvolutionFwdAlgo_t(way.algorithm), work,
                                             way.workspace, zero, *y_, y);
      case Result::kX:
        return dnn().cudnnConvolutionBackwardData(
            handle, one, *weight_, weight, *y_, y, *convolution_,
            cudnnConvolutionBwdDataAlgo_t(way.algorithm), work, way.workspace, zero, *x_, x);
      default:
        return dnn().cudnnConvolutionBackwardFilter(handle, one, *x_, x, *y_, y, *convolution_,
                                                    cudnnConvolutionBwdFilterAlgo_t(way.algorithm),
                                                    work, way.workspace, zero, *weight_, weight);
    }
  }
  std::string_view name() const {
    switch (problem_.result) {
      case Result::kY:
        return "cudnnConvolutionForward";
      case Result::kX:
        return "cudnnConvolutionBackwardData";
      default:
        return "cudnnConvolutionBackwardFilter";
    }
  }

  Problem problem_;
  TensorDescriptor x_, y_;
  FilterDescriptor weight_;
  ConvolutionDescriptor convolution_;
  std::vector<Way> ways_;
};

std::atomic<bool>& is_wanted() {
  static std::atomic<bool> wanted{cpu::fast_paths()};
  return wanted;
}
/// Why no device goes by cuDNN.
std::string why_none() {
  if (!is_wanted()) return "cuDNN is not wanted";
  return dnn().cudnnCreate ? "" : "libcudnn.so.9 could not be opened";
}

/// One for each device, used by one thread at a time. Never destroyed.
struct Library {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  std::string reason;  // why there is no handle, once one was wanted in vain
  std::map<Problem, Plan> plans;

  bool open() {
    if (handle != nullptr) return true;
    if (!reason.empty() || !dnn().cudnnCreate) return false;
    stop_recording("cuDNN begins");
    const cudnnStatus_t status = dnn().cudnnCreate(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return true;
    handle = nullptr;
    reason = "cudnnCreate: " + describe(status);
    return false;
  }
  Plan& plan_for(const Problem& p) {
    if (const auto known = plans.find(p); known != plans.end()) return known->second;
    if (plans.size() >= kMostPlans) plans.clear();
    return plans.try_emplace(p, handle, p).first->second;
  }
};
Library& library_of(tapegrad::Device device) {
  static auto* all = new Library[kMaxDevices];
  return all[device.index];
}

/// 16-byte loads, and sizes and offsets that are int.
bool is_fit(const Tensor& x) {
  return x.numel() > 0 && x.numel() <= std::numeric_limits<int>::max() &&
         reinterpret_cast<uintptr_t>(Plan::address(x)) % 16 == 0;
}
template <size_t N, typename... Sizes>
std::array<int, N> ints(Sizes... sizes) {
  return {int(sizes)...};
}
std::array<int, 4> sizes_of(const Tensor& x, ImageLayout layout) {
  const Shape& s = x.shape();
  return layout == ImageLayout::kChannelsLast ? ints<4>(s[0], s[3], s[1], s[2])
                                              : ints<4>(s[0], s[1], s[2], s[3]);
}
std::array<int, 2> pair(Size2d size) { return ints<2>(size.height, size.width); }

bool convolve(Result result, ImageLayout layout, const Tensor& x, const Tensor& weight,
              const Conv2dOptions& o, const Tensor& y) {
  if (!is_wanted() || !is_fit(x) || !is_fit(weight) || !is_fit(y)) return false;
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  for (const Size2d& size : {o.stride, o.padding, o.dilation})
    if (std::max(size.height, size.width) > kMost) return false;
  const Problem problem{.result = result,
                        .dtype = x.dtype(),
                        .tf32 = matmul_precision() != MatmulPrecision::kHighest,
                        .winograd = x.dtype() == f32 && conv_algorithm() == ConvAlgorithm::kAuto,
                        .x = sizes_of(x, layout),
                        .weight = sizes_of(weight, layout),
                        .y = sizes_of(y, layout),
                        .padding = pair(o.padding),
                        .stride = pair(o.stride),
                        .dilation = pair(o.dilation),
                        .groups = int(o.groups),
                        .layout = layout};
  const cudaStream_t stream = stream_of(x);
  Library& library = library_of(x.device());
  const std::lock_guard lock(library.mutex);
  if (!library.open()) return false;
  TG_DNN(cudnnSetStream, library.handle, stream);
  return library.plan_for(problem).run(library.handle, x, weight, y);
}

}  // namespace

bool cudnn_conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options, Tensor& y,
                  ImageLayout layout) {
  return convolve(Result::kY, layout, x, weight, options, y);
}
bool cudnn_conv2d_input(const Tensor& dy, const Tensor& weight, const Conv2dOptions& options,
                        Tensor& dx, ImageLayout layout) {
  return convolve(Result::kX, layout, dx, weight, options, dy);
}
bool cudnn_conv2d_weight(const Tensor& dy, const Tensor& x, const Conv2dOptions& options,
                         Tensor& dw, ImageLayout layout) {
  return convolve(Result::kWeight, layout, x, dw, options, dy);
}

std::string why_no_cudnn(tapegrad::Device device) {
  if (const std::string why = why_none(); !why.empty()) return why;
  stream_of(device);  // makes the device this thread's
  Library& library = library_of(device);
  const std::lock_guard lock(library.mutex);
  return library.open() ? "" : library.reason;
}
std::string describe_conv() {
  if (const std::string why = why_none(); !why.empty()) return "columns and products (" + why + ')';
  const size_t version = dnn().cudnnGetVersion();
  return "cuDNN " + std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100);
}

bool use_cudnn(bool on) { return is_wanted().exchange(on); }

}  // namespace tapegrad::backends::cuda
