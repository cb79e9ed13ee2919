#include "core/tape/internal/backward.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/internal/step_observer.h"
#include "core/dispatch/kernels.h"
#include "core/dispatch/span.h"
#include "core/tape/internal/node_hooks.h"
#include "core/tape/op.h"
#include "core/tape/view.h"

namespace tapegrad {
namespace {

/// Adds a gradient to a sum, in place if nothing else owns the sum and nothing is recorded.
void add_to(Variable& sum, Variable&& gradient) {
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (!is_recording() && sum.is_sole_owner()) {
    kernels::accumulate(gradient.value(), sum.writable());
  } else {
    sum = add_gradients(sum, gradient);
  }
}

/// Counts the passes that run within one another on this thread. Throws AutogradError before they
/// fill the stack, as when a hook starts the pass that calls it.
class Nesting {
 public:
  Nesting() {
    if (depth_ == kMost)
      fail<AutogradError>("backward: ", kMost,
                          " passes run within one another; a hook, a rule or a ",
                          "checkpoint starts a pass that runs it again");
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  static constexpr int kMost = 500;
  static thread_local int depth_;
};
constinit thread_local int Nesting::depth_ = 0;

/// Describes the gradient that the running rule sends to an edge, for errors.
std::string rule_for(const TapeEdge& edge) {
  const TapeNode* node = running_node();
  if (node == nullptr) return "backward";
  const ptrdiff_t input = &edge - node->edges().data();  // a rule sends to the node's own edges
  std::string text = "the rule of " + describe(*node);
  if (input >= 0 && size_t(input) < node->edges().size())
    text += ", for input " + std::to_string(input);
  return text;
}

Variable default_seed(const Variable& root) {
  if (root.numel() != 1)
    fail<AutogradError>("backward: a root of shape ", root.shape(),
                        " needs a seed gradient; reduce it to one element, as by mean(), or pass a "
                        "gradient of this shape");
  return Variable(Tensor::full(root.shape(), 1.0, root.dtype(), root.value().device()));
}

}  // namespace

void Leaf::make_dense() const {
  if (rows_) gradient_ = Variable(std::exchange(rows_, nullptr)->dense());
}

Variable Leaf::gradient() const {
  std::lock_guard lock(mutex_);
  make_dense();
  return gradient_;
}

RowGradientPtr Leaf::rows() const {
  std::lock_guard lock(mutex_);
  return rows_;
}

void Leaf::clear_gradient() {
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_clear(*this);
  set_gradient({});
}

void Leaf::set_gradient(Variable gradient) {
  std::lock_guard lock(mutex_);
  rows_ = nullptr;
  gradient_ = std::move(gradient);
}

void Leaf::add_gradient(Variable gradient) {
  if (frozen_.load(std::memory_order_relaxed)) return run_accumulate_hooks();
  if (!gradient.is_sole_owner()) gradient = clone(gradient);
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->before_gradient(*this, gradient_);
  bool had_one;
  {
    std::lock_guard lock(mutex_);
    make_dense();
    had_one = gradient_.defined();
    add_to(gradient_, std::move(gradient));
  }
  if (StepObserver* step = StepObserver::current()) [[unlikely]]
    step->on_gradient(*this, had_one);
  run_accumulate_hooks();
}

void Leaf::add_rows(RowGradientPtr rows) {
  if (frozen_.load(std::memory_order_relaxed)) return run_accumulate_hooks();
  {
    std::lock_guard lock(mutex_);
    if (gradient_.defined())
      add_to(gradient_, Variable(rows->dense()));
    else
      rows_ = rows_ ? rows_->plus(*rows) : std::move(rows);
  }
  run_accumulate_hooks();
}

void Leaf::run_accumulate_hooks() {
  if (!hooks_ || hooks_->accumulated.empty()) return;
  const Variable sum = this->gradient();
  hooks_->accumulated.each([&](const AccumulateHook& hook) { hook(sum); });
}

HookHandle Leaf::register_accumulate_hook(AccumulateHook hook) {
  StepObserver::tell_host_change("registers a hook of a leaf");
  ++hooks().added;
  return hooks().accumulated.add(std::move(hook));
}

uint64_t Leaf::hooks_state() const { return hooks_ ? hooks_->state() : 0; }

void BackwardPass::add_root(const Variable& root, Variable seed) {
  if (!root.defined() || !root.edge())
    fail<AutogradError>(
        "backward: the root requires no gradient: it was computed from values that require none, "
        "without recording (NoGrad), after detach(), or by an op without a gradient, such as a "
        "comparison, argmax, unique or heaviside");
  if (!seed.defined()) seed = default_seed(root);
  const ValueType type{root.shape(), root.dtype(), root.device()};
  if (!detail::has_type(seed, type)) detail::fail_gradient("backward: seed", seed, type);
  roots_.push_back({root, std::move(seed)});
}

BackwardPass::~BackwardPass() {
  for (const auto& observer : observers_) observer->cancel();  // not empty only after an error
  for (const Pending& pending : heap_) {                       // not empty only after an error
    for (Variable& gradient : pending.node->gradients()) gradient = {};
    pending.node->pass_.store(nullptr, std::memory_order_release);
  }
}

void BackwardPass::enqueue(TapeNode& node) {
  heap_.push_back({node.number(), &node});  // may throw, so it precedes taking the node
  BackwardPass* other = nullptr;
  if (!node.pass_.compare_exchange_strong(other, this, std::memory_order_acquire)) {
    heap_.pop_back();
    fail<AutogradError>("backward: two passes at once through ", describe(node));
  }
  std::push_heap(heap_.begin(), heap_.end());
}

size_t BackwardPass::find(Leaf& leaf) const {
  // The leaf's cached index saves the search; a pass on another thread may have overwritten it.
  const size_t noted = leaf.place_.load(std::memory_order_relaxed);
  if (noted < leaves_.size() && leaves_[noted].leaf == &leaf) [[likely]]
    return noted;
  const auto found = places_.find(&leaf);
  return found == places_.end() ? leaves_.size() : found->second;
}

void BackwardPass::append(Leaf& leaf, Variable&& sum) {
  leaf.place_.store(leaves_.size(), std::memory_order_relaxed);
  places_.emplace(&leaf, leaves_.size());
  leaves_.push_back({&leaf, std::move(sum)});
}

void BackwardPass::LeafSum::make_dense() {
  if (rows) sum = Variable(std::exchange(rows, nullptr)->dense());
}

BackwardPass* BackwardPass::running() {
  const TapeNode* node = running_node();
  return node == nullptr ? nullptr : node->pass_.load(std::memory_order_relaxed);
}

bool BackwardPass::takes_rows(const TapeEdge& edge) const {
  return edge && edge.node->is_leaf() && !edge.node->hooks_ && captures_.empty() && !watch_ &&
         sent_ == nullptr && !options_.create_graph;
}

void BackwardPass::send_rows(const TapeEdge& edge, RowGradientPtr rows) {
  if (detail::context.anomaly == detail::kObserve) [[unlikely]]
    detail::show_gradient(rows->rows());
  Leaf& leaf = static_cast<Leaf&>(*edge.node);
  const size_t place = find(leaf);
  if (place == leaves_.size()) append(leaf, {});
  LeafSum& sum = leaves_[place];
  if (sum.sum.defined())
    add_to(sum.sum, Variable(rows->dense()));
  else
    sum.rows = sum.rows ? sum.rows->plus(*rows) : std::move(rows);
}

void BackwardPass::send(const TapeEdge& edge, Variable&& gradient) {
  if (sent_ != nullptr) [[unlikely]]
    return sent_->push_back(std::move(gradient));
  if (detail::context.anomaly == detail::kObserve) [[unlikely]]
    detail::show_gradient(gradient.value_or_empty());
  if (!edge || !gradient.defined() || !wants(edge)) return;
  const ValueType& type = edge.node->output_type(edge.output);
  if (!detail::has_type(gradient, type)) [[unlikely]]
    detail::fail_gradient(rule_for(edge), gradient, type);
  add_to(sum_at(edge), std::move(gradient));
}

Variable& BackwardPass::sum_at(const TapeEdge& edge) {
  if (!edge.node->is_leaf()) {
    if (edge.node->pass_.load(std::memory_order_relaxed) != this) enqueue(*edge.node);
    return edge.node->gradients()[edge.output];
  }
  Leaf& leaf = static_cast<Leaf&>(*edge.node);
  const size_t place = find(leaf);
  if (place == leaves_.size()) append(leaf, {});
  leaves_[place].make_dense();
  return leaves_[place].sum;
}

Tensor BackwardPass::gradient_sum(const TapeEdge& edge) {
  if (sent_ != nullptr || is_recording() || detail::context.anomaly != 0) return {};
  if (!edge || !wants(edge)) return {};
  Variable& sum = sum_at(edge);
  if (!sum.defined()) {
    const ValueType& type = edge.node->output_type(edge.output);
    sum = Variable(Tensor::full(type.shape, 0.0, type.dtype, type.device));
  } else if (!sum.is_sole_owner()) {
    sum = Variable(sum.value().clone());
  }
  return sum.value();
}

/// If the edge is the only owner of the node, the node has no other consumer and is not captured.
bool BackwardPass::can_send_past(const TapeEdge& edge) const {
  return edge && edge.node->has_one_owner() && !edge.node->hooks_ && sent_ == nullptr && !watch_ &&
         wants(edge);
}

/// If the operand of the activation has no other consumer, the order of sums does not change.
const SavedValue* BackwardPass::front(const TapeEdge& edge, Activation& activation) const {
  if (!can_send_past(edge)) return nullptr;
  Activation here;
  const SavedValue* at = edge.node->epilogue_at(here);
  if (at == nullptr) return nullptr;
  const TapeEdge& operand = edge.node->edges()[0];
  if (!operand || !operand.node->has_one_owner()) return nullptr;
  activation = here;
  return at;
}

void BackwardPass::send_past(const TapeEdge& edge, Variable&& gradient) {
  send(edge.node->edges()[0], std::move(gradient));
  if (!options_.retain_graph && !options_.create_graph) edge.node->free_saved();
}

const SavedValue* Needs::front(Activation& activation) const {
  return pass_ == nullptr ? nullptr : pass_->front(edges_[0], activation);
}
void send_past(BackwardPass& pass, const TapeEdge& edge, Tensor&& gradient) {
  pass.send_past(edge, Variable(std::move(gradient)));
}

bool Needs::is_wanted(const BackwardPass& pass, const TapeEdge& edge) { return pass.wants(edge); }

void send(BackwardPass& pass, const TapeEdge& edge, Variable&& gradient) {
  pass.send(edge, std::move(gradient));
}

void BackwardPass::capture(const TapeEdge& edge, Variable* into) {
  captures_.push_back({edge, into});
  if (!edge.node->is_leaf()) return;
  Leaf& leaf = static_cast<Leaf&>(*edge.node);
  if (find(leaf) == leaves_.size()) append(leaf, Variable());
}

void BackwardPass::take_captures(TapeNode& node, std::span<Variable> gradients) {
  for (auto& [edge, into] : captures_)
    if (edge.node.get() == &node) *into = gradients[edge.output];
}

/// Fills needed_. Visits the nodes that the roots reach, oldest first. Nodes are younger than their
/// inputs, so the inputs of a node are decided before the node. A node older than all captured
/// nodes leads to none of them.
void BackwardPass::find_needed() {
  uint64_t oldest = UINT64_MAX;
  for (const auto& capture : captures_) oldest = std::min(oldest, capture.first.node->number());
  std::unordered_map<const TapeNode*, bool> seen;
  std::vector<const TapeNode*> reached;
  const auto reach = [&](const TapeEdge& edge) {
    if (edge && edge.node->number() >= oldest && seen.emplace(&*edge.node, false).second)
      reached.push_back(&*edge.node);
  };
  for (const Root& root : roots_) reach(root.root.edge());
  for (size_t next = 0; next < reached.size(); ++next)
    for (const TapeEdge& edge : reached[next]->edges()) reach(edge);
  std::sort(reached.begin(), reached.end(),
            [](const TapeNode* a, const TapeNode* b) { return a->number() < b->number(); });
  for (const auto& capture : captures_) needed_.emplace(&*capture.first.node, false);
  for (const TapeNode* node : reached)
    for (const TapeEdge& edge : node->edges())
      if (edge && needed_.contains(&*edge.node)) {
        needed_[node] = true;
        break;
      }
}

void BackwardPass::run_rule(TapeNode& node) {
  if (!captures_.empty() && !needed_[&node]) {  // captured, and nothing beyond it is needed
    for (Variable& gradient : node.gradients()) gradient = {};
    return;
  }
  const std::string_view name = detail::context.is_observed ? node.name() : std::string_view();
  const OpSpan span(name, Pass::kBackward, node.scope(), node.where());
  const bool checks = (detail::context.anomaly & ~detail::kObserve) != 0;
  if ((node.hooks_ && !node.hooks_->after.empty() && !watch_) || checks) [[unlikely]]
    run_watched(node);
  else
    node.run(*this);  // sends only to older nodes, so this node stays at the front of the heap
  if (!options_.retain_graph && !options_.create_graph) node.free_saved();
}

/// Collects the gradients that the rule sends and shows them before they are passed on.
void BackwardPass::run_watched(TapeNode& node) {
  const std::vector<Variable> incoming(node.gradients().begin(), node.gradients().end());
  std::vector<Variable> outgoing;
  {
    struct Collect {
      BackwardPass& pass;
      ~Collect() { pass.sent_ = nullptr; }
    } collect{*this};
    sent_ = &outgoing;
    node.run(*this);
  }
  outgoing.resize(node.edges().size());
  if (detail::context.anomaly & ~detail::kObserve)
    detail::check_made_by_rule(node, incoming, outgoing);
  if (node.hooks_ && !watch_) node.run_after_hooks(outgoing, incoming);
  for (size_t i = 0; i < outgoing.size(); ++i) send(node.edges()[i], std::move(outgoing[i]));
}

void BackwardPass::run() {
  const Nesting nesting;
  Recording mode(options_.create_graph);
  detail::Set<&detail::Context::autocast> as_recorded(nullptr);
  detail::Set<&detail::Context::running> running(nullptr);
  if (!captures_.empty()) find_needed();
  if (has_leaf_observers() && captures_.empty() && !watch_ && !is_recomputing()) [[unlikely]]
    find_observed();
  for (Root& root : roots_) send(root.root.edge(), std::move(root.seed));
  while (!heap_.empty()) {
    TapeNode& node = *heap_.front().node;
    if (reported_ < observed_.size()) [[unlikely]]
      report_leaves(node.number());
    detail::context.running = &node;
    if (watch_) [[unlikely]]
      watch_(node, node.gradients());
    else if (node.hooks_)
      node.run_before_hooks(node.gradients());
    take_captures(node, node.gradients());
    run_rule(node);
    node.pass_.store(nullptr, std::memory_order_release);
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  detail::context.running = nullptr;
  if (watch_) return;
  report_leaves(0);
  for (auto& [leaf, gradient, rows] : leaves_) {
    if (!gradient.defined()) continue;  // captured and never reached, or rows, which no hook sees
    if (leaf->hooks_ && !is_reported(*leaf)) leaf->run_before_hooks({&gradient, 1});
    take_captures(*leaf, {&gradient, 1});
  }
  if (!observers_.empty()) [[unlikely]]
    replace_observed();
}

void BackwardPass::add_to_leaves() {
  Recording mode(options_.create_graph);
  for (auto& [leaf, gradient, rows] : leaves_)
    if (rows)
      leaf->add_rows(std::move(rows));
    else if (gradient.defined())  // an observer may have taken it
      leaf->add_gradient(std::move(gradient));
}

void Variable::backward(BackwardOptions options, Where where) const {
  backward(Variable(), options, where);
}

void Variable::backward(const Variable& seed, BackwardOptions options, Where where) const {
  try {
    BackwardPass pass(options);
    pass.add_root(*this, seed);
    pass.run();
    if (!is_recomputing()) pass.add_to_leaves();  // a checkpoint added these in its first run
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

namespace {

std::vector<Variable> gradients_of(std::span<const Variable> ys, std::span<const Variable> xs,
                                   std::span<const Variable> seeds, const GradOptions& options) {
  if (options.grad_outputs.defined()) {
    if (ys.size() != 1 || (!seeds.empty() && seeds[0].defined()))
      fail<AutogradError>("grad: .grad_outputs is the seed of one result that has no other seed");
    seeds = {&options.grad_outputs, 1};
  }
  if (!seeds.empty() && seeds.size() != ys.size())
    fail<AutogradError>("grad: ", seeds.size(), " seeds for ", ys.size(), " results");
  std::vector<Variable> gradients(xs.size());
  BackwardPass pass({options.retain_graph, options.create_graph});
  for (size_t k = 0; k < ys.size(); ++k)
    pass.add_root(ys[k], seeds.empty() ? Variable() : seeds[k]);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (!xs[i].edge()) fail<AutogradError>("grad: input ", i, " requires no gradient");
    pass.capture(xs[i].edge(), &gradients[i]);
  }
  pass.run();
  for (size_t i = 0; i < xs.size() && !options.allow_unused; ++i)
    if (!gradients[i].defined())
      fail<AutogradError>("grad: the result does not depend on input ", i);
  return gradients;
}

}  // namespace

void Variable::backward(const BackwardInto& options, Where where) const {
  backward(Variable(), options, where);
}

void Variable::backward(const Variable& seed, const BackwardInto& options, Where where) const {
  try {
    std::vector<Variable> leaves;  // each once
    for (const Variable& x : options.inputs.list) {
      if (!x.requires_grad()) fail<AutogradError>("backward: an input requires no gradient");
      if (!x.is_leaf())
        fail<AutogradError>(
            "backward: an input is the result of an op; grad(y, x) returns its "
            "gradient");
      const auto is_x = [&x](const Variable& leaf) { return leaf.edge().node == x.edge().node; };
      if (std::none_of(leaves.begin(), leaves.end(), is_x)) leaves.push_back(x);
    }
    std::vector<Variable> gradients = gradients_of({this, 1}, leaves, {&seed, 1},
                                                   {.retain_graph = options.retain_graph,
                                                    .create_graph = options.create_graph,
                                                    .allow_unused = true});
    if (is_recomputing()) return;  // a checkpoint added these in its first run
    Recording mode(options.create_graph);
    for (size_t i = 0; i < leaves.size(); ++i)
      if (gradients[i].defined())
        static_cast<Leaf&>(*leaves[i].edge().node).add_gradient(std::move(gradients[i]));
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

void backward(VariableList ys, VariableList seeds, BackwardOptions options, Where where) {
  try {
    if (!seeds.empty() && seeds.size() != ys.size())
      fail<AutogradError>("backward: ", seeds.size(), " seeds for ", ys.size(), " results");
    BackwardPass pass(options);
    for (size_t k = 0; k < ys.size(); ++k)
      pass.add_root(ys[k], seeds.empty() ? Variable() : seeds[k]);
    pass.run();
    if (!is_recomputing()) pass.add_to_leaves();
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

std::vector<Variable> grad(std::span<const Variable> ys, std::span<const Variable> xs,
                           std::span<const Variable> seeds, GradOptions options, Where where) {
  try {
    return gradients_of(ys, xs, seeds, options);
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

std::vector<Variable> grad(const Variable& y, std::span<const Variable> xs, const Variable& seed,
                           GradOptions options, Where where) {
  return grad({&y, 1}, xs, {&seed, 1}, options, where);
}

GradientOfOne grad(const Variable& y, const Variable& x, GradOptions options, Where where) {
  return grad(y, {&x, 1}, {}, options, where).front();
}
GradientOfOne grad(const Variable& y, const Variable& x, const Variable& seed, GradOptions options,
                   Where where) {
  return grad(y, {&x, 1}, seed, options, where).front();
}

}  // namespace tapegrad
