// Statements that run backward passes, with hooks, checkpoints and threads.
#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "core/autograd/checkpoint.h"
#include "core/base/error.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "tests/fuzz/tape_program.h"

namespace tapegrad::fuzz {

Program::Root Program::make_root() {
  const Pair a = pick();
  const Values weights = numbers(a.model->size());
  Root root;
  root.name = "sum of " + a.name;
  if (!recording_) switch_recording();
  both(
      root.name,
      [&] {
        const Jets jets = ref::read(a.model, true);
        for (size_t i = 0; i < jets.size(); ++i) root.jet = root.jet + weights[i] * jets[i];
        if (ref::edge(a.model))
          root.node = std::make_shared<ref::Node>(ref::Node{{a.model->node}, {}});
      },
      [&] { root.y = sum(a.x * make(weights, a.model->shape)); });
  return root;
}

bool Program::is_small(const Root& root) {
  for (const double d : root.jet.first) ended_ |= std::abs(d) > 1e4;
  for (const double d : root.jet.second) ended_ |= std::abs(d) > 1e4;
  return !ended_;
}

bool Program::would_succeed(const Root& root) {
  try {
    ref::run_pass(root.node, {}, true, /*is_trial=*/true);
    return true;
  } catch (const ref::Refusal&) {
  } catch (const ref::Undecided&) {
  }
  return false;
}

Values Program::first(const Jet& jet, const Pair& leaf) const {
  return {jet.first.begin() + leaf.model->direction,
          jet.first.begin() + leaf.model->direction + leaf.model->size()};
}

void Program::add_to_total(const Pair& pair, const Jet& jet) {
  Values& total = pair.model->total;
  total.resize(size_t(pair.model->size()));
  for (size_t i = 0; i < total.size(); ++i)
    total[i] += jet.first[size_t(pair.model->direction) + i];
}

void Program::add_to_totals(const Jet& jet) {
  std::set<Ref> seen;  // two names may share a variable
  for (const Pair& pair : pool_)
    if ((is_leaf(pair) || pair.is_probe) && seen.insert(pair.model).second) add_to_total(pair, jet);
}

void Program::clear_probes() {
  for (const Pair& pair : pool_)
    if (pair.is_probe) {
      pair.x.zero_grad();
      pair.model->total.clear();
    }
}

void Program::backward() {
  const Root root = make_root();
  if (!root.y.defined() || !is_small(root)) return;
  const bool create = choices_.below(6) == 0, retain = create || choices_.flag();
  const bool success = both(
      std::string("backward") + (create   ? " that records"
                                 : retain ? " that retains"
                                          : ""),
      [&] {
        ref::run_pass(root.node, {}, retain);
        add_to_totals(root.jet);
      },
      [&] { root.y.backward({.retain_graph = retain, .create_graph = create}); });
  if (!success) clear_probes();
  compare_leaves();
  if (create) {  // gradients with a history refer to their owners
    for (const Variable& owner : owners_) owner.zero_grad();
    for (const Pair& pair : pool_)
      if (is_leaf(pair) || pair.is_probe) pair.model->total.clear();
  }
  ended_ |= !success && !retain;  // which nodes were freed before the error is not defined
}

std::vector<Pair> Program::targets() {
  std::vector<Pair> all;
  for (const Pair& pair : pool_)
    if (is_leaf(pair) || (pair.is_probe && pair.model->node == pair.probed)) all.push_back(pair);
  return all;
}

void Program::gradient() {
  const Root root = make_root();
  const std::vector<Pair> all = targets();
  if (!root.y.defined() || all.empty() || !is_small(root)) return;
  const Pair x = choices_.of(all);
  const bool retain = choices_.flag(), unused = choices_.flag();
  Variable g;
  const bool success = both(
      "gradient by " + x.name + (retain ? ", retaining" : "") + (unused ? ", allow_unused" : ""),
      [&] {
        const auto reached = ref::run_pass(root.node, {&x.model->node, 1}, retain);
        const auto has = [&](const ref::NodeRef& node) {
          return std::find(reached.begin(), reached.end(), node.get()) != reached.end();
        };
        for (Pair& pair : pool_)
          if (pair.is_probe && has(pair.probed)) add_to_total(pair, root.jet);
        if (!unused && !has(x.model->node))
          throw ref::Refusal("the root does not depend on the target");
      },
      [&] {
        g = grad({&root.y, 1}, {&x.x, 1}, {}, {.retain_graph = retain, .allow_unused = unused})[0];
      });
  if (!success) clear_probes();
  compare_leaves();
  if (success)
    compare("the gradient", g.defined() ? g.to_vector<double>() : Values(size_t(x.model->size())),
            first(root.jet, x));
  ended_ |= !success && !retain;
}

void Program::second_order() {
  const Root root = make_root();
  std::vector<Pair> leaves;
  for (const Pair& pair : pool_)
    if (is_leaf(pair)) leaves.push_back(pair);
  if (!root.y.defined() || leaves.empty() || !is_small(root)) return;
  const Pair x = choices_.of(leaves);
  const bool must_succeed = would_succeed(root);
  say("second order by " + x.name + " of " + root.name);
  const Values weights = numbers(x.model->size());
  try {
    const Variable g =
        grad({&root.y, 1}, {&x.x, 1}, {}, {.create_graph = true, .allow_unused = true})[0];
    if (g.defined()) compare("the gradient", g.to_vector<double>(), first(root.jet, x));
    Variable total;
    if (g.defined()) total = sum(g * make(weights, x.model->shape));
    for (const Pair& leaf : leaves) {
      Values expected(size_t(leaf.model->size()));
      for (size_t i = 0; i < weights.size(); ++i)
        for (size_t j = 0; j < expected.size(); ++j)
          expected[j] +=
              weights[i] * root.jet.second[(size_t(x.model->direction) + i) * ref::kDirections +
                                           size_t(leaf.model->direction) + j];
      Variable gg;
      if (total.requires_grad())
        gg = grad({&total, 1}, {&leaf.x, 1}, {}, {.retain_graph = true, .allow_unused = true})[0];
      compare("the second derivative by " + leaf.name,
              gg.defined() ? gg.to_vector<double>() : Values(expected.size()), expected);
    }
  } catch (const AutogradError& error) {
    if (must_succeed) finding(std::string("an error of the second order: ") + error.what());
    say("  refused");
  }
  clear_probes();
  compare_leaves();
}

void Program::checkpointed() {
  const Pair a = pick(), b = pick();
  if (a.model->shape != b.model->shape) return;
  const size_t kind = choices_.below(4);
  const auto f = [kind](const Variable& x, const Variable& z) {
    if (kind == 0) return tanh(x) * z;
    if (kind == 1) return x + z;
    if (kind == 2) return sin(x * z) + x;
    Variable y = x * 2;  // written in place
    y += z;
    return y * y;
  };
  Variable y;
  Ref model;
  const Ref inputs[] = {a.model, b.model};
  if (both(
          "checkpoint " + std::to_string(kind) + " of " + a.name + ", " + b.name,
          [&] {
            Jets jets = ref::read(a.model, recording_);
            const Jets others = ref::read(b.model, recording_);
            for (size_t i = 0; i < jets.size(); ++i) {
              const Jet x = jets[i], z = others[i], sum = 2 * x + z;
              jets[i] = kind == 0   ? tanh_jet(x) * z
                        : kind == 1 ? x + z
                        : kind == 2 ? kFunctions[1].jet(x * z) + x
                                    : sum * sum;
            }
            std::vector<ref::Saved> saved;
            if (kind != 1)
              for (const Ref& input : inputs)
                saved.push_back({input->storage, input->storage->version});
            model = ref::result(jets, a.model->shape, inputs, saved, recording_);
            if (!model->node) return;
            model->node->is_checkpoint = true;
            if (kind == 0) model->node->recomputed = {saved_by_product(a.model, b.model)[1]};
            if (kind == 2) model->node->recomputed = saved_by_product(a.model, b.model);
          },
          [&] { y = checkpoint(f, a.x, b.x); }))
    add(y, model);
}

void Program::zero() {
  const Pair a = pick();
  if (!is_leaf(a) && !a.is_probe) return;
  say(a.name + ".zero_grad()");
  a.x.zero_grad();
  a.model->total.clear();
}

double Program::hook_scale(const Variable& x) {
  const double scale = choices_.of({1.0, 1.0, -2.0, 0.5});
  if (scale == 1) return 1;
  say("  with a hook that scales by " + std::to_string(scale));
  const size_t kind = x.is_leaf() ? 0 : choices_.below(3);
  const auto scaled = [scale](std::span<Variable> gradients) {
    for (Variable& g : gradients)
      if (g.defined()) g = g * scale;
  };
  if (kind == 0) x.register_hook([scale](const Variable& g) { return g * scale; });
  if (kind == 1) x.grad_fn()->register_prehook(scaled);
  if (kind == 2)
    x.grad_fn()->register_hook(
        [scaled](std::span<Variable> gradients, std::span<const Variable>) { scaled(gradients); });
  return scale;
}

void Program::hook() {
  const size_t before = pool_.size();
  const Function& f = choices_.of(kFunctions);
  if (f.saves == Function::kOutput) return;
  apply(f);
  if (pool_.size() == before || !pool_.back().model->node) return;
  Pair& y = pool_.back();
  if (choices_.below(4) == 0)  // removed before it is called
    y.x.register_hook([](const Variable& g) { return g * 7; }).remove();
  const double scale = hook_scale(y.x);
  for (Jet& jet : y.model->history) jet = scale * jet;
}

void Program::probe() {
  const size_t before = pool_.size();
  unary();
  if (pool_.size() == before || !pool_.back().model->node) return;
  Pair& y = pool_.back();
  if (directions_ + y.model->size() > ref::kDirections) return;
  say(y.name + ".retain_grad()");
  y.x.retain_grad();
  owners_.push_back(y.x);
  y.is_probe = true;
  aim(y);
}

void Program::aim(Pair& probe) {
  probe.probed = probe.model->node;
  probe.model->direction = directions_;
  directions_ += probe.model->size();
  for (int i = 0; i < probe.model->size(); ++i)
    probe.model->history[size_t(i)].first[size_t(probe.model->direction + i)] += 1;
}

void Program::follow_probes() {
  for (Pair& pair : pool_) {
    if (!pair.is_probe || pair.model->node == pair.probed) continue;
    pair.is_probe = pair.model->node && directions_ + pair.model->size() <= ref::kDirections;
    if (pair.is_probe) aim(pair);
  }
}

void Program::threads() {
  std::vector<Pair> leaves;
  for (const Pair& pair : pool_)
    if (is_leaf(pair)) leaves.push_back(pair);
  if (leaves.empty() || choices_.below(4) != 0) return;
  const Pair x = choices_.of(leaves);
  say("three threads add to " + x.name);
  std::vector<std::thread> crew;
  for (int i = 0; i < 3; ++i) crew.emplace_back([&] { sum(tanh(x.x) * x.x).backward(); });
  for (std::thread& thread : crew) thread.join();
  Jet total;
  for (const Jet& jet : ref::read(x.model, true)) total = total + 3 * (tanh_jet(jet) * jet);
  add_to_totals(total);
  compare_leaves();
}

void Program::throwing_hook() {
  const Root root = make_root();
  if (!root.y.defined() || !root.node) return;
  if (!would_succeed(root)) return;
  say("a pass whose hook throws");
  struct Stop {};
  HookHandle handle = root.y.register_hook([](const Variable&) -> Variable { throw Stop(); });
  try {
    root.y.backward();
    finding("the exception of a hook was lost");
  } catch (const Stop&) {
  }
  handle.remove();
  compare_leaves();
}

}  // namespace tapegrad::fuzz
