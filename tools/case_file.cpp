#include "tools/case_file.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <set>
#include <string_view>

#include <tapegrad/core/error.h>

namespace tapegrad::tools {
namespace {

using Json = nlohmann::json;

/// Parses one line. A duplicate key in an object is an error too.
Json parse_line(const std::string& text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      fail<FormatError>("the key ", parsed.dump(), " stands twice");
    return true;
  };
  return Json::parse(text, check);
}

void check_keys(std::string_view what, const Json& object,
                std::initializer_list<std::string_view> known) {
  if (!object.is_object()) fail<ArgumentError>(what, ": an object is needed, not ", object.dump());
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail<ArgumentError>(what, ": unknown key \"", key, '"');
}

std::string text_of(std::string_view what, const Json& value) {
  if (!value.is_string()) fail<ArgumentError>(what, ": a string is needed, not ", value.dump());
  return value.get<std::string>();
}

/// Parses a value of type T from a JSON number, or from a string that holds one.
template <typename T>
T parse(std::string_view what, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail<ArgumentError>(what, ": no number, or one out of range: \"", text, '"');
  return value;
}

template <typename Integer>
Integer integer_of(std::string_view what, const Json& value) {
  if (value.is_number_integer()) return parse<Integer>(what, value.dump());
  if (value.is_string()) return parse<Integer>(what, value.get_ref<const std::string&>());
  fail<ArgumentError>(what, ": an integer is needed, not ", value.dump());
}

double real_of(std::string_view what, const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return parse<double>(what, value.get_ref<const std::string&>());
  fail<ArgumentError>(what, ": a number is needed, not ", value.dump());
}

std::vector<int64_t> integers_of(std::string_view what, const Json& value) {
  if (!value.is_array()) fail<ArgumentError>(what, ": a list is needed, not ", value.dump());
  std::vector<int64_t> integers;
  for (const Json& item : value) integers.push_back(integer_of<int64_t>(what, item));
  return integers;
}

Dims dims_of(std::string_view what, const Json& value) {
  Dims dims;
  for (int64_t size : integers_of(what, value)) dims.push_back(size);
  return dims;
}

Attribute attribute_of(const AttributeInfo& info, const Json& value) {
  const std::string what = "attribute \"" + info.name + '"';
  if (value.is_null()) return {};
  if (info.type == "bool") {
    if (!value.is_boolean())
      fail<ArgumentError>(what, ": true or false is needed, not ", value.dump());
    return value.get<bool>();
  }
  if (info.type == "int") return integer_of<int64_t>(what, value);
  if (info.type == "float") return real_of(what, value);
  if (info.type == "number") {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const bool whole = text.find_first_not_of("-0123456789") == text.npos;
    return whole ? Attribute(integer_of<int64_t>(what, value)) : Attribute(real_of(what, value));
  }
  if (info.type == "ints") {
    if (value.is_array()) return integers_of(what, value);
    return integer_of<int64_t>(what, value);
  }
  if (info.type == "str" && value.is_number())
    return value.dump();        // the `ord` of a norm may be a number
  return text_of(what, value);  // types str and dtype
}

StridedLayout view_of(std::string_view what, const Json& value) {
  check_keys(what, value, {"shape", "strides", "offset"});
  if (!value.contains("shape")) fail<ArgumentError>(what, ": a view needs a shape");
  StridedLayout view;
  view.shape = dims_of(what, value["shape"]);
  view.strides =
      value.contains("strides") ? dims_of(what, value["strides"]) : contiguous_strides(view.shape);
  if (view.strides.rank() != view.shape.rank())
    fail<ArgumentError>(what, ": ", view.strides.rank(), " strides for shape ", view.shape);
  if (value.contains("offset")) view.offset = integer_of<int64_t>(what, value["offset"]);
  return view;
}

TensorRef tensor_of(std::string_view what, const Json& value, bool may_have_grad) {
  if (may_have_grad)
    check_keys(what, value, {"t", "view", "grad"});
  else
    check_keys(what, value, {"t", "view"});
  if (!value.contains("t")) fail<ArgumentError>(what, ": no tensor is named");
  TensorRef ref{.name = text_of(what, value["t"])};
  if (value.contains("view")) ref.view = view_of(what, value["view"]);
  if (value.contains("grad")) {
    if (!value["grad"].is_boolean())
      fail<ArgumentError>(what, ": grad is true or false, not ", value["grad"].dump());
    ref.grad = value["grad"].get<bool>();
  }
  return ref;
}

std::optional<TensorRef> optional_tensor_of(std::string_view what, const Json& value) {
  if (value.is_null()) return {};
  return tensor_of(what, value, /*may_have_grad=*/true);
}

std::vector<std::optional<TensorRef>> input_of(const InputInfo& info, const Json& value) {
  const std::string what = "input \"" + info.name + '"';
  if (!info.list) return {optional_tensor_of(what, value)};
  if (value.is_null()) return {};
  check_keys(what, value, {"list"});
  if (!value.contains("list") || !value["list"].is_array())
    fail<ArgumentError>(what, ": a {\"list\": [...]} is needed, not ", value.dump());
  std::vector<std::optional<TensorRef>> items;
  for (const Json& item : value["list"]) items.push_back(optional_tensor_of(what, item));
  return items;
}

/// Returns the inputs in the order of declaration; null for an input that is left out before a
/// given one.
std::vector<Json> in_order(const OpInfo& op, const Json& inputs) {
  std::vector<Json> values;
  if (inputs.is_array()) {
    if (inputs.size() > op.inputs.size())
      fail<ArgumentError>(op.name, ": ", inputs.size(), " inputs given; ", op.signature());
    return {inputs.begin(), inputs.end()};
  }
  if (!inputs.is_object())
    fail<ArgumentError>("inputs: a list or an object is needed, not ", inputs.dump());
  size_t found = 0;
  for (size_t i = 0; i < op.inputs.size() && found < inputs.size(); ++i) {
    const auto input = inputs.find(op.inputs[i].name);
    values.push_back(input == inputs.end() ? Json() : *input);
    if (input != inputs.end()) ++found;
  }
  for (const auto& [name, value] : inputs.items())
    if (std::none_of(op.inputs.begin(), op.inputs.end(),
                     [&](const InputInfo& info) { return info.name == name; }))
      fail<ArgumentError>(op.name, ": unknown input \"", name, "\"; ", op.signature());
  return values;
}

std::vector<TensorRef> seeds_of(std::string_view what, const Json& value) {
  if (!value.is_array()) fail<ArgumentError>(what, ": a list is needed, not ", value.dump());
  std::vector<TensorRef> seeds;
  for (const Json& item : value)
    seeds.push_back(item.is_string() ? TensorRef{.name = item.get<std::string>()}
                                     : tensor_of(what, item, /*may_have_grad=*/false));
  return seeds;
}

}  // namespace

std::vector<CaseLine> read_case_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail<IoError>("cannot open ", path);
  std::vector<CaseLine> lines;
  std::set<std::string> ids;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    try {
      Json fields = parse_line(text);
      if (!fields.is_object()) fail<FormatError>("a case is an object, not ", fields.type_name());
      if (!fields.contains("id") || !fields["id"].is_string())
        fail<FormatError>("a case needs an \"id\", a string");
      std::string id = fields["id"].get<std::string>();
      if (!ids.insert(id).second) fail<FormatError>("a second case \"", id, '"');
      lines.push_back({std::move(id), std::move(fields)});
    } catch (const std::exception& error) {
      fail<FormatError>(path, ':', number, ": ", error.what());
    }
  }
  if (file.bad()) fail<IoError>("cannot read ", path);
  return lines;
}

Case parse_case(const CaseLine& line) {
  const Json& fields = line.fields;
  check_keys("case", fields,
             {"id", "op", "inputs", "attrs", "order", "seeds", "seeds2", "rng_seed", "expect"});
  if (!fields.contains("op")) fail<ArgumentError>("case: no op is named");
  Case result{.op = &catalog().find(text_of("op", fields["op"]))};
  const OpInfo& op = *result.op;

  if (fields.contains("inputs")) {
    const std::vector<Json> inputs = in_order(op, fields["inputs"]);
    for (size_t i = 0; i < inputs.size(); ++i)
      result.inputs.push_back(input_of(op.inputs[i], inputs[i]));
  }
  if (fields.contains("attrs")) {
    if (!fields["attrs"].is_object())
      fail<ArgumentError>("attrs: an object is needed, not ", fields["attrs"].dump());
    for (const auto& [name, value] : fields["attrs"].items()) {
      const auto info =
          std::find_if(op.attributes.begin(), op.attributes.end(),
                       [&](const AttributeInfo& known) { return known.name == name; });
      if (info == op.attributes.end())
        fail<ArgumentError>(op.name, ": unknown attribute \"", name, "\"; ", op.signature());
      result.attributes.emplace(name, attribute_of(*info, value));
    }
  }
  if (fields.contains("order")) {
    result.order = integer_of<int>("order", fields["order"]);
    if (*result.order < 0 || *result.order > 2)
      fail<ArgumentError>("order: 0, 1 or 2, not ", *result.order);
  }
  if (fields.contains("seeds")) result.seeds = seeds_of("seeds", fields["seeds"]);
  if (fields.contains("seeds2")) result.seeds2 = seeds_of("seeds2", fields["seeds2"]);
  if (fields.contains("rng_seed"))
    result.rng_seed = integer_of<uint64_t>("rng_seed", fields["rng_seed"]);
  return result;
}

std::string expected_error(const CaseLine& line) {
  const auto expect = line.fields.find("expect");
  if (expect == line.fields.end() || *expect == "ok") return "";
  if (!expect->is_object() || expect->size() != 1 || !expect->contains("error"))
    fail<ArgumentError>("expect: \"ok\" or {\"error\": ...} is needed, not ", expect->dump());
  const std::string kind = text_of("expect", (*expect)["error"]);
  const std::set<std::string> kinds = {"argument", "shape",    "dtype",  "index",
                                       "device",   "autograd", "kernel", "out_of_memory"};
  if (!kinds.contains(kind)) fail<ArgumentError>("expect: no such error: \"", kind, '"');
  return kind;
}

}  // namespace tapegrad::tools
