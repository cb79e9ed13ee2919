// The catalog lists every public op once, under PyTorch's name, with its arguments, and can call an
// op by name. The tests, the coverage table, the tapegrad command and importers read it.
//
//   const OpInfo& info = catalog().find("conv2d");
//   info.call({.inputs = {x, w, {}}, .attributes = {{"stride", std::vector<int64_t>{2, 2}}}});
//
// Each source in ops/ ends with the rows of its ops:
//
//   void catalog_softmax(Catalog& catalog) {
//     catalog.add("softmax(input, dim: int)", "exp(x) / sum(exp(x)) along dim",
//                 [](const Arguments& a) { return softmax(a[0], a.integer("dim")); });
//   }
//
// `tapegrad op list --format=markdown` prints docs/ops.md from the catalog.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// The value of an attribute. A dtype is given by its name. std::monostate (none) represents an
/// optional attribute that was omitted.
using Attribute =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// The arguments of a call.
struct Arguments {
  std::vector<Variable> inputs = {};  // as declared; optional ones may be empty or omitted
  std::vector<Variable> list = {};    // the tensors of a list input
  Attributes attributes = {};         // call() adds the defaults

  /// Returns input i, or an empty Variable if it was omitted.
  const Variable& operator[](size_t i) const;

  // Attributes by name. The functions throw ArgumentError if the value has another type.
  bool has(std::string_view name) const;  // present and not none
  int64_t integer(std::string_view name) const;
  int int32(std::string_view name) const;    // must fit in 32 bits
  double real(std::string_view name) const;  // also accepts an integer
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;  // also accepts one integer
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
  Attribute standard = {};  // the default value; used if not required
};

/// Properties of an op that its signature does not show.
struct OpTraits {
  int max_order = 2;     // highest derivative order: 0 not differentiable, 2 any order
  bool random = false;   // draws from the default generator
  bool inplace = false;  // writes its first input in place
  /// Returns valid arguments of the given dtype. Needed only if `tapegrad op list`, which runs each
  /// op to find the dtypes that it supports, cannot guess the arguments.
  Arguments (*example)(DType) = nullptr;
};

struct OpInfo {
  std::string name;
  std::string formula;
  std::vector<InputInfo> inputs;
  std::vector<AttributeInfo> attributes;
  OpTraits traits;
  std::vector<Variable> (*run)(const Arguments&);
  std::string source;  // file of the op's struct and row, e.g. "ops/softmax.cpp"

  /// Checks the argument names, adds the defaults and runs the op. Throws ArgumentError for a wrong
  /// number of inputs, an unknown attribute or a missing required attribute.
  std::vector<Variable> call(Arguments arguments) const;
  /// Returns the signature, for example "conv2d(input, weight, bias?, stride: ints = 1, ...)".
  std::string signature() const;
};

class Catalog {
 public:
  /// Adds an op. The signature is `name(inputs..., attributes...)`. An input is a bare name; an
  /// attribute is `name: type` or `name: type = default`, where the default is a literal of the
  /// type or none.
  template <typename Run>
  void add(std::string_view signature, std::string_view formula, Run, OpTraits traits = {},
           Where where = Where::current()) {
    add_row(
        signature, formula, traits,
        [](const Arguments& arguments) { return as_list(Run{}(arguments)); }, where);
  }

  const std::vector<OpInfo>& ops() const { return ops_; }
  const OpInfo* find_or_null(std::string_view name) const;
  const OpInfo& find(std::string_view name) const;  // throws ArgumentError if unknown

 private:
  static std::vector<Variable> as_list(Variable y) { return {std::move(y)}; }
  static std::vector<Variable> as_list(std::vector<Variable> ys) { return ys; }
  void add_row(std::string_view signature, std::string_view formula, OpTraits traits,
               std::vector<Variable> (*run)(const Arguments&), Where where);

  std::vector<OpInfo> ops_;
};

/// Returns all ops of the library, grouped by source file.
const Catalog& catalog();

// Each function is defined at the end of the source file of its op family.
void catalog_create(Catalog& catalog);
void catalog_random(Catalog& catalog);
void catalog_dropout(Catalog& catalog);
void catalog_unary(Catalog& catalog);
void catalog_activation(Catalog& catalog);
void catalog_activation_composed(Catalog& catalog);
void catalog_binary(Catalog& catalog);
void catalog_arithmetic(Catalog& catalog);
void catalog_bitwise(Catalog& catalog);
void catalog_compare(Catalog& catalog);
void catalog_special(Catalog& catalog);
void catalog_gamma(Catalog& catalog);
void catalog_forms(Catalog& catalog);
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
void catalog_reshape(Catalog& catalog);
void catalog_join(Catalog& catalog);
void catalog_replace(Catalog& catalog);
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
void catalog_linear_cross_entropy(Catalog& catalog);
void catalog_index(Catalog& catalog);
void catalog_view(Catalog& catalog);
void catalog_image(Catalog& catalog);
void catalog_sample(Catalog& catalog);
void catalog_attention(Catalog& catalog);
void catalog_embedding_bag(Catalog& catalog);
void catalog_recurrent(Catalog& catalog);

}  // namespace tapegrad
