#include "core/inspect/tape_picture.h"

#include <algorithm>
#include <fstream>

#include "core/base/error.h"
#include "core/base/internal/classic_text.h"
#include "core/base/internal/escaped_text.h"
#include "core/inspect/internal/tape_graph.h"
#include "core/inspect/internal/tape_layout.h"

namespace tapegrad {
namespace {

using Box = TapeLayout::Box;
using Point = TapeLayout::Point;

constexpr double kLine = 15, kMargin = 10, kTop = 44;

std::vector<std::string> lines_of(const TapeGraph::Vertex& vertex) {
  std::vector<std::string> lines{vertex.name};
  lines.insert(lines.end(), vertex.values.begin(), vertex.values.end());
  if (vertex.saved_bytes > 0) lines.push_back("saves " + format_bytes(vertex.saved_bytes));
  if (vertex.recomputed > 0)
    lines.push_back("recomputes " + std::to_string(vertex.recomputed) +
                    (vertex.recomputed > 1 ? " values" : " value"));
  return lines;
}

std::string summary(const TapeGraph& graph) {
  const auto leaves = std::count_if(graph.vertices.begin(), graph.vertices.end(),
                                    [](const auto& vertex) { return vertex.is_leaf; });
  ClassicText text;
  text << graph.vertices.size() - size_t(leaves) << " ops, " << leaves << " leaves, "
       << format_bytes(graph.saved_bytes) << " saved for the backward pass";
  return text.str();
}

/// Upper estimate of the width of text in the picture's font.
double text_width(const std::string& text, double size) {
  return 0.58 * size * double(text.size());
}

Box size_of(const TapeGraph::Vertex& vertex) {
  Box box;
  bool first = true;
  for (const std::string& line : lines_of(vertex)) {
    box.width = std::max(box.width, text_width(line, first ? 13 : 11));
    box.height += kLine;
    first = false;
  }
  box.width += 20;
  box.height += 10;
  return box;
}

/// Draws a curve downwards with vertical ends; between two points of a passing edge it is a
/// straight line.
void draw_edge(std::ostream& out, const std::vector<Point>& points) {
  out << "<path d=\"M" << points[0].x << ' ' << points[0].y;
  for (size_t i = 1; i < points.size(); ++i) {
    const Point& a = points[i - 1];
    const Point& b = points[i];
    const double pull = std::max(10.0, (b.y - a.y) / 2);
    if (a.x == b.x)
      out << " L" << b.x << ' ' << b.y;
    else
      out << " C" << a.x << ' ' << a.y + pull << ' ' << b.x << ' ' << b.y - pull << ' ' << b.x
          << ' ' << b.y;
  }
  out << "\"/>\n";
}

void draw_group(std::ostream& out, const TapeGraph::Group& group, const Box& box) {
  out << "<rect class=\"group\" x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width
      << "\" height=\"" << box.height << "\" rx=\"8\"/>\n<text class=\"group\" x=\"" << box.x + 10
      << "\" y=\"" << box.y + 17 << "\">" << xml_escape(group.name) << "</text>\n";
}

void draw_vertex(std::ostream& out, const TapeGraph::Vertex& vertex, const Box& box) {
  const char* kind = vertex.is_root ? "root" : vertex.is_leaf ? "leaf" : "op";
  out << "<g class=\"" << kind << "\"><title>" << xml_escape(vertex.name);
  if (!vertex.where.empty()) out << ", recorded at " << xml_escape(vertex.where);
  out << "</title>\n<rect x=\"" << box.x << "\" y=\"" << box.y << "\" width=\"" << box.width
      << "\" height=\"" << box.height << "\" rx=\"" << (vertex.is_leaf ? box.height / 2 : 5)
      << "\"/>\n";
  double y = box.y + 17;
  bool first = true;
  for (const std::string& line : lines_of(vertex)) {
    out << "<text" << (first ? " class=\"name\"" : "") << " x=\"" << box.x + box.width / 2
        << "\" y=\"" << y << "\">" << xml_escape(line) << "</text>\n";
    y += kLine;
    first = false;
  }
  out << "</g>\n";
}

constexpr const char* kStyle = R"(<style>
text { font: 11px Helvetica, Arial, sans-serif; fill: #3c4650; text-anchor: middle }
text.name { font-size: 13px; font-weight: bold; fill: #16202a }
text.group { font-weight: bold; fill: #6b7680; text-anchor: start }
text.title { font-size: 14px; font-weight: bold; fill: #16202a; text-anchor: start }
text.note { text-anchor: start }
rect.group { fill: #5b7083; fill-opacity: 0.07; stroke: #9aa8b5; stroke-dasharray: 4 3 }
g.op rect { fill: #e4eefb; stroke: #5b83b8 }
g.leaf rect { fill: #fdf1dc; stroke: #c99a45 }
g.root rect { fill: #dff3e4; stroke: #3f8f5b; stroke-width: 2 }
path { fill: none; stroke: #71808e; stroke-width: 1.2; marker-end: url(#tip) }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<polygon points="0,0.5 8,4 0,7.5" fill="#71808e"/></marker></defs>
)";

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail<IoError>("picture: cannot write ", path);
}

}  // namespace

std::string tape_svg(const Variable& root) {
  const TapeGraph graph = collect_tape(root);
  std::vector<Box> sizes;
  for (const TapeGraph::Vertex& vertex : graph.vertices) sizes.push_back(size_of(vertex));
  const TapeLayout layout = lay_out(graph, sizes);

  const std::string note = "values flow down, gradients up";
  const double width =
      std::max({layout.groups[0].width, text_width(summary(graph), 14), text_width(note, 11)}) +
      2 * kMargin;
  ClassicText out;
  out.precision(6);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << width << "\" height=\""
      << layout.groups[0].height + kTop + kMargin << "\">\n"
      << kStyle << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      << "<text class=\"title\" x=\"" << kMargin << "\" y=\"20\">" << xml_escape(summary(graph))
      << "</text>\n<text class=\"note\" x=\"" << kMargin << "\" y=\"36\">" << note
      << "</text>\n<g transform=\"translate(" << (width - layout.groups[0].width) / 2 << ' ' << kTop
      << ")\">\n";
  for (size_t g = 1; g < graph.groups.size(); ++g)
    draw_group(out, graph.groups[g], layout.groups[g]);
  for (const std::vector<Point>& edge : layout.edges) draw_edge(out, edge);
  for (size_t v = 0; v < graph.vertices.size(); ++v)
    draw_vertex(out, graph.vertices[v], layout.vertices[v]);
  out << "</g>\n</svg>\n";
  return out.str();
}

std::string tape_dot(const Variable& root) {
  const TapeGraph graph = collect_tape(root);
  ClassicText out;
  out << "digraph tape {\n  label=\"" << summary(graph) << "\";\n  labelloc=t;\n"
      << "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#e4eefb\", fontsize=11];\n";
  const auto quoted = [](const std::string& text) {
    std::string safe;
    for (const char c : text) {
      if (c == '"' || c == '\\') safe += '\\';
      safe += c;
    }
    return safe;
  };
  // A group is written where its first member occurs; nested groups follow their parent.
  const auto write_group = [&](const auto& self, int g, std::string indent) -> void {
    for (size_t v = 0; v < graph.vertices.size(); ++v) {
      const TapeGraph::Vertex& vertex = graph.vertices[v];
      if (vertex.group != g) continue;
      out << indent << 'v' << v << " [label=\"";
      const char* separator = "";
      for (const std::string& line : lines_of(vertex)) {
        out << separator << quoted(line);
        separator = "\\n";
      }
      out << '"';
      if (vertex.is_leaf) out << ", fillcolor=\"#fdf1dc\", shape=ellipse";
      if (vertex.is_root) out << ", fillcolor=\"#dff3e4\"";
      if (!vertex.where.empty()) out << ", tooltip=\"" << quoted(vertex.where) << '"';
      out << "];\n";
    }
    for (size_t child = 1; child < graph.groups.size(); ++child) {
      if (graph.groups[child].parent != g) continue;
      out << indent << "subgraph cluster_" << child << " {\n"
          << indent << "  label=\"" << quoted(graph.groups[child].name) << "\";\n";
      self(self, int(child), indent + "  ");
      out << indent << "}\n";
    }
  };
  write_group(write_group, 0, "  ");
  for (const TapeGraph::Edge& edge : graph.edges)
    out << "  v" << edge.from << " -> v" << edge.to << ";\n";
  out << "}\n";
  return out.str();
}

void write_svg(const Variable& root, const std::string& path) { write(path, tape_svg(root)); }
void write_dot(const Variable& root, const std::string& path) { write(path, tape_dot(root)); }

}  // namespace tapegrad
