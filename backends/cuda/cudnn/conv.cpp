#include "backends/cuda/cudnn/conv.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "absl/container/node_hash_map.h"

#include "backends/cuda/cudnn/library.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr size_t kMostPlans = 1024;
constexpr int kMostAnswers = 32;

/// An owned cuDNN descriptor; *descriptor is the native handle.
template <typename T, auto kCreate, auto kDestroy>
class Descriptor {
 public:
  Descriptor() { check((dnn().*kCreate)(&native_), "the creation of a descriptor"); }
  ~Descriptor() { (dnn().*kDestroy)(native_); }  // errors are ignored
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

enum class Result { kY, kX, kWeight };

/// All properties that the choice of an algorithm depends on.
struct Problem {
  Result result;
  DType dtype;
  bool tf32;      // whether TF32 is allowed
  bool winograd;  // whether Winograd's algorithm is allowed; never for sixteen bits, because it
                  // rounds intermediate results
  std::array<int, 4> x, weight, y;  // channels first
  std::array<int, 2> padding, stride, dilation;
  int groups;
  ImageLayout layout;

  bool operator==(const Problem&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Problem& p) {
    return H::combine(std::move(h), p.result, p.dtype, p.tf32, p.winograd, p.x, p.weight, p.y,
                      p.padding, p.stride, p.dilation, p.groups, p.layout);
  }

  bool is_exact() const { return dtype == f32 && !tf32; }
};

/// An algorithm with its math type and workspace.
struct Way {
  int algorithm;
  cudnnMathType_t math;
  size_t workspace;
};

/// Fourier algorithms would spread a NaN or an infinity over the whole image, beyond the windows
/// that contain it.
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

/// Descriptors of a problem and the suitable algorithms, the fastest first according to cuDNN's
/// heuristic. Nothing is measured, so that a second run of a program uses the same algorithm.
class Plan {
 public:
  Plan(cudnnHandle_t handle, const Problem& p) : problem_(p) {
    const cudnnDataType_t type = cudnn_type(p.dtype);
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

  /// Returns false if no algorithm is suitable or none has enough memory.
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
          call(handle, *way, workspace, address_of(x), address_of(weight), address_of(y));
      if (status == CUDNN_STATUS_SUCCESS) return true;
      if (!is_category(status, CUDNN_STATUS_NOT_SUPPORTED)) check(status, name());
      way = ways_.erase(way);
    }
    return false;
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
        is_category(status, CUDNN_STATUS_BAD_PARAM))  // cuDNN does not support every geometry
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

/// Returns the cached plan of a problem on a device. Used while cuDNN is locked. Never destroyed.
Plan& plan_for(const Problem& problem, tapegrad::Device device, cudnnHandle_t handle) {
  static auto* all = new absl::node_hash_map<Problem, Plan>[kMaxDevices];
  auto& plans = all[device.index];
  if (const auto known = plans.find(problem); known != plans.end()) return known->second;
  if (plans.size() >= kMostPlans) plans.clear();
  return plans.try_emplace(problem, handle, problem).first->second;
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
  if (!is_cudnn_wanted()) return false;
  for (const Tensor* each : {&x, &weight, &y})
    if (!is_fit_for_cudnn(*each)) return false;
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
  const CudnnUse use(x.device());
  return use && plan_for(problem, x.device(), use.handle()).run(use.handle(), x, weight, y);
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

}  // namespace tapegrad::backends::cuda
