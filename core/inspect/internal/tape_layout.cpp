#include "core/inspect/internal/tape_layout.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

namespace tapegrad {
namespace {

constexpr double kPadding = 14, kTitle = 18;  // of a group
constexpr double kGapX = 22, kGapY = 34;      // between boxes
constexpr double kPassWidth = 8;              // width of an edge that passes a rank
constexpr int kOrderSweeps = 8, kPlaceSweeps = 24;

using Box = TapeLayout::Box;
using Point = TapeLayout::Point;

/// An item in a rank of its group: a vertex, a group, or the place where a long edge passes the
/// rank.
struct Item {
  int vertex = -1, group = -1;
  double width = 0, height = 0;
  double x = 0, y = 0;  // x of the centre, y of the upper edge
  int rank = 0;
  std::vector<size_t> above = {}, below = {};

  bool is_pass() const { return vertex < 0 && group < 0; }
};

/// Positions items as close as possible to the wanted positions (weighted least squares), keeping
/// order and distances: neighbours that would overlap move as one block, to the mean of their
/// wanted positions.
void place_row(std::vector<Item>& items, const std::vector<size_t>& row,
               const std::vector<double>& wanted) {
  struct Block {
    double sum, weight;
    size_t count;
    double mean() const { return sum / weight; }
  };
  std::vector<Block> blocks;
  std::vector<double> offsets;  // offset of each item from the start of its densely packed row
  double offset = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const Item& item = items[row[i]];
    if (i > 0) offset += items[row[i - 1]].width / 2 + kGapX + item.width / 2;
    offsets.push_back(offset);
    const double weight = item.is_pass() ? 8 : 1;
    blocks.push_back({(wanted[i] - offset) * weight, weight, 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back() = {blocks.back().sum + last.sum, blocks.back().weight + last.weight,
                       blocks.back().count + last.count};
    }
  }
  size_t i = 0;
  for (const Block& block : blocks)
    for (size_t k = 0; k < block.count; ++k, ++i) items[row[i]].x = block.mean() + offsets[i];
}

class Layouter {
 public:
  Layouter(const TapeGraph& graph, const std::vector<Box>& sizes) : graph_(graph) {
    layout_.vertices = sizes;
    layout_.groups.resize(graph.groups.size());
    layout_.edges.resize(graph.edges.size());
    parts_.resize(graph.groups.size());
    routes_.resize(graph.edges.size());
  }

  TapeLayout run() {
    collect_items();
    collect_ways();
    for (size_t g = parts_.size(); g-- > 0;) lay_out_group(g);  // inner groups first
    place_group(0, {0, 0});
    draw_edges();
    return std::move(layout_);
  }

 private:
  /// The part of an edge within one group: between two items, from a vertex outside, or to the
  /// outside.
  struct Way {
    int from_item = -1, from_outside = -1;
    int to_item = -1;  // -1: leaves at the bottom
    auto operator<=>(const Way&) const = default;
  };
  struct Part {
    std::vector<Item> items;
    std::map<Way, std::vector<size_t>> ways;  // the passing items of each way, from top to bottom
    std::vector<std::vector<size_t>> ranks;
  };

  void collect_items() {
    vertex_items_.resize(graph_.vertices.size());
    group_items_.resize(graph_.groups.size());
    std::vector<bool> entered(graph_.groups.size());
    entered[0] = true;
    // Leaves come first in the graph, so groups are ordered by their oldest op.
    for (int pass = 0; pass < 2; ++pass)
      for (size_t i = 0; i < graph_.vertices.size(); ++i) {
        const TapeGraph::Vertex& vertex = graph_.vertices[i];
        if (vertex.is_leaf != (pass == 0)) continue;
        vertex_items_[i] = add(size_t(vertex.group), {.vertex = int(i),
                                                      .width = layout_.vertices[i].width,
                                                      .height = layout_.vertices[i].height});
        if (pass == 0) continue;
        for (size_t g = size_t(vertex.group); !entered[g]; g = size_t(graph_.groups[g].parent)) {
          entered[g] = true;
          group_items_[g] = add(size_t(graph_.groups[g].parent), {.group = int(g)});
        }
      }
  }

  size_t add(size_t group, Item item) {
    parts_[group].items.push_back(std::move(item));
    return parts_[group].items.size() - 1;
  }

  /// An edge leaves the groups of its source, crosses the smallest group that contains both ends,
  /// and enters the groups of its target.
  void collect_ways() {
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      const TapeGraph::Edge& edge = graph_.edges[e];
      int from = graph_.vertices[size_t(edge.from)].group;
      int to = graph_.vertices[size_t(edge.to)].group;
      int from_item = int(vertex_items_[size_t(edge.from)]);
      int to_item = int(vertex_items_[size_t(edge.to)]);
      std::vector<std::pair<size_t, Way>> out, in;
      while (from != to) {
        if (from > to) {
          out.push_back({size_t(from), {.from_item = from_item}});
          from_item = int(group_items_[size_t(from)]);
          from = graph_.groups[size_t(from)].parent;
        } else {
          in.push_back({size_t(to), {.from_outside = edge.from, .to_item = to_item}});
          to_item = int(group_items_[size_t(to)]);
          to = graph_.groups[size_t(to)].parent;
        }
      }
      out.push_back({size_t(from), {.from_item = from_item, .to_item = to_item}});
      out.insert(out.end(), in.rbegin(), in.rend());
      for (const auto& [group, way] : out) {
        Part& part = parts_[group];
        if (!part.ways.try_emplace(way).second || way.from_item < 0 || way.to_item < 0) continue;
        part.items[size_t(way.from_item)].below.push_back(size_t(way.to_item));
        part.items[size_t(way.to_item)].above.push_back(size_t(way.from_item));
      }
      routes_[e] = std::move(out);
    }
  }

  void lay_out_group(size_t g) {
    Part& part = parts_[g];
    for (Item& item : part.items)
      if (item.group >= 0) {
        item.width = layout_.groups[size_t(item.group)].width;
        item.height = layout_.groups[size_t(item.group)].height;
      }
    set_ranks(part);
    add_passes(part);
    order(part);
    place(part);
    set_sizes(part, layout_.groups[g], g == 0);
  }

  static void set_ranks(Part& part) {
    // Items are ordered by their oldest op, groups are contiguous on the tape, and edges lead from
    // older to younger items, so that one pass suffices.
    for (Item& item : part.items)
      for (const size_t above : item.above)
        item.rank = std::max(item.rank, part.items[above].rank + 1);
    for (Item& item : part.items) {
      if (!item.above.empty() || item.below.empty()) continue;
      int rank = part.items[item.below[0]].rank;
      for (const size_t below : item.below) rank = std::min(rank, part.items[below].rank);
      item.rank = rank - 1;  // directly above its consumer
    }
  }

  static void add_passes(Part& part) {
    int bottom = 0;
    for (const Item& item : part.items) bottom = std::max(bottom, item.rank);
    const auto join = [&](int above, int below) {
      if (above < 0 || below < 0) return;
      part.items[size_t(above)].below.push_back(size_t(below));
      part.items[size_t(below)].above.push_back(size_t(above));
    };
    for (auto& [way, passes] : part.ways) {
      const int first = way.from_item < 0 ? 0 : part.items[size_t(way.from_item)].rank + 1;
      const int end = way.to_item < 0 ? bottom + 1 : part.items[size_t(way.to_item)].rank;
      if (first >= end) continue;
      if (way.from_item >= 0 && way.to_item >= 0) {
        std::erase(part.items[size_t(way.from_item)].below, size_t(way.to_item));
        std::erase(part.items[size_t(way.to_item)].above, size_t(way.from_item));
      }
      int last = way.from_item;
      for (int rank = first; rank < end; ++rank) {
        const int next = int(part.items.size());
        part.items.push_back({.width = kPassWidth, .rank = rank});
        passes.push_back(size_t(next));
        join(last, next);
        last = next;
      }
      join(last, way.to_item);
    }
    for (size_t i = 0; i < part.items.size(); ++i) {
      const size_t rank = size_t(part.items[i].rank);
      if (part.ranks.size() <= rank) part.ranks.resize(rank + 1);
      std::vector<size_t>& row = part.ranks[rank];  // passing items start in the middle
      row.insert(
          part.items[i].is_pass() ? row.begin() + std::ptrdiff_t(row.size() + 1) / 2 : row.end(),
          i);
    }
  }

  static void order(Part& part) {
    std::vector<double> place(part.items.size());
    const auto note = [&](const std::vector<size_t>& row) {
      for (size_t i = 0; i < row.size(); ++i) place[row[i]] = double(i) - double(row.size()) / 2;
    };
    const auto sort_by = [&](std::vector<size_t>& row, std::vector<size_t> Item::*side) {
      std::vector<double> wanted(part.items.size());
      for (const size_t i : row) {
        const std::vector<size_t>& others = part.items[i].*side;
        double sum = 0;
        for (const size_t other : others) sum += place[other];
        wanted[i] = others.empty() ? place[i] : sum / double(others.size());
      }
      std::stable_sort(row.begin(), row.end(),
                       [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
      note(row);
    };
    for (const auto& row : part.ranks) note(row);
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) {
      for (size_t r = 1; r < part.ranks.size(); ++r) sort_by(part.ranks[r], &Item::above);
      for (size_t r = part.ranks.size(); r-- > 1;) sort_by(part.ranks[r - 1], &Item::below);
    }
  }

  static void place(Part& part) {
    const auto place_by = [&](const std::vector<size_t>& row, bool use_above, bool use_below) {
      std::vector<double> wanted;
      for (const size_t i : row) {
        const Item& item = part.items[i];
        double sum = 0;
        size_t count = 0;
        const auto add = [&](const std::vector<size_t>& others) {
          for (const size_t other : others) sum += part.items[other].x;
          count += others.size();
        };
        if (use_above) add(item.above);
        if (use_below) add(item.below);
        wanted.push_back(count > 0 ? sum / double(count) : item.x);
      }
      place_row(part.items, row, wanted);
    };
    for (const auto& row : part.ranks) place_by(row, false, false);
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      const bool last = sweep + 4 >= kPlaceSweeps;
      for (size_t r = 1; r < part.ranks.size(); ++r) place_by(part.ranks[r], true, last);
      for (size_t r = part.ranks.size(); r-- > 1;) place_by(part.ranks[r - 1], last, true);
    }
    double y = 0;
    for (const auto& row : part.ranks) {
      double height = 0;
      for (const size_t i : row) height = std::max(height, part.items[i].height);
      for (const size_t i : row) {
        Item& item = part.items[i];
        if (item.is_pass()) item.height = height;
        item.y = y + (height - item.height) / 2;
      }
      y += height + kGapY;
    }
  }

  static void set_sizes(Part& part, Box& box, bool whole) {
    double left = 0, right = 0, bottom = 0;
    for (size_t i = 0; i < part.items.size(); ++i) {
      const Item& item = part.items[i];
      left = i == 0 ? item.x - item.width / 2 : std::min(left, item.x - item.width / 2);
      right = i == 0 ? item.x + item.width / 2 : std::max(right, item.x + item.width / 2);
      bottom = std::max(bottom, item.y + item.height);
    }
    const double top = kPadding + (whole ? 0 : kTitle);
    for (Item& item : part.items) {
      item.x += kPadding - left;
      item.y += top;
    }
    box.width = right - left + 2 * kPadding;
    box.height = top + bottom + kPadding;
  }

  void place_group(size_t g, Point corner) {
    layout_.groups[g].x = corner.x;
    layout_.groups[g].y = corner.y;
    for (Item& item : parts_[g].items) {
      item.x += corner.x;
      item.y += corner.y;
      const Point at{item.x - item.width / 2, item.y};
      if (item.vertex >= 0) {
        layout_.vertices[size_t(item.vertex)].x = at.x;
        layout_.vertices[size_t(item.vertex)].y = at.y;
      }
      if (item.group >= 0) place_group(size_t(item.group), at);
    }
  }

  void draw_edges() {
    std::vector<std::vector<size_t>> incoming(graph_.vertices.size());
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      const Box& from = layout_.vertices[size_t(graph_.edges[e].from)];
      std::vector<Point>& points = layout_.edges[e];
      points.push_back({from.x + from.width / 2, from.y + from.height});
      for (const auto& [group, way] : routes_[e])
        for (const size_t i : parts_[group].ways.at(way)) {
          const Item& pass = parts_[group].items[i];
          points.push_back({pass.x, pass.y});
          points.push_back({pass.x, pass.y + pass.height});
        }
      incoming[size_t(graph_.edges[e].to)].push_back(e);
    }
    for (size_t v = 0; v < incoming.size(); ++v) {  // spread entering edges side by side, in order
      std::vector<size_t>& edges = incoming[v];
      std::stable_sort(edges.begin(), edges.end(), [&](size_t a, size_t b) {
        return layout_.edges[a].back().x < layout_.edges[b].back().x;
      });
      const Box& box = layout_.vertices[v];
      const double step =
          std::min(18.0, 0.7 * box.width / double(std::max<size_t>(1, edges.size())));
      for (size_t i = 0; i < edges.size(); ++i)
        layout_.edges[edges[i]].push_back(
            {box.x + box.width / 2 + (double(i) - double(edges.size() - 1) / 2) * step, box.y});
    }
  }

  const TapeGraph& graph_;
  TapeLayout layout_;
  std::vector<Part> parts_;
  std::vector<size_t> vertex_items_, group_items_;
  std::vector<std::vector<std::pair<size_t, Way>>> routes_;  // for each edge: the groups it crosses
                                                             // and its way in each
};

}  // namespace

TapeLayout lay_out(const TapeGraph& graph, const std::vector<Box>& sizes) {
  return Layouter(graph, sizes).run();
}

}  // namespace tapegrad
