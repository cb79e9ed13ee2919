// cuDNN's graph interface: computations described as graphs of small operations. cuDNN has fused
// kernels for the patterns that it recognises, and rejects others.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/cuda/cudnn/library.h"

namespace tapegrad::backends::cuda {

/// A descriptor of the graph interface.
class Backend {
 public:
  explicit Backend(cudnnBackendDescriptorType_t type);
  Backend(Backend&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Backend& operator=(Backend&& other) noexcept {
    std::swap(native_, other.native_);
    return *this;
  }
  ~Backend();
  cudnnBackendDescriptor_t operator*() const { return native_; }

  template <typename T>
  void set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    set(name, type_of(T{}), int64_t(values.size()), values.data());
  }
  template <typename T>
  void set(cudnnBackendAttributeName_t name, const T& value) {
    set(name, std::span<const T>(&value, 1));
  }
  void set(cudnnBackendAttributeName_t name, const Backend& part) { set(name, *part); }
  void set_addresses(cudnnBackendAttributeName_t name, std::span<void* const> addresses) {
    set(name, CUDNN_TYPE_VOID_PTR, int64_t(addresses.size()), addresses.data());
  }
  /// Throws CudaError if the descriptor is incomplete.
  void finalize();
  /// Returns whether cuDNN supports the described computation. Throws CudaError if the descriptor
  /// is invalid.
  bool is_supported();

 private:
  static cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
  static cudnnBackendAttributeType_t type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
  static cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
  static cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
  static cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) {
    return CUDNN_TYPE_HEUR_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnPointwiseMode_t) {
    return CUDNN_TYPE_POINTWISE_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnReduceTensorOp_t) {
    return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendNormMode_t) {
    return CUDNN_TYPE_NORM_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnBackendNormFwdPhase_t) {
    return CUDNN_TYPE_NORM_FWD_PHASE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnResampleMode_t) {
    return CUDNN_TYPE_RESAMPLE_MODE;
  }
  static cudnnBackendAttributeType_t type_of(cudnnPaddingMode_t) { return CUDNN_TYPE_PADDING_MODE; }
  static cudnnBackendAttributeType_t type_of(cudnnNanPropagation_t) {
    return CUDNN_TYPE_NAN_PROPOGATION;
  }
  static cudnnBackendAttributeType_t type_of(cudnnFraction_t) { return CUDNN_TYPE_FRACTION; }
  static cudnnBackendAttributeType_t type_of(cudnnBackendDescriptor_t) {
    return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values);

  cudnnBackendDescriptor_t native_ = nullptr;
};

/// The target of a plan: the device of a handle, or a described device for which cuDNN is only
/// queried.
struct GraphTarget {
  cudnnHandle_t handle = nullptr;
  const Backend* device = nullptr;
};

/// A graph with the kernels that execute it.
class GraphPlan {
 public:
  /// Runs the graph. `addresses` are those of its tensors and numbers, in the order of their
  /// creation. Returns false, and changes nothing, if there is no memory for the workspace or cuDNN
  /// rejects the call.
  bool run(const CudnnUse& use, std::span<const void* const> addresses) const;

 private:
  friend class Graph;
  GraphPlan(Backend plan, std::vector<int64_t> stored);

  Backend plan_;
  std::vector<int64_t> stored_;
  int64_t workspace_ = 0;
};

/// Operations on four-dimensional tensors, computed in float32. An operation writes to `into`, or
/// to a new float32 tensor that is not stored, and returns this value.
class Graph {
 public:
  using Sizes = std::array<int64_t, 4>;
  struct Form {
    Sizes sizes, steps;  // steps: strides in elements
    cudnnDataType_t type;
  };
  /// Contiguous layout.
  static Form dense(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// Images [n, channels, h, w] stored channels-last.
  static Form channels_last(const Sizes& sizes, cudnnDataType_t type);
  /// Exchanges the last two dimensions.
  static Form transposed(Form form);

  using Value = int64_t;
  static constexpr Value kNew = -1;

  /// A tensor on the device; run() takes its address.
  Value tensor(const Form& form);
  /// A float32 number on the host; run() takes its address.
  Value number();
  /// An intermediate result that is not stored.
  Value between(const Form& form);
  const Sizes& sizes(Value x) const { return form(x).sizes; }

  Value map(cudnnPointwiseMode_t mode, Value x);
  Value map(cudnnPointwiseMode_t mode, Value x, Value y, Value into = kNew);
  /// Returns x where the condition is true, else y.
  Value select(Value condition, Value x, Value y);
  Value compare(cudnnPointwiseMode_t mode, Value x, Value y);
  /// Returns the index of each element of x along a dimension.
  Value place(Value x, int64_t dimension);
  /// Reduces the last dimension.
  Value reduce(cudnnReduceTensorOp_t op, Value x);
  Value matmul(Value x, Value y, Value into = kNew);
  /// Returns x read as its transpose, with the given type; computes nothing.
  Value transpose(Value x, cudnnDataType_t type);

  /// Operands of batch_norm(): images x and y [n, channels, h, w], two numbers, and float32 tensors
  /// [1, channels, 1, 1].
  struct BatchNorm {
    Value x, weight, bias, eps, y, mean, invstd;
    /// next = (1 - momentum) * running + momentum * (the batch's statistic); the variance is
    /// unbiased.
    Value momentum, running_mean, running_var, next_mean, next_var;
  };
  void batch_norm(const BatchNorm& n);
  struct BatchNormBackward {
    Value x, dy, weight, mean, invstd, dx, dweight, dbias;
  };
  void batch_norm_backward(const BatchNormBackward& n);

  /// Pooling windows of images [n, channels, h, w]. NaN is the largest of all values, padding the
  /// smallest.
  struct Windows {
    cudnnResampleMode_t mode;
    std::array<int64_t, 2> size, stride, padding;
  };
  void pool(const Windows& windows, Value x, Value y);
  /// Adds the operation of average pooling's gradient, which does not depend on x and y; some
  /// kernels require both.
  void pool_backward(const Windows& windows, Value x, Value y, Value dy, Value dx);

  /// Returns the first engine, in cuDNN's order of preference, that is deterministic and needs a
  /// workspace of at most kMostWorkspace; nullopt if there is none.
  std::optional<GraphPlan> plan(GraphTarget target) const;

 private:
  const Form& form(Value x) const { return forms_[size_t(x)]; }
  const Backend& of(Value x) const { return tensors_[size_t(x)]; }
  Value add(const Form& form, bool is_stored, bool is_number);
  void add(Backend operation);
  const Backend& keep(Backend mode);  // keeps the descriptor alive until the plan is made
  Value pointwise(Backend mode, Value x, Value y, Value condition, Value into);
  static Backend pointwise_mode(cudnnPointwiseMode_t mode,
                                cudnnDataType_t computed = CUDNN_DATA_FLOAT);
  static Backend resampling(const Windows& windows);

  std::vector<Form> forms_;
  std::vector<Backend> tensors_;
  std::vector<int64_t> stored_;
  std::vector<Backend> modes_, operations_;
};

/// The computations that use graphs.
enum class GraphKind : int64_t {
  kAttention,
  kAttentionBackward,
  kBatchNorm,
  kBatchNormBackward,
  kPool,
  kPoolBackward
};

/// Cache key of a plan: the computation, and its sizes, strides and types.
class GraphKey {
 public:
  explicit GraphKey(GraphKind kind) : numbers_{int64_t(kind)} {}
  GraphKey& add(int64_t number) {
    numbers_.push_back(number);
    return *this;
  }
  GraphKey& add(const Graph::Form& form);
  GraphKind kind() const { return GraphKind(numbers_[0]); }
  bool operator==(const GraphKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const GraphKey& key) {
    return H::combine(std::move(h), key.numbers_);
  }

 private:
  std::vector<int64_t> numbers_;
};

/// Maximum number of plans per kind and device. cuDNN compiles a kernel for most new sizes, which
/// takes half a second; sizes beyond this number have no plan.
inline constexpr size_t kMostGraphs = 128;

/// Returns the cached plan of a key on the device; the first use calls `make`. Null if there is no
/// plan.
const GraphPlan* plan_of(const CudnnUse& use, const GraphKey& key,
                         const std::function<std::optional<GraphPlan>(GraphTarget)>& make);

}  // namespace tapegrad::backends::cuda
