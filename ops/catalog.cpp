#include "ops/catalog.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/base/error.h"

namespace tapegrad {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Splits at commas outside of brackets.
std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const auto part = trim(text.substr(start, i - start)); !part.empty()) parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

template <typename T>
T parse_number(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size())
    fail<ArgumentError>("catalog: \"", text, "\" is not a number");
  return value;
}

/// Parses a default value of a signature.
Attribute parse_literal(std::string_view text, std::string_view type) {
  if (text == "none") return {};
  if (type == "bool") return text == "true";
  if (type == "int") return parse_number<int64_t>(text);
  if (type == "float") return parse_number<double>(text);
  if (type == "number")
    return text.find_first_of(".einf") == text.npos ? Attribute(parse_number<int64_t>(text))
                                                    : Attribute(parse_number<double>(text));
  if (type == "ints") {
    std::vector<int64_t> values;
    if (text.front() == '[') text = text.substr(1, text.size() - 2);
    for (std::string_view part : split_at_commas(text))
      values.push_back(parse_number<int64_t>(part));
    return values;
  }
  return std::string(text);
}

bool fits(const Attribute& value, std::string_view type) {
  if (type == "bool") return std::holds_alternative<bool>(value);
  if (type == "int") return std::holds_alternative<int64_t>(value);
  if (type == "float" || type == "number")
    return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
  if (type == "ints")
    return std::holds_alternative<std::vector<int64_t>>(value) ||
           std::holds_alternative<int64_t>(value);
  return std::holds_alternative<std::string>(value);
}

std::string print(const Attribute& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "none"; }
    std::string operator()(bool x) const { return x ? "true" : "false"; }
    std::string operator()(int64_t x) const { return std::to_string(x); }
    std::string operator()(double x) const { return absl::StrCat(x); }
    std::string operator()(const std::string& x) const { return x; }
    std::string operator()(const std::vector<int64_t>& xs) const {
      return absl::StrCat("[", absl::StrJoin(xs, ", "), "]");
    }
  };
  return std::visit(Visitor{}, value);
}

/// Path relative to the repository, such as "ops/softmax.cpp", wherever the sources were compiled.
std::string source_of(Where where) {
  const std::string_view file = where.file_name();
  const size_t folder = file.rfind("ops/");
  return std::string(folder == file.npos ? file : file.substr(folder));
}

template <typename T>
const T& get(const Arguments& arguments, std::string_view name) {
  const auto found = arguments.attributes.find(name);
  if (found == arguments.attributes.end())
    fail<ArgumentError>("catalog: no attribute \"", name, '"');
  if (const T* value = std::get_if<T>(&found->second)) return *value;
  fail<ArgumentError>("catalog: attribute \"", name, "\" has the value ", print(found->second),
                      " of another type");
}

}  // namespace

const Variable& Arguments::operator[](size_t i) const {
  static const Variable none;
  return i < inputs.size() ? inputs[i] : none;
}

bool Arguments::has(std::string_view name) const {
  const auto found = attributes.find(name);
  return found != attributes.end() && !std::holds_alternative<std::monostate>(found->second);
}
int64_t Arguments::integer(std::string_view name) const { return get<int64_t>(*this, name); }
int Arguments::int32(std::string_view name) const {
  const int64_t value = integer(name);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
    fail<ArgumentError>("catalog: attribute \"", name, "\" has the value ", value,
                        ", of more than 32 bits");
  return int(value);
}
bool Arguments::flag(std::string_view name) const { return get<bool>(*this, name); }
std::string Arguments::text(std::string_view name) const { return get<std::string>(*this, name); }
double Arguments::real(std::string_view name) const { return number(name).real(); }
DType Arguments::dtype(std::string_view name) const { return parse_dtype(text(name)); }

Number Arguments::number(std::string_view name) const {
  const auto found = attributes.find(name);
  if (found != attributes.end() && std::holds_alternative<int64_t>(found->second))
    return std::get<int64_t>(found->second);
  return get<double>(*this, name);
}

std::vector<int64_t> Arguments::integers(std::string_view name) const {
  const auto found = attributes.find(name);
  if (found != attributes.end() && std::holds_alternative<int64_t>(found->second))
    return {std::get<int64_t>(found->second)};
  return get<std::vector<int64_t>>(*this, name);
}

Dims Arguments::dims(std::string_view name) const {
  Dims dims;
  for (int64_t value : integers(name)) dims.push_back(value);
  return dims;
}

std::vector<Variable> OpInfo::call(Arguments arguments) const {
  const bool takes_list =
      std::any_of(inputs.begin(), inputs.end(), [](const InputInfo& input) { return input.list; });
  if (!arguments.list.empty() && !takes_list)
    fail<ArgumentError>(name, ": takes no list of inputs");
  const size_t expected = inputs.size() - (takes_list ? 1 : 0);
  if (arguments.inputs.size() > expected)
    fail<ArgumentError>(name, ": ", arguments.inputs.size(), " inputs given; ", signature());
  for (size_t i = 0; i < expected; ++i)
    if (!inputs[i].optional && !arguments[i].defined())
      fail<ArgumentError>(name, ": input \"", inputs[i].name, "\" is missing; ", signature());
  for (const auto& [key, value] : arguments.attributes) {
    const auto known = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const AttributeInfo& info) { return info.name == key; });
    if (known == attributes.end())
      fail<ArgumentError>(name, ": unknown attribute \"", key, "\"; ", signature());
    if (!fits(value, known->type) && !std::holds_alternative<std::monostate>(value))
      fail<ArgumentError>(name, ": attribute \"", key, "\" is not of type ", known->type, ": ",
                          print(value));
  }
  for (const AttributeInfo& info : attributes) {
    if (arguments.attributes.contains(info.name)) continue;
    if (info.required)
      fail<ArgumentError>(name, ": attribute \"", info.name, "\" is missing; ", signature());
    arguments.attributes.emplace(info.name, info.standard);
  }
  return run(arguments);
}

std::string OpInfo::signature() const {
  std::string text;
  for (const InputInfo& input : inputs)
    text += (text.empty() ? "" : ", ") + input.name + (input.optional ? "?" : "") +
            (input.list ? "*" : "");
  for (const AttributeInfo& info : attributes)
    text += (text.empty() ? "" : ", ") + info.name + ": " + info.type +
            (info.required ? "" : " = " + print(info.standard));
  return name + "(" + text + ")";
}

const OpInfo* Catalog::find_or_null(std::string_view name) const {
  const auto found =
      std::find_if(ops_.begin(), ops_.end(), [&](const OpInfo& info) { return info.name == name; });
  return found == ops_.end() ? nullptr : &*found;
}

const OpInfo& Catalog::find(std::string_view name) const {
  if (const OpInfo* info = find_or_null(name)) return *info;
  fail<ArgumentError>("catalog: no op is called \"", name, '"');
}

void Catalog::add_row(std::string_view signature, std::string_view formula, OpTraits traits,
                      std::vector<Variable> (*run)(const Arguments&), Where where) {
  const size_t open = signature.find('(');
  OpInfo info{.name = std::string(signature.substr(0, open)),
              .formula = std::string(formula),
              .inputs = {},
              .attributes = {},
              .traits = traits,
              .run = run,
              .source = source_of(where)};
  if (find_or_null(info.name) != nullptr)
    fail<ArgumentError>("catalog: a second row for ", info.name);
  const std::string_view inside = signature.substr(open + 1, signature.size() - open - 2);
  for (std::string_view part : split_at_commas(inside)) {
    const size_t colon = part.find(':');
    if (colon == part.npos) {
      const bool optional = part.back() == '?', list = part.back() == '*';
      if (optional || list) part.remove_suffix(1);
      info.inputs.push_back({std::string(part), optional, list});
      continue;
    }
    AttributeInfo attribute{std::string(trim(part.substr(0, colon))), {}};
    std::string_view type = part.substr(colon + 1);
    if (const size_t equals = type.find('='); equals != type.npos) {
      attribute.required = false;
      const std::string_view literal = trim(type.substr(equals + 1));
      type = trim(type.substr(0, equals));
      attribute.standard = parse_literal(literal, type);
    }
    attribute.type = trim(type);
    info.attributes.push_back(std::move(attribute));
  }
  ops_.push_back(std::move(info));
}

const Catalog& catalog() {
  static const Catalog instance = [] {
    Catalog rows;
    catalog_create(rows);
    catalog_random(rows);
    catalog_dropout(rows);
    catalog_unary(rows);
    catalog_activation(rows);
    catalog_activation_composed(rows);
    catalog_binary(rows);
    catalog_arithmetic(rows);
    catalog_bitwise(rows);
    catalog_compare(rows);
    catalog_special(rows);
    catalog_gamma(rows);
    catalog_forms(rows);
    catalog_statistics(rows);
    catalog_distance(rows);
    catalog_products(rows);
    catalog_linalg(rows);
    catalog_fft(rows);
    catalog_diagonal(rows);
    catalog_sort(rows);
    catalog_scan(rows);
    catalog_scatter(rows);
    catalog_subscript(rows);
    catalog_reshape(rows);
    catalog_join(rows);
    catalog_replace(rows);
    catalog_reduce(rows);
    catalog_softmax(rows);
    catalog_matmul(rows);
    catalog_linear(rows);
    catalog_conv(rows);
    catalog_conv_nd(rows);
    catalog_pool(rows);
    catalog_pool_nd(rows);
    catalog_norm(rows);
    catalog_norm_composed(rows);
    catalog_loss(rows);
    catalog_margin_loss(rows);
    catalog_ctc_loss(rows);
    catalog_linear_cross_entropy(rows);
    catalog_index(rows);
    catalog_view(rows);
    catalog_image(rows);
    catalog_sample(rows);
    catalog_attention(rows);
    catalog_embedding_bag(rows);
    catalog_recurrent(rows);
    return rows;
  }();
  return instance;
}

}  // namespace tapegrad
