// Every op that ops/*.h declares has a row in the catalog, and the catalog rejects wrong arguments.
#include "ops/catalog.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the names of functions declared at the start of a line with a result type of ops;
/// "linalg.inv" for functions in a nested namespace.
std::set<std::string> declared_ops(const std::string& header) {
  std::set<std::string> names;
  std::istringstream lines(header);
  std::string inside;
  for (std::string line; std::getline(lines, line);) {
    for (const std::string space : {"linalg", "fft"}) {
      if (line == "namespace " + space + " {") inside = space + '.';
      if (line == "}  // namespace " + space) inside.clear();
    }
    std::string_view rest = line;
    if (rest.starts_with("inline ")) rest.remove_prefix(7);
    bool is_op = false;
    for (std::string_view type :
         {"Variable& ", "Variable ", "ComplexPairs ", "std::vector<Variable> ", "ValuesIndices ",
          "MinMax ", "StdMean ", "VarMean ", "Unique ", "Slogdet ", "Qr ", "Svd ", "Eigh ",
          "LeastSquares ", "Lu ", "LuFactor ", "bool "})
      if (!is_op && rest.starts_with(type)) {
        rest.remove_prefix(type.size());
        is_op = true;
      }
    const size_t open = rest.find('(');
    if (!is_op || open == rest.npos) continue;
    const std::string_view name = rest.substr(0, open);
    const bool is_identifier =
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
    // excludes operators and data members
    if (is_identifier) names.insert(inside + std::string(name));
  }
  return names;
}

TEST(Catalog, TheParserSeesDeclarations) {
  EXPECT_EQ(declared_ops("Variable add(Operand a, Operand b);\n"
                         "Variable& relu_(Variable& x);\n"
                         "  Variable member(int);\n"
                         "Variable operator+(Operand a);\n"
                         "inline Variable cat(int x) {\n"
                         "std::vector<Variable> split(const Variable& x,\n"
                         "ValuesIndices max(const Variable& x);\n"
                         "// Variable comment(int)\n"
                         "namespace fft {\n"
                         "Variable fft(const Variable& x);\n"
                         "}  // namespace fft\n"
                         "Variable after(const Variable& x);\n"),
            (std::set<std::string>{"add", "relu_", "cat", "split", "max", "fft.fft", "after"}));
}

TEST(Catalog, EveryDeclaredOpHasARow) {
  // Functions that are not ops: they wrap the caller's values or memory, are parts of other ops'
  // rules, or are composed of ops and have a test of their own (stft_test, complex_test,
  // random_test).
  std::istringstream names(
      "tensor equal scalar from_blob blob piecewise reduced max_unpool with_indices "
      "lstm_sequence gru_sequence attention_in_blocks attention_by_ops as_matrix "
      "relu_gradient gelu_tanh_known var_over std_over quantile_over strided_blob "
      "split_with_sizes stft istft complex polar real imag view_as_real view_as_complex "
      "conj complex_abs angle complex_mul complex_div cat_complex stack_complex fft.fftn "
      "fft.ifftn fft.rfftn fft.irfftn fft.fftfreq fft.rfftfreq randint_like mode renorm "
      "unique_consecutive histogram gradient pca_lowrank cholesky_inverse linalg.vecdot "
      "linalg.cond linalg.matrix_rank combinations broadcast_shapes unravel_index "
      "hann_window hamming_window blackman_window bartlett_window kaiser_window bilinear "
      "rrelu pdist entr ndtr ndtri log_ndtr mvlgamma linalg.tensorsolve linalg.tensorinv "
      "triplet_margin_with_distance_loss fractional_max_pool2d fractional_max_pool3d "
      "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices index_reduce "
      "fake_quantize_per_tensor_affine fft.hfft fft.ihfft linalg.householder_product "
      "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
      "chebyshev_polynomial_w shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
      "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h "
      "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p spherical_bessel_j0 "
      "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann "
      "kaiser nuttall");
  const std::set<std::string> exempt(std::istream_iterator<std::string>(names), {});
  std::string missing;
  int declared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAPEGRAD_SOURCE_DIR "/ops")) {
    const std::string header = entry.path().filename().string();
    // Headers that declare other spellings of ops, and functions without a row.
    if (entry.path().extension() != ".h" || header.ends_with("aliases.h") ||
        header.ends_with("_positional.h") || header == "settings.h" || header == "named_options.h")
      continue;
    for (std::string op : declared_ops(read(entry.path()))) {
      ++declared;
      if (op == "distance") op = "dist";  // PyTorch's name; `dist` is a namespace in C++
      if (!exempt.contains(op) && !catalog().find_or_null(op))
        missing += ' ' + op + " (" + header + ')';
    }
  }
  EXPECT_GT(declared, 150);
  EXPECT_EQ(missing, "");
}

TEST(Catalog, EveryRowIsADeclaredOp) {
  // Ops declared elsewhere: in core/tape/view.h, Variable::to, the view that is one of two
  // functions called unfold, and distance().
  std::set<std::string> declared = {"clone", "cast", "to", "tensor.unfold", "dist"};
  for (const auto& entry : std::filesystem::directory_iterator(TAPEGRAD_SOURCE_DIR "/ops"))
    if (entry.path().extension() == ".h") declared.merge(declared_ops(read(entry.path())));
  for (const OpInfo& info : catalog().ops()) EXPECT_TRUE(declared.contains(info.name)) << info.name;
}

TEST(Catalog, RowsSayWhatOpsDo) {
  for (const OpInfo& info : catalog().ops()) {
    EXPECT_FALSE(info.formula.empty()) << info.name;
    EXPECT_EQ(info.traits.inplace, info.name.ends_with('_')) << info.name;
    EXPECT_TRUE(info.signature().starts_with(info.name + '(')) << info.signature();
    EXPECT_TRUE(info.source.starts_with("ops/") &&
                std::filesystem::exists(TAPEGRAD_SOURCE_DIR "/" + info.source))
        << info.name << ": " << info.source;
    for (const AttributeInfo& attribute : info.attributes) {
      const std::set<std::string> types = {"int",  "float", "bool",  "str",
                                           "ints", "dtype", "number"};
      EXPECT_TRUE(types.contains(attribute.type)) << info.signature();
    }
  }
}

/// Returns the message of the ArgumentError that a call throws.
std::string error_of(const char* op, Arguments arguments) {
  return testing::message_of<ArgumentError>([&] { catalog().find(op).call(std::move(arguments)); });
}

void expect_in(std::string_view part, const std::string& message) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Catalog, CallChecksItsArguments) {
  const Variable x(Tensor::full({2, 3}, 1.0, f32));
  const OpInfo& softmax = catalog().find("softmax");
  EXPECT_EQ(softmax.call({.inputs = {x}, .attributes = {{"dim", int64_t(1)}}})[0].shape(),
            (Shape{2, 3}));
  expect_in("input \"input\" is missing",
            error_of("softmax", {.attributes = {{"dim", int64_t(1)}}}));
  expect_in("attribute \"dim\" is missing", error_of("softmax", {.inputs = {x}}));
  expect_in("unknown attribute \"axis\"",
            error_of("softmax", {.inputs = {x}, .attributes = {{"axis", int64_t(1)}}}));
  expect_in("attribute \"dim\" is not of type int",
            error_of("softmax", {.inputs = {x}, .attributes = {{"dim", std::string("1")}}}));
  expect_in("2 inputs given",
            error_of("softmax", {.inputs = {x, x}, .attributes = {{"dim", int64_t(1)}}}));
  expect_in("takes no list",
            error_of("softmax", {.inputs = {x}, .list = {x}, .attributes = {{"dim", int64_t(1)}}}));
  expect_in("4294967297, of more than 32 bits",
            error_of("softmax", {.inputs = {x}, .attributes = {{"dim", int64_t(1) << 32 | 1}}}));
  EXPECT_EQ(catalog().find_or_null("no_such_op"), nullptr);
  EXPECT_THROW(catalog().find("no_such_op"), ArgumentError);
}

TEST(Catalog, SignaturesAreParsed) {
  Catalog rows;
  const auto identity = [](const Arguments& a) { return a[0]; };
  rows.add(
      "f(input, bias?, tensors*, dim: int, eps: float = 1e-5, dims: ints = [1, -2], "
      "mode: str = mean, dtype: dtype = none, keep: bool = false, value: number = 2)",
      "input", identity);
  const OpInfo& f = rows.find("f");
  ASSERT_EQ(f.inputs.size(), 3u);
  EXPECT_TRUE(f.inputs[1].optional && !f.inputs[1].list && f.inputs[2].list);
  ASSERT_EQ(f.attributes.size(), 7u);
  EXPECT_TRUE(f.attributes[0].required && !f.attributes[1].required);
  EXPECT_EQ(std::get<double>(f.attributes[1].standard), 1e-5);
  EXPECT_EQ(std::get<std::vector<int64_t>>(f.attributes[2].standard),
            (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(std::get<std::string>(f.attributes[3].standard), "mean");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(f.attributes[4].standard));
  EXPECT_EQ(std::get<bool>(f.attributes[5].standard), false);
  EXPECT_EQ(std::get<int64_t>(f.attributes[6].standard), 2);
  EXPECT_THROW(rows.add("f(input)", "again", identity), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
