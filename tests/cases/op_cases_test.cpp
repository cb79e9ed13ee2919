// Runs every generic test on every row of the case table. Tests are named <family>.<op>/<number of
// the case>/<test>; for example --gtest_filter='unary.exp/0/*'.
//
//   values     the result equals the reference, in every dtype
//   layouts    strided inputs give the results and gradients of contiguous ones (T05)
//   gradients  gradcheck to the order that the catalog states; each dtype against float64 (T21)
//   third      for some ops: gradcheck to order 3 (T21)
//   empties    sizes set to 0: a result or a typed error, and gradients of the right shape
//   operands   a call changes no operand and leaves no node behind
//   autocast   in a bfloat16 scope, results equal those without it up to the rounding of bfloat16
//   implementations  see op_implementations_test.cpp
//   recorded   see op_recorded_test.cpp
//
// The tests run on the default device: with TAPEGRAD_DEVICE=cuda on a GPU, or on the stand-in
// (tests/cuda_on_host).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/autograd/gradcheck.h"
#include "core/base/error.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "tests/cases/op_case_run.h"
#include "tests/cases/op_families.h"

namespace tapegrad::testing {
namespace {

void test_values(const Case& c) {
  const bool random = c.traits().random || c.row().op.starts_with("empty");
  ASSERT_TRUE(c.row().reference || random) << "a case needs a reference";
  for (DType dtype : c.row().dtypes) {
    SCOPED_TRACE(name(dtype));
    std::vector<Array> arrays;
    const std::vector<Tensor> operands = c.operands(dtype);
    for (const Tensor& x : operands) arrays.push_back(to_array(x));
    const NoGrad off;
    const Variables ys = c.call(constants(operands));
    ASSERT_FALSE(ys.empty());
    EXPECT_FALSE(ys[0].requires_grad());
    if (!c.row().reference) continue;
    EXPECT_EQ(mismatch(to_array(ys[0].value()), c.row().reference(arrays),
                       c.row().tolerance * epsilon(ys[0].dtype())),
              "");
  }
}

void test_layouts(const Case& c) {
  for (DType dtype : c.row().dtypes) {
    const std::vector<Tensor> dense = c.operands(dtype);
    const Results plain = run(c, dense);
    for (size_t i = 0; i < c.slots(); ++i) {
      if (!c.slot(i) || (c.traits().inplace && i == 0)) continue;
      for (Arrangement arrangement : kArrangements) {
        SCOPED_TRACE(std::string(name(dtype)) + ", input " + std::to_string(i) + ' ' +
                     name(arrangement));
        std::vector<Tensor> strided = dense;
        strided[i] = arrange(dense[i], arrangement);
        if (!strided[i]) continue;
        Results expected = plain;
        if (is_expanded(arrangement)) {
          std::vector<Tensor> repeated = strided;
          repeated[i] = strided[i].clone();
          try {
            expected = run(c, repeated);
          } catch (const ArgumentError&) {  // a matrix with equal rows may have no result
            EXPECT_THROW(run(c, strided), ArgumentError);
            continue;
          }
        }
        const Results got = run(c, strided);
        expect_same(c, got.values, expected.values, "value");
        expect_same(c, got.gradients, expected.gradients, "gradient");
      }
    }
  }
}

/// An in-place op writes to the given view and nothing around it.
void test_layouts_of_target(const Case& c) {
  const NoGrad off;
  for (DType dtype : c.row().dtypes) {
    const std::vector<Tensor> dense = c.operands(dtype);
    const Tensor expected = c.call(constants(dense))[0].value();
    for (Arrangement arrangement : kArrangements) {
      SCOPED_TRACE(std::string(name(dtype)) + ", target " + name(arrangement));
      Variables in = constants(dense);
      const Tensor target = move_to(default_device(), arrange(dense[0], arrangement));
      if (!target) continue;
      in[0] = Variable(target);
      const Arguments arguments = c.arguments(in);
      manual_seed(5);
      const OpInfo& info = catalog().find(c.row().op);
      if (is_expanded(arrangement) && overlaps_itself(target.layout())) {
        EXPECT_THROW(info.call(arguments), AutogradError);
        continue;
      }
      if (is_expanded(arrangement)) continue;  // stride 0 in a dimension of size 1
      const Variable y = info.call(arguments)[0];
      EXPECT_TRUE(y.value().shares_storage(target));
      EXPECT_TRUE(same_bits(target, expected));
      EXPECT_GT(target.storage().version(), 0u);
    }
  }
}

void test_gradients(const Case& c) {
  const auto& dtypes = c.row().dtypes;
  if (!c.is_differentiable()) {
    for (const Variable& y : c.call(leaves(c, c.operands(dtypes.at(0)))))
      EXPECT_FALSE(y.requires_grad()) << "the catalog says that it is not differentiable";
    return;
  }
  if (std::find(dtypes.begin(), dtypes.end(), f64) != dtypes.end()) {
    const auto f = [&](const Variables& in) { return c.call(in); };
    const Variables in = leaves(c, c.operands(f64));
    const GradcheckResult result = gradcheck_outputs(f, in, {.order = c.traits().max_order});
    EXPECT_TRUE(result) << result.message;
    if (c.traits().max_order == 1) {
      EXPECT_THROW(gradcheck_outputs(f, in, {.order = 2}), AutogradError);
      return;
    }
    const Results fused = run(c, c.operands(f64)), composed = run(c, c.operands(f64), true);
    for (size_t k = 0; k < fused.gradients.size(); ++k)
      EXPECT_EQ(mismatch(to_array(fused.gradients[k]), to_array(composed.gradients[k]), 1e-12), "")
          << "gradient " << k << " alone and while it is recorded";
  }
  for (DType dtype : dtypes) {
    if (!is_float(dtype) || dtype == f64) continue;
    SCOPED_TRACE(name(dtype));
    const std::vector<Tensor> operands = c.operands(dtype);
    std::vector<Tensor> wide = operands;
    for (Tensor& x : wide)
      if (x && is_float(x.dtype())) x = x.to(f64);
    const Results got = run(c, operands), expected = run(c, wide);
    ASSERT_EQ(got.gradients.size(), expected.gradients.size());
    // over all gradients, since terms may cancel in the gradient of a broadcast operand
    double scale = 0;
    for (const Tensor& dx : expected.gradients)
      scale = std::max(scale, largest_magnitude(to_array(dx)));
    for (size_t k = 0; k < got.gradients.size(); ++k)
      EXPECT_EQ(mismatch(to_array(got.gradients[k]), to_array(expected.gradients[k]),
                         std::max(16.0, 4 * c.row().tolerance) * epsilon(dtype), scale),
                "")
          << "gradient " << k << " against float64";
  }
}

/// Ops of every kind whose first case is checked to third order: elementwise ops, rules that use
/// results, reductions, products, windows, norms, indexing, factorisations, transforms.
constexpr std::string_view kToThirdOrder[] = {"tanh",
                                              "sigmoid",
                                              "gelu",
                                              "div",
                                              "pow",
                                              "atan2",
                                              "lgamma",
                                              "var",
                                              "prod",
                                              "softmax",
                                              "logsumexp",
                                              "cumprod",
                                              "matmul",
                                              "conv1d",
                                              "gather",
                                              "einsum",
                                              "lstm",
                                              "gru",
                                              "layer_norm",
                                              "avg_pool1d",
                                              "linalg.inv",
                                              "linalg.cholesky",
                                              "norm",
                                              "fft.fft",
                                              "mse_loss",
                                              "cross_entropy",
                                              "linalg.eigvalsh"};

void test_third(const Case& c) {
  const auto f = [&](const Variables& in) { return c.call(in); };
  const GradcheckResult result = gradcheck_outputs(f, leaves(c, c.operands(f64)), {.order = 3});
  EXPECT_TRUE(result) << result.message;
}

/// Runs the op with the given shapes, of which some sizes are 0. Expects a result or a typed error.
void run_empty(const Case& c, const std::vector<Shape>& shapes) {
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.slots(); ++i) {
    if (!c.slot(i)) {
      operands.push_back({});
      continue;
    }
    Input input = *c.slot(i);
    input.shape = shapes[i];
    operands.push_back(make_operand(input, c.row().dtypes.at(0), 3));
  }
  Results results;
  try {
    const NoGrad off;
    c.call(constants(operands));
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(": "), std::string::npos) << error.what();
    return;
  }
  ASSERT_NO_THROW(results = run(c, operands)) << "with gradients";
  for (const Tensor& y : results.values)
    if (y.numel() > 0) return;
  for (const Tensor& dx : results.gradients)
    for (double value : to_array(dx).values) EXPECT_EQ(value, 0) << "gradient of nothing";
}

void test_empties(const Case& c) {
  std::vector<Shape> shapes;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < c.slots(); ++i) {
    shapes.push_back(c.slot(i) ? c.slot(i)->shape : Shape{});
    for (int64_t size : shapes.back())
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  const auto trace = [](const std::vector<Shape>& shapes) {
    std::ostringstream text;
    for (const Shape& shape : shapes) text << shape << ' ';
    return text.str();
  };
  for (size_t i = 0; i < c.slots(); ++i)
    for (int d = 0; d < shapes[i].rank(); ++d) {
      std::vector<Shape> changed = shapes;
      changed[i][d] = 0;
      SCOPED_TRACE(trace(changed));
      run_empty(c, changed);
    }
  // sets all dimensions with this size to 0, so that shapes still match
  for (int64_t size : sizes) {
    std::vector<Shape> changed = shapes;
    for (Shape& shape : changed)
      for (int d = 0; d < shape.rank(); ++d)
        if (shape[d] == size) shape[d] = 0;
    SCOPED_TRACE(trace(changed));
    run_empty(c, changed);
  }
}

void test_operands(const Case& c) {
  const std::vector<Tensor> operands = c.operands(c.row().dtypes.at(0));
  std::vector<Tensor> before;
  for (const Tensor& x : operands) before.push_back(x ? x.clone() : x);
  const int64_t live = TapeNode::live();
  run(c, operands, /*create_graph=*/c.traits().max_order > 1);
  EXPECT_EQ(TapeNode::live(), live);
  for (size_t i = 0; i < operands.size(); ++i)
    EXPECT_TRUE(!operands[i] || same_bits(operands[i], before[i])) << "input " << i;
}

/// Returns whether an op that led to one of ys has a rule by kernels beside that by ops.
bool has_two_rules(const Variables& ys) {
  std::vector<const TapeNode*> nodes;
  const auto visit = [&](const TapeEdge& edge) {
    if (edge && std::ranges::find(nodes, edge.node.get()) == nodes.end())
      nodes.push_back(edge.node.get());
  };
  for (const Variable& y : ys) visit(y.edge());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->has_kernel_backward()) return true;
    for (const TapeEdge& edge : nodes[i]->edges()) visit(edge);
  }
  return false;
}

/// The rule that runs when the pass is recorded has the same result as the rule by kernels.
void test_rules(const Case& c) {
  if (c.traits().max_order < 2) return;  // recorded, the pass is an error
  const auto& dtypes = c.row().dtypes;
  for (DType dtype : {f32, f64}) {
    if (std::ranges::find(dtypes, dtype) == dtypes.end()) continue;
    SCOPED_TRACE(name(dtype));
    const std::vector<Tensor> operands = c.operands(dtype);
    if (!has_two_rules(c.call(leaves(c, operands)))) return;
    const Results kernels = run(c, operands), ops = run(c, operands, /*create_graph=*/true);
    ASSERT_EQ(kernels.gradients.size(), ops.gradients.size());
    double scale = 1e-6;
    for (const Tensor& dx : ops.gradients) scale = std::max(scale, largest_magnitude(to_array(dx)));
    const double allowed = std::max(64.0, c.row().tolerance) * epsilon(dtype);
    for (size_t k = 0; k < ops.gradients.size(); ++k)
      EXPECT_EQ(
          mismatch(to_array(kernels.gradients[k]), to_array(ops.gradients[k]), allowed, scale), "")
          << "gradient " << k;
  }
}

void test_autocast(const Case& c) {
  if (c.row().op.starts_with("empty")) return;  // the values are undefined
  for (DType dtype : {f32, bf16}) {
    const auto& dtypes = c.row().dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) continue;
    SCOPED_TRACE(name(dtype));
    const std::vector<Tensor> operands = c.operands(dtype);
    const Results expected = run(c, operands);
    const Autocast amp(bf16);
    const Results got = run(c, operands);
    ASSERT_EQ(got.values.size(), expected.values.size());
    ASSERT_EQ(got.gradients.size(), expected.gradients.size());
    const double allowed = std::max(16.0, 4 * c.row().tolerance) * epsilon(bf16);
    for (size_t k = 0; k < got.values.size(); ++k)
      EXPECT_EQ(mismatch(to_array(got.values[k]), to_array(expected.values[k]), allowed), "")
          << "value " << k;
    double scale = 0;
    for (const Tensor& dx : expected.gradients)
      scale = std::max(scale, largest_magnitude(to_array(dx)));
    for (size_t k = 0; k < got.gradients.size(); ++k)
      EXPECT_EQ(
          mismatch(to_array(got.gradients[k]), to_array(expected.gradients[k]), allowed, scale), "")
          << "gradient " << k;
  }
}

class CaseTest : public ::testing::Test {
 public:
  using Question = void (*)(const Case&);
  CaseTest(const OpCase& row, Question question) : row_(row), question_(question) {}
  void TestBody() override {
    try {
      question_(Case(row_));
    } catch (const KernelError& error) {
      EXPECT_TRUE(is_missing(error)) << error.what();
    }
  }

 private:
  const OpCase& row_;
  Question question_;
};

void register_case(const char* family, const OpCase& row, int number) {
  const OpInfo* info = catalog().find_or_null(row.op);
  std::vector<std::pair<std::string, CaseTest::Question>> questions = {
      {"values", test_values},       {"layouts", test_layouts},
      {"gradients", test_gradients}, {"empties", test_empties},
      {"operands", test_operands},   {"autocast", test_autocast},
      {"rules", test_rules},         {"implementations", test_implementations},
      {"recorded", test_recorded}};
  if (info && info->traits.inplace) questions.push_back({"target", test_layouts_of_target});
  if (number == 0 && std::ranges::find(kToThirdOrder, row.op) != std::end(kToThirdOrder))
    questions.push_back({"third", test_third});
  for (const auto& [name, question] : questions) {
    const std::string full = row.op + '/' + std::to_string(number) + '/' + name;
    ::testing::RegisterTest(
        family, full.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&row, question = question]() -> CaseTest* { return new CaseTest(row, question); });
  }
}

TEST(CaseTable, EveryOpHasACase) {
  std::string missing;
  for (const OpInfo& info : catalog().ops()) {
    bool found = false;
    for (const CaseFamily& family : case_families())
      for (const OpCase& row : family.cases) found |= row.op == info.name;
    if (!found) missing += ' ' + info.name;
  }
  EXPECT_EQ(missing, "");
}

/// Returns the part of docs/gpu.md between its two marks.
std::string documented_gaps() {
  std::ifstream in(TAPEGRAD_SOURCE_DIR "/docs/gpu.md");
  std::string text, line;
  for (bool inside = false; std::getline(in, line);) {
    if (line == "<!-- end of missing -->") break;
    if (inside) text += line + '\n';
    inside |= line == "<!-- missing -->";
  }
  return text;
}

TEST(CaseTable, GapsOfCudaAreDocumented) {
  if (default_device().type != DeviceType::kCuda) return;
  std::map<std::string, std::string> missing;  // kernels by op
  for (const CaseFamily& family : case_families())
    for (const OpCase& row : family.cases) {
      const Case c(row);
      for (DType dtype : row.dtypes) try {
          run(c, c.operands(dtype));
        } catch (const KernelError& error) {
          const std::string text = error.what(), kernel = text.substr(0, text.find(':'));
          std::string& kernels = missing[row.op];
          if (kernels.find('`' + kernel + '`') == kernels.npos)
            kernels += (kernels.empty() ? "`" : ", `") + kernel + '`';
        }
    }
  std::string text = missing.empty() ? "\nNone.\n" : "\n| op | kernels |\n|----|---------|\n";
  for (const auto& [op, kernels] : missing) text += "| `" + op + "` | " + kernels + " |\n";
  EXPECT_EQ(text + '\n', documented_gaps());
}

TEST(CaseTable, EveryDifferentiableOpIsRecorded) {
  if (default_device() != cpu) return;  // one device is enough
  std::map<std::string, bool> recorded;
  for (const CaseFamily& family : case_families())
    for (const OpCase& row : family.cases) {
      if (!catalog().find_or_null(row.op)) continue;
      const Case c(row);
      if (c.traits().max_order == 0) continue;
      bool& found = recorded[row.op];
      for (DType dtype : row.dtypes) {
        if (found || !is_float(dtype)) continue;
        for (const Variable& y : c.call(leaves(c, c.operands(dtype)))) found |= y.requires_grad();
      }
    }
  std::string missing;
  for (const auto& [op, found] : recorded)
    if (!found) missing += ' ' + op;
  EXPECT_EQ(missing, "") << "these have a derivative by the catalog, and no case that records one";
}

}  // namespace
}  // namespace tapegrad::testing

int main(int argc, char** argv) {
  using namespace tapegrad::testing;
  ::testing::InitGoogleTest(&argc, argv);
  // Runs the bfloat16 implementations also on processors without bfloat16 instructions.
  setenv("TAPEGRAD_CPU_BFLOAT16", "1", /*overwrite=*/0);
  for (const CaseFamily& family : case_families()) {
    std::map<std::string, int> numbers;
    for (const OpCase& row : family.cases) register_case(family.name, row, numbers[row.op]++);
  }
  return RUN_ALL_TESTS();
}
