// cuDNN's graph interface: descriptors, engines and execution. Every valid graph of known
// operations (cudnn_operations.cpp) is supported, with three exceptions for tests: graphs with rows
// of 24 numbers are not supported; rows of 40 need a workspace that exceeds the memory of a small
// device; rows of 56 fail when executed. All engines before the last are traps: one has
// irreproducible results, one does not support the graph when finalised, and one needs more memory
// than there is.
#include <cstring>

#include "cudnn_calls.h"
#include "cudnn_parts.h"

using namespace coh;

namespace {

enum Engine : std::int64_t { kVaries, kNotAfterAll, kHuge, kFit };

int runs = 0;

std::shared_ptr<Bag>& bag_of(cudnnBackendDescriptor_t native) {
  return *static_cast<std::shared_ptr<Bag>*>(native);
}
std::shared_ptr<Bag> part_of(const Bag& bag, cudnnBackendAttributeName_t name) {
  return std::make_shared<Bag>(bag.part(name));
}

std::int64_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
    case CUDNN_TYPE_NORM_MODE:
    case CUDNN_TYPE_NORM_FWD_PHASE:
    case CUDNN_TYPE_RESAMPLE_MODE:
    case CUDNN_TYPE_PADDING_MODE:
    case CUDNN_TYPE_NAN_PROPOGATION:
      return 4;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:
      return 8;
  }
}

/// Returns the type of an attribute that the backend sets.
cudnnBackendAttributeType_t type_of(cudnnBackendAttributeName_t name) {
  switch (name) {
    case CUDNN_ATTR_POINTWISE_MODE:
      return CUDNN_TYPE_POINTWISE_MODE;
    case CUDNN_ATTR_REDUCTION_OPERATOR:
      return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;
    case CUDNN_ATTR_ENGINEHEUR_MODE:
      return CUDNN_TYPE_HEUR_MODE;
    case CUDNN_ATTR_OPERATION_NORM_FWD_MODE:
    case CUDNN_ATTR_OPERATION_NORM_BWD_MODE:
      return CUDNN_TYPE_NORM_MODE;
    case CUDNN_ATTR_OPERATION_NORM_FWD_PHASE:
      return CUDNN_TYPE_NORM_FWD_PHASE;
    case CUDNN_ATTR_RESAMPLE_MODE:
      return CUDNN_TYPE_RESAMPLE_MODE;
    case CUDNN_ATTR_RESAMPLE_PADDING_MODE:
      return CUDNN_TYPE_PADDING_MODE;
    case CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION:
      return CUDNN_TYPE_NAN_PROPOGATION;
    case CUDNN_ATTR_RESAMPLE_WINDOW_DIMS:
    case CUDNN_ATTR_RESAMPLE_STRIDES:
    case CUDNN_ATTR_RESAMPLE_PRE_PADDINGS:
    case CUDNN_ATTR_RESAMPLE_POST_PADDINGS:
      return CUDNN_TYPE_FRACTION;
    case CUDNN_ATTR_POINTWISE_MATH_PREC:
    case CUDNN_ATTR_MATMUL_COMP_TYPE:
    case CUDNN_ATTR_REDUCTION_COMP_TYPE:
    case CUDNN_ATTR_RESAMPLE_COMP_TYPE:
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
      return CUDNN_TYPE_DATA_TYPE;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
      return CUDNN_TYPE_BOOLEAN;
    case CUDNN_ATTR_POINTWISE_AXIS:
    case CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
      return CUDNN_TYPE_INT64;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
      return CUDNN_TYPE_HANDLE;
    default:
      return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
}

/// Returns all tensors of a graph's operations.
std::map<std::int64_t, TensorForm> tensors_of(const Bag& graph) {
  std::map<std::int64_t, TensorForm> tensors;
  for (const auto& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts)
    for (const auto& [name, attribute] : operation->attributes)
      for (const auto& part : attribute.parts)
        if (part->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
          const TensorForm form(*part);
          tensors.emplace(form.id, form);
        }
  return tensors;
}
bool has_rows_of(const Bag& graph, std::int64_t columns) {
  for (const auto& [id, form] : tensors_of(graph))
    if (form.sizes[3] == columns) return true;
  return false;
}

bool is_pooling(const Bag& graph) {
  const auto type = graph.part(CUDNN_ATTR_OPERATIONGRAPH_OPS).type;
  return type == CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR ||
         type == CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR;
}

bool tensor_is_right(const Bag& tensor) {
  for (const auto name :
       {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
        CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT})
    if (!tensor.has(name)) return false;
  if (tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS).size() != 4 ||
      tensor.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES).size() != 4)
    return false;
  const TensorForm form(tensor);
  for (std::size_t d = 0; d < 4; ++d)
    if (form.sizes[d] < 1 || form.steps[d] < 1) return false;
  return !form.is_number || (form.is_stored && form.numel() == 1);
}

constexpr std::int64_t kTooMuch = std::int64_t{1} << 40;
const Bag& engine_of(const Bag& plan) {
  return plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).part(CUDNN_ATTR_ENGINECFG_ENGINE);
}
std::int64_t index_of(const Bag& engine) {
  return engine.get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}
std::int64_t workspace_of(const Bag& plan) {
  if (index_of(engine_of(plan)) == kHuge) return kTooMuch;
  const Bag& graph = engine_of(plan).part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (is_pooling(graph)) return 0;
  return has_rows_of(graph, 40) ? 16 << 20 : 640;
}

cudnnStatus_t finalize(const Bag& bag) {
  switch (bag.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return tensor_is_right(bag) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      for (const auto& operation : bag.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts)
        if (!operation->is_final) return CUDNN_STATUS_BAD_PARAM;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return has_rows_of(bag.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), 24)
                 ? CUDNN_STATUS_NOT_SUPPORTED
                 : CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      if (breaks_capture()) return CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
      return index_of(engine_of(bag)) == kNotAfterAll ? CUDNN_STATUS_NOT_SUPPORTED
                                                      : CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return bag.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                     bag.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    default:
      if (const char* why = bag.type == CUDNN_BACKEND_RESAMPLE_DESCRIPTOR ? why_not_resampling(bag)
                                                                          : why_not(bag)) {
        std::fprintf(stderr, "cuDNN: %s\n", why);
        return CUDNN_STATUS_BAD_PARAM;
      }
      return CUDNN_STATUS_SUCCESS;
  }
}

std::shared_ptr<Bag> configuration(const Bag& graph, Engine index) {
  const auto attribute = [](cudnnBackendAttributeType_t type, std::int64_t value) {
    Bag::Attribute made{type, std::vector<std::byte>(sizeof(value)), {}};
    std::memcpy(made.bytes.data(), &value, sizeof(value));
    return made;
  };
  const auto holding = [](std::shared_ptr<const Bag> part) {
    return Bag::Attribute{CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, {std::move(part)}};
  };
  auto engine = std::make_shared<Bag>(Bag{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true, {}});
  engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = attribute(CUDNN_TYPE_INT64, index);
  engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = holding(std::make_shared<Bag>(graph));
  auto made = std::make_shared<Bag>(Bag{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true, {}});
  made->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = holding(engine);
  return made;
}

template <typename T>
cudnnStatus_t give(std::initializer_list<T> values, std::int64_t wanted, std::int64_t* count,
                   void* to) {
  *count = std::min(wanted, std::int64_t(values.size()));
  std::copy_n(values.begin(), *count, static_cast<T*>(to));
  return CUDNN_STATUS_SUCCESS;
}

/// Returns the addresses of a variant pack by the tensors' numbers.
std::map<std::int64_t, void*> addresses_of(const Bag& pack) {
  const auto ids = pack.all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, void*> addresses;
  for (std::size_t i = 0; i < ids.size(); ++i) addresses[ids[i]] = pointers[i];
  return addresses;
}

}  // namespace

int coh::cudnn_graphs_run() { return runs; }

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  *made = new std::shared_ptr<Bag>(new Bag{type, false, {}});
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t native) {
  delete &bag_of(native);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t native,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  Bag& bag = *bag_of(native);
  if (bag.is_final || type != type_of(name) || count < 1) return CUDNN_STATUS_BAD_PARAM;
  Bag::Attribute attribute{type, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto& part = bag_of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
      if (!part->is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      attribute.parts.push_back(part);
    }
  } else {
    const auto* first = static_cast<const std::byte*>(values);
    attribute.bytes.assign(first, first + count * size_of(type));
  }
  bag.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t native) {
  Bag& bag = *bag_of(native);
  if (bag.is_final) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = finalize(bag);
  bag.is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t native,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t wanted,
                                       std::int64_t* count, void* values) {
  const Bag& bag = *bag_of(native);
  if (!bag.is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const auto put = [&](std::int64_t i, std::shared_ptr<Bag> made) {
    bag_of(static_cast<cudnnBackendDescriptor_t*>(values)[i]) = std::move(made);
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = 4;
      for (std::int64_t i = 0; i < std::min(wanted, *count); ++i)
        put(i, configuration(bag.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), Engine(i)));
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      put(0, part_of(bag, name));
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      if (index_of(bag) == kVaries)
        return give({CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC},
                    wanted, count, values);
      return give({CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, wanted, count, values);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      return give({workspace_of(bag)}, wanted, count, values);
    default:
      fail("cuDNN: an attribute that cuda_on_host does not have");
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t native_plan,
                                  cudnnBackendDescriptor_t native_pack) {
  const Bag &plan = *bag_of(native_plan), &pack = *bag_of(native_pack);
  if (!plan.is_final || !pack.is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const Bag& engine = engine_of(plan);
  if (index_of(engine) == kVaries) return CUDNN_STATUS_EXECUTION_FAILED;
  const Bag graph = engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (has_rows_of(graph, 56)) return CUDNN_STATUS_NOT_SUPPORTED;
  const auto addresses = addresses_of(pack);
  const auto tensors = tensors_of(graph);
  void* workspace = pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const std::int64_t bytes = workspace_of(plan);
  if (workspace == nullptr && bytes > 0) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  check_operand(workspace, bytes, "the workspace of cuDNN");
  GraphValues numbers;
  for (const auto& [id, form] : tensors) {
    if (!form.is_stored) continue;
    const auto given = addresses.find(id);
    if (given == addresses.end()) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (form.is_number) {
      numbers[id] = {double(*static_cast<const float*>(given->second))};
      continue;
    }
    if (reinterpret_cast<std::uintptr_t>(given->second) % 16 != 0)
      return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
    check_operand(given->second, form.extent() * size_of(form.type), "an operand of cuDNN");
  }
  if (addresses.size() != std::size_t(std::count_if(tensors.begin(), tensors.end(),
                                                    [](auto& t) { return t.second.is_stored; })))
    return CUDNN_STATUS_BAD_PARAM;
  ++runs;
  const cudaError_t queued = enqueue(stream_of(handle), [=] {
    if (skips_arithmetic) return;
    if (bytes > 0) poison(workspace, std::size_t(bytes));
    GraphValues values = numbers;
    for (const auto& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts) {
      for (const auto& [name, attribute] : operation->attributes)
        for (const auto& part : attribute.parts) {
          if (part->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
          const TensorForm form(*part);
          if (values.count(form.id) != 0 || !form.is_stored) continue;
          std::vector<double>& loaded = values[form.id];
          loaded.resize(std::size_t(form.numel()));
          for (std::int64_t i = 0; i < form.numel(); ++i)
            loaded[std::size_t(i)] = load(addresses.at(form.id), of_cuda(form.type), form.place(i));
        }
      for (const std::int64_t id : run_operation(*operation, values)) {
        const TensorForm& form = tensors.at(id);
        if (!form.is_stored) continue;
        for (std::int64_t i = 0; i < form.numel(); ++i)
          store(addresses.at(id), of_cuda(form.type), form.place(i), values[id][std::size_t(i)]);
      }
    }
  });
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED_CUDART;
}

}  // extern "C"
