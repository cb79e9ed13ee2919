// tapegrad op list: prints the catalog as text, as JSON, or as docs/ops.md.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <iostream>

#include <nlohmann/json.hpp>
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include <tapegrad/core/error.h>

#include "tools/commands.h"
#include "tools/declarations.h"
#include "tools/dtype_probe.h"

namespace tapegrad::tools {
namespace {

using Json = nlohmann::ordered_json;

/// An op and its dtypes on each device.
struct Row {
  const OpInfo* op;
  std::vector<DType> on_cpu;
  std::vector<DType> on_cuda;
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const OpInfo& op : catalog().ops()) {
    rows.push_back({&op, find_dtypes(op, cpu), {}});
    if (is_available(gpu)) rows.back().on_cuda = find_dtypes(op, gpu);
    if (rows.back().on_cpu.empty())
      std::cerr << op.name << ": no arguments found with which it runs; give its row an example\n";
  }
  return rows;
}

std::vector<std::string> names(const std::vector<DType>& dtypes) {
  std::vector<std::string> names;
  for (DType dtype : dtypes) names.emplace_back(name(dtype));
  return names;
}

Json to_json(const Attribute& value) {
  return std::visit(
      [](const auto& x) -> Json {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::same_as<T, std::monostate>) return nullptr;
        if constexpr (std::same_as<T, double>)  // JSON has no NaN and no infinity
          if (!std::isfinite(x)) return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
        if constexpr (!std::same_as<T, std::monostate>) return x;
      },
      value);
}

Json to_json(const Row& row) {
  Json inputs = Json::array(), attributes = Json::array();
  for (const InputInfo& input : row.op->inputs)
    inputs.push_back({{"name", input.name}, {"optional", input.optional}, {"list", input.list}});
  for (const AttributeInfo& info : row.op->attributes) {
    attributes.push_back({{"name", info.name}, {"type", info.type}});
    if (!info.required) attributes.back()["default"] = to_json(info.standard);
  }
  return {{"name", row.op->name},
          {"inputs", inputs},
          {"attributes", attributes},
          {"dtypes", {{"cpu", names(row.on_cpu)}, {"cuda", names(row.on_cuda)}}},
          {"max_order", row.op->traits.max_order},
          {"random", row.op->traits.random},
          {"inplace", row.op->traits.inplace}};
}

template <typename... Ts>
std::vector<DType> list_of(TypeList<Ts...>) {
  return {kDTypeOf<Ts>...};
}

/// Returns "float", "number" or "all" for the most common lists.
std::string short_names(const std::vector<DType>& dtypes) {
  const auto same = [&](std::vector<DType> list) {
    return std::is_permutation(list.begin(), list.end(), dtypes.begin(), dtypes.end());
  };
  if (same(list_of(kFloatTypes))) return "float";
  if (same({f16, bf16, f32, f64, i8, i16, i32, i64, u8})) return "number";
  if (same(list_of(kAllTypes))) return "all";
  return absl::StrJoin(names(dtypes), " ");
}

const char* order_name(int max_order) {
  return max_order == 0 ? "none" : max_order == 1 ? "first" : "any";
}

void print_text(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    std::cout << row.op->signature() << "\n    " << row.op->formula
              << "\n    cpu: " << short_names(row.on_cpu);
    if (!row.on_cuda.empty()) std::cout << "; cuda: " << short_names(row.on_cuda);
    std::cout << "; derivatives: " << order_name(row.op->traits.max_order)
              << (row.op->traits.random ? "; random" : "") << '\n';
  }
}

/// Escapes text for a Markdown table cell, in which formulas must not create emphasis or columns.
std::string escape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"|", "\\|"}, {"*", "\\*"}, {"_", "\\_"}, {"<", "&lt;"}, {"[", "\\["}, {"`", "\\`"}});
}

constexpr const char* kIntroduction = R"(# Every op

`tapegrad op list --format=markdown >docs/ops.md`, run in the root of the repository, writes this
page. A test fails if the page is out of date.

Arguments without a type are inputs: `?` marks an optional input, `*` a list. Arguments with a type
are attributes; those with a default are optional. Names, arguments and defaults are PyTorch's. The
header beside the source describes the shapes and errors of an op. Below each signature are the C++
declarations, without their last argument `Where where`, the source location. `ops/aliases.h` has other
names of ops.

- **dtypes** lists the dtypes with which the op runs on the CPU and on a GPU, as found by running it,
  for those inputs that have a choice (for the result, if the op has no inputs). *float* is float16,
  bfloat16, float32 and float64; *number* is every dtype but bool; *all* is every dtype.
  Both devices have the same dtypes; a test compares them on the stand-in of [gpu.md](gpu.md), which
  also names the ops that may run on the CPU.
- **derivatives** is the highest order of derivatives; *none* if the op has no derivative.
- An op whose name ends in `_` writes to its first input.
)";

void print_markdown(const std::vector<Row>& rows) {
  std::cout << kIntroduction;
  const Declarations declarations = read_declarations(".");
  std::string source;
  for (const Row& row : rows) {
    const OpInfo& op = *row.op;
    if (op.source != source) {
      source = op.source;
      const std::string family = source.substr(4, source.rfind('.') - 4);
      std::cout << "\n## " << family << "\n\n"
                << "| op | formula | dtypes | derivatives | source |\n"
                << "|----|---------|--------|-------------|--------|\n";
    }
    std::cout << "| `" << op.signature() << '`';
    if (const auto declared = declarations.find(op.name); declared != declarations.end())
      for (const std::string& each : declared->second) std::cout << "<br>`" << each << '`';
    std::cout << " | " << escape(op.formula) << (op.traits.random ? " (random)" : "") << " | "
              << short_names(row.on_cpu) << " | " << order_name(op.traits.max_order)
              << " | [source](../" << op.source << ") |\n";
  }
}

}  // namespace

ExitStatus list_ops(const OpOptions& options) {
  if (options.format != "text" && options.format != "json" && options.format != "markdown")
    fail<UsageError>("--format: text, json or markdown, not ", options.format);
  const std::vector<Row> rows = all_rows();
  if (options.format == "text") print_text(rows);
  if (options.format == "markdown") print_markdown(rows);
  if (options.format == "json") {
    Json list = Json::array();
    for (const Row& row : rows) list.push_back(to_json(row));
    std::cout << list.dump(1) << '\n';
  }
  return kAsExpected;
}

}  // namespace tapegrad::tools
