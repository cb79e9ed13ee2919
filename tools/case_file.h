// The case file of `tapegrad op`: JSON Lines with one case per line.
//
//   {"id": "softmax/3", "op": "softmax", "inputs": [{"t": "x", "grad": true}],
//    "attrs": {"dim": 1}, "order": 1, "seeds": ["v"], "expect": "ok"}
//
// Unknown content is an error: of the file if a line is not a JSON object with a unique id, of the
// case otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tapegrad/ops/catalog.h>

namespace tapegrad::tools {

/// A line of which only the id has been parsed.
struct CaseLine {
  std::string id;
  nlohmann::json fields;
};

/// Throws FormatError, with file and line, for a line that is not a JSON object, has a duplicate
/// key, or has no id or one used before. Skips blank lines. Throws IoError if the file cannot be
/// read.
std::vector<CaseLine> read_case_file(const std::string& path);

/// A tensor of the file, or a view of one.
struct TensorRef {
  std::string name;
  std::optional<StridedLayout> view = {};  // of the stored buffer, seen as one-dimensional
  bool grad = false;
};

struct Case {
  const OpInfo* op = nullptr;
  /// In the order of declaration: one item per input, nullopt if it is left out, several for a
  /// list.
  std::vector<std::vector<std::optional<TensorRef>>> inputs = {};
  Attributes attributes = {};
  std::optional<int> order = {};
  std::vector<TensorRef> seeds = {};
  std::vector<TensorRef> seeds2 = {};
  uint64_t rng_seed = 0;
};

/// Throws ArgumentError for an unknown op, key, input or attribute, and for values of a wrong type.
Case parse_case(const CaseLine& line);

/// Returns the kind of error that the case expects, for example "shape"; empty if it expects none.
/// Throws ArgumentError for an unknown kind.
std::string expected_error(const CaseLine& line);

}  // namespace tapegrad::tools
