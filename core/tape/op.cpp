#include "core/tape/op.h"

#include <new>
#include <stdexcept>

#include "core/dispatch/kernels.h"
#include "core/tape/recording.h"

namespace tapegrad {

SavedStore::~SavedStore() = default;

void SavedValue::keep_elsewhere(const Tensor& value) {
  if (value.storage().is_inference())
    fail<AutogradError>(
        "save: a tensor made in inference mode cannot be saved for backward; clone() it outside of "
        "the mode");
  SavedStore* store = detail::context.saved_store;
  version_ = store->keep(value);
  store_ = RefPtr<SavedStore>::share(store);
}

const Tensor& SavedValue::find_value() const {
  if (store_) return store_->value(version_);
  if (!value_)
    fail<AutogradError>(running_node()->name(), ": a value its rule reads was not saved");
  const uint32_t writes = value_.storage().version() - version_;
  fail<AutogradError>(running_node()->name(), ": a value saved for backward was changed in place (",
                      writes, writes == 1 ? " write" : " writes", " since); clone() it first");
}

void SavedValue::visit(SavedVisitor& visitor) const {
  if (value_) visitor.on_saved(value_);
  if (store_) visitor.on_recomputed();
}

Variable SavedValue::restore(const TapeEdge& history) const {
  Variable restored(value());
  if (is_recording()) restored.set_history(history);
  return restored;
}

Tensor to_overwrite(const Tensor& dy) { return dy.is_sole_owner() ? dy : dy.clone(); }
Tensor result_over(const Tensor& dy) { return dy.is_sole_owner() ? dy : dy.empty_like(); }

void require_first_order() {
  if (is_recording())
    fail<AutogradError>(running_node()->name(),
                        ": not differentiable twice: its gradient cannot be recorded");
}

void detail::fail_gradient_count(size_t gradients, size_t inputs) {
  fail<AutogradError>("the rule of ", describe(*running_node()), ": ", gradients, " gradients for ",
                      inputs, " inputs");
}

void detail::fail_empty_input(std::string_view op, size_t input) {
  fail<ArgumentError>(op, ": input ", input, " is empty; it was never given a value");
}

void detail::count_failed_write(TensorStorage& storage) {
  try {
    throw;
  } catch (const ArgumentError&) {
  } catch (const DeviceError&) {
  } catch (const KernelError&) {
  } catch (...) {
    storage.bump_version();
  }
}

void detail::undo_write(const Tensor& before, Tensor& y) { kernels::copy(before, y); }

void detail::rethrow(std::string_view op, Where where) {
  const auto throw_as = [&]<typename E>(E error) {
    locate_call(error);
    locate(error, where);
    throw error;
  };
  try {
    throw;
  } catch (Error& error) {
    locate(error, where);
    throw;
  } catch (const std::bad_alloc&) {
    throw_as(OutOfMemory(std::string(op) + ": the system has no memory left"));
  } catch (const std::length_error&) {
    throw_as(ArgumentError(std::string(op) + ": larger than the system allows"));
  }
  __builtin_unreachable();  // rethrowing always leaves the function
}

void detail::fail_freed() {
  fail<AutogradError>(running_node()->name(),
                      ": the graph was freed by an earlier backward; pass {.retain_graph = true} "
                      "to the first");
}

void detail::fail_devices(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  std::string devices;
  for (const Tensor* tensor : tensors)
    if (*tensor) devices.append(devices.empty() ? "" : ", ").append(to_string(tensor->device()));
  fail<DeviceError>(op, ": operands on different devices: ", devices);
}

void detail::fail_dtypes(std::string_view op, std::initializer_list<const Tensor*> tensors) {
  std::string dtypes;
  for (const Tensor* tensor : tensors)
    if (*tensor) dtypes.append(dtypes.empty() ? "" : ", ").append(name(tensor->dtype()));
  fail<DTypeError>(op, ": dtypes differ: ", dtypes, "; x.to(dtype) converts");
}

void detail::check_writable(std::string_view op, const Variable& target, bool records) {
  if (overlaps_itself(target.value().layout()))
    fail<AutogradError>(op, ": writing in place to an expanded tensor of shape ", target.shape());
  if (target.value().storage().is_inference() && !is_inference_mode())
    fail<AutogradError>(op, ": writing in place to a tensor made in inference mode");
  if (!is_recording()) return;
  const Variable base = target.base();
  if (records && !base.value().is_contiguous() && !target.is_same(base))
    fail<AutogradError>(op,
                        ": writing in place to a view of a tensor that is not contiguous; "
                        "clone() the tensor");
  const bool requires_grad = base.requires_grad();
  const Variable& leaf = requires_grad ? base : target;
  if (leaf.requires_grad() && leaf.is_leaf())
    fail<AutogradError>(
        op, ": writing in place to a leaf that requires a gradient; NoGrad allows this");
  if (!requires_grad) return;
  if (!target.requires_grad())
    fail<AutogradError>(op,
                        ": writing in place to a view that was made without recording, of a "
                        "variable that requires a gradient; make the view while recording");
}

}  // namespace tapegrad
