// What stands on the command line of `tapegrad op`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tapegrad/core/error.h>

namespace tapegrad::tools {

/// The process's exit status; the worst of all cases counts.
enum ExitStatus {
  kAsExpected = 0,
  kNotAsExpected = 1,
  kUsage = 2,      // a wrong command line, or a file that cannot be opened or written
  kMalformed = 3,  // an input file that is not what its format says
  kCrashed = 4,    // with --isolate: a case crashed or timed out
};

/// A command line that cannot be meant.
struct UsageError : Error {
  using Error::Error;
};

struct OpOptions {
  std::string format = "text";
  std::string cases;
  std::string tensors;
  std::string out;
  std::string status;
  std::string device = "cpu";
  std::string filter;        // of ids; a part of the id is enough
  int threads = 0;           // 0: as OpenMP likes
  std::optional<int> order;  // at most this order; of cases that name none, this one
  double min_time = 0.5;     // seconds
  double case_timeout = 30;  // seconds
  bool isolate = false;
};

/// Reads --name=value. UsageError for a name that is not among `known`, or a value that does not
/// fit.
OpOptions parse_options(const std::vector<std::string_view>& arguments,
                        const std::vector<std::string_view>& known);

/// UsageError unless every one of these has a value.
void require_options(const OpOptions& options, const std::vector<std::string_view>& names);

}  // namespace tapegrad::tools
