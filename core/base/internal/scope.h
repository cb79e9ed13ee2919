// Which part of a model is running on this thread: what errors and pictures of the tape call
// "Net.fc1". Modules name themselves when they are called (nn/module.h).
#pragma once

#include <string>
#include <string_view>

namespace tapegrad {

namespace detail {

// Trivial type and a fixed offset, as the lists of core/base/free_list.h: every op that is recorded
// reads it.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local const std::string* scope;

}  // namespace detail

/// Null outside of every module.
inline const std::string* current_scope() { return detail::scope; }

/// One string for equal texts, for as long as the program runs.
const std::string* intern_scope(std::string_view text);

/// Enters a part for as long as it lives.
class [[nodiscard]] Scope {
 public:
  explicit Scope(const std::string* name) : before_(detail::scope) { detail::scope = name; }
  ~Scope() { detail::scope = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const std::string* before_;
};

}  // namespace tapegrad
