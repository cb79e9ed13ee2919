#include "tools/selection.h"

#include <iostream>
#include <regex>

#include <tapegrad/core/error.h>
#include <tapegrad/io/safetensors.h>

namespace tapegrad::tools {

Selection select_cases(const OpOptions& options) {
  std::regex filter;
  try {
    filter = std::regex(options.filter);
  } catch (const std::regex_error& error) {
    fail<UsageError>("--filter: not a regular expression: ", options.filter);
  }
  Selection selection{read_case_file(options.cases), load(options.tensors)};
  if (!options.filter.empty())
    std::erase_if(selection.cases,
                  [&](const CaseLine& line) { return !std::regex_search(line.id, filter); });
  return selection;
}

void Tally::add(const CaseLine& line, const Outcome& outcome) {
  ++count_;
  if (outcome.status == "crash" || outcome.status == "timeout") ++crashed_;
  if (is_as_expected(line, outcome)) return;
  ++unexpected_;
  std::cerr << outcome.id << ": " << outcome.status;
  if (!outcome.kind.empty()) std::cerr << " (" << outcome.kind << ')';
  if (!outcome.message.empty()) std::cerr << ": " << outcome.message;
  if (line.fields.contains("expect")) std::cerr << "; expected " << line.fields["expect"].dump();
  std::cerr << '\n';
}

ExitStatus Tally::finish() const {
  std::cerr << count_ << " case(s), " << count_ - unexpected_ << " as expected\n";
  if (crashed_ > 0) return kCrashed;
  return unexpected_ > 0 ? kNotAsExpected : kAsExpected;
}

}  // namespace tapegrad::tools
