// Variable: a Tensor with history. Models are written with Variable.
//
//   Variable w = Variable(Tensor::from<float>(values, {2, 3})).requires_grad_();
//   Variable loss = sum(tanh(matmul(x, w)));
//   loss.backward();
//   w.grad();   // d loss / d w
//
// A Variable is a handle: copies share one value, gradient and history. const applies to the
// handle, not to the value.
#pragma once

#include <optional>

#include "core/base/accessor.h"
#include "core/base/tensor.h"
#include "core/tape/backward_options.h"
#include "core/tape/node.h"
#include "core/tape/variable_ops.h"

namespace tapegrad {

namespace detail {
/// Returns an index as int64. An index that does not fit becomes the largest int64, which is never
/// valid.
template <std::integral T>
int64_t index_of(T index) {
  return int64_t(index) < 0 && index > T(0) ? INT64_MAX : int64_t(index);
}
/// An index or a Variable in brackets, with the line of the call.
struct IndexHere {
  template <std::integral T>
  IndexHere(T i, Where here = Where::current()) : index(index_of(i)), where(here) {}
  int64_t index;
  Where where;
};
struct VariableHere {
  VariableHere(const Variable& i, Where here = Where::current()) : x(i), where(here) {}
  const Variable& x;
  Where where;
};
}  // namespace detail

class Variable : public VariableOps {
 public:
  Variable() = default;                    // empty; as a gradient, an empty Variable means zero
  explicit Variable(const Tensor& value);  // a constant
  explicit Variable(Tensor&& value);
  Variable(const Variable&) = default;
  Variable(Variable&&) = default;
  Variable& operator=(const Variable&) & = default;
  Variable& operator=(Variable&&) & = default;
  /// Assignment to a result writes its elements, in place: `x[0] = y`, `x[0] = 1.0`.
  void operator=(const Operand& values) &&;
  /// Makes this variable a constant with the value: `weights["fc.bias"] =
  /// model.state_dict()["fc.bias"]`.
  template <std::same_as<Tensor> T>
  Variable& operator=(const T& value) & {
    return *this = Variable(value);
  }

  /// Returns whether the variable has a value; a default-constructed variable has none.
  bool defined() const { return bool(state_); }
  /// Converts the only element to a condition, `if (loss < 0.5)`; waits for a GPU. Throws
  /// ShapeError if there is not exactly one element (use `all` or `any`), ArgumentError if the
  /// variable is empty (use `defined`), AutogradError while a step is captured.
  explicit operator bool() const;
  /// Throws ArgumentError for an empty variable, as do all functions of this class that read the
  /// value.
  const Tensor& value() const {
    if (!state_) [[unlikely]]
      fail_empty();
    return state_->value;
  }
  /// Returns value(). An error names the line `where`.
  const Tensor& value(Where where) const {
    if (!state_) [[unlikely]]
      fail_empty(where);
    return state_->value;
  }
  const Shape& shape() const& { return value().shape(); }
  Shape shape() const&& { return value().shape(); }  // for `for (auto size : (x * y).shape())`
  int64_t size(int dim) const;                       // a negative dim counts from the end
  int64_t shape(int dim) const { return size(dim); }
  int rank() const { return value().rank(); }
  int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }

  /// Returns the only element, copied from any device. Throws ShapeError for any other number of
  /// elements.
  double item(Where where = Where::current()) const;
  /// Returns the only element as T. Throws ArgumentError if an integer T cannot hold the number.
  template <typename T>
  T item(Where where = Where::current()) const {
    return number(where).checked<T>();
  }
  /// Converts the only element: `double(loss)` is loss.item().
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>) explicit operator T() const {
    return item<T>();
  }
  /// Returns the elements in row-major order, converted to T, on the host.
  template <typename T>
  std::vector<T> to_vector(Where where = Where::current()) const {
    static_assert(kIsElement<T>,
                  "to_vector<T>(): T is float, double, int32_t, int64_t, uint8_t, int8_t, int16_t, "
                  "bool, float16 or bfloat16");
    const Tensor here = value(where).on_host(kDTypeOf<T>, "to_vector()");
    return std::vector<T>(here.data<T>(), here.data<T>() + here.numel());
  }

  /// Copies to another device or casts to another dtype, differentiably. Returns *this if nothing
  /// changes.
  Variable to(Device device, Where where = Where::current()) const;
  Variable to(DType dtype, Where where = Where::current()) const;
  /// PyTorch's x.to(device, non_blocking). `non_blocking` has no effect: a copy waits for the
  /// device only if it must.
  template <std::same_as<bool> B>
  Variable to(Device device, B, Where where = Where::current()) const {
    return to(device, where);
  }
  template <std::convertible_to<std::string_view> Name, std::same_as<bool> B>
  Variable to(const Name& device, B, Where where = Where::current()) const {
    return to_named(device, where);
  }
  /// Copies or casts by name: x.to("cuda"), x.to("float64").
  template <std::convertible_to<std::string_view> Name>
  Variable to(const Name& device_or_dtype, Where where = Where::current()) const {
    return to_named(device_or_dtype, where);
  }
  /// Copies to the device and casts to the dtype of another variable.
  Variable to(const Variable& other, Where where = Where::current()) const {
    return type_as(other, where);
  }
  Variable cpu(Where where = Where::current()) const { return to(tapegrad::cpu, where); }

  /// Turns a constant into a leaf, or a leaf into a constant. Throws AutogradError for integers,
  /// for results of ops and, outside of InferenceMode, for tensors created in InferenceMode.
  Variable& requires_grad_(bool on = true, Where where = Where::current());
  Variable& set_requires_grad(bool on) { return requires_grad_(on); }
  bool requires_grad() const { return bool(edge()); }
  bool is_leaf() const;

  class Property;
  /// Returns the accumulated gradient of a leaf, or of a variable with retain_grad(). Empty before
  /// the first backward pass. An assignment, `p.grad() = g`, replaces the gradient of a leaf.
  Property grad() const;
  /// Replaces the gradient of a leaf that requires one; an empty Variable clears it. Throws
  /// AutogradError for other variables, ShapeError or DTypeError for a gradient of another type.
  void set_grad(const Variable& gradient) const;
  /// Clears the gradient, or fills an existing gradient with zeros if `set_to_none` is false.
  void zero_grad(bool set_to_none = true) const;
  /// Makes grad() available for the result of an op.
  void retain_grad() const;
  bool retains_grad() const { return state_ && state_->retained && !is_leaf(); }

  /// Calls the hook with each complete gradient of this variable before the gradient is used. The
  /// hook may return a replacement, or an empty Variable to leave the gradient unchanged. A hook
  /// that owns this variable creates a reference cycle, which only remove() breaks.
  HookHandle register_hook(GradientHook hook) const;
  /// A hook that returns nothing leaves the gradient unchanged.
  template <std::invocable<const Variable&> F>
  requires std::is_void_v<std::invoke_result_t<F&, const Variable&>> HookHandle
  register_hook(F hook)
  const {
    return register_hook(GradientHook([hook](const Variable& gradient) mutable {
      hook(gradient);
      return Variable();
    }));
  }
  template <typename Handle>
  auto remove_hook(const Handle&) const {
    static_assert(detail::kNever<Handle>, "type handle.remove() instead of x.remove_hook(handle)");
  }
  /// Calls the hook whenever a backward pass has accumulated into the gradient of this leaf, while
  /// the pass still runs for other leaves. The hook may send the gradient, or update the leaf and
  /// clear the gradient early.
  HookHandle register_post_accumulate_grad_hook(AccumulateHook hook) const;
  /// Returns the node of the op that made this variable, for hooks. Null for constants and leaves.
  TapeNode* grad_fn() const { return is_leaf() ? nullptr : edge().node.get(); }

  /// Accumulates d this / d leaf into the gradient of every leaf. Without a seed this variable must
  /// have one element. If an error is thrown, only leaves with a
  /// register_post_accumulate_grad_hook() may have changed.
  void backward(BackwardOptions options = {}, Where where = Where::current()) const;
  void backward(const Variable& seed, BackwardOptions options = {},
                Where where = Where::current()) const;
  void backward(const BackwardInto& options, Where where = Where::current()) const;
  void backward(const Variable& seed, const BackwardInto& options,
                Where where = Where::current()) const;
  /// libtorch's order: y.backward(seed, retain_graph, create_graph), where the seed may be {}.
  template <std::same_as<bool> B>
  void backward(const Variable& seed, B retain_graph, bool create_graph = false,
                Where where = Where::current()) const {
    backward(seed, BackwardOptions{retain_graph, create_graph}, where);
  }

  /// Removes the history of this Variable and of its copies, which become leaves that require no
  /// gradient. Throws AutogradError for a view.
  Variable& detach_();
  /// Returns a constant that shares the storage; the storage's version counts writes to either.
  Variable detach(Where where = Where::current()) const { return Variable(value(where)); }

  /// Replaces the value of a leaf or constant: other storage, device, dtype or shape under the same
  /// handle. Its gradient is cleared, and views made before keep the old value and its history.
  /// Throws AutogradError for results of ops.
  void rebind(Tensor value) const;
  /// PyTorch's p.data = x: rebind() to the value of x, which shares its memory with this variable.
  /// The gradient is kept if shape, dtype and device are unchanged.
  template <std::derived_from<Variable> V>
  void set_data(const V& x) const {
    take_data(x);
  }
  bool is_same(const Variable& other) const { return state_ == other.state_; }

  /// `for (Variable row : x)` visits the entries of dimension 0.
  class Iterator;
  Iterator begin() const;
  Iterator end() const;
  /// x[i] is entry i of dimension 0, a view. x[mask] and x[index tensor] copy, but assignments to
  /// them write to x: `x[mask] = 0.0`, `x[index] += y`.
  Variable operator[](detail::IndexHere i) const { return select(0, i.index, i.where); }
  class Part;
  Part operator[](detail::VariableHere mask_or_index) const;
  Variable operator[](const Slice& slice) const;
  Variable operator[](const NewAxis&) const { return unsqueeze(0); }
  /// The rows of these indices: x[std::vector<int64_t>{4, 0}].
  template <std::same_as<std::vector<int64_t>> Rows>
  Variable operator[](const Rows& rows) const {
    return rows_at(rows);
  }
  /// x[{Slice(), None, -1}] is x.index({Slice(), None, -1}).
  Part operator[](std::initializer_list<Subscript> subscripts) const;

  // Names of members in other libraries, as in VariableOps.
  template <typename V = void>
  auto operator[](std::initializer_list<int64_t>) const {
    static_assert(detail::kNever<V>, "type x[0][1] or at(x, {0, 1}) instead of x[{0, 1}]");
  }
  template <typename V = void>
  auto size() const {
    static_assert(detail::kNever<V>, "type x.shape() or x.numel() instead of x.size()");
  }
  template <typename V = void>
  auto& mutable_grad() const {
    static_assert(detail::kNever<V>,
                  "type x.zero_grad() instead of x.mutable_grad() = {}, x.grad() to change it");
  }

  /// Returns detach(). An assignment, `p.data() = x`, calls set_data(): a leaf or constant gets the
  /// value of x and shares its memory.
  Property data() const;

  // Alternative names of members.
  const Shape& sizes() const& { return shape(); }
  Shape sizes() const&& { return value().shape(); }
  /// Returns the sizes as an array, for `auto [b, t, c] = x.sizes<3>();`. Throws ShapeError for a
  /// tensor of another rank.
  template <size_t n>
  std::array<int64_t, n> sizes() const {
    return shape().sizes<n>();
  }
  int dim() const { return rank(); }
  int ndim() const { return rank(); }
  const Strides& strides() const { return value().strides(); }
  int64_t stride(int dim) const;  // in elements
  int64_t element_size() const { return int64_t(size_of(dtype())); }
  DType scalar_type() const { return dtype(); }
  bool is_contiguous() const { return value().is_contiguous(); }
  bool is_cuda() const { return device().type == DeviceType::kCuda; }
  Variable astype(DType dtype, Where where = Where::current()) const { return to(dtype, where); }
  Variable toType(DType dtype, Where where = Where::current()) const { return to(dtype, where); }
  Variable to(const torch::TensorOptions& options) const;  // to their device and dtype
  Variable type_as(const Variable& other, Where where = Where::current()) const {
    return to(other.device(), other.dtype(), where);
  }
  Variable to(Device device, DType dtype, Where where = Where::current()) const {
    return to(device, where).to(dtype, where);
  }
  template <std::same_as<bool> B>
  Variable to(Device device, DType dtype, B, Where where = Where::current()) const {
    return to(device, dtype, where);
  }
  Variable cuda(Where where = Where::current()) const { return to(gpu, where); }
  Variable cuda(int index, Where where = Where::current()) const;
  Variable T(Where where = Where::current()) const { return t(where); }
  template <typename V>
  V* data_ptr(Where where = Where::current()) const {
    static_assert(kIsElement<V>,
                  "data_ptr<T>(): T is float, double, int32_t, int64_t, uint8_t, int8_t, int16_t, "
                  "bool, float16 or bfloat16");
    check_type(kDTypeOf<V>, where);
    V* data = value().data<V>();
    value().storage().keep_in_order();  // the caller keeps the address
    return data;
  }
  void* data_ptr(Where where = Where::current()) const;

  /// Returns access to the elements of a tensor of rank n on the CPU: `auto a = x.accessor<float,
  /// 2>(); a[i][j] = 1;`. Accesses are not recorded. The accessor must not outlive the tensor.
  /// Throws DTypeError, ShapeError or DeviceError if T, n or the device does not match, and
  /// IndexError for an index outside [0, size).
  template <typename V, size_t n>
  Accessor<V, n> accessor(Where where = Where::current()) const {
    static_assert(kIsElement<V>, "accessor<T, n>(): T is float, double, int64_t ...");
    check_accessor(kDTypeOf<V>, n, where);
    return {value().data<V>(), shape().begin(), strides().begin()};
  }

  // The remaining members are for the tape.

  /// Returns the value, or an empty tensor for an empty variable (an omitted optional input).
  const Tensor& value_or_empty() const { return state_ ? state_->value : kEmptyTensor; }

  /// Returns the edge to which gradients of this variable are sent. If the base of a view was
  /// written since the view was made, derives the history of the view again from the base.
  const TapeEdge& edge() const {
    if (!state_) [[unlikely]]
      return kNoEdge;
    if (state_->base && state_->rewrites != state_->base->rewrites) [[unlikely]]
      derive_again();
    return state_->edge;
  }
  void set_history(TapeEdge edge) { state_->edge = std::move(edge); }

  /// Returns a constant whose value is constructed in place, which saves every op a move of a
  /// Tensor.
  template <typename Make>
  static Variable of_result(Make&& make) {
    Variable result;
    result.state_ = RefPtr<State>::adopt(new State(InPlace{}, make));
    return result;
  }
  /// Declares this variable a view of the base of `input`, or of `input` if it is not a view.
  void set_view_of(const Variable& input);
  /// Returns the variable that owns the storage: *this unless it is a view.
  Variable base() const;
  /// Sets the history to `made` after an in-place write; for a view, through its base.
  void rebase(TapeEdge made, Where where);
  /// Returns whether nothing else can read the value, so that it may be overwritten.
  bool is_sole_owner() const;
  bool has_one_handle() const { return state_ && state_->has_one_owner(); }
  /// Returns whether an op may overwrite the value if the caller no longer needs this variable:
  /// nothing else refers to its memory.
  bool can_be_overwritten() const;
  /// For kernels that write in place; the caller bumps the version.
  Tensor& writable() const {
    value();
    return state_->value;
  }

 private:
  struct InPlace {};
  struct State final : Counted, Pooled {
    Tensor value;
    TapeEdge edge;
    RefPtr<State> base;     // set for views; the base itself is never a view
    uint32_t rewrites = 0;  // base: changes of its history; view: the base's count when the history
                            // of the view was derived
    uint32_t bindings = 0;  // base: number of its storage; view: number of the storage it views
    std::shared_ptr<Variable> retained;  // gradient kept by retain_grad()

    template <typename Make>
    State(InPlace, Make& make) : value(make()) {}
    explicit State(const Tensor& from) : value(from) {}
    explicit State(Tensor&& from) : value(std::move(from)) {}
    static void destroy(State* state);
  };

  /// Returns the state of the base of a view. Null if there is no base, or if the base was given
  /// another value since the view was made.
  const RefPtr<State>& base_state() const;

  static const Tensor kEmptyTensor;
  static const TapeEdge kNoEdge;

  Variable to_named(std::string_view device_or_dtype, Where where) const;
  Variable rows_at(const std::vector<int64_t>& rows) const;
  void take_data(const Variable& x) const;
  [[noreturn, gnu::cold]] static void fail_empty(Where where = {});
  Number number(Where where) const;
  void check_type(DType dtype, Where where) const;
  void check_accessor(DType dtype, size_t rank, Where where) const;
  void derive_again() const;

  RefPtr<State> state_;
};

class Variable::Iterator {
 public:
  Iterator(const Variable& of, int64_t at) : of_(of), at_(at) {}
  Variable operator*() const { return of_.select(0, at_); }
  Iterator& operator++() {
    ++at_;
    return *this;
  }
  bool operator!=(const Iterator& other) const { return at_ != other.at_; }

 private:
  Variable of_;
  int64_t at_;
};

/// The result of x[mask], x[index] and x[{...}]: a Variable. On the left side of an assignment, a
/// Part refers to the elements of x.
class Variable::Part : public Variable {
 public:
  Part(const Variable& x, std::vector<Subscript> subscripts, Where where = {});
  ~Part();
  Part(const Part&);
  Part(Part&&) noexcept;
  Part& operator=(const Part&) &;
  Part& operator=(Part&&) & noexcept;
  Part& operator=(const Variable& other) & {
    Variable::operator=(other);
    return *this;
  }
  /// Write to x, in place. Where an element is named twice, the last value remains.
  void operator=(const Variable& values) &&;
  void operator=(const Part& values) &&;
  void operator=(const Operand& values) &&;
  friend void operator+=(Part&& part, const Operand& b);
  friend void operator-=(Part&& part, const Operand& b);
  friend void operator*=(Part&& part, const Operand& b);
  friend void operator/=(Part&& part, const Operand& b);

 private:
  struct Selection;
  bool is_view() const;  // whether the elements are a view, as of x[{0, Slice()}]
  void put(const Operand& values);

  Variable of_;
  std::shared_ptr<const Selection> selection_;
  Where where_;
};

/// The result of x.grad() and x.data(): a Variable. On the left side of an assignment, a Property
/// refers to the gradient, or the value, of x.
class Variable::Property : public Variable {
 public:
  enum class Kind { kGradient, kData };
  Property(Variable value, const Variable& of, Kind kind);
  Property(const Property&) = default;
  Property(Property&&) = default;
  Property& operator=(const Property&) & = default;
  Property& operator=(Property&&) & = default;
  Property& operator=(const Variable& other) & {
    Variable::operator=(other);
    return *this;
  }
  /// Replace the gradient or the value. A value of the result of an op is written in place.
  void operator=(const Variable& x) &&;
  void operator=(const Property& x) && { std::move(*this) = static_cast<const Variable&>(x); }
  void operator=(const Operand& x) && { static_cast<Variable&&>(*this) = x; }

 private:
  Variable of_;  // empty unless it can be replaced
  Kind kind_;
};

template <typename X>
const Tensor& Tensor::copy_(const X& values) const {
  Variable here(*this);
  if constexpr (std::same_as<X, Tensor>)
    here.copy_(Variable(values));
  else
    here.copy_(values.detach());
  return *this;
}

inline const Variable& ReductionOps::self() const { return static_cast<const Variable&>(*this); }
inline const Variable& VariableOps::self() const { return static_cast<const Variable&>(*this); }
inline Variable& VariableOps::self() { return static_cast<Variable&>(*this); }
template <typename T>
requires(!std::same_as<T, void>) std::vector<T> VariableOps::tolist(Where where)
const { return self().template to_vector<T>(where); }
inline Variable::Iterator Variable::begin() const { return {*this, 0}; }
inline Variable::Iterator Variable::end() const { return {*this, size(0)}; }

namespace detail {
[[noreturn, gnu::cold]] void fail_parts(size_t wanted, size_t parts, Where where);
template <size_t n>
std::array<Variable, n> exactly(std::vector<Variable> parts, Where where) {
  if (parts.size() != n) fail_parts(n, parts.size(), where);
  std::array<Variable, n> list;
  for (size_t i = 0; i < n; ++i) list[i] = std::move(parts[i]);
  return list;
}
}  // namespace detail
template <size_t n>
std::array<Variable, n> VariableOps::chunk(int dim, Where where) const {
  return detail::exactly<n>(chunk(int64_t(n), dim, where), where);
}
template <size_t n>
std::array<Variable, n> VariableOps::unbind(int dim, Where where) const {
  return detail::exactly<n>(unbind(dim, where), where);
}
template <size_t n>
std::array<Variable, n> VariableOps::split(int64_t size, int dim, Where where) const {
  return detail::exactly<n>(split(size, dim, where), where);
}

/// Prints the values in NumPy's format: brackets, six digits, long axes abbreviated.
std::ostream& operator<<(std::ostream& out, const Variable& x);
/// Prints a Tensor. A template, because other types convert to Tensor.
template <std::same_as<Tensor> T>
std::ostream& operator<<(std::ostream& out, const T& x) {
  return out << Variable(x);
}
struct PrintOptions {
  std::optional<int> precision = {};  // digits after the point; default: six significant digits
  int64_t threshold = 1000;           // tensors of more elements are abbreviated
  int64_t edgeitems = 3;              // at each end of an abbreviated axis
  bool sci_mode = false;              // 1.5e+02
};
/// Sets how tensors are printed: set_printoptions({.precision = 2}). Must not be called while
/// another thread prints. Throws ArgumentError for a negative number.
void set_printoptions(PrintOptions options = {});
std::string to_string(const Variable& x);
namespace detail {
void print(const Variable& x);
}  // namespace detail
/// Writes x and the end of the line to standard output. A template, so that a print() of the
/// user's program is not ambiguous.
template <std::derived_from<Variable> V>
void print(const V& x) {
  detail::print(x);
}
/// A list of variables: {x, y}, a std::vector or a std::span.
struct VariableList : std::span<const Variable> {
  VariableList(std::initializer_list<Variable> list) : span(list.begin(), list.size()) {}
  VariableList(const std::vector<Variable>& list) : span(list.data(), list.size()) {}
  VariableList(std::span<const Variable> list) : span(list) {}
  template <std::same_as<std::vector<Tensor>> Tensors>
  VariableList(const Tensors&) noexcept(detail::refuse_tensor<Tensors>()) {}
};

/// Accumulates d y / d leaf into the gradient of every leaf. Equivalent to y.backward().
inline void backward(const Variable& y, BackwardOptions options = {},
                     Where where = Where::current()) {
  y.backward(options, where);
}

/// Copies x to the device, as in `x | gpu`. If the device is not available, returns x and prints a
/// single notice.
Variable operator|(const Variable& x, Device device);

namespace detail {
/// A result with two or three named parts, such as { values, indices }.
template <typename R>
concept NamedParts = R::kParts == 2 || R::kParts == 3;
template <size_t i, typename R>
auto& part_of(R& result) {
  if constexpr (R::kParts == 2) {
    auto& [first, second] = result;
    if constexpr (i == 0)
      return first;
    else
      return second;
  } else {
    auto& [first, second, third] = result;
    if constexpr (i == 0)
      return first;
    else if constexpr (i == 1)
      return second;
    else
      return third;
  }
}
[[noreturn, gnu::cold]] void fail_part(int part, int parts);
/// Returns part i, as from Python's tuple: linalg::svd(x)[1]. Throws IndexError for another number.
template <NamedParts R>
Variable part_at(const R& result, int part) {
  if (part < 0 || part >= R::kParts) [[unlikely]]
    fail_part(part, R::kParts);
  if constexpr (R::kParts == 3) {
    const auto& [first, second, third] = result;
    return part == 0 ? first : part == 1 ? second : third;
  } else {
    const auto& [first, second] = result;
    return part == 0 ? first : second;
  }
}
}  // namespace detail
}  // namespace tapegrad

namespace std {
/// Returns part i, as from libtorch's tuples: std::get<0>(max(x, 1)).
template <size_t i, tapegrad::detail::NamedParts R>
auto& get(R& result) {
  return tapegrad::detail::part_of<i>(result);
}
template <size_t i, tapegrad::detail::NamedParts R>
auto get(R&& result) {
  return std::move(tapegrad::detail::part_of<i>(result));
}
}  // namespace std

#include "core/tape/grad.h"
