#include "core/tape/variable.h"

#include "core/base/error.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/internal/backward.h"
#include "core/tape/internal/leaf_changes.h"
#include "core/tape/op.h"
#include "core/tape/view.h"

namespace tapegrad {

Variable::Variable(const Tensor& value) : state_(RefPtr<State>::adopt(new State(value))) {}
Variable::Variable(Tensor&& value) : state_(RefPtr<State>::adopt(new State(std::move(value)))) {}

void Variable::State::destroy(State* state) { delete state; }

const Tensor Variable::kEmptyTensor;
const TapeEdge Variable::kNoEdge;

/// Calls check(); an Error that has no location gets `where`.
template <typename Check>
static void check_at(Where where, const Check& check) {
  try {
    check();
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

void Variable::fail_empty(Where where) {
  ArgumentError error("variable: empty; it was never given a value");
  detail::locate_call(error);
  detail::locate(error, where);
  throw error;
}

Variable::operator bool() const {
  if (!defined())
    fail<ArgumentError>("bool: an empty variable has no value; defined() tells whether it has one");
  if (numel() != 1)
    fail<ShapeError>("bool: one element wanted, shape is ", shape(), "; use all(x) or any(x)");
  if (StepObserver::current() != nullptr)
    fail<AutogradError>("bool: no value is known while a step is captured; use where()");
  return item() != 0;
}

Number Variable::number(Where where) const {
  try {
    return value().number();
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}
double Variable::item(Where where) const { return number(where).real(); }

/// Notifies a captured step that the host gets the address of the values.
static void note_read(const Tensor& x, const char* function) {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_read(x, function);
}

Variable Variable::cuda(int index, Where where) const {
  return to(Device(DeviceType::kCuda, int8_t(index)), where);
}

void* Variable::data_ptr(Where where) const {
  check_type(dtype(), where);  // that the elements are on the CPU
  const Tensor& elements = value();
  elements.storage().keep_in_order();  // the caller keeps the address
  return elements.storage().data() + storage_offset() * int64_t(size_of(dtype()));
}

void Variable::check_type(DType dtype, Where where) const {
  check_at(where, [&] {
    if (dtype != this->dtype())
      fail<DTypeError>("data_ptr: the elements are ", this->dtype(), ", not ", dtype);
    if (device() != tapegrad::cpu) fail<DeviceError>("data_ptr: the elements are on ", device());
  });
  note_read(value(), "data_ptr()");
}

void Variable::check_accessor(DType dtype, size_t rank, Where where) const {
  check_at(where, [&] {
    if (dtype != this->dtype())
      fail<DTypeError>("accessor: the elements are ", this->dtype(), ", not ", dtype);
    if (int(rank) != this->rank())
      fail<ShapeError>("accessor: of rank ", rank, " for a tensor of shape ", shape());
    if (device() != tapegrad::cpu) fail<DeviceError>("accessor: the elements are on ", device());
  });
  note_read(value(), "accessor()");
  value().storage().keep_in_order();  // the caller keeps the address
}
void detail::fail_accessor(int64_t index, int64_t size) {
  fail<IndexError>("accessor: index ", index, " is outside [0, ", size, ")");
}

int64_t Variable::size(int dim) const { return shape()[normalize_dim("size", dim, rank())]; }

/// Returns the leaf that the edge leads to, or null.
static Leaf* leaf_at(const TapeEdge& edge) {
  return edge && edge.node->is_leaf() ? static_cast<Leaf*>(edge.node.get()) : nullptr;
}

/// Returns the leaf whose gradient the variable has, or null: the leaf at its edge or, after
/// requires_grad_(false), the leaf that `retained` keeps, also if the variable has become the
/// result of a write in place since. A gradient of retain_grad() belongs to no leaf.
static Leaf* gradient_leaf(const TapeEdge& edge, const std::shared_ptr<Variable>& retained) {
  if (Leaf* leaf = leaf_at(edge)) return leaf;
  return retained ? leaf_at(retained->edge()) : nullptr;
}

Variable& Variable::requires_grad_(bool on, Where where) {
  check_at(where, [&] {
    value();  // an empty variable is an error
    if (on && !is_float(dtype()))
      fail<AutogradError>("requires_grad_: only floats have gradients, not ", name(dtype()));
    if (!on && is_leaf()) {
      if (!edge()) return;
      detail::note_leaf_change(value().storage());
      leaf_at(edge())->set_frozen(true);
      state_->retained = std::make_shared<Variable>(kEmptyTensor);
      state_->retained->set_history(std::exchange(state_->edge, {}));
      return;
    }
    if (on && value().storage().is_inference() && !is_inference_mode())
      fail<AutogradError>("requires_grad_: this tensor was made in inference mode; clone() it");
    if (on && !edge()) {
      if (Leaf* kept = gradient_leaf({}, state_->retained)) {
        kept->set_frozen(false);
        set_history(state_->retained->edge());
        state_->retained = nullptr;
      } else {
        set_history({RefPtr<TapeNode>::adopt(new Leaf(value())), 0});
      }
      detail::note_leaf_change(value().storage());
    }
    if (!is_leaf()) fail<AutogradError>("requires_grad_: the result of an op has its own history");
  });
  return *this;
}

bool Variable::is_leaf() const { return !edge() || edge().node->is_leaf(); }

Variable::Property Variable::grad() const {
  constexpr auto kKind = Property::Kind::kGradient;
  if (!state_) return {{}, {}, kKind};
  if (const Leaf* leaf = gradient_leaf(edge(), state_->retained)) {
    if (StepObserver* step = StepObserver::current()) [[unlikely]]
      step->on_gradient_read(*leaf);
    return {leaf->gradient(), *this, kKind};
  }
  return {state_->retained ? *state_->retained : Variable(), {}, kKind};
}

void Variable::set_grad(const Variable& gradient) const {
  value();
  Leaf* leaf = gradient_leaf(edge(), state_->retained);
  if (leaf == nullptr)
    fail<AutogradError>("set_grad: only a leaf that requires a gradient has one that can be set");
  if (!gradient.defined()) return zero_grad();
  if (gradient.shape() != shape())
    fail<ShapeError>("set_grad: a gradient of shape ", gradient.shape(), " for a tensor ", shape());
  if (gradient.dtype() != dtype())
    fail<DTypeError>("set_grad: a gradient of ", gradient.dtype(), " for a tensor of ", dtype());
  if (gradient.device() != device())
    fail<DeviceError>("set_grad: a gradient on ", gradient.device(), " for a tensor on ", device());
  leaf->set_gradient(gradient);
}

Variable::Property Variable::data() const {
  // The result of an op, or a view, is written in place.
  const bool replaceable = defined() && is_leaf() && !base_state();
  return {detach(), replaceable ? *this : Variable(), Property::Kind::kData};
}

void Variable::take_data(const Variable& x) const {
  const Tensor& to = x.value();
  const bool same = defined() && to.shape() == shape() && to.dtype() == dtype() &&
                    to.device() == device() && requires_grad() && is_leaf();
  if (!same || base_state()) return rebind(to);
  state_->value = to;  // the leaf stays, with its gradient and hooks
  ++state_->bindings;
  ++state_->rewrites;  // views look at the base again
}

Variable::Property::Property(Variable value, const Variable& of, Kind kind)
    : Variable(std::move(value)), of_(of), kind_(kind) {}

void detail::fail_part(int part, int parts) {
  fail<IndexError>("part ", part, " of a result of ", parts, " parts; the first one is 0");
}

void detail::fail_parts(size_t wanted, size_t parts, Where where) {
  ShapeError error(std::to_string(wanted) + " parts wanted, there are " + std::to_string(parts));
  locate(error, where);
  throw error;
}

static Variable zeros_like(const Variable& x) {
  return Variable(Tensor::full(x.shape(), 0, x.dtype(), x.device()));
}

/// Adds the gradients of a result to `kept`, after the hooks of the result, which may replace them.
static void keep_gradients(const TapeEdge& edge, std::shared_ptr<Variable> kept) {
  edge.node->register_prehook(
      [kept = std::move(kept), output = edge.output](std::span<Variable> gradients) {
        const Variable& gradient = gradients[output];
        if (!gradient.defined()) return;
        *kept = kept->defined() ? add_gradients(*kept, gradient) : tapegrad::clone(gradient);
      });
}

/// Updates the hook of retain_grad() after a write: the gradient is then that of the new value. The
/// hook of the old node keeps its sum, which is never read.
static void retain_again(const TapeEdge& edge, std::shared_ptr<Variable>& retained) {
  if (!retained || leaf_at(retained->edge()) || !edge || edge.node->is_leaf()) return;
  retained = std::make_shared<Variable>(*retained);
  keep_gradients(edge, retained);
}

void Variable::retain_grad() const {
  value();
  if (!edge()) fail<AutogradError>("retain_grad: this variable requires no gradient");
  if (is_leaf()) return;
  std::shared_ptr<Variable>& retained = state_->retained;
  const Leaf* leaf = gradient_leaf({}, retained);
  if (retained && !leaf) return;
  const Variable before = leaf ? leaf->gradient() : Variable();
  retained = std::make_shared<Variable>(before.defined() ? tapegrad::clone(before) : before);
  keep_gradients(edge(), retained);
}

void Variable::rebind(Tensor value) const {
  this->value();
  if (!value) fail<ArgumentError>("rebind: the new value is empty");
  const bool leaf = requires_grad();
  if (!is_leaf() || base_state())
    fail<AutogradError>("rebind: the result of an op, or a view, keeps its value");
  if (leaf && !is_float(value.dtype()))
    fail<AutogradError>("rebind: ", name(value.dtype()), " has no gradient");
  state_->value = std::move(value);
  ++state_->bindings;
  ++state_->rewrites;  // views look at the base again
  state_->retained = nullptr;
  if (!leaf) return;
  const std::string* label = static_cast<Leaf&>(*state_->edge.node).label();
  state_->edge = {RefPtr<TapeNode>::adopt(new Leaf(state_->value)), 0};
  static_cast<Leaf&>(*state_->edge.node).set_label(label);
}

void Variable::zero_grad(bool set_to_none) const {
  if (!state_) return;
  Variable old;
  if (Leaf* leaf = gradient_leaf(edge(), state_->retained)) {
    if (!set_to_none) {
      if (StepObserver* step = StepObserver::current()) [[unlikely]]
        step->on_set_to_zero(*leaf);
      old = leaf->gradient();
    }
    leaf->clear_gradient();
    if (old.defined()) leaf->set_gradient(zeros_like(old));
  } else if (state_->retained) {
    old = std::exchange(*state_->retained, {});
    if (!set_to_none && old.defined()) *state_->retained = zeros_like(old);
  }
}

HookHandle Variable::register_hook(GradientHook hook) const {
  value();
  if (!edge()) fail<AutogradError>("register_hook: this variable requires no gradient");
  return edge().node->register_hook(edge().output, std::move(hook));
}

HookHandle Variable::register_post_accumulate_grad_hook(AccumulateHook hook) const {
  value();
  if (!edge() || !is_leaf())
    fail<AutogradError>(
        "register_post_accumulate_grad_hook: only a leaf that requires a gradient accumulates");
  if (!hook)
    fail<ArgumentError>("register_post_accumulate_grad_hook: the hook is an empty function");
  return static_cast<Leaf&>(*edge().node).register_accumulate_hook(std::move(hook));
}

Variable Variable::to(Device device, Where where) const {
  return device == value(where).device() ? *this : move(*this, device, where);
}
Variable Variable::to(DType dtype, Where where) const {
  return dtype == value(where).dtype() ? *this : cast(*this, dtype, where);
}
Variable Variable::to_named(std::string_view device_or_dtype, Where where) const {
  const bool is_device = device_or_dtype.starts_with("cpu") ||
                         device_or_dtype.starts_with("cuda") || device_or_dtype.starts_with("gpu");
  return is_device ? to(parse_device(device_or_dtype, where), where)
                   : to(parse_dtype(device_or_dtype, where), where);
}
Variable operator|(const Variable& x, Device device) { return x.to(device_or_cpu(device)); }

Variable& Variable::detach_() {
  if (value(), is_leaf()) return requires_grad_(false);
  if (base_state())
    fail<AutogradError>(
        "detach_: a view has the history of its base; use detach(), or detach_() on ", "the base");
  set_history({});
  return *this;
}

void Variable::set_view_of(const Variable& input) {
  state_->base = input.base_state() ? input.state_->base : input.state_;
  state_->rewrites = state_->base->rewrites;
  state_->bindings = state_->base->bindings;
}

const RefPtr<Variable::State>& Variable::base_state() const {
  if (state_->base && state_->bindings != state_->base->bindings) [[unlikely]]
    state_->base = {};
  return state_->base;
}

Variable Variable::base() const {
  value();
  Variable base;
  base.state_ = base_state() ? state_->base : state_;
  return base;
}

void Variable::rebase(TapeEdge made, Where where) {
  Variable owner = base();
  if (base_state())
    made = record_view_write(owner, relative_layout(*this, owner), std::move(made), where);
  owner.set_history(std::move(made));
  ++owner.state_->rewrites;
  retain_again(owner.state_->edge, owner.state_->retained);
  if (state_->retained) edge();  // a view that retains its gradient derives its history at once
}

void Variable::derive_again() const {
  if (!base_state()) return;
  const Variable owner = base();
  state_->edge =
      owner.state_->edge ? record_view(owner, relative_layout(*this, owner)) : TapeEdge{};
  state_->rewrites = owner.state_->rewrites;
  retain_again(state_->edge, state_->retained);
}

bool Variable::can_be_overwritten() const {
  if (!state_ || !is_sole_owner() || state_->retained || (edge() && is_leaf()) ||
      (detail::context.anomaly & ~detail::kObserve) != 0)
    return false;
  const TensorStorage& storage = value().storage();
  // While calls are recorded, those recorded before do not count as owners. A kernel that a replay
  // runs must not overwrite their operands.
  if (storage.owners() != 1 && detail::context.recorder == nullptr) return false;
  return !storage.is_wrapped() && storage.is_inference() == is_inference_mode();
}

bool Variable::is_sole_owner() const {
  return state_->has_one_owner() && !state_->base && value().is_sole_owner();
}

}  // namespace tapegrad
