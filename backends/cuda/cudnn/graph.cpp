#include "backends/cuda/cudnn/graph.h"

#include <algorithm>
#include <map>

#include "absl/container/node_hash_map.h"

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {

Backend::Backend(cudnnBackendDescriptorType_t type) {
  TG_DNN(cudnnBackendCreateDescriptor, type, &native_);
}
Backend::~Backend() {
  if (native_ != nullptr) dnn().cudnnBackendDestroyDescriptor(native_);  // errors are ignored
}
void Backend::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
  TG_DNN(cudnnBackendSetAttribute, native_, name, type, count, values);
}
void Backend::finalize() { TG_DNN(cudnnBackendFinalize, native_); }
bool Backend::is_supported() {
  const cudnnStatus_t status = dnn().cudnnBackendFinalize(native_);
  if (!is_category(status, CUDNN_STATUS_NOT_SUPPORTED)) check(status, "cudnnBackendFinalize");
  return status == CUDNN_STATUS_SUCCESS;
}

Graph::Form Graph::dense(const Sizes& sizes, cudnnDataType_t type) {
  Form form{sizes, {}, type};
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) form.steps[d] = step;
  return form;
}
Graph::Form Graph::channels_last(const Sizes& sizes, cudnnDataType_t type) {
  const auto& [n, channels, height, width] = sizes;
  return {sizes, {height * width * channels, 1, width * channels, channels}, type};
}
Graph::Form Graph::transposed(Form form) {
  std::swap(form.sizes[2], form.sizes[3]);
  std::swap(form.steps[2], form.steps[3]);
  return form;
}

Graph::Value Graph::add(const Form& form, bool is_stored, bool is_number) {
  const Value id = Value(tensors_.size());
  Backend tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, form.type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(form.sizes));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(form.steps));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, !is_stored);
  if (is_number) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize();
  forms_.push_back(form);
  tensors_.push_back(std::move(tensor));
  if (is_stored) stored_.push_back(id);
  return id;
}
Graph::Value Graph::tensor(const Form& form) { return add(form, true, false); }
Graph::Value Graph::number() { return add(dense({1, 1, 1, 1}), true, true); }
Graph::Value Graph::between(const Form& form) { return add(form, false, false); }

void Graph::add(Backend operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}
const Backend& Graph::keep(Backend mode) {
  mode.finalize();
  return modes_.emplace_back(std::move(mode));
}

Backend Graph::pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t computed) {
  Backend made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  made.set(CUDNN_ATTR_POINTWISE_MATH_PREC, computed);
  return made;
}
/// y and condition may be kNew, which means none.
Graph::Value Graph::pointwise(Backend mode, Value x, Value y, Value condition, Value into) {
  if (into == kNew) into = between(dense(form(x).sizes));
  Backend operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(mode)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  if (y != kNew) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(y));
  if (condition != kNew) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(condition));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(into));
  add(std::move(operation));
  return into;
}
Graph::Value Graph::map(cudnnPointwiseMode_t mode, Value x) {
  return pointwise(pointwise_mode(mode), x, kNew, kNew, kNew);
}
Graph::Value Graph::map(cudnnPointwiseMode_t mode, Value x, Value y, Value into) {
  return pointwise(pointwise_mode(mode), x, y, kNew, into);
}
Graph::Value Graph::select(Value condition, Value x, Value y) {
  return pointwise(pointwise_mode(CUDNN_POINTWISE_BINARY_SELECT), x, y, condition, kNew);
}
Graph::Value Graph::compare(cudnnPointwiseMode_t mode, Value x, Value y) {
  return pointwise(pointwise_mode(mode, CUDNN_DATA_BOOLEAN), x, y, kNew,
                   between(dense(form(x).sizes, CUDNN_DATA_BOOLEAN)));
}
Graph::Value Graph::place(Value x, int64_t dimension) {
  Backend mode = pointwise_mode(CUDNN_POINTWISE_GEN_INDEX);
  mode.set(CUDNN_ATTR_POINTWISE_AXIS, dimension);
  return pointwise(std::move(mode), x, kNew, kNew, between(dense(form(x).sizes, CUDNN_DATA_INT32)));
}

Graph::Value Graph::reduce(cudnnReduceTensorOp_t op, Value x) {
  Sizes sizes = form(x).sizes;
  sizes[3] = 1;
  const Value into = between(dense(sizes));
  Backend mode(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  mode.set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
  mode.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  Backend operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(mode)));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(into));
  add(std::move(operation));
  return into;
}
Graph::Value Graph::matmul(Value x, Value y, Value into) {
  const Sizes &a = form(x).sizes, &b = form(y).sizes;
  if (into == kNew) into = between(dense({a[0], a[1], a[2], b[3]}));
  Backend mode(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  mode.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  Backend operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(mode)));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(y));
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(into));
  add(std::move(operation));
  return into;
}
Graph::Value Graph::transpose(Value x, cudnnDataType_t type) {
  Form to = transposed(form(x));
  to.type = type;
  const Value into = between(to);
  Backend operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(into));
  add(std::move(operation));
  return into;
}

void Graph::batch_norm(const BatchNorm& n) {
  Backend operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_BATCH_NORM);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING);
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, of(n.x));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, of(n.weight));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, of(n.bias));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, of(n.eps));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, of(n.y));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, of(n.mean));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, of(n.invstd));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, of(n.momentum));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, of(n.running_mean));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, of(n.running_var));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, of(n.next_mean));
  operation.set(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, of(n.next_var));
  add(std::move(operation));
}
void Graph::batch_norm_backward(const BatchNormBackward& n) {
  Backend operation(CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_BATCH_NORM);
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, of(n.x));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, of(n.dy));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, of(n.weight));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, of(n.mean));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, of(n.invstd));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, of(n.dx));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, of(n.dweight));
  operation.set(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, of(n.dbias));
  add(std::move(operation));
}

Backend Graph::resampling(const Windows& windows) {
  const auto fractions = [](const std::array<int64_t, 2>& sizes) {
    return std::array<cudnnFraction_t, 2>{{{sizes[0], 1}, {sizes[1], 1}}};
  };
  const bool is_maximum = windows.mode == CUDNN_RESAMPLE_MAXPOOL;
  Backend mode(CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
  mode.set(CUDNN_ATTR_RESAMPLE_MODE, windows.mode);
  mode.set(CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_DATA_FLOAT);
  mode.set(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_PROPAGATE_NAN);
  mode.set(CUDNN_ATTR_RESAMPLE_PADDING_MODE, is_maximum ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD);
  mode.set(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, int64_t{2});
  const std::pair<cudnnBackendAttributeName_t, const std::array<int64_t, 2>&> sizes[] = {
      {CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, windows.size},
      {CUDNN_ATTR_RESAMPLE_STRIDES, windows.stride},
      {CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, windows.padding},
      {CUDNN_ATTR_RESAMPLE_POST_PADDINGS, windows.padding}};
  for (const auto& [name, size] : sizes)
    mode.set(name, std::span<const cudnnFraction_t>(fractions(size)));
  return mode;
}
void Graph::pool(const Windows& windows, Value x, Value y) {
  Backend operation(CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, keep(resampling(windows)));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, of(y));
  add(std::move(operation));
}
void Graph::pool_backward(const Windows& windows, Value x, Value y, Value dy, Value dx) {
  Backend operation(CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, keep(resampling(windows)));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, of(x));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, of(y));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, of(dy));
  operation.set(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, of(dx));
  add(std::move(operation));
}

namespace {

/// Returns the engine configurations that cuDNN proposes for a graph, the best first.
std::vector<Backend> configurations(const Backend& graph, cudnnBackendHeurMode_t mode,
                                    GraphTarget target) {
  Backend heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.device != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  if (!heuristics.is_supported()) return {};
  int64_t count = 0;
  TG_DNN(cudnnBackendGetAttribute, *heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
         CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
  std::vector<Backend> found;
  std::vector<cudnnBackendDescriptor_t> natives;
  for (int64_t i = 0; i < count; ++i)
    natives.push_back(*found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  TG_DNN(cudnnBackendGetAttribute, *heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
         CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, natives.data());
  found.erase(found.begin() + count, found.end());
  return found;
}

bool is_deterministic(const Backend& configuration) {
  Backend engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t native = *engine;
  int64_t count = 0;
  TG_DNN(cudnnBackendGetAttribute, *configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &native);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  TG_DNN(cudnnBackendGetAttribute, *engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
         CUDNN_TYPE_NUMERICAL_NOTE, int64_t(notes.size()), &count, notes.data());
  return std::find(notes.begin(), notes.begin() + count, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ==
         notes.begin() + count;
}

}  // namespace

std::optional<GraphPlan> Graph::plan(GraphTarget target) const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Backend& operation : operations_) operations.push_back(*operation);
  Backend graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span<const cudnnBackendDescriptor_t>(operations));
  if (!graph.is_supported()) return {};
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const Backend& configuration : configurations(graph, mode, target)) {
      if (!is_deterministic(configuration)) continue;
      Backend plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      if (target.handle != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      if (target.device != nullptr) plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (!plan.is_supported()) continue;
      GraphPlan found(std::move(plan), stored_);
      if (size_t(found.workspace_) <= kMostWorkspace) return found;
    }
  return {};
}

GraphPlan::GraphPlan(Backend plan, std::vector<int64_t> stored)
    : plan_(std::move(plan)), stored_(std::move(stored)) {
  int64_t count = 0;
  TG_DNN(cudnnBackendGetAttribute, *plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
         CUDNN_TYPE_INT64, 1, &count, &workspace_);
}

bool GraphPlan::run(const CudnnUse& use, std::span<const void* const> addresses) const {
  Tensor workspace;
  try {
    if (workspace_ > 0) workspace = Tensor::empty({workspace_}, u8, use.device());
  } catch (const OutOfMemory&) {
    return false;
  }
  std::vector<void*> pointers;
  for (const void* address : addresses) pointers.push_back(const_cast<void*>(address));
  Backend pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(stored_));
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  void* const work = workspace ? workspace.data<uint8_t>() : nullptr;
  pack.set_addresses(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&work, 1});
  pack.finalize();
  const cudnnStatus_t status = dnn().cudnnBackendExecute(use.handle(), *plan_, *pack);
  if (is_category(status, CUDNN_STATUS_NOT_SUPPORTED)) return false;
  check(status, "cudnnBackendExecute");
  return true;
}

GraphKey& GraphKey::add(const Graph::Form& form) {
  numbers_.push_back(form.type);
  numbers_.insert(numbers_.end(), form.sizes.begin(), form.sizes.end());
  numbers_.insert(numbers_.end(), form.steps.begin(), form.steps.end());
  return *this;
}

const GraphPlan* plan_of(const CudnnUse& use, const GraphKey& key,
                         const std::function<std::optional<GraphPlan>(GraphTarget)>& make) {
  using Plans = std::map<GraphKind, absl::node_hash_map<GraphKey, std::optional<GraphPlan>>>;
  static auto* all = new Plans[kMaxDevices];  // used while cuDNN is locked; never destroyed
  auto& plans = all[use.device().index][key.kind()];
  auto known = plans.find(key);
  if (known == plans.end()) {
    if (plans.size() >= kMostGraphs) return nullptr;
    stop_recording("cuDNN compiles a kernel");
    known = plans.emplace(key, std::nullopt).first;
    try {
      known->second = make({.handle = use.handle()});
    } catch (const tapegrad::cuda::CudaError&) {
      // This version of cuDNN does not know the pattern: there is no plan.
    }
  }
  return known->second ? &*known->second : nullptr;
}

}  // namespace tapegrad::backends::cuda
