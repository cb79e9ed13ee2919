#include "tests/fuzz/reference.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tapegrad::reference {

Jet chain(double f, double df, double ddf, const Jet& x) {
  Jet y;
  y.value = f;
  for (int i = 0; i < kDirections; ++i) {
    y.first[i] = df * x.first[i];
    for (int j = 0; j < kDirections; ++j) {
      const int k = i * kDirections + j;
      y.second[k] = df * x.second[k] + ddf * x.first[i] * x.first[j];
    }
  }
  return y;
}

Jet operator+(const Jet& a, const Jet& b) {
  Jet y = a;
  y.value += b.value;
  for (int i = 0; i < kDirections; ++i) y.first[i] += b.first[i];
  for (int k = 0; k < kDirections * kDirections; ++k) y.second[k] += b.second[k];
  return y;
}

Jet operator*(double a, const Jet& b) { return chain(a * b.value, a, 0, b); }

Jet operator*(const Jet& a, const Jet& b) {
  Jet y = b.value * a + a.value * b;
  y.value = a.value * b.value;
  for (int i = 0; i < kDirections; ++i)
    for (int j = 0; j < kDirections; ++j)
      y.second[i * kDirections + j] += a.first[i] * b.first[j] + b.first[i] * a.first[j];
  return y;
}

int count(const Sizes& shape) {
  return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
}

Ref constant(const Sizes& shape, std::vector<double> values) {
  const Ref x = std::make_shared<State>();
  x->shape = shape;
  x->at.resize(values.size());
  std::iota(x->at.begin(), x->at.end(), 0);
  x->storage = std::make_shared<Storage>(Storage{std::move(values)});
  return x;
}

void make_leaf(const Ref& x, int direction, double hook_scale) {
  x->node = std::make_shared<Node>();
  x->node->is_leaf = true;
  x->direction = direction;
  x->history.assign(x->storage->values.size(), Jet());
  for (int i = 0; i < x->size(); ++i) x->history[x->at[i]].first[direction + i] = hook_scale;
}

const Ref& owner(const Ref& x) { return x->base ? x->base : x; }

NodeRef edge(const Ref& x) {
  if (!x->base || x->rewrites == x->base->rewrites) return x->node;
  if (x->base->node && !is_contiguous(x->base)) throw Refusal("the base is not contiguous");
  x->rewrites = x->base->rewrites;
  x->node = x->base->node ? std::make_shared<Node>(Node{{x->base->node}, {}}) : nullptr;
  return x->node;
}

bool is_contiguous(const Ref& x) {
  for (int i = 0; i < x->size(); ++i)
    if (x->at[i] != x->at[0] + i) return false;
  return true;
}

bool overlaps_itself(const Ref& x) {
  return std::set<int>(x->at.begin(), x->at.end()).size() < x->at.size();
}

Jets read(const Ref& x, bool recording) {
  const bool has_history = recording && edge(x);
  Jets jets;
  for (const int at : x->at) {
    jets.push_back(has_history ? owner(x)->history[at] : Jet());
    jets.back().value = x->storage->values[at];
  }
  return jets;
}

namespace {

std::vector<NodeRef> edges(std::span<const Ref> inputs) {
  std::vector<NodeRef> all;
  for (const Ref& input : inputs) all.push_back(edge(input));
  return all;
}

bool any(const std::vector<NodeRef>& edges) {
  return std::any_of(edges.begin(), edges.end(), [](const NodeRef& node) { return bool(node); });
}

}  // namespace

Ref result(Jets values, const Sizes& shape, std::span<const Ref> inputs, std::vector<Saved> saved,
           bool recording, bool saves_output) {
  std::vector<double> plain;
  for (const Jet& jet : values) plain.push_back(jet.value);
  const Ref y = constant(shape, plain);
  if (!recording || !any(edges(inputs))) return y;
  y->node = std::make_shared<Node>(Node{edges(inputs), std::move(saved)});
  if (saves_output) y->node->saved.push_back({y->storage});
  y->history = std::move(values);
  return y;
}

Ref view(const Ref& x, const Sizes& shape, std::vector<int> at, bool recording) {
  const Ref y = std::make_shared<State>();
  y->storage = x->storage;
  y->shape = shape;
  y->at = std::move(at);
  y->base = owner(x);
  if (recording && edge(x)) y->node = std::make_shared<Node>(Node{{edge(x)}, {}});
  y->rewrites = y->base->rewrites;
  return y;
}

Ref detach(const Ref& x) {
  const Ref y = std::make_shared<State>();
  y->storage = x->storage;
  y->shape = x->shape;
  y->at = x->at;
  return y;
}

void write(const Ref& x, const Jets& values, std::span<const Ref> others, std::vector<Saved> saved,
           bool recording, Write options) {
  const Ref base = owner(x);
  if (overlaps_itself(x)) throw Refusal("the target overlaps itself");
  NodeRef made;
  if (recording) {
    std::vector<NodeRef> inputs = edges(others);
    inputs.insert(inputs.begin(), edge(x));
    if (base->node && base->node->is_leaf) throw Refusal("the base is a leaf");
    if (x->node && x->node->is_leaf) throw Refusal("the target is a leaf");
    if (base->node && !x->node) throw Refusal("the view was made without recording");
    if (any(inputs)) {
      if (x->base && !is_contiguous(base)) throw Refusal("the base is not contiguous");
      std::erase_if(saved, [&](const Saved& value) { return value.storage == x->storage; });
      made = std::make_shared<Node>(Node{inputs, std::move(saved), options.sends_first});
    }
  }
  for (int i = 0; i < x->size(); ++i) x->storage->values[x->at[i]] = values[i].value;
  ++x->storage->version;
  if (!made) return;
  if (options.saves_output) made->saved.push_back({x->storage, x->storage->version});
  base->history.resize(x->storage->values.size());
  for (int i = 0; i < x->size(); ++i) base->history[x->at[i]] = values[i];
  base->node = x->base ? std::make_shared<Node>(Node{{base->node, made}, {}}) : made;
  ++base->rewrites;
}

void rebind(const Ref& x, const Ref& value, int direction, std::span<const Ref> all) {
  if (x->base || (x->node && !x->node->is_leaf)) throw Refusal("a view or the result of an op");
  for (const Ref& other : all)
    if (other->base == x) {
      other->base = nullptr;
      if (other->node) other->history = x->history;
    }
  const bool was_leaf = bool(x->node);
  *x = *value;
  if (was_leaf) make_leaf(x, direction);
}

std::vector<const Node*> run_pass(const NodeRef& root, std::span<const NodeRef> targets,
                                  bool retain, bool is_trial) {
  if (!root) throw Refusal("the root has no history");
  std::map<const Node*, bool> wanted;  // whether the node leads to a target
  const auto wants = [&](const auto& self, const NodeRef& node) -> bool {
    if (!node) return false;
    if (targets.empty()) return true;
    if (const auto found = wanted.find(node.get()); found != wanted.end()) return found->second;
    bool leads = false;
    for (const NodeRef& input : node->inputs) leads |= self(self, input);
    return wanted[node.get()] =
               leads || std::find(targets.begin(), targets.end(), node) != targets.end();
  };
  std::string failure;
  std::vector<NodeRef> reached = {root}, run;
  std::set<const Node*> seen = {root.get()};
  for (size_t next = 0; next < reached.size(); ++next) {
    const NodeRef node = reached[next];
    const auto is_wanted = [&](const NodeRef& input) { return wants(wants, input); };
    if (node->is_leaf || std::none_of(node->inputs.begin(), node->inputs.end(), is_wanted))
      continue;
    if (failure.empty() && node->is_freed) failure = "the graph was freed";
    for (const Saved& saved : node->saved)
      if (saved.storage->version != saved.version &&
          (saved.reader < 0 || is_wanted(node->inputs[saved.reader]))) {
        if (node->may_be_recomputed) throw Undecided();
        if (failure.empty()) failure = "a saved value was written";
      }
    run.push_back(node);
    for (size_t i = 0; i < node->inputs.size(); ++i)
      if ((i > 0 || node->sends_first) && is_wanted(node->inputs[i]) &&
          seen.insert(node->inputs[i].get()).second)
        reached.push_back(node->inputs[i]);
  }
  for (const NodeRef& node : run) {
    node->may_be_recomputed |= node->is_checkpoint && (is_trial || !failure.empty());
    if (is_trial || !failure.empty()) continue;
    node->is_freed = !retain;
    if (node->is_checkpoint) node->saved = node->recomputed;
  }
  if (!failure.empty()) throw Refusal(failure);
  std::vector<const Node*> nodes;
  for (const NodeRef& node : reached) nodes.push_back(node.get());
  return nodes;
}

}  // namespace tapegrad::reference
