// Pictures of the tape: their content, and that they are well-formed XML.
#include "core/inspect/profiler.h"
#include "core/inspect/tape_picture.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "core/autograd/checkpoint.h"
#include "core/inspect/internal/tape_graph.h"
#include "core/inspect/internal/tape_layout.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/loss.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

// The network of docs/tape.svg.
struct Net : nn::Model<Net> {
  nn::Conv2d conv1{{.in_channels = 1, .out_channels = 32, .kernel_size = 3}};
  nn::Conv2d conv2{{.in_channels = 32, .out_channels = 64, .kernel_size = 3}};
  nn::Linear fc1{{.in_features = 9216, .out_features = 128}};
  nn::Linear fc2{{.in_features = 128, .out_features = 10}};

  void members(nn::Members& m) override {
    m("conv1", conv1)("conv2", conv2)("fc1", fc1)("fc2", fc2);
  }
  Variable forward(const Variable& x) const {
    Variable y = max_pool2d(relu(conv2(relu(conv1(x)))), {.kernel_size = 2});
    return fc2(dropout(relu(fc1(flatten(y, 1))), 0.5, is_training()));
  }
};

Variable network_loss(Net& net) {
  return cross_entropy(net(zeros({4, 1, 28, 28})), zeros({4}, {.dtype = i64}));
}

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

/// Expects tags that are closed in the right order, and text and attributes without raw markup
/// characters.
void expect_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = xml.find('<'); at != xml.npos; at = xml.find('<', at + 1)) {
    const size_t end = xml.find('>', at);
    ASSERT_NE(end, xml.npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    EXPECT_EQ(tag.find('<'), tag.npos) << tag;
    EXPECT_EQ(count(tag, "\"") % 2, 0u) << tag;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), tag.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
  for (size_t at = xml.find('&'); at != xml.npos; at = xml.find('&', at + 1))
    EXPECT_TRUE(xml.compare(at, 4, "&lt;") == 0 || xml.compare(at, 4, "&gt;") == 0 ||
                xml.compare(at, 5, "&amp;") == 0 || xml.compare(at, 6, "&quot;") == 0);
}

TEST(Picture, S4_05_TheReadmesModel) {
  Net net;
  const Variable loss = network_loss(net);
  const std::string svg = tape_svg(loss);
  expect_well_formed(svg);
  for (const char* part :
       {"Net", "conv1", "conv2", "fc1", "fc2", "conv2d", "linear", "max_pool2d", "weight", "bias",
        "float32 [4, 32, 26, 26]", "float32 [4, 128]", "saves "})
    EXPECT_NE(svg.find(part), svg.npos) << part;
  EXPECT_EQ(count(svg, "class=\"leaf\""), 8u);
  EXPECT_EQ(count(svg, "class=\"root\""), 1u);
  EXPECT_EQ(count(svg, "<rect class=\"group\""), 5u) << "the net and its four layers";
  EXPECT_NE(svg.find("picture_test.cpp:"), svg.npos) << "lines as tooltips";
  EXPECT_FALSE(net.conv1.weight.grad().defined()) << "drawing changes no gradient";
  loss.backward();
  EXPECT_TRUE(net.fc1.weight.grad().defined());
}

TEST(Picture, Dot) {
  Net net;
  const std::string dot = tape_dot(network_loss(net));
  EXPECT_TRUE(dot.starts_with("digraph tape {") && dot.ends_with("}\n"));
  EXPECT_EQ(count(dot, "subgraph cluster_"), 5u);
  EXPECT_EQ(count(dot, "{"), count(dot, "}"));
  EXPECT_NE(dot.find("label=\"fc1\""), dot.npos);
  EXPECT_NE(dot.find("float32 [128, 9216]"), dot.npos);
}

TEST(Picture, IsNotProfiled) {
  Net net;
  const Variable loss = network_loss(net);
  Profiler profiler;
  tape_svg(loss);
  EXPECT_TRUE(profiler.entries().empty());
  loss.backward();
  EXPECT_FALSE(profiler.entries().empty());
}

TEST(Picture, BytesSaved) {
  const Variable x = leaf({1, 2, 3, 4});
  const TapeGraph graph = collect_tape(sum(exp(x) * x));
  const auto find = [&](std::string_view name) {
    return *std::find_if(graph.vertices.begin(), graph.vertices.end(),
                         [&](const auto& vertex) { return vertex.name == name; });
  };
  EXPECT_EQ(find("exp").saved_bytes, 32) << "its result";
  EXPECT_EQ(find("mul").saved_bytes, 64) << "both factors";
  EXPECT_EQ(graph.saved_bytes, 64) << "the result of exp and x, each once";
  EXPECT_EQ(find("mul").values, std::vector<std::string>{"float64 [4]"});
  EXPECT_EQ(find("leaf").values, std::vector<std::string>{"float64 [4]"});
  EXPECT_EQ(graph.edges.size(), 4u);
  EXPECT_TRUE(graph.vertices.back().is_root);

  const TapeGraph less = collect_tape(checkpoint([](const Variable& x) { return exp(x) * x; }, x));
  EXPECT_EQ(less.saved_bytes, 0);
  EXPECT_EQ(less.vertices.back().recomputed, 2);
}

TEST(Picture, AModuleThatRunsTwiceIsDrawnTwice) {
  struct Twice : nn::Model<Twice> {
    nn::Linear fc{{.in_features = 2, .out_features = 2}};
    void members(nn::Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) const { return fc(tanh(fc(x))); }
  } net;
  const TapeGraph graph = collect_tape(sum(net(ones({1, 2}))));
  EXPECT_EQ(std::count_if(graph.groups.begin(), graph.groups.end(),
                          [](const auto& group) { return group.name == "fc"; }),
            2);
  for (const auto& vertex : graph.vertices) {
    if (!vertex.is_leaf) continue;
    EXPECT_EQ(graph.groups[size_t(vertex.group)].name, "Twice") << "shared by both";
  }
}

bool overlap(const TapeLayout::Box& a, const TapeLayout::Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}
bool contains(const TapeLayout::Box& a, const TapeLayout::Box& b) {
  return a.x <= b.x && a.y <= b.y && b.x + b.width <= a.x + a.width &&
         b.y + b.height <= a.y + a.height;
}

TEST(Picture, NothingOverlaps) {
  Net net;
  const Variable x = leaf({1, 2});
  Variable skip = x;
  for (int i = 0; i < 5; ++i) skip = tanh(skip) * x + skip;  // edges that skip ranks
  for (const Variable& root : {network_loss(net), sum(skip)}) {
    const TapeGraph graph = collect_tape(root);
    const std::vector<TapeLayout::Box> sizes(graph.vertices.size(), {0, 0, 80, 40});
    const TapeLayout layout = lay_out(graph, sizes);
    for (size_t i = 0; i < layout.vertices.size(); ++i) {
      for (size_t k = 0; k < i; ++k)
        EXPECT_FALSE(overlap(layout.vertices[i], layout.vertices[k])) << i << ' ' << k;
      for (size_t g = 0; g < graph.groups.size(); ++g)
        EXPECT_EQ(contains(layout.groups[g], layout.vertices[i]),
                  graph.is_within(graph.vertices[i].group, int(g)))
            << "vertex " << i << ", group " << g;
    }
    for (size_t e = 0; e < graph.edges.size(); ++e)
      for (size_t i = 1; i < layout.edges[e].size(); ++i)
        EXPECT_LE(layout.edges[e][i - 1].y, layout.edges[e][i].y) << "edges go down";
  }
}

TEST(Picture, FilesAndErrors) {
  const std::string svg = ::testing::TempDir() + "tapegrad_tape.svg";
  const std::string dot = ::testing::TempDir() + "tapegrad_tape.dot";
  const Variable x = leaf({1, 2}), y = sum(exp(x));
  write_svg(y, svg);
  write_dot(y, dot);
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    std::remove(path.c_str());
    return text.str();
  };
  EXPECT_EQ(text_of(svg), tape_svg(y));
  EXPECT_EQ(text_of(dot), tape_dot(y));
  EXPECT_THROW(write_svg(y, svg + "/none/tape.svg"), IoError);
  EXPECT_THROW(write_svg(make({1}), svg), AutogradError);
  y.backward();
  expect_error<AutogradError>([&] { tape_svg(y); }, {"freed", "retain_graph"});
  expect_well_formed(tape_svg(x));  // a leaf without a graph
}

TEST(Picture, HooksDoNotSeeTheDrawing) {
  const Variable x = leaf({1, 2}), y = exp(x);
  int calls = 0;
  y.register_hook([&](const Variable&) { return ++calls, Variable(); });
  x.register_hook([&](const Variable&) { return ++calls, Variable(); });
  y.grad_fn()->register_hook([&](std::span<Variable>, std::span<const Variable>) { ++calls; });
  tape_svg(sum(y));
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace tapegrad::testing
