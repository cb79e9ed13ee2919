#include "tools/options.h"

#include <algorithm>
#include <charconv>

#include "absl/time/time.h"

#include <tapegrad/core/error.h>

namespace tapegrad::tools {
namespace {

int parse_int(std::string_view name, std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    fail<UsageError>("--", name, ": a whole number from ", low, " to ", high, ", not ", text);
  return value;
}

double parse_seconds(std::string_view name, std::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(std::string(text), &duration) || duration <= absl::ZeroDuration() ||
      duration == absl::InfiniteDuration())
    fail<UsageError>("--", name, ": a time such as 30s or 500ms, not ", text);
  return absl::ToDoubleSeconds(duration);
}

std::string* text_option(OpOptions& options, std::string_view name) {
  if (name == "format") return &options.format;
  if (name == "cases") return &options.cases;
  if (name == "tensors") return &options.tensors;
  if (name == "out") return &options.out;
  if (name == "status") return &options.status;
  if (name == "device") return &options.device;
  if (name == "filter") return &options.filter;
  return nullptr;
}

}  // namespace

OpOptions parse_options(const std::vector<std::string_view>& arguments,
                        const std::vector<std::string_view>& known) {
  OpOptions options;
  for (std::string_view argument : arguments) {
    const size_t equals = argument.find('=');
    const bool dashed = argument.starts_with("--");
    const std::string_view name = dashed ? argument.substr(2, equals - 2) : argument;
    if (!dashed || std::find(known.begin(), known.end(), name) == known.end())
      fail<UsageError>("unknown option ", argument);
    if (name == "isolate" || name == "cpu_time") {
      if (equals != argument.npos) fail<UsageError>("--", name, " takes no value");
      (name == "isolate" ? options.isolate : options.cpu_time) = true;
      continue;
    }
    if (equals == argument.npos) fail<UsageError>(argument, " needs a value, ", argument, "=...");
    const std::string_view value = argument.substr(equals + 1);
    if (std::string* text = text_option(options, name))
      *text = value;
    else if (name == "threads")
      options.threads = parse_int(name, value, 1, 4096);
    else if (name == "order")
      options.order = parse_int(name, value, 0, 2);
    else if (name == "min_time")
      options.min_time = parse_seconds(name, value);
    else
      options.case_timeout = parse_seconds(name, value);
  }
  return options;
}

void require_options(const OpOptions& options, const std::vector<std::string_view>& names) {
  OpOptions copy = options;
  for (std::string_view name : names)
    if (text_option(copy, name)->empty()) fail<UsageError>("--", name, " is missing");
}

}  // namespace tapegrad::tools
