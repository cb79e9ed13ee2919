// Where the boxes and lines of a picture of the tape go.
#pragma once

#include <vector>

#include "core/inspect/internal/tape_graph.h"

namespace tapegrad {

struct TapeLayout {
  struct Point {
    double x = 0, y = 0;
  };
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;  // of the upper left corner
  };

  std::vector<Box> vertices;              // as the graph's
  std::vector<Box> groups;                // groups[0] is the whole
  std::vector<std::vector<Point>> edges;  // from the first point to the last, by way of the others
};

/// Layers from top to bottom, as Sugiyama, Tagawa and Toda (1981) draw them: ranks by the longest
/// path, an order within each rank by the mean place of the neighbours, then places that are as
/// near to it as the widths allow. Each group is laid out by itself and is one box for what is
/// around it, so that groups never overlap. `sizes` gives each vertex's width and height.
TapeLayout lay_out(const TapeGraph& graph, const std::vector<TapeLayout::Box>& sizes);

}  // namespace tapegrad
