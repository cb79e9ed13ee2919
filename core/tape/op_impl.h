// Template definitions for core/tape/op.h.
#pragma once

#include "core/dispatch/span.h"
#include "core/tape/op.h"

namespace tapegrad::detail {

template <size_t N>
using InputPointers = std::array<const Variable*, N>;

inline const Variable& at(std::span<const Variable> inputs, size_t i) { return inputs[i]; }
template <size_t N>
const Variable& at(const InputPointers<N>& inputs, size_t i) {
  return *inputs[i];
}

template <size_t N>
std::array<TapeEdge, N> edges_of(const InputPointers<N>& inputs) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array<TapeEdge, N>{inputs[I]->edge()...};
  }
  (std::make_index_sequence<N>());
}
inline std::vector<TapeEdge> edges_of(std::span<const Variable> inputs) {
  std::vector<TapeEdge> edges;
  for (const Variable& input : inputs) edges.push_back(input.edge());
  return edges;
}

template <size_t N>
bool any_requires_grad(const InputPointers<N>& inputs) {
  return [&]<size_t... I>(std::index_sequence<I...>) { return (inputs[I]->requires_grad() || ...); }
  (std::make_index_sequence<N>());
}
inline bool any_requires_grad(std::span<const Variable> inputs) {
  for (const Variable& input : inputs)
    if (input.requires_grad()) return true;
  return false;
}

inline const Tensor& output_at(const Tensor& output, size_t) { return output; }
inline const Tensor& output_at(const std::vector<Tensor>& outputs, size_t k) { return outputs[k]; }

template <typename Op, typename Visit>
void for_each_saved(Op& op, Visit visit) {
  if constexpr (requires { op.saved(); })
    std::apply([&](auto&... saved) { (visit(saved), ...); }, op.saved());
}

template <typename Inputs>
[[gnu::cold, gnu::noinline]] void show_inputs(std::string_view op, const Inputs& inputs) {
  context.saved_store->on_op(op);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (at(inputs, i).defined()) context.saved_store->on_input(at(inputs, i).value());
}

template <typename Op, typename Inputs>
void keep_inputs(Op& op, const Inputs& inputs, Needs needs) {
  for_each_saved(op, [&](auto& saved) {
    if constexpr (requires { saved.kInput; })
      if (saved.is_needed(needs) && at(inputs, saved.kInput).defined())
        saved.keep(at(inputs, saved.kInput).value());
  });
}

/// keep_inputs() for an op that is about to write to the target. Inputs that share the target's
/// storage are kept as copies.
template <typename Op, typename Inputs>
void keep_inputs_before_write(Op& op, const Inputs& inputs, Needs needs, const Tensor& target) {
  for_each_saved(op, [&](auto& saved) {
    if constexpr (requires { saved.kInput; })
      if (saved.is_needed(needs) && at(inputs, saved.kInput).defined()) {
        const Tensor& value = at(inputs, saved.kInput).value();
        saved.keep(value.shares_storage(target) ? value.clone() : value);
      }
  });
}

/// Returns whether keep_inputs() keeps this input.
template <typename Op, size_t N>
bool keeps_input(Op& op, const InputPointers<N>& inputs, size_t input) {
  bool found = false;
  for_each_saved(op, [&](auto& saved) {
    if constexpr (requires { saved.kInput; })
      if (size_t(saved.kInput) == input) {
        const std::array<TapeEdge, N> edges = edges_of(inputs);
        found |= saved.is_needed(Needs(edges));
      }
  });
  return found;
}

template <typename Op, typename Values>
void keep_outputs(Op& op, const Values& outputs) {
  for_each_saved(op, [&](auto& saved) {
    if constexpr (requires { saved.kOutput; }) saved.keep(output_at(outputs, saved.kOutput));
  });
}

/// Returns a single output as a Variable, several outputs as Tensors.
template <typename Forward>
auto run_forward(const Forward& forward) {
  if constexpr (std::same_as<decltype(forward()), Tensor>)
    return Variable::of_result(forward);
  else
    return forward();
}

/// Returns whether a gradient flows through this output of an op with several outputs.
template <typename Op>
bool is_differentiable_output(const Op& op, size_t output) {
  if constexpr (requires { op.is_differentiable(output); })
    return op.is_differentiable(output);
  else
    return true;
}

/// The kinds of non-finite values in a tensor.
struct NonFinite {
  bool nan = false;
  bool infinity = false;
};
[[gnu::cold]] NonFinite find_non_finite(const Tensor& x);
/// Throws AutogradError if y has a kind of non-finite value that `before` lacks.
[[gnu::cold]] void check_made(std::string_view op, NonFinite before, const Tensor& y);
/// Show an observer of results the values that an op wrote over its operand, or a gradient that the
/// running rule sends.
[[gnu::cold]] void show_written(std::string_view op, Where where, const Tensor& y);
[[gnu::cold]] void show_gradient(const Tensor& gradient);
/// Throws AutogradError if the rule of a node made a kind of non-finite value that neither its
/// incoming gradients nor its saved tensors have.
[[gnu::cold]] void check_made_by_rule(const TapeNode& node, std::span<const Variable> incoming,
                                      std::span<const Variable> outgoing);

template <typename Inputs>
[[gnu::cold, gnu::noinline]] NonFinite find_non_finite_inputs(const Inputs& inputs) {
  NonFinite found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NonFinite here = find_non_finite(at(inputs, i).value_or_empty());
    found = {found.nan || here.nan, found.infinity || here.infinity};
  }
  return found;
}
template <typename Inputs>
[[gnu::cold, gnu::noinline]] void check_made_from(std::string_view op, const Inputs& inputs,
                                                  const Tensor& y) {
  const NonFinite made = find_non_finite(y);
  if (made.nan || made.infinity) check_made(op, find_non_finite_inputs(inputs), y);
}

/// Returns the location of a node. Nodes recorded by a rule get the location of the op that the
/// rule belongs to.
inline Where line_of(Where where) { return running_node() ? running_node()->where() : where; }

/// Makes a node of the op and sets the history of its only output. The output may be an input that
/// the op does not keep.
template <typename Op, typename Inputs>
void record(Op&& op, Where where, const Inputs& inputs, Variable& output) {
  using Edges = decltype(edges_of(inputs));
  using Slots = std::array<Variable, 1>;
  auto* node = new OpNode<std::remove_reference_t<Op>, Edges, Slots>(
      std::move(op), line_of(where), [&] { return edges_of(inputs); });
  node->set_output_type(0, output.value());
  TapeEdge history{RefPtr<TapeNode>::adopt(node), 0};
  keep_inputs(node->op(), inputs, Needs(node->edges()));
  keep_outputs(node->op(), output.value());
  output.set_history(std::move(history));
}

template <typename Op, typename Inputs>
Variable finish(Op&& op, Where where, const Inputs& inputs, Variable&& output) {
  static_assert(!std::remove_reference_t<Op>::kName.empty());
  if constexpr (is_differentiable<std::remove_reference_t<Op>>()) {
    if (is_recording() && any_requires_grad(inputs) && is_float(output.dtype())) {
      if (context.saved_store != nullptr) [[unlikely]]
        show_inputs(std::remove_reference_t<Op>::kName, inputs);
      record(std::move(op), where, inputs, output);
    }
  }
  if (inputs.size() > 0 && output.value().shares_storage(at(inputs, 0).value_or_empty()))
    output.set_view_of(at(inputs, 0));
  if (context.anomaly) [[unlikely]]
    check_made_from(std::remove_reference_t<Op>::kName, inputs, output.value());
  return std::move(output);
}

template <typename Op, typename Inputs>
std::vector<Variable> finish(Op&& op, Where where, const Inputs& inputs,
                             std::vector<Tensor>&& values) {
  std::vector<Variable> outputs;
  for (const Tensor& value : values) outputs.emplace_back(value);
  if constexpr (is_differentiable<std::remove_reference_t<Op>>()) {
    if (is_recording() && any_requires_grad(inputs)) {
      using Edges = decltype(edges_of(inputs));
      using Slots = std::vector<Variable>;
      auto* node = new OpNode<std::remove_reference_t<Op>, Edges, Slots>(
          std::move(op), line_of(where), [&] { return edges_of(inputs); }, values.size());
      const RefPtr<TapeNode> owner = RefPtr<TapeNode>::adopt(node);
      if (context.saved_store != nullptr) [[unlikely]]
        show_inputs(std::remove_reference_t<Op>::kName, inputs);
      keep_inputs(node->op(), inputs, Needs(node->edges()));
      keep_outputs(node->op(), values);
      for (uint32_t k = 0; k < outputs.size(); ++k) {
        node->set_output_type(k, values[k]);
        if (is_float(outputs[k].dtype()) && is_differentiable_output(node->op(), k))
          outputs[k].set_history({owner, k});
      }
    }
  }
  if (inputs.size() > 0)
    for (Variable& output : outputs)
      if (output.value().shares_storage(at(inputs, 0).value_or_empty()))
        output.set_view_of(at(inputs, 0));
  if (context.anomaly) [[unlikely]]
    for (const Variable& output : outputs)
      check_made_from(std::remove_reference_t<Op>::kName, inputs, output.value());
  return outputs;
}

template <typename Op, typename Inputs>
void require_inputs(const Inputs& inputs) {
  size_t required = inputs.size();
  if constexpr (requires { Op::kRequired; }) required = std::min(required, Op::kRequired);
  for (size_t i = 0; i < required; ++i)
    if (!at(inputs, i).defined()) [[unlikely]]
      fail_empty_input(Op::kName, i);
}

/// Counts the write, since some of the values may be overwritten, unless the error is one that ops
/// throw before they write. For the catch block of a write() that checks first.
[[gnu::cold]] void count_failed_write(TensorStorage& storage);
/// Restores y. For the catch block of any other write().
[[gnu::cold]] void undo_write(const Tensor& before, Tensor& y);
template <typename Op>
auto copy_to_restore([[maybe_unused]] const Tensor& y) {
  if constexpr (requires { Op::kChecksFirst; })
    return nullptr;
  else
    return y.clone();
}

/// Makes the checks of apply_in_place(). `records` tells whether an operand requires a gradient.
void check_writable(std::string_view op, const Variable& target, bool records);
template <typename Op, std::same_as<Variable>... Others>
auto write_in_place(Op& op, Where where, Variable& target, const Others&... others);

}  // namespace tapegrad::detail

namespace tapegrad {

template <int K>
Variable SavedOutput<K>::operator()() const {
  return restore({RefPtr<TapeNode>::share(const_cast<TapeNode*>(running_node())), uint32_t(K)});
}
inline Variable SavedResult::operator()() const {
  return restore({RefPtr<TapeNode>::share(const_cast<TapeNode*>(running_node())), 0});
}

namespace detail {

template <typename Op, std::same_as<Tensor>... More>
auto run_op(Op& op, const Tensor& x, const More&... more) {
  if constexpr (
      requires { op.forward(x, more...); } || !requires(Tensor y) { op.write(x, more..., y); }) {
    return op.forward(x, more...);
  } else {
    Tensor y = x.empty_like();
    op.write(x, more..., y);
    return y;
  }
}

template <typename Op, std::same_as<Variable>... Inputs>
auto apply_new(Op&& op, Where where, const Inputs&... inputs) {
  using Type = std::remove_reference_t<Op>;
  const InputPointers<sizeof...(Inputs)> pointers{&inputs...};
  const OpSpan span(Type::kName, Pass::kForward, nullptr, where);
  try {
    require_inputs<Type>(pointers);
    return finish(std::move(op), where, pointers,
                  run_forward([&] { return run_op(op, inputs.value_or_empty()...); }));
  } catch (...) {
    rethrow(Type::kName, where);
  }
}

/// Returns whether the result of the op may overwrite input i, which the caller no longer needs.
template <typename Op, size_t N>
bool can_overwrite(Op& op, const InputPointers<N>& inputs, size_t i, bool records) {
  const Variable& x = *inputs[i];
  if (!x.can_be_overwritten()) return false;
  for (size_t j = 0; j < N; ++j) {
    if (inputs[j] == &x) {
      if (records && keeps_input(op, inputs, j)) return false;
    } else if constexpr (N > 1) {
      if (!inputs[j]->defined() || !Op::fits(x.value(), inputs[j]->value())) return false;
    }
  }
  return true;
}

/// Runs an elementwise op and writes its result over input i.
template <typename Op, size_t N>
Variable overwrite(Op&& op, Where where, const InputPointers<N>& inputs, size_t i, bool records) {
  using Type = std::remove_reference_t<Op>;
  const OpSpan span(Type::kName, Pass::kForward, nullptr, where);
  Variable& x = const_cast<Variable&>(*inputs[i]);  // was given as an rvalue
  try {
    if (records && context.saved_store != nullptr) [[unlikely]]
      show_inputs(std::remove_reference_t<Op>::kName, inputs);
    [&]<size_t... I>(std::index_sequence<I...>) { op.write(inputs[I]->value()..., x.writable()); }
    (std::make_index_sequence<N>());
    if (context.anomaly) [[unlikely]]
      show_written(Type::kName, where, x.value());
    if (!records) {
      x.set_history({});
      return std::move(x);
    }
    if constexpr (requires { Type::kActivation; })
      if (x.edge().node->absorb(Type::kActivation, x.value())) return std::move(x);
    if constexpr (is_differentiable<Type>()) record(std::move(op), where, inputs, x);
    return std::move(x);
  } catch (...) {
    rethrow(Type::kName, where);
  }
}

}  // namespace detail

template <typename Op, std::same_as<Variable>... Inputs>
auto apply(Op op, Where where, const Inputs&... inputs) {
  return detail::apply_new(std::move(op), where, inputs...);
}

template <typename Op>
auto apply(Op op, Where where, std::span<const Variable> inputs) {
  const OpSpan span(Op::kName, Pass::kForward, nullptr, where);
  try {
    detail::require_inputs<Op>(inputs);
    return detail::finish(std::move(op), where, inputs,
                          detail::run_forward([&] { return op.forward(inputs); }));
  } catch (...) {
    detail::rethrow(Op::kName, where);
  }
}

template <typename Op, size_t N>
Variable apply_over(Op op, Where where, const OpInput (&inputs)[N]) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    const detail::InputPointers<N> pointers{inputs[I].variable...};
    if ((inputs[I].is_last_use || ...)) {
      const bool records =
          is_differentiable<Op>() && is_recording() && detail::any_requires_grad(pointers);
      for (size_t i = 0; i < N; ++i)
        if (inputs[i].is_last_use && detail::can_overwrite(op, pointers, i, records))
          return detail::overwrite(std::move(op), where, pointers, i, records);
    }
    return detail::apply_new(std::move(op), where, *pointers[I]...);
  }
  (std::make_index_sequence<N>());
}

namespace detail {

/// Runs op.write(y, others..., y). If the op throws, y has its former values afterwards, or the
/// failed write is counted. Returns all results if the op has several, the first of which is y;
/// otherwise returns an empty array.
template <typename Op, typename... Others>
auto write_or_restore(Op& op, Tensor& y, const Others&... others) {
  const auto write = [&] {
    [[maybe_unused]] const auto restored = copy_to_restore<Op>(y);
    try {
      return op.write(y, others.value_or_empty()..., y);
    } catch (...) {
      if constexpr (requires { Op::kChecksFirst; })
        count_failed_write(y.storage());
      else
        undo_write(restored, y);
      throw;
    }
  };
  if constexpr (requires { write().size(); }) {
    std::vector<Tensor> results = write();
    y.storage().bump_version();
    results.insert(results.begin(), y);
    return results;
  } else {
    write();
    y.storage().bump_version();
    return std::array<Tensor, 0>();
  }
}

/// Sets the output types of the node of an op that has written y, and keeps the outputs that the
/// rule needs. `results` is the value of write_or_restore().
template <typename Node, typename Results>
void set_written_outputs(Node& node, const Tensor& y, const Results& results) {
  if constexpr (std::same_as<Results, std::vector<Tensor>>) {
    node.set_outputs(results.size());
    for (size_t k = 0; k < results.size(); ++k) node.set_output_type(k, results[k]);
    keep_outputs(node.op(), results);
  } else {
    node.set_output_type(0, y);
    keep_outputs(node.op(), y);
  }
}

}  // namespace detail

template <typename Op, std::same_as<Variable>... Others>
auto detail::write_in_place(Op& op, Where where, Variable& target, const Others&... others) {
  const InputPointers<1 + sizeof...(Others)> inputs{&target, &others...};
  require_inputs<Op>(inputs);
  const bool records = is_recording() && any_requires_grad(inputs);
  check_writable(Op::kName, target, records);
  Tensor& y = target.writable();
  NonFinite before;
  if (context.anomaly) [[unlikely]]
    before = find_non_finite_inputs(inputs);
  using Results = decltype(write_or_restore(op, y, others...));
  constexpr bool kMore = std::same_as<Results, std::vector<Tensor>>;
  Results results;
  std::vector<Variable> more;
  TapeEdge made;
  [[maybe_unused]] const Op* ran = &op;
  if (!records) {
    results = write_or_restore(op, y, others...);
  } else {
    using Edges = decltype(edges_of(inputs));
    using Slots = std::conditional_t<kMore, std::vector<Variable>, std::array<Variable, 1>>;
    auto* node =
        new OpNode<Op, Edges, Slots>(std::move(op), where, [&] { return edges_of(inputs); });
    made = {RefPtr<TapeNode>::adopt(node), 0};
    ran = &node->op();
    if (context.saved_store != nullptr) [[unlikely]]
      show_inputs(std::remove_reference_t<Op>::kName, inputs);
    keep_inputs_before_write(node->op(), inputs, Needs(node->edges()), y);
    results = write_or_restore(node->op(), y, others...);
    set_written_outputs(*node, y, results);
  }
  if constexpr (kMore)
    for (uint32_t k = 1; k < results.size(); ++k) {
      more.emplace_back(results[k]);
      if (made && is_float(results[k].dtype()) && is_differentiable_output(*ran, k))
        more.back().set_history({made.node, k});
    }
  if (made) target.rebase(std::move(made), where);
  if (context.anomaly) [[unlikely]]
    check_made(Op::kName, before, y);
  if constexpr (kMore) return more;
}

template <typename Op, std::same_as<Variable>... Others>
auto apply_in_place(Op op, Where where, Variable& target, const Others&... others) {
  const OpSpan span(Op::kName, Pass::kForward, nullptr, where);
  try {
    return detail::write_in_place(op, where, target, others...);
  } catch (...) {
    detail::rethrow(Op::kName, where);
  }
}

}  // namespace tapegrad
