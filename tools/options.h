// Command line options of `tapegrad op`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tapegrad/core/error.h>

namespace tapegrad::tools {

/// Exit status of the process; the highest status of all cases.
enum ExitStatus {
  kAsExpected = 0,
  kNotAsExpected = 1,
  kUsage = 2,      // invalid command line, or a file that cannot be opened or written
  kMalformed = 3,  // malformed input file
  kCrashed = 4,    // with --isolate: a case crashed or timed out
};

/// Invalid command line.
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
  std::string filter;        // regular expression, searched for in the id
  int threads = 0;           // 0: OpenMP's default
  std::optional<int> order;  // highest order of derivatives; the order of cases that have none
  double min_time = 0.5;     // seconds
  double case_timeout = 30;  // seconds
  bool isolate = false;
  bool cpu_time = false;  // measure processor time of all threads
};

/// Parses --name=value. Throws UsageError for a name that is not in `known` or an invalid value.
OpOptions parse_options(const std::vector<std::string_view>& arguments,
                        const std::vector<std::string_view>& known);

/// Throws UsageError unless each of these options has a value.
void require_options(const OpOptions& options, const std::vector<std::string_view>& names);

}  // namespace tapegrad::tools
