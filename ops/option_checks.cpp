#include "ops/option_checks.h"

#include <cmath>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"

namespace tapegrad::detail {
namespace {

void require(bool is_valid, std::string_view of, std::string_view option, double value,
             std::string_view wanted, Where where) {
  if (is_valid) return;
  const ErrorLine line(where);
  fail<ArgumentError>(of, ": ", option, " is ", value, ", not ", wanted);
}

}  // namespace

void require_share(std::string_view of, std::string_view option, double value, Where where) {
  require(value >= 0 && value <= 1, of, option, value, "in [0, 1]", where);
}
void require_not_negative(std::string_view of, std::string_view option, double value, Where where) {
  require(value >= 0 && !std::isinf(value), of, option, value, "a number from 0", where);
}
void require_positive(std::string_view of, std::string_view option, double value, Where where) {
  require(value > 0, of, option, value, "> 0", where);
}
void require_number(std::string_view of, std::string_view option, double value, Where where) {
  require(!std::isnan(value), of, option, value, "a number", where);
}

void require_from(std::string_view of, std::string_view option, int64_t value, int64_t low,
                  Where where) {
  if (value >= low) return;
  const ErrorLine line(where);
  fail<ArgumentError>(of, ": ", option, " is ", value, ", not at least ", low);
}

}  // namespace tapegrad::detail
