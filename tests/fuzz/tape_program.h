// A drawn program over variables of two to six elements, which the library and the reference model
// run side by side.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tape/variable.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reference.h"

namespace tapegrad::fuzz {

namespace ref = tapegrad::reference;
using ref::Jet;
using ref::Jets;
using ref::Ref;
using ref::Sizes;
using Values = std::vector<double>;

/// A variable of the library and its model.
struct Pair {
  Variable x;
  Ref model;
  std::string name;
  bool is_probe = false;     // a result with retain_grad(), whose model has directions of its own
  ref::NodeRef probed = {};  // its history at that time
};

/// A function of one variable, and the value that its rule saves.
struct Function {
  const char* name;
  Variable (*call)(const Variable&);
  Jet (*jet)(const Jet&);
  enum { kNothing, kInput, kOutput } saves;
};
extern const std::vector<Function> kFunctions;
Jet tanh_jet(const Jet& x);

Shape shape_of(const Sizes& sizes);

/// Returns the element of `from` that broadcasting puts at each place of `to`; empty if it does
/// not.
std::vector<int> broadcast_places(const Sizes& from, const Sizes& to);

template <typename T>
std::vector<T> taken(const std::vector<T>& from, const std::vector<int>& places) {
  std::vector<T> all;
  for (const int place : places) all.push_back(from[size_t(place)]);
  return all;
}

/// Runs statements that the choices draw. Each statement runs on a random thread. After each, the
/// values of all variables are compared.
class Program {
 public:
  explicit Program(Choices& choices) : choices_(choices) {}

  void run();

 private:
  // Helpers of statements.

  void say(const std::string& text) { log_ += "  " + text + "\n"; }
  [[noreturn]] void finding(const std::string& what) const;
  Pair& pick() { return pool_[choices_.below(pool_.size())]; }
  double number() { return choices_.of({0.5, -1.5, 2.0, -0.25, 1.0, 0.0}); }
  Values numbers(int count);
  static Variable make(const Values& values, const Sizes& shape);
  /// Adds the pair that a statement made.
  Pair& add(Variable x, Ref model);
  void on_this_or_another_thread(const std::function<void()>& action);
  /// Runs both. Returns whether they succeeded.
  bool both(const std::string& text, const std::function<void()>& model,
            const std::function<void()>& library);
  void compare(const std::string& what, const Values& got, const Values& expected);
  void compare_values();
  void compare_leaves();
  static bool is_leaf(const Pair& pair) { return pair.model->node && pair.model->node->is_leaf; }

  // Statements that make and write values: tape_values.cpp.

  void statement();
  void add_leaf();
  void add_constant();
  void drop();
  void unary() { apply(choices_.of(kFunctions)); }
  void apply(const Function& f);
  static std::vector<ref::Saved> saved_by(const Function& f, const Ref& x);
  static std::vector<ref::Saved> saved_by_product(const Ref& a, const Ref& b);
  void binary();
  static Jet combine(size_t kind, const Jet& a, const Jet& b);
  void product(const Pair& a, const Pair& b);
  /// cat, where, or a sum over the first dimension.
  void joined();
  void take_view();
  void write_unary();
  void write_number();
  void write_other();

  // Statements that give variables away, and subscripts: tape_moves.cpp.

  /// Ops on a variable that is moved from op to op, while others may keep its value. The parts
  /// return whether the chain goes on.
  void chain();
  bool chain_unary(Variable& x, Ref& model, bool& saves_output);
  bool chain_binary(Variable& x, Ref& model);
  /// A linear layer whose ReLU may become its epilogue.
  void linear_chain();
  /// A mask, rows by number, or an embedding, whose gradient may be kept as rows.
  void subscripted();
  /// x[i] = y, x[i] += y, x[i] *= y and index_put_.
  void assign();

  // Statements that compare two ways to the same bits: tape_captured.cpp.

  /// A drawn training step as a GraphedStep, against its function.
  void captured();
  /// Autocast against casts by hand.
  void autocasted();

  /// A write whose result has another shape: nothing changes.
  void wrong_write();
  void detach();
  void require_gradient();
  void rebind();
  void switch_recording();

  // Statements that run backward passes: tape_passes.cpp.

  /// A root of one element, the weighted sum of a variable's elements.
  struct Root {
    Variable y;
    Jet jet;
    ref::NodeRef node;
    std::string name;
  };
  Root make_root();
  /// Returns whether derivatives are small enough to be compared.
  bool is_small(const Root& root);
  static bool would_succeed(const Root& root);
  /// Returns the derivatives of a root by the elements of a leaf.
  Values first(const Jet& jet, const Pair& leaf) const;
  static void add_to_total(const Pair& pair, const Jet& jet);
  void add_to_totals(const Jet& jet);
  /// For passes after which the gradients of probes are not defined: an error, or a second order.
  void clear_probes();
  void backward();
  /// Leaves, and results whose history is the one that retains its gradient.
  std::vector<Pair> targets();
  void gradient();
  /// The gradient of a gradient's weighted sum. An error is right if any node before the root
  /// fails.
  void second_order();
  void checkpointed();
  /// vmap, or a module with a variable in place of its weight.
  void functional();
  void zero();
  /// Registers a hook of one of the kinds that scale the gradient. Returns the scale.
  double hook_scale(const Variable& x);
  /// A result with a hook. A rule that reads its result also differentiates through the hook.
  void hook();
  /// A result that retains its gradient, in directions of its own.
  void probe();
  /// Gives the value of a probe directions of its own.
  void aim(Pair& probe);
  /// Gives probes that were written new directions: their gradient is that of the new value. If
  /// there are none left, they are no longer probes.
  void follow_probes();
  /// Passes of several threads at once, each through a graph of its own, from a shared leaf.
  void threads();
  /// A pass that a hook ends by an exception: no gradient changes, and the graph is intact.
  void throwing_hook();

  Choices& choices_;
  std::vector<Pair> pool_;
  std::vector<Variable> owners_;  // of gradients: leaves and probes, also dropped ones
  std::string log_;
  bool recording_ = true;
  bool ended_ = false;  // values are too large to be compared, or what follows is not defined
  int directions_ = 0;  // given to leaves so far
  int named_ = 0;
};

}  // namespace tapegrad::fuzz
