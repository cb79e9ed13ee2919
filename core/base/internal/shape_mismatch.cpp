#include "core/base/internal/shape_mismatch.h"

#include <algorithm>
#include <vector>

namespace tapegrad {

std::string draw_mismatch(std::initializer_list<MarkedShape> shapes) {
  struct Line {
    std::string text = "[", mark = " ";
  };
  std::vector<Line> lines;
  size_t names = 0, width = 0;
  for (const MarkedShape& each : shapes) {
    Line line;
    for (int i = 0; i < each.shape.rank(); ++i) {
      const std::string size = std::to_string(each.shape[i]);
      line.text += (i > 0 ? ", " : "") + size;
      line.mark +=
          std::string(i > 0 ? 2 : 0, ' ') + std::string(size.size(), i == each.dim ? '^' : ' ');
    }
    line.text += ']';
    line.mark.erase(line.mark.find_last_not_of(' ') + 1);
    names = std::max(names, each.name.size());
    width = std::max(width, line.text.size());
    lines.push_back(std::move(line));
  }
  std::string drawn;
  const MarkedShape* each = shapes.begin();
  for (const Line& line : lines) {
    const size_t indent = names > 0 ? names + 1 : width - line.text.size();
    std::string name(each++->name);
    name.resize(indent, ' ');
    drawn += "\n    " + name + line.text;
    if (!line.mark.empty()) drawn += "\n    " + std::string(indent, ' ') + line.mark;
  }
  return drawn;
}

int mismatched_dim(const Shape& a, const Shape& b) {
  int dim = 0;
  while (dim < a.rank() && dim < b.rank() && a[dim] == b[dim]) ++dim;
  return dim;
}

std::string draw_difference(std::string_view a_name, const Shape& a, std::string_view b_name,
                            const Shape& b) {
  return draw_mismatch({{a_name, a, mismatched_dim(a, b)}, {b_name, b, mismatched_dim(a, b)}});
}

}  // namespace tapegrad
