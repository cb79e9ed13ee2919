#include "core/base/internal/scope.h"

#include <functional>
#include <mutex>
#include <set>

namespace tapegrad {

const std::string* intern_scope(std::string_view text) {
  static std::mutex& mutex = *new std::mutex;  // never destroyed: nodes may outlive all other
                                               // objects
  static auto& names = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  const auto found = names.find(text);
  return &*(found != names.end() ? found : names.emplace(text).first);
}

}  // namespace tapegrad
