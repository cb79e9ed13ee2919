// The part of the backward pass that tells observers of the gradients of leaves.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/tape/internal/backward.h"
#include "core/tape/internal/leaf_observer.h"
#include "core/tape/internal/node_hooks.h"

namespace tapegrad {

/// Fills observed_. Walks the graph once, to find the oldest node that sends to each leaf: nodes
/// run youngest first, so the leaf is complete when an older node is the next to run.
void BackwardPass::find_observed() {
  const auto living = leaf_observers();
  if (living.empty()) return;
  std::unordered_map<const TapeNode*, uint64_t> oldest;  // consumer of each leaf
  std::unordered_set<const TapeNode*> seen;
  std::vector<const TapeNode*> reached;
  const auto reach = [&](const TapeEdge& edge, uint64_t consumer) {
    if (!edge) return;
    const TapeNode* node = &*edge.node;
    if (node->is_leaf()) {
      uint64_t& number = oldest.try_emplace(node, consumer).first->second;
      number = std::min(number, consumer);
    } else if (seen.insert(node).second) {
      reached.push_back(node);
    }
  };
  for (const Root& root : roots_) reach(root.root.edge(), UINT64_MAX);
  for (size_t next = 0; next < reached.size(); ++next)
    for (const TapeEdge& edge : reached[next]->edges()) reach(edge, reached[next]->number());
  for (const auto& observer : living) {
    if (!observer->observes_this_thread()) continue;
    const std::span<const Variable> leaves = observer->leaves();
    std::vector<bool> is_reached(leaves.size());
    std::vector<Observed> found;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].edge()) continue;  // frozen
      TapeNode* leaf = &*leaves[i].edge().node;
      const auto at = oldest.find(leaf);
      if (at == oldest.end()) continue;
      is_reached[i] = true;
      found.push_back({at->second, static_cast<Leaf*>(leaf), observer.get(), i});
    }
    if (found.empty() || !observer->begin(is_reached, options_)) continue;
    observers_.push_back(observer);
    observed_.insert(observed_.end(), found.begin(), found.end());
  }
  std::stable_sort(observed_.begin(), observed_.end(), [](const Observed& a, const Observed& b) {
    return a.oldest_consumer > b.oldest_consumer;
  });
}

/// Reports the leaves that no node up to number `next` sends to.
void BackwardPass::report_leaves(uint64_t next) {
  for (; reported_ < observed_.size(); ++reported_) {
    const Observed& each = observed_[reported_];
    if (each.oldest_consumer <= next) return;
    const size_t place = find(*each.leaf);
    if (place == leaves_.size()) {
      Variable none;
      each.observer->on_gradient(each.index, none);
      continue;
    }
    LeafSum& sum = leaves_[place];
    sum.make_dense();
    if (each.leaf->hooks_ && sum.sum.defined()) each.leaf->run_before_hooks({&sum.sum, 1});
    each.observer->on_gradient(each.index, sum.sum);
  }
}

bool BackwardPass::is_reported(const Leaf& leaf) const {
  return std::ranges::any_of(observed_, [&](const Observed& each) { return each.leaf == &leaf; });
}

void BackwardPass::replace_observed() {
  for (const auto& observer : observers_) {
    const std::span<const Variable> leaves = observer->leaves();
    std::vector<Variable> gradients(leaves.size());
    const auto leaf_of = [&](size_t i) { return static_cast<Leaf*>(&*leaves[i].edge().node); };
    for (size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].edge())
        if (const size_t place = find(*leaf_of(i)); place < leaves_.size())
          gradients[i] = std::move(leaves_[place].sum);
    observer->finish(gradients);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].edge()) continue;
      const size_t place = find(*leaf_of(i));
      if (place < leaves_.size())
        leaves_[place].sum = std::move(gradients[i]);
      else if (gradients[i].defined())
        append(*leaf_of(i), std::move(gradients[i]));
    }
  }
  observers_.clear();
}

}  // namespace tapegrad
