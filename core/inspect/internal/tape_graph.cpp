#include "core/inspect/internal/tape_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_format.h"

#include "core/base/context.h"
#include "core/base/error.h"
#include "core/tape/internal/backward.h"
#include "core/tape/op.h"

namespace tapegrad {
namespace {

using Places = std::unordered_map<const TapeNode*, int>;

std::string value_text(const Shape& shape, DType dtype) {
  detail::ErrorText text;
  text.add(name(dtype));
  text.add(' ');
  text.add(shape);
  return text.text();
}

TapeGraph::Vertex describe_leaf(const Leaf& leaf) {
  TapeGraph::Vertex vertex;
  vertex.is_leaf = true;
  vertex.name = leaf.label() ? *leaf.label() : "leaf";
  vertex.values = {value_text(leaf.shape(), leaf.dtype())};
  return vertex;
}

struct CountSaved final : SavedVisitor {
  TapeGraph& graph;
  std::unordered_set<const TensorStorage*> storages;
  TapeGraph::Vertex* vertex = nullptr;

  explicit CountSaved(TapeGraph& graph) : graph(graph) {}
  void on_saved(const Tensor& value) override {
    vertex->saved_bytes += value.numel() * size_of(value.dtype());
    if (storages.insert(&value.storage()).second)
      graph.saved_bytes += int64_t(value.storage().bytes());
  }
  void on_recomputed() override { ++vertex->recomputed; }
};

/// Learns dtypes and shapes of outputs from the gradients that arrive at them. A profiler does not
/// see the backward pass that this takes.
void learn_values(const Variable& root, const Places& places, TapeGraph& graph) {
  const detail::Set<&detail::Context::profile> unprofiled(nullptr);
  BackwardPass pass({.retain_graph = true});
  pass.add_root(root, Variable(Tensor::full(root.shape(), 1.0, root.dtype(), root.device())));
  pass.watch([&](const TapeNode& node, std::span<const Variable> gradients) {
    auto& values = graph.vertices[size_t(places.at(&node))].values;
    for (const Variable& gradient : gradients)
      values.push_back(gradient.defined() ? value_text(gradient.shape(), gradient.dtype())
                                          : "unused");
  });
  try {
    pass.run();
  } catch (const Error&) {  // a graph that cannot be run is drawn without shapes
  }
}

std::vector<std::string> split(const std::string* scope) {
  std::vector<std::string> parts;
  if (scope == nullptr) return parts;
  for (size_t begin = 0, end; begin <= scope->size(); begin = end + 1) {
    end = std::min(scope->find('.', begin), scope->size());
    parts.push_back(scope->substr(begin, end - begin));
  }
  return parts;
}

/// Groups consecutive ops by module path: consecutive ops with a common prefix belong to one call.
class Grouping {
 public:
  explicit Grouping(TapeGraph& graph) : graph_(graph) { graph_.groups.push_back({}); }

  int enter(const std::string* scope) {
    const std::vector<std::string> path = split(scope);
    size_t common = 0;
    while (common < path.size() && common < open_.size() &&
           graph_.groups[size_t(open_[common])].name == path[common])
      ++common;
    open_.resize(common);
    for (size_t i = common; i < path.size(); ++i) {
      graph_.groups.push_back({path[i], open_.empty() ? 0 : open_.back()});
      open_.push_back(int(graph_.groups.size()) - 1);
    }
    return open_.empty() ? 0 : open_.back();
  }

 private:
  TapeGraph& graph_;
  std::vector<int> open_;
};

/// Places a leaf in the smallest group that contains all its consumers.
void place_leaves(TapeGraph& graph) {
  for (TapeGraph::Vertex& vertex : graph.vertices)
    if (vertex.is_leaf) vertex.group = -1;
  for (const TapeGraph::Edge& edge : graph.edges) {
    TapeGraph::Vertex& leaf = graph.vertices[size_t(edge.from)];
    if (!leaf.is_leaf) continue;
    const int user = graph.vertices[size_t(edge.to)].group;
    if (leaf.group < 0) leaf.group = user;
    while (!graph.is_within(user, leaf.group)) leaf.group = graph.groups[size_t(leaf.group)].parent;
  }
  for (TapeGraph::Vertex& vertex : graph.vertices) vertex.group = std::max(vertex.group, 0);
}

/// Shortens the name of a leaf within its module's box: "fc1.weight" becomes "weight" inside fc1.
void shorten_leaves(TapeGraph& graph) {
  for (TapeGraph::Vertex& leaf : graph.vertices) {
    if (!leaf.is_leaf || leaf.group == 0) continue;
    const size_t dot = leaf.name.rfind('.');
    if (dot == std::string::npos) continue;
    const size_t before = leaf.name.rfind('.', dot - 1);
    const std::string owner =
        leaf.name.substr(before == std::string::npos ? 0 : before + 1,
                         dot - (before == std::string::npos ? 0 : before + 1));
    if (owner == graph.groups[size_t(leaf.group)].name) leaf.name = leaf.name.substr(dot + 1);
  }
}

}  // namespace

bool TapeGraph::is_within(int group, int ancestor) const {
  while (group > ancestor) group = groups[size_t(group)].parent;
  return group == ancestor;
}

std::vector<const TapeNode*> reach(const TapeNode& root) {
  std::vector<const TapeNode*> nodes{&root};
  std::unordered_set<const TapeNode*> seen{&root};
  for (size_t next = 0; next < nodes.size(); ++next)
    for (const TapeEdge& edge : nodes[next]->edges())
      if (edge && seen.insert(&*edge.node).second) nodes.push_back(&*edge.node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const TapeNode* a, const TapeNode* b) { return a->number() < b->number(); });
  return nodes;
}

TapeGraph collect_tape(const Variable& root) {
  if (!root.defined() || !root.edge())
    fail<AutogradError>("picture: the variable has no history to draw");
  TapeGraph graph;
  Grouping grouping(graph);
  CountSaved count(graph);
  Places places;
  for (const TapeNode* node : reach(*root.edge().node)) {
    places[node] = int(graph.vertices.size());
    if (node->is_leaf()) {
      graph.vertices.push_back(describe_leaf(static_cast<const Leaf&>(*node)));
      continue;
    }
    if (node->is_freed())
      fail<AutogradError>("picture: the graph was freed by a backward at ", describe(*node),
                          "; draw it before, or pass {.retain_graph = true}");
    graph.vertices.push_back({});
    TapeGraph::Vertex& vertex = graph.vertices.back();
    vertex.name = node->name();
    vertex.where =
        std::string(node->where().file_name()) + ':' + std::to_string(node->where().line());
    vertex.group = grouping.enter(node->scope());
    count.vertex = &vertex;
    node->visit_saved(count);
    for (const TapeEdge& edge : node->edges()) {
      if (!edge) continue;
      const TapeGraph::Edge found{places.at(&*edge.node), places.at(node)};
      auto known = graph.edges.rbegin();  // edges to this node are the last ones
      while (known != graph.edges.rend() && known->to == found.to && *known != found) ++known;
      if (known == graph.edges.rend() || known->to != found.to) graph.edges.push_back(found);
    }
  }
  graph.vertices[size_t(places.at(&*root.edge().node))].is_root = true;
  learn_values(root, places, graph);
  place_leaves(graph);
  shorten_leaves(graph);
  return graph;
}

std::string format_bytes(int64_t bytes) {
  const char* units[] = {"B", "KB", "MB", "GB", "TB"};
  double amount = double(bytes);
  int unit = 0;
  for (; amount >= 1000 && unit < 4; ++unit) amount /= 1000;
  return absl::StrFormat("%.*f %s", unit > 0 && amount < 100 ? 1 : 0, amount, units[unit]);
}

}  // namespace tapegrad
