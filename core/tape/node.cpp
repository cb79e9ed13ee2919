#include "core/tape/node.h"

#include "core/base/error.h"
#include "core/base/internal/scope.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/internal/backward.h"
#include "core/tape/internal/newest_line.h"
#include "core/tape/internal/node_hooks.h"
#include "core/tape/variable.h"

namespace tapegrad {
namespace {

constinit thread_local uint64_t last_number = 0;
constinit thread_local Where newest_line;  // with line 0 if it was taken

// The worklist of destroy(). Trivial types, which are valid while a thread shuts down.
constinit thread_local TapeNode* dying = nullptr;
constinit thread_local bool destroying = false;

std::atomic<int64_t> live_elsewhere{0};
constinit thread_local int64_t live_here = 0;

struct CountAtThreadEnd {
  ~CountAtThreadEnd() {
    live_elsewhere += live_here;
    live_here = 0;
  }
};

void count(int64_t change) {
  if (live_here == 0) static thread_local CountAtThreadEnd at_end;
  live_here += change;
}

}  // namespace

TapeNode::TapeNode() : scope_(current_scope()) { count(1); }

TapeNode::TapeNode(Where where) : where_(where), scope_(current_scope()) {
  newest_line = where;
  count(1);
}

std::optional<Where> detail::take_newest_line() {
  const Where line = std::exchange(newest_line, Where());
  return line.line() == 0 ? std::nullopt : std::optional(line);
}

void TapeNode::number_after(std::span<const TapeEdge> inputs) {
  uint64_t youngest = last_number;
  for (const TapeEdge& edge : inputs)
    if (edge && edge.node->number_ > youngest) youngest = edge.node->number_;
  last_number = number_ = youngest + 1;
}

TapeNode::~TapeNode() { count(-1); }

void TapeNode::destroy(TapeNode* node) {
  node->next_dying_ = dying;
  dying = node;
  if (destroying) return;
  destroying = true;
  while (TapeNode* next = dying) {
    dying = next->next_dying_;
    delete next;
  }
  destroying = false;
}

int64_t TapeNode::live() { return live_elsewhere + live_here; }

TapeNode::Hooks& TapeNode::hooks() {
  if (!hooks_) hooks_ = std::make_unique<Hooks>();
  return *hooks_;
}

namespace {

/// Throws ArgumentError for an empty hook. Notifies a captured step that a hook of a leaf, which
/// outlives the step, is registered; other nodes do not outlive it.
void prepare_hook(const TapeNode& node, std::string_view caller, bool has_hook) {
  if (!has_hook) fail<ArgumentError>(caller, ": the hook is an empty function");
  if (node.is_leaf()) StepObserver::tell_host_change("registers a hook of a leaf");
}

}  // namespace

HookHandle TapeNode::register_hook(uint32_t output, GradientHook hook) {
  const size_t outputs = is_leaf() ? 1 : gradients().size();
  if (output >= outputs)
    fail<ArgumentError>("register_hook: output ", output, " of ", outputs, " of ", name());
  prepare_hook(*this, "register_hook", bool(hook));
  ++hooks().added;
  return hooks().gradient.add({output, std::move(hook)});
}
HookHandle TapeNode::register_prehook(NodePreHook hook) {
  prepare_hook(*this, "register_prehook", bool(hook));
  ++hooks().added;
  return hooks().before.add(std::move(hook));
}
HookHandle TapeNode::register_hook(NodeHook hook) {
  prepare_hook(*this, "register_hook", bool(hook));
  ++hooks().added;
  return hooks().after.add(std::move(hook));
}

void TapeNode::run_before_hooks(std::span<Variable> gradients) const {
  int number = 0;
  const auto check = [&](const char* kind, uint32_t output) {
    const Variable& gradient = gradients[output];
    if (gradient.defined() && !detail::has_type(gradient, output_type(output)))
      detail::fail_gradient(kind + std::to_string(number) + " of " + describe(*this), gradient,
                            output_type(output));
  };
  hooks_->gradient.each([&](const Hooks::OutputHook& hook) {
    Variable& gradient = gradients[hook.output];
    if (gradient.defined())
      if (Variable replaced = hook.run(gradient); replaced.defined()) {
        gradient = std::move(replaced);
        check("hook ", hook.output);
      }
    ++number;
  });
  number = 0;
  hooks_->before.each([&](const NodePreHook& hook) {
    hook(gradients);
    for (uint32_t k = 0; k < gradients.size(); ++k) check("prehook ", k);
    ++number;
  });
}

void TapeNode::run_after_hooks(std::span<Variable> outgoing,
                               std::span<const Variable> incoming) const {
  int number = 0;
  hooks_->after.each([&](const NodeHook& hook) {
    hook(outgoing, incoming);
    for (size_t i = 0; i < outgoing.size(); ++i) {
      const TapeEdge& edge = edges()[i];
      if (!edge || !outgoing[i].defined()) continue;
      const ValueType& type = edge.node->output_type(edge.output);
      if (!detail::has_type(outgoing[i], type))
        detail::fail_gradient("node hook " + std::to_string(number) + " of " + describe(*this) +
                                  ", for input " + std::to_string(i),
                              outgoing[i], type);
    }
    ++number;
  });
}

void detail::fail_gradient(const std::string& maker, const Variable& gradient,
                           const ValueType& type) {
  ErrorText text;
  text.add(maker + ": a gradient of ");
  const auto add = [&](const Shape& shape, DType dtype, Device device) {
    text.add(shape);
    text.add(' ');
    text.add(tapegrad::name(dtype));
    if (gradient.device() != type.device) text.add(" on " + to_string(device));
  };
  add(gradient.shape(), gradient.dtype(), gradient.device());
  text.add(" for a value of ");
  add(type.shape, type.dtype, type.device);
  fail<AutogradError>(text.text());
}

std::string describe(const TapeNode& node) {
  if (node.is_leaf()) {
    const std::string* label = static_cast<const Leaf&>(node).label();
    return label != nullptr ? "the leaf " + *label : "a leaf";
  }
  if (!detail::is_of_user(node.where())) return std::string(node.name());
  return std::string(node.name()) + ", recorded at " + node.where().file_name() + ":" +
         std::to_string(node.where().line());
}

}  // namespace tapegrad
