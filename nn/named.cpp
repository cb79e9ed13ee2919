#include "nn/named.h"

#include "core/base/error.h"

namespace tapegrad::detail {

void fail_unknown_name(std::string_view name, const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  fail<ArgumentError>("no variable is called \"", name, "\"; there are ", list);
}

}  // namespace tapegrad::detail
