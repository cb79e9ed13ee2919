// Reference model of the tape: values, views, versions and gradients of small float64 tensors. It
// shares no code with the library. Derivatives are computed forwards, as truncated Taylor series,
// so the model has no backward rules; its graph only decides whether a pass must fail.
//
// The rules:
//
//   A view shares the storage of its base, which is never a view itself. It has a history if it was
//   made while recording, from a variable with a history, or if its base was written since.
//   A write counts a version of the storage. A pass that reads a saved value of an older version
//   fails. A recorded write replaces the history of the elements that it covers, and saves a copy
//   of the overwritten values that its rule reads.
//   A write fails, and changes nothing, if the target overlaps itself, or while recording if the
//   target or its base is a leaf, if the target is a view without the history that its base has, or
//   if its base is not contiguous.
//   A checkpoint saves its inputs until the first pass reads them, then the tensors of its ops.
//   A pass frees the nodes that it runs, unless the graph is retained. A freed node fails.
//   rebind() gives a leaf or constant a new storage. Views keep the old one and lose their base.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace tapegrad::reference {

inline constexpr int kDirections = 20;  // elements of all leaves of a program

/// A value and its derivatives by the directions.
struct Jet {
  double value = 0;
  std::array<double, kDirections> first = {};
  std::array<double, kDirections* kDirections> second = {};
};
using Jets = std::vector<Jet>;

/// f(x), given f and its derivatives at the value of x.
Jet chain(double f, double df, double ddf, const Jet& x);
Jet operator+(const Jet& a, const Jet& b);
Jet operator*(const Jet& a, const Jet& b);
Jet operator*(double a, const Jet& b);

/// Thrown for an operation that the rules forbid; the library must throw AutogradError.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown if the model cannot decide whether a checkpoint must run again although its inputs
/// changed.
struct Undecided {};

using Sizes = std::vector<int>;
int count(const Sizes& shape);

struct Storage {
  std::vector<double> values;
  int version = 0;
};

struct Node;
using NodeRef = std::shared_ptr<Node>;

/// A saved value; the rule reads it if the gradient of input `reader` is wanted, or always (-1).
struct Saved {
  std::shared_ptr<Storage> storage;
  int version = 0;
  int reader = -1;
};

struct Node {
  std::vector<NodeRef> inputs;  // null for constants
  std::vector<Saved> saved;
  bool sends_first = true;  // the rule sends a gradient to input 0
  bool is_leaf = false;
  bool is_freed = false;
  bool is_checkpoint = false;  // recomputes its saved values in the first pass that reads them
  std::vector<Saved> recomputed = {};  // values saved from then on
  bool may_be_recomputed = false;      // by a pass whose reads the model does not know
};

struct State;
using Ref = std::shared_ptr<State>;

struct State {
  std::shared_ptr<Storage> storage;
  Sizes shape;
  std::vector<int> at;  // the elements' places in the storage
  Ref base;             // of a view
  NodeRef node;         // history; through edge(), which renews that of a view
  int rewrites = 0;
  Jets history;               // of a base: derivatives of each element of the storage
  int direction = -1;         // of the first element of a leaf
  std::vector<double> total;  // accumulated gradient of a leaf

  int size() const { return int(at.size()); }
};

/// Returns a constant, or a leaf whose elements are the directions from `direction` on.
Ref constant(const Sizes& shape, std::vector<double> values);
void make_leaf(const Ref& x, int direction, double hook_scale = 1);

const Ref& owner(const Ref& x);
NodeRef edge(const Ref& x);
bool is_contiguous(const Ref& x);
bool overlaps_itself(const Ref& x);
/// Returns the elements with their derivatives, which are zero unless `recording`.
Jets read(const Ref& x, bool recording);

/// Returns the result of an op. The output is saved too if `saves_output`.
Ref result(Jets values, const Sizes& shape, std::span<const Ref> inputs, std::vector<Saved> saved,
           bool recording, bool saves_output = false);
Ref view(const Ref& x, const Sizes& shape, std::vector<int> at, bool recording);
Ref detach(const Ref& x);

struct Write {
  bool sends_first = true;
  bool saves_output = false;
};
/// Writes values that an op computes from x and others.
void write(const Ref& x, const Jets& values, std::span<const Ref> others, std::vector<Saved> saved,
           bool recording, Write options);
/// Gives x the value of another constant; `all` has every variable that may be a view of x.
void rebind(const Ref& x, const Ref& value, int direction, std::span<const Ref> all);

/// Runs the nodes between the root and the targets; all nodes if there are no targets. Throws
/// Refusal if a rule fails, and then frees nothing. Returns the nodes that received a gradient.
/// With `is_trial` nothing changes, but that checkpoints may be recomputed.
std::vector<const Node*> run_pass(const NodeRef& root, std::span<const NodeRef> targets,
                                  bool retain, bool is_trial = false);

}  // namespace tapegrad::reference
