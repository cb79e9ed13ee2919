// The case file of `tapegrad op`: JSON Lines, one case a line.
//
//   {"id": "softmax/3", "op": "softmax", "inputs": [{"t": "x", "grad": true}],
//    "attrs": {"dim": 1}, "order": 1, "seeds": ["v"], "expect": "ok"}
//
// Nothing in it is ignored: what is not known is an error, of the file when it is no JSON object
// with an id of its own, of the case otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tapegrad/ops/catalog.h>

namespace tapegrad::tools {

/// A line, of which only the id is known yet.
struct CaseLine {
  std::string id;
  nlohmann::json fields;
};

/// FormatError, with file and line, for a line that is no JSON object, names a key twice or has an
/// id that is missing or an earlier line's. Blank lines are skipped. IoError when it cannot be
/// read.
std::vector<CaseLine> read_case_file(const std::string& path);

/// A tensor of the file, or a view of it.
struct TensorRef {
  std::string name;
  std::optional<Layout> view = {};  // of the flat stored buffer
  bool grad = false;
};

struct Case {
  const OpInfo* op = nullptr;
  /// In the order of declaration: one item, nullopt when it is left out, or those of a list.
  std::vector<std::vector<std::optional<TensorRef>>> inputs = {};
  Attributes attributes = {};
  std::optional<int> order = {};
  std::vector<TensorRef> seeds = {};
  std::vector<TensorRef> seeds2 = {};
  uint64_t rng_seed = 0;
};

/// ArgumentError for an unknown op, key, input or attribute, and for values of a wrong type.
Case parse_case(const CaseLine& line);

/// The error that a case expects: "shape", or empty for none. ArgumentError for anything else.
std::string expected_error(const CaseLine& line);

}  // namespace tapegrad::tools
