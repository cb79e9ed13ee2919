// The catalog: every public op once, by PyTorch's name, with its arguments. It can call an op by
// name; tests, the coverage table and importers use it.
//
//   const OpInfo& info = catalog().find("conv2d");
//   info.call({.inputs = {x, w, {}}, .attributes = {{"stride", std::vector<int64_t>{2, 2}}}});
//
// A family's file in ops/ ends in its rows:
//
//   void catalog_softmax(Catalog& catalog) {
//     catalog.add("softmax(input, dim: int)", "exp(x) / sum(exp(x)) along dim",
//                 [](const Arguments& a) { return softmax(a[0], a.integer("dim")); });
//   }
//
// docs/ops.md is printed from it, by `tapegrad op list --format=markdown`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// A value of an attribute. A dtype is its name; none is an optional one that was left out.
using Attribute =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// What an op is called with.
struct Arguments {
  std::vector<Variable> inputs = {};  // as declared; an optional one may be empty or left off
  std::vector<Variable> list = {};    // of the input that takes several
  Attributes attributes = {};         // after call() has added the defaults

  /// Input i, empty when it was left out.
  const Variable& operator[](size_t i) const;

  // Attributes by name. ArgumentError when the value is of another type.
  bool has(std::string_view name) const;  // given and not none
  int64_t integer(std::string_view name) const;
  int int32(std::string_view name) const;    // one of 32 bits
  double real(std::string_view name) const;  // an integer will do
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;  // one integer counts as a list
  Dims dims(std::string_view name) const;
  DType dtype(std::string_view name) const;
  Number number(std::string_view name) const;
};

struct InputInfo {
  std::string name;
  bool optional = false;  // written `bias?`
  bool list = false;      // written `tensors*`
};

struct AttributeInfo {
  std::string name;
  std::string type;  // int, float, bool, str, ints, dtype, number
  bool required = true;
  Attribute standard = {};  // the default, when not required
};

/// What a row says beside its signature.
struct OpTraits {
  int max_order = 2;     // of derivatives: 0 not differentiable, 2 any order
  bool random = false;   // draws from the default generator
  bool inplace = false;  // writes its first input
  /// Arguments that the op takes, with this dtype where it has a choice. Only for an op whose
  /// arguments are not easily guessed: `tapegrad op list` runs each op to see which dtypes it
  /// takes.
  Arguments (*example)(DType) = nullptr;
};

struct OpInfo {
  std::string name;
  std::string formula;
  std::vector<InputInfo> inputs;
  std::vector<AttributeInfo> attributes;
  OpTraits traits;
  std::vector<Variable> (*run)(const Arguments&);
  std::string source;  // the file of its row and of its struct, "ops/softmax.cpp"

  /// Runs the op after checking names and completing defaults. ArgumentError for an input too many
  /// or too few, an unknown attribute, or one that is missing.
  std::vector<Variable> call(Arguments arguments) const;
  /// "conv2d(input, weight, bias?, stride: ints = 1, ...)"
  std::string signature() const;
};

class Catalog {
 public:
  /// The signature is `name(inputs..., attributes...)`: an input is a bare name, an attribute is
  /// `name: type` or `name: type = default`, where the default is a literal of the type, or none.
  template <typename Run>
  void add(std::string_view signature, std::string_view formula, Run, OpTraits traits = {},
           Where where = Where::current()) {
    add_row(
        signature, formula, traits,
        [](const Arguments& arguments) { return as_list(Run{}(arguments)); }, where);
  }

  const std::vector<OpInfo>& ops() const { return ops_; }
  const OpInfo* find_or_null(std::string_view name) const;
  const OpInfo& find(std::string_view name) const;  // ArgumentError when there is none

 private:
  static std::vector<Variable> as_list(Variable y) { return {std::move(y)}; }
  static std::vector<Variable> as_list(std::vector<Variable> ys) { return ys; }
  void add_row(std::string_view signature, std::string_view formula, OpTraits traits,
               std::vector<Variable> (*run)(const Arguments&), Where where);

  std::vector<OpInfo> ops_;
};

/// All ops of the library, in the order of their families.
const Catalog& catalog();

// Each at the end of its family's file.
void catalog_create(Catalog& catalog);
void catalog_random(Catalog& catalog);
void catalog_noise(Catalog& catalog);
void catalog_unary(Catalog& catalog);
void catalog_activation(Catalog& catalog);
void catalog_activation_composed(Catalog& catalog);
void catalog_binary(Catalog& catalog);
void catalog_arithmetic(Catalog& catalog);
void catalog_special(Catalog& catalog);
void catalog_statistics(Catalog& catalog);
void catalog_distance(Catalog& catalog);
void catalog_products(Catalog& catalog);
void catalog_linalg(Catalog& catalog);
void catalog_fft(Catalog& catalog);
void catalog_diagonal(Catalog& catalog);
void catalog_sort(Catalog& catalog);
void catalog_scan(Catalog& catalog);
void catalog_scatter(Catalog& catalog);
void catalog_subscript(Catalog& catalog);
void catalog_reduce(Catalog& catalog);
void catalog_softmax(Catalog& catalog);
void catalog_matmul(Catalog& catalog);
void catalog_linear(Catalog& catalog);
void catalog_conv(Catalog& catalog);
void catalog_conv_nd(Catalog& catalog);
void catalog_pool(Catalog& catalog);
void catalog_pool_nd(Catalog& catalog);
void catalog_norm(Catalog& catalog);
void catalog_norm_composed(Catalog& catalog);
void catalog_loss(Catalog& catalog);
void catalog_margin_loss(Catalog& catalog);
void catalog_ctc_loss(Catalog& catalog);
void catalog_index(Catalog& catalog);
void catalog_view(Catalog& catalog);
void catalog_image(Catalog& catalog);
void catalog_sample(Catalog& catalog);
void catalog_attention(Catalog& catalog);
void catalog_recurrent(Catalog& catalog);

}  // namespace tapegrad
