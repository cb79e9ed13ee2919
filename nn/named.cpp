#include "nn/named.h"

#include "core/base/error.h"

namespace tapegrad::detail {

void fail_unknown_name(NameHere name, const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
  fail_at<ArgumentError>(name.where, "no variable is called \"", name.name, "\"; there are ", list);
}

size_t place_of(IndexHere i, size_t size) {
  if (i.index < 0 || i.index >= int64_t(size))
    fail_at<IndexError>(i.where, "there is no variable ", i.index, " among ", size);
  return size_t(i.index);
}

}  // namespace tapegrad::detail
