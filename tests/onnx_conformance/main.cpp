// Runs ONNX's node tests through public ops:
//
//   onnx_conformance [folder of the cases]              prints each case that does not pass; counts
//   onnx_conformance --format=markdown [folder]         prints docs/onnx_conformance.md
//
// Fails if a case gives a wrong result, or if fewer than kLeast cases pass. Results must have the
// dtype and shape of the expected ones, and equal values within a relative tolerance of 1e-3 and an
// absolute tolerance of 1e-7.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "tests/onnx_conformance/graph.h"

namespace tapegrad::onnx_conformance {
namespace {

namespace fs = std::filesystem;
constexpr int kLeast = 450;

Operators all_operators() {
  Operators table;
  add_elementwise(table);
  add_reductions(table);
  add_shapes(table);
  add_indexing(table);
  add_networks(table);
  add_pooling(table);
  add_resizing(table);
  add_recurrent(table);
  add_quantized(table);
  add_signal(table);
  return table;
}

/// Cases whose expected values do not follow from their inputs.
constexpr const char* kCutOff = "expected values cut off where a cast rounds to the nearest";
const std::map<std::string, std::string> kFaulty = {
    {"test_adam_multiple",
     "expected values for epsilon = 0.01, which the node lacks: its default is 1e-6"},
    {"test_cast_FLOAT_to_BFLOAT16", kCutOff},
    {"test_castlike_FLOAT_to_BFLOAT16", kCutOff},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", kCutOff}};

/// Reads input_0.pb, input_1.pb ... of a folder.
Values numbered(const fs::path& folder, const std::string& name,
                const std::vector<int64_t>& types) {
  Values values;
  for (size_t i = 0; i < types.size(); ++i) {
    const fs::path path = folder / (name + '_' + std::to_string(i) + ".pb");
    if (!fs::exists(path)) break;
    values.push_back(fs::file_size(path) == 0 ? Variable() : read_tensor(path, types[i]));
  }
  return values;
}

/// Returns "" if both are equal within the tolerance.
std::string difference(const Variable& got, const Variable& expected) {
  std::ostringstream text;
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) {
    text << got.dtype() << ' ' << got.shape() << " instead of " << expected.dtype() << ' '
         << expected.shape();
    return text.str();
  }
  const auto x = got.to_vector<double>(), y = expected.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (std::abs(x[i] - y[i]) <= 1e-7 + 1e-3 * std::abs(y[i])) continue;
    text << "element " << i << " of " << got.shape() << " is " << x[i] << " instead of " << y[i];
    return text.str();
  }
  return {};
}

enum class Outcome { kPassed, kFailed, kUnsupported };
struct Result {
  std::string name;
  Outcome outcome;
  std::string reason;
};

Result run_case(const fs::path& folder, const Operators& table) {
  Result result{folder.filename().string(), Outcome::kPassed, {}};
  if (const auto found = kFaulty.find(result.name); found != kFaulty.end())
    return {result.name, Outcome::kUnsupported, found->second};
  try {
    const Graph graph = read_graph(folder / "model.onnx");
    for (int set = 0; fs::exists(folder / ("test_data_set_" + std::to_string(set))); ++set) {
      const fs::path data = folder / ("test_data_set_" + std::to_string(set));
      const Values outputs = run(graph, numbered(data, "input", graph.input_types), table);
      const Values expected = numbered(data, "output", graph.output_types);
      if (expected.empty()) throw std::runtime_error("no expected values");
      for (size_t k = 0; k < expected.size() && result.reason.empty(); ++k)
        result.reason = difference(outputs.at(k), expected[k]);
    }
    if (!result.reason.empty()) result.outcome = Outcome::kFailed;
  } catch (const Unsupported& error) {
    result = {result.name, Outcome::kUnsupported, error.what()};
  } catch (const KernelError& error) {
    result = {result.name, Outcome::kUnsupported, error.what()};
  } catch (const std::exception& error) {
    result = {result.name, Outcome::kFailed, error.what()};
  }
  return result;
}

void print_markdown(const std::vector<Result>& results, const std::array<int, 3>& counts) {
  std::cout
      << "# ONNX's node tests\n\n"
      << "Printed by `onnx_conformance --format=markdown`. The " << results.size()
      << " cases of Debian's libonnx-testdata 1.12 run\nthrough public ops, with a relative "
         "tolerance of 1e-3 and an absolute tolerance of 1e-7.\n\n"
      << "| passed | failed | unsupported |\n|---|---|---|\n| " << counts[0] << " | " << counts[1]
      << " | " << counts[2] << " |\n\n## Unsupported\n\n"
      << "There is no dtype for unsigned integers of 16 bits and more, for strings and for "
         "sequences. Control\nflow is written in C++. \"No operator\" means that no public op "
         "computes the operator.\n\n";
  std::map<std::string, std::string> by_reason;
  for (const Result& result : results) {
    if (result.outcome == Outcome::kPassed) continue;
    std::string& list = by_reason[result.reason];
    list += (list.empty() ? "`" : ", `") + result.name + '`';
  }
  std::cout << "| reason | cases |\n|---|---|\n";
  for (const auto& [reason, list] : by_reason)
    std::cout << "| " << reason << " | " << list << " |\n";
}

}  // namespace
}  // namespace tapegrad::onnx_conformance

int main(int argc, char** argv) {
  using namespace tapegrad;
  using namespace tapegrad::onnx_conformance;
  bool markdown = false;
  fs::path root = TAPEGRAD_ONNX_DATA;
  for (int i = 1; i < argc; ++i)
    std::string(argv[i]) == "--format=markdown" ? void(markdown = true) : void(root = argv[i]);
  const Operators table = all_operators();
  const NoGrad off;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(root)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<Result> results;
  std::array<int, 3> counts{};
  for (const fs::path& folder : folders) {
    results.push_back(run_case(folder, table));
    ++counts[size_t(results.back().outcome)];
  }
  if (markdown) {
    print_markdown(results, counts);
  } else {
    for (const Result& result : results)
      if (result.outcome != Outcome::kPassed)
        std::cout << (result.outcome == Outcome::kFailed ? "failed      " : "unsupported ")
                  << result.name << ": " << result.reason << '\n';
    std::cout << results.size() << " cases: " << counts[0] << " passed, " << counts[1]
              << " failed, " << counts[2] << " unsupported\n";
  }
  return counts[1] == 0 && counts[0] >= kLeast ? 0 : 1;
}
