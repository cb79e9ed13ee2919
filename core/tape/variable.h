// Variable: a Tensor with history, and what models are written with.
//
//   Variable w = Variable(Tensor::from<float>(values, {2, 3})).requires_grad_();
//   Variable loss = sum(tanh(matmul(x, w)));
//   loss.backward();
//   w.grad();   // d loss / d w
//
// A Variable is a handle: copies are the same variable, with one value, gradient and history; const
// guards the handle, not what it refers to.
#pragma once

#include "core/base/tensor.h"
#include "core/tape/node.h"

namespace tapegrad {

struct BackwardOptions {
  bool retain_graph = false;  // keep saved values for another backward through the same graph
  bool create_graph = false;  // record the backward pass itself; implies retain_graph
};

class Variable {
 public:
  Variable() = default;                    // empty; as a gradient it means zero
  explicit Variable(const Tensor& value);  // a constant
  explicit Variable(Tensor&& value);

  explicit operator bool() const { return bool(state_); }
  /// ArgumentError for an empty variable, as for everything below that reads the value.
  const Tensor& value() const {
    if (!state_) [[unlikely]]
      fail_empty();
    return state_->value;
  }
  const Shape& shape() const { return value().shape(); }
  int64_t size(int dim) const;  // a negative dim counts from the end
  int rank() const { return value().rank(); }
  int64_t numel() const { return value().numel(); }
  DType dtype() const { return value().dtype(); }
  Device device() const { return value().device(); }

  /// The only element, from any device.
  double item() const { return value().item(); }
  /// The elements in row-major order, converted to T, on the host.
  template <typename T>
  std::vector<T> to_vector() const {
    const Tensor here = value().to(tapegrad::cpu).to(kDTypeOf<T>).contiguous();
    return std::vector<T>(here.data<T>(), here.data<T>() + here.numel());
  }

  /// The same values elsewhere or of another type, differentiably; itself when nothing changes.
  Variable to(Device device, Where where = Where::current()) const;
  Variable to(DType dtype, Where where = Where::current()) const;
  Variable cpu() const { return to(tapegrad::cpu); }

  /// Makes a constant a leaf, or a leaf a constant. AutogradError for integers, for results of ops
  /// and, outside of InferenceMode, for tensors made in it.
  Variable& requires_grad_(bool on = true);
  bool requires_grad() const { return bool(edge()); }
  bool is_leaf() const;

  /// The gradient of a leaf, or of a variable that retains it; empty before the first backward.
  Variable grad() const;
  void zero_grad() const;
  /// Keeps the gradient of a result of an op too, for grad().
  void retain_grad() const;

  /// Calls the hook with each gradient of this variable, complete, before it is used. A hook may
  /// return a replacement, or an empty variable. One that keeps this variable itself, rather than a
  /// reference to it, keeps it alive: a cycle that only remove() breaks.
  HookHandle register_hook(GradientHook hook) const;
  /// Calls the hook with the gradient of this leaf each time a backward pass has added to it: to
  /// send it elsewhere, or to step and clear it, while the pass still runs for others.
  HookHandle register_post_accumulate_grad_hook(AccumulateHook hook) const;
  /// The op that made this, for hooks on it; null for constants and leaves.
  Node* grad_fn() const { return is_leaf() ? nullptr : edge().node.get(); }

  /// Adds d this / d leaf to the gradient of every leaf. Without a seed this must have one element.
  /// After an error no leaf has changed.
  void backward(BackwardOptions options = {}) const;
  void backward(const Variable& seed, BackwardOptions options = {}) const;

  Variable detach() const;  // the same storage without history; writes are seen by the version
  /// Replaces the value of a leaf or constant: other storage, device, dtype or shape under the same
  /// handle. Its gradient is cleared. AutogradError for results of ops.
  void rebind(Tensor value) const;
  bool is_same(const Variable& other) const { return state_ == other.state_; }

  // For the tape.

  /// The value, or an empty tensor for an empty variable: an optional input that was left out.
  const Tensor& value_or_empty() const { return state_ ? state_->value : kEmptyTensor; }

  /// Where a gradient of this variable goes. A view whose base was written to since is derived
  /// anew from its base.
  const Edge& edge() const {
    if (!state_) [[unlikely]]
      return kNoEdge;
    if (state_->base && state_->rewrites != state_->base->rewrites) [[unlikely]]
      derive_again();
    return state_->edge;
  }
  void set_history(Edge edge) { state_->edge = std::move(edge); }

  /// A constant whose value is built where it stays: no move of a tensor for every op.
  template <typename Make>
  static Variable of_result(Make&& make) {
    Variable result;
    result.state_ = Ref<State>::adopt(new State(InPlace{}, make));
    return result;
  }
  /// Declares this a view of whatever `input` is a view of, or of `input`.
  void set_view_of(const Variable& input);
  /// The variable that owns the storage: itself unless this is a view.
  Variable base() const;
  /// After a write in place: history becomes `made`, for a view by way of its base.
  void rebase(Edge made, Where where);
  /// Nobody else can see the value: it may be overwritten.
  bool is_sole_owner() const;
  /// For kernels that write in place; the caller bumps the version.
  Tensor& writable() const {
    value();
    return state_->value;
  }

 private:
  struct InPlace {};
  struct State final : Counted, Pooled {
    Tensor value;
    Edge edge;
    Ref<State> base;        // set for views; never itself a view
    uint32_t rewrites = 0;  // of a base: histories it has had; of a view: the one it comes from
    std::shared_ptr<Variable> retained;  // by retain_grad()

    template <typename Make>
    State(InPlace, Make& make) : value(make()) {}
    explicit State(const Tensor& value) : value(value) {}
    explicit State(Tensor&& value) : value(std::move(value)) {}
    static void destroy(State* state);
  };

  static const Tensor kEmptyTensor;
  static const Edge kNoEdge;

  [[noreturn, gnu::cold]] static void fail_empty();
  void derive_again() const;

  Ref<State> state_;
};

/// The values, NumPy's way: brackets, six digits, long axes abbreviated.
std::ostream& operator<<(std::ostream& out, const Variable& x);

/// Moves, as `x | gpu`: a no-op with one notice when there is no such device.
Variable operator|(const Variable& x, Device device);

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // an x that no y depends on gets an empty gradient, not an error
};

/// The gradients of y with respect to xs, leaving every leaf's own gradient alone. Only the rules
/// that lead from y to one of them are run, and hooks elsewhere are not called.
/// AutogradError when y does not depend on one of them.
std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs,
                           const Variable& seed = {}, GradOptions options = {});
Variable grad(const Variable& y, const Variable& x, GradOptions options = {});
/// Of several results in one pass: the gradients of sum over k of <seeds[k], ys[k]>. Without seeds
/// every y has one element.
std::vector<Variable> grad(std::span<const Variable> ys, std::span<const Variable> xs,
                           std::span<const Variable> seeds = {}, GradOptions options = {});

}  // namespace tapegrad
