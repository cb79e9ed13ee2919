// apply(): run an op, and put it on the tape when an input needs a gradient.
//
// An op is a small struct. Its members are its attributes and its saved tensors. backward is
// written with Variable ops, so that it can be differentiated again:
//
//   struct Exp {
//     static constexpr std::string_view kName = "exp";
//     SavedOutput<> y{};                            // dx = dy * y
//     auto saved() { return std::tie(y); }
//
//     Tensor forward(const Tensor& x);
//     Variable backward(const Variable& dy) const { return dy * y(); }
//   };
//   Variable exp(const Variable& x, Where where) { return apply(Exp{}, where, x); }
//
// An op without a gradient declares `static constexpr bool kDifferentiable = false;` and has no
// backward. An op with neither does not compile. Results of integer or bool type have no history.
// An empty input throws ArgumentError. An op with optional inputs declares the number of required
// ones, `static constexpr size_t kRequired = 1;`; the inputs after them may be omitted, and forward
// gets an empty Tensor.
//
// forward takes one Tensor per input, or std::span<const Variable> for a list. It returns a Tensor,
// or a std::vector<Tensor> for several outputs. backward takes `const Variable& dy`, or
// std::span<const Variable> for several outputs (an empty one means zero), and optionally Needs. It
// returns one gradient per input (empty means zero), as a Variable, a std::array or a std::vector.
//
// An op with several outputs may declare `bool is_differentiable(size_t output) const`. An output
// for which it returns false has no history, and its place in backward's list stays empty. A value
// that forward computes for backward is a member. A member that depends on the inputs has no
// history; if the gradient is to be differentiated again, make the value another output, saved as
// SavedOutput<k>. saved() also lists members of type Tensor, so that reports on memory count them.
//
// An op may have a second rule, kernel_backward, which computes the same gradients by kernels, in
// Tensors. kernel_backward runs if the backward pass is not recorded; otherwise backward runs:
//
//   Tensor kernel_backward(const Tensor& dy) const;   // or std::span<const Tensor>, and Needs
//
// kernel_backward may overwrite dy if dy.is_sole_owner(). An empty Tensor means zero.
//
// An elementwise op has `void write(inputs..., Tensor& y)`, which computes y and allows y to be one
// of the inputs. apply_over() uses it to write the result over an input that nobody needs any more,
// and apply_in_place() to write over its target. Without forward, apply() calls write() with a new
// y of the shape and dtype of the first input. An op of several inputs also has
// `static bool fits(const Tensor& x, const Tensor& other)`: whether a result of x and the other
// input has x's shape and dtype.
//
// If write() throws, apply_in_place() restores the target from a copy. An op that throws all errors
// of arguments, devices and kernels before it writes declares `static constexpr bool kChecksFirst =
// true;`, which avoids the copy. Any other error of such an op counts as a write. If forward
// returns a Tensor with the storage of an input, the output is a view of the input.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <tuple>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace detail {
[[noreturn, gnu::cold]] void fail_devices(std::string_view op,
                                          std::initializer_list<const Tensor*> tensors);
[[noreturn, gnu::cold]] void fail_dtypes(std::string_view op,
                                         std::initializer_list<const Tensor*> tensors);
}  // namespace detail

/// The inputs that need a gradient.
class Needs {
 public:
  explicit Needs(std::span<const TapeEdge> edges, const BackwardPass* pass = nullptr)
      : edges_(edges), pass_(pass) {}
  bool operator[](size_t input) const {
    return edges_[input] && (pass_ == nullptr || is_wanted(*pass_, edges_[input]));
  }
  /// If input 0 is the result of an activation and no other consumer, hook or capture refers to the
  /// activation's node, returns the value at which the activation's gradient is taken
  /// (Epilogue::at) and sets `activation`; else returns null. A rule that includes this gradient in
  /// its own sets KernelGradients::is_past_front. For kernel_backward.
  const SavedValue* front(Activation& activation) const;

 private:
  static bool is_wanted(const BackwardPass& pass, const TapeEdge& edge);

  std::span<const TapeEdge> edges_;
  const BackwardPass* pass_;  // the pass may need fewer gradients than were recorded; null: no pass
};

/// Interface that receives the saved tensors of nodes, for pictures and statistics.
class SavedVisitor {
 public:
  virtual void on_saved(const Tensor& value) = 0;
  virtual void on_recomputed() {}  // a value held by a SavedStore

 protected:
  ~SavedVisitor() = default;
};

/// Store that holds saved tensors in place of the nodes. core/autograd/checkpoint.h implements a
/// store that recomputes the tensors.
class SavedStore : public Counted {
 public:
  virtual ~SavedStore();
  /// Keeps a tensor. Returns the number by which value() finds it.
  virtual uint32_t keep(const Tensor& value) = 0;
  virtual const Tensor& value(uint32_t number) = 0;
  /// Called with the name of each recorded op, which is never freed, before on_input().
  virtual void on_op(std::string_view name) = 0;
  /// Called with each input of each recorded op, before the op's values are kept.
  virtual void on_input(const Tensor& input) = 0;
  static void destroy(SavedStore* store) { delete store; }
};

/// A saved tensor and the version of its storage when it was saved.
class SavedValue {
 public:
  SavedValue() {}
  explicit operator bool() const { return value_ || store_; }  // also false for an omitted input
  void keep(const Tensor& value) {
    if (detail::context.saved_store != nullptr || value.storage().is_inference()) [[unlikely]]
      return keep_elsewhere(value);
    value_ = value;
    version_ = value.storage().version();
  }
  /// Returns the value without history, for a rule that is not being recorded. Throws
  /// AutogradError, naming the op, if the storage was modified after the value was saved.
  const Tensor& value() const {
    if (!value_ || value_.storage().version() != version_) [[unlikely]]
      return find_value();
    return value_;
  }
  void visit(SavedVisitor& visitor) const;

 protected:
  /// Returns the value, with its history if the rule is being recorded. Throws AutogradError,
  /// naming the op, if the storage was modified after the value was saved.
  Variable restore(const TapeEdge& history) const;

 private:
  [[gnu::cold]] void keep_elsewhere(const Tensor& value);
  [[gnu::cold]] const Tensor& find_value() const;

  Tensor value_;
  uint32_t version_ = 0;      // or the number in the store
  RefPtr<SavedStore> store_;  // the store that holds the value, if any
};

/// Saves input I if the gradient of one of the inputs `For` is needed (of any input, if `For` is
/// empty). The history of the value is the node's own edge.
template <int I, int... For>
class SavedInput : public SavedValue {
 public:
  SavedInput() {}  // user-provided, so that `a{}` does not clear 170 bytes first
  static bool is_needed([[maybe_unused]] Needs needs) {
    return sizeof...(For) == 0 || (needs[For] || ...);
  }
  static constexpr int kInput = I;

  Variable operator()() const { return restore(running_node()->edges()[I]); }
};

/// Saves the result of an epilogue that became part of the node; filled by take_epilogue().
class SavedResult : public SavedValue {
 public:
  SavedResult() {}

  Variable operator()() const;
};

/// Saves output K without its history, which would make a cycle. The running node replaces the
/// history.
template <int K = 0>
class SavedOutput : public SavedValue {
 public:
  SavedOutput() {}
  static constexpr int kOutput = K;

  Variable operator()() const;
};

/// Throws AutogradError, naming the op, if the rule is being recorded. For rules that call kernels
/// directly and thus cannot be differentiated.
void require_first_order();

/// Throws DeviceError unless all tensors are on the same device. Empty tensors are ignored.
template <std::same_as<Tensor>... Tensors>
void check_same_device(std::string_view op, const Tensor& first, const Tensors&... others) {
  const auto differs = [&](const Tensor& other) {
    return other && other.device() != first.device();
  };
  if ((differs(others) || ...)) [[unlikely]]
    detail::fail_devices(op, {&first, &others...});
}

/// Throws DTypeError unless all tensors have the same dtype. Empty tensors are ignored.
template <std::same_as<Tensor>... Tensors>
void check_same_dtype(std::string_view op, const Tensor& first, const Tensors&... others) {
  if (((others && others.dtype() != first.dtype()) || ...)) [[unlikely]]
    detail::fail_dtypes(op, {&first, &others...});
}

template <typename Op>
constexpr bool is_differentiable() {
  if constexpr (requires { Op::kDifferentiable; })
    return Op::kDifferentiable;
  else
    return true;
}

template <typename Op, typename Gradient>
concept HasBackward = requires(const Op op, Gradient dy, Needs needs) {
  op.backward(dy, needs);
}
|| requires(const Op op, Gradient dy) { op.backward(dy); };

template <typename Op, typename Gradient>
concept HasKernelBackward = requires(const Op op, Gradient dy, Needs needs) {
  op.kernel_backward(dy, needs);
}
|| requires(const Op op, Gradient dy) { op.kernel_backward(dy); };

/// The result of a kernel_backward that uses Needs::front().
template <size_t N>
struct KernelGradients : std::array<Tensor, N> {
  bool is_past_front = false;  // the first gradient is that of the activation's operand
};

/// Returns dy if nothing else refers to its memory, else a copy. For kernel_backward.
Tensor to_overwrite(const Tensor& dy);
/// Returns memory for a result of dy's shape and type: dy's memory if nothing else refers to it,
/// else new memory. For kernel_backward.
Tensor result_over(const Tensor& dy);

/// Adds a gradient of one input. An empty gradient means zero. For rules of nodes.
void send(BackwardPass& pass, const TapeEdge& edge, Variable&& gradient);
/// Adds a gradient of the operand of the activation at the edge. For rules with is_past_front.
void send_past(BackwardPass& pass, const TapeEdge& edge, Tensor&& gradient);

namespace detail {
template <typename Op, typename Visit>
void for_each_saved(Op& op, Visit visit);
inline void show(const SavedValue& saved, SavedVisitor& visitor) { saved.visit(visitor); }
inline void show(const Tensor& kept, SavedVisitor& visitor) {
  if (kept) visitor.on_saved(kept);
}
[[noreturn, gnu::cold]] void fail_freed();
[[noreturn, gnu::cold]] void fail_gradient_count(size_t gradients, size_t inputs);
[[noreturn, gnu::cold]] void fail_empty_input(std::string_view op, size_t input);
/// Rethrows the current error with its location; bad_alloc as OutOfMemory and length_error as
/// ArgumentError, so that `catch (const Error&)` catches all errors of an op. For catch blocks of
/// ops.
[[noreturn, gnu::cold]] void rethrow(std::string_view op, Where where);
inline Variable as_gradient(Variable&& dx) { return std::move(dx); }
inline Variable as_gradient(Tensor&& dx) { return dx ? Variable(std::move(dx)) : Variable(); }
}  // namespace detail

/// A recorded op. Edges and Slots are arrays, or vectors for ops over lists.
template <typename Op, typename Edges, typename Slots>
class OpNode final : public TapeNode {
  static constexpr bool kOneOutput = std::same_as<Slots, std::array<Variable, 1>>;
  using Types = std::conditional_t<kOneOutput, std::array<ValueType, 1>, std::vector<ValueType>>;

 public:
  /// make_edges() returns the edges, which are constructed in place.
  template <typename MakeEdges>
  OpNode(Op&& op, Where where, const MakeEdges& make_edges, size_t outputs = 1)
      : TapeNode(where), edges_(make_edges()), op_(std::move(op)) {
    if constexpr (kOneOutput)
      output_types_ = types_.data();
    else
      set_outputs(outputs);
    number_after(edges_);
  }

  std::string_view name() const override {
    if constexpr (requires { op_->name(); })
      return op_ ? op_->name() : Op::kName;
    else
      return Op::kName;
  }
  std::span<const TapeEdge> edges() const override { return edges_; }
  std::span<Variable> gradients() override { return slots_; }
  void free_saved() override { op_.reset(); }
  bool is_freed() const override { return !op_; }
  void visit_saved(SavedVisitor& visitor) const override {
    if (op_)
      detail::for_each_saved(const_cast<Op&>(*op_),
                             [&](const auto& saved) { detail::show(saved, visitor); });
  }
  Op& op() { return *op_; }
  /// Sets the number of outputs, for an op whose number of outputs is known only after it ran.
  void set_outputs(size_t count) {
    slots_.resize(count);
    types_.resize(count);
    output_types_ = types_.data();
  }
  void set_output_type(size_t output, const Tensor& value) {
    set_output_type(output, value.shape(), value.dtype(), value.device());
  }
  void set_output_type(size_t output, const Shape& shape, DType dtype, Device device) {
    ValueType& type = types_[output];
    type.shape = shape;
    type.dtype = dtype;
    type.device = device;
  }

  bool has_kernel_backward() const override { return HasKernelBackward<Op, Values>; }

  void run(BackwardPass& pass) override {
    if (!op_) [[unlikely]]
      detail::fail_freed();
    Slots incoming = std::move(slots_);
    if constexpr (!kOne) slots_.resize(incoming.size());
    if constexpr (HasKernelBackward<Op, Values>)
      if (!is_recording()) return send_all(pass, incoming, kernel_backward(incoming, pass));
    send_all(pass, incoming, backward(incoming, pass));
  }

 private:
  static constexpr bool kOne = std::same_as<Slots, std::array<Variable, 1>>;
  using Gradient = std::conditional_t<kOne, const Variable&, std::span<const Variable>>;
  using Values = std::conditional_t<kOne, const Tensor&, std::span<const Tensor>>;

  bool take_epilogue([[maybe_unused]] Activation activation,
                     [[maybe_unused]] const Tensor& y) override {
    if constexpr (requires { op_->take_epilogue(activation, y); })
      return op_ && op_->take_epilogue(activation, y);
    else
      return false;
  }
  const SavedValue* epilogue_at([[maybe_unused]] Activation& activation) const override {
    if constexpr (requires { Op::kActivation; }) {
      activation = Op::kActivation;
      return op_ ? &std::get<0>(const_cast<Op&>(*op_).saved()) : nullptr;
    } else {
      return nullptr;
    }
  }

  bool repeats_operand() const override {
    return requires { Op::kRepeatsOperand; };
  }

  template <typename Gradients>
  void send_all(BackwardPass& pass, Slots& incoming, Gradients&& outgoing) {
    incoming = {};  // a sole owner of dy may then add to it in place
    if constexpr (requires { outgoing.is_past_front; }) {
      if (outgoing.is_past_front) send_past(pass, edges_[0], std::move(outgoing[0]));
    }
    if constexpr (std::same_as<Gradients, Variable> || std::same_as<Gradients, Tensor>) {
      for (size_t i = 1; i < edges_.size(); ++i)
        if (edges_[i]) [[unlikely]]
          detail::fail_gradient_count(1, edges_.size());
      send(pass, edges_[0], detail::as_gradient(std::move(outgoing)));
    } else {
      if (outgoing.size() != edges_.size()) [[unlikely]]
        detail::fail_gradient_count(outgoing.size(), edges_.size());
      for (size_t i = 0; i < edges_.size(); ++i)
        send(pass, edges_[i], detail::as_gradient(std::move(outgoing[i])));
    }
  }

  auto backward(const Slots& incoming, const BackwardPass& pass) const {
    static_assert(HasBackward<Op, Gradient>,
                  "this op has no backward(); write one, or do not record it");
    const auto call = [&](Gradient dy) {
      if constexpr (requires { op_->backward(dy, Needs(edges_)); })
        return op_->backward(dy, Needs(edges_, &pass));
      else
        return op_->backward(dy);
    };
    if constexpr (kOneOutput)
      return call(incoming[0]);
    else
      return call(incoming);
  }

  auto kernel_backward(const Slots& incoming, const BackwardPass& pass) const {
    const auto call = [&](Values dy) {
      if constexpr (requires { op_->kernel_backward(dy, Needs(edges_)); })
        return op_->kernel_backward(dy, Needs(edges_, &pass));
      else
        return op_->kernel_backward(dy);
    };
    if constexpr (kOne) {
      // If another handle exists, `held` makes a second owner of the storage.
      const Tensor held = incoming[0].has_one_handle() ? Tensor() : incoming[0].value();
      return call(incoming[0].value());
    } else {
      std::vector<Tensor> values;
      for (const Variable& dy : incoming) values.push_back(dy.value_or_empty());
      return call(values);
    }
  }

  Edges edges_;
  Slots slots_;
  Types types_;
  std::optional<Op> op_;
};

/// Returns the node of an op with one output of the shape, the dtype and the device of `like`.
template <typename Op, typename Edges>
RefPtr<TapeNode> make_node(Op op, Where where, Edges edges, const Shape& shape,
                           const Tensor& like) {
  using Slots = std::array<Variable, 1>;
  auto* node = new OpNode<Op, Edges, Slots>(std::move(op), where, [&] { return std::move(edges); });
  node->set_output_type(0, shape, like.dtype(), like.device());
  return RefPtr<TapeNode>::adopt(node);
}

/// Runs the op on its inputs. Errors get the source location and the module name. In AnomalyMode,
/// throws if a result has a NaN or an infinity that no input has.
template <typename Op, std::same_as<Variable>... Inputs>
auto apply(Op op, Where where, const Inputs&... inputs);
template <typename Op>
auto apply(Op op, Where where, std::span<const Variable> inputs);

/// An input of apply_over(). An rvalue is an input that the caller no longer needs.
struct OpInput {
  OpInput(const Variable& x, bool is_given_away = false)
      : variable(&x), is_last_use(is_given_away) {}
  OpInput(Variable&& x) : variable(&x), is_last_use(true) {}

  const Variable* variable;
  bool is_last_use;
};

/// apply() for an elementwise op that has write(). The result overwrites an input that the caller
/// no longer needs, if nothing else refers to its memory, no rule needs it, and the result has its
/// shape and dtype:
///
///   Variable tanh(Variable x, Where where) { return apply_over(Tanh{}, where, {std::move(x)}); }
///
/// If the op has a member `static constexpr Activation kActivation`, it then becomes the epilogue
/// of the node that made the input, if that node accepts the epilogue (TapeNode::absorb).
template <typename Op, size_t N>
Variable apply_over(Op op, Where where, const OpInput (&inputs)[N]);

/// Runs `op.write(inputs..., y)` with y = target, the first input; write() reads y and overwrites
/// it. The target keeps its shape and gets a new history, and its storage counts a write. Throws
/// AutogradError, before anything is written, for a leaf that requires a gradient (or a view of
/// one) while recording, and for a target that overlaps itself.
///
/// A write() that returns std::vector<Tensor> has further outputs, which are returned as Variables.
/// In backward's list and for SavedOutput the target is output 0, followed by the further outputs.
template <typename Op, std::same_as<Variable>... Others>
auto apply_in_place(Op op, Where where, Variable& target, const Others&... others);

}  // namespace tapegrad

#include "core/tape/op_impl.h"
