// Computations given to cuDNN as graphs of small operations. It has kernels for the patterns that
// it recognises, which compute such a graph at once, and says so of others.
#pragma once

#include <array>
#include <compare>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/cuda/cudnn/library.h"

namespace tapegrad::backends::cuda {

/// One of the descriptors that the graph interface is made of.
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
  /// CudaError unless it is complete.
  void finalize();
  /// Whether cuDNN can do what it says; CudaError where it makes no sense.
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

/// What a graph is for: this handle's device; or, to ask what cuDNN would do there, one that is
/// described.
struct GraphTarget {
  cudnnHandle_t handle = nullptr;
  const Backend* device = nullptr;
};

/// A graph whose kernels were found.
class GraphPlan {
 public:
  /// Addresses of the graph's tensors and numbers, in the order in which they were made. False,
  /// with nothing done, where there is no memory for a workspace, or cuDNN cannot do it after all.
  bool run(const CudnnUse& use, std::span<const void* const> addresses) const;

 private:
  friend class Graph;
  GraphPlan(Backend plan, std::vector<int64_t> stored);

  Backend plan_;
  std::vector<int64_t> stored_;
  int64_t workspace_ = 0;
};

/// Operations on tensors of four dimensions, computed in float32. An operation gives what it makes
/// to `into`, or to a float32 tensor that is not stored, and returns which it was.
class Graph {
 public:
  using Sizes = std::array<int64_t, 4>;
  struct Form {
    Sizes sizes, steps;  // elements from one to the next along each dimension
    cudnnDataType_t type;
  };
  /// One element after another.
  static Form dense(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// Images [n, channels, h, w] whose channels lie side by side.
  static Form channels_last(const Sizes& sizes, cudnnDataType_t type);
  /// With each other's place for the last two dimensions.
  static Form transposed(Form form);

  using Value = int64_t;
  static constexpr Value kNew = -1;

  /// On the device, at an address that run() is given.
  Value tensor(const Form& form);
  /// A float32 on the host, at an address that run() is given.
  Value number();
  /// Not stored.
  Value between(const Form& form);
  const Sizes& sizes(Value x) const { return form(x).sizes; }

  Value map(cudnnPointwiseMode_t mode, Value x);
  Value map(cudnnPointwiseMode_t mode, Value x, Value y, Value into = kNew);
  /// x where the condition holds, else y.
  Value select(Value condition, Value x, Value y);
  Value compare(cudnnPointwiseMode_t mode, Value x, Value y);
  /// Where along a dimension each element of x is.
  Value place(Value x, int64_t dimension);
  /// Over the last dimension.
  Value reduce(cudnnReduceTensorOp_t op, Value x);
  Value matmul(Value x, Value y, Value into = kNew);
  /// Not computed, but read so; of a type.
  Value transpose(Value x, cudnnDataType_t type);

  /// What batch_norm() reads and writes: images x and y [n, channels, h, w], two numbers, and
  /// float32 tensors [1, channels, 1, 1].
  struct BatchNorm {
    Value x, weight, bias, eps, y, mean, invstd;
    /// next = (1 - momentum) * running + momentum * the batch's, whose variance is unbiased.
    Value momentum, running_mean, running_var, next_mean, next_var;
  };
  void batch_norm(const BatchNorm& n);
  struct BatchNormBackward {
    Value x, dy, weight, mean, invstd, dx, dweight, dbias;
  };
  void batch_norm_backward(const BatchNormBackward& n);

  /// Windows of images [n, channels, h, w] that are pooled. A NaN is the largest of all, padding
  /// the smallest.
  struct Windows {
    cudnnResampleMode_t mode;
    std::array<int64_t, 2> size, stride, padding;
  };
  void pool(const Windows& windows, Value x, Value y);
  /// The gradient of a mean, which does not depend on x and y; there are kernels that want them.
  void pool_backward(const Windows& windows, Value x, Value y, Value dy, Value dx);

  /// How it is computed: the first way in cuDNN's own order that gives the same bits each time and
  /// wants no more than kMostWorkspace. None where cuDNN knows no such way.
  std::optional<GraphPlan> plan(GraphTarget target) const;

 private:
  const Form& form(Value x) const { return forms_[size_t(x)]; }
  const Backend& of(Value x) const { return tensors_[size_t(x)]; }
  Value add(const Form& form, bool is_stored, bool is_number);
  void add(Backend operation);
  const Backend& keep(Backend mode);  // until the plan is made
  Value pointwise(Backend mode, Value x, Value y, Value condition, Value into);
  static Backend pointwise_mode(cudnnPointwiseMode_t mode,
                                cudnnDataType_t computed = CUDNN_DATA_FLOAT);
  static Backend resampling(const Windows& windows);

  std::vector<Form> forms_;
  std::vector<Backend> tensors_;
  std::vector<int64_t> stored_;
  std::vector<Backend> modes_, operations_;
};

/// What is computed by graphs.
enum class GraphKind : int64_t {
  kAttention,
  kAttentionBackward,
  kBatchNorm,
  kBatchNormBackward,
  kPool,
  kPoolBackward
};

/// What a plan depends on: which computation, and sizes, steps and types of it.
class GraphKey {
 public:
  explicit GraphKey(GraphKind kind) : numbers_{int64_t(kind)} {}
  GraphKey& add(int64_t number) {
    numbers_.push_back(number);
    return *this;
  }
  GraphKey& add(const Graph::Form& form);
  GraphKind kind() const { return GraphKind(numbers_[0]); }
  auto operator<=>(const GraphKey&) const = default;

 private:
  std::vector<int64_t> numbers_;
};

/// As cuDNN compiles a kernel for most new sets of sizes, in half a second, those that come after
/// so many others of their kind on a device have no plan.
inline constexpr size_t kMostGraphs = 128;

/// The plan of this key on the device, by `make` at its first use. Null where there is none.
const GraphPlan* plan_of(const CudnnUse& use, const GraphKey& key,
                         const std::function<std::optional<GraphPlan>(GraphTarget)>& make);

}  // namespace tapegrad::backends::cuda
