// The part of a model that runs on this thread, as errors and pictures of the tape name it:
// "Net.fc1". A module sets it when it is called (nn/module.h).
#pragma once

#include <string>
#include <string_view>

#include "core/base/context.h"

namespace tapegrad {

/// Null outside of every module.
inline const std::string* current_scope() { return detail::context.scope; }

/// Returns one string for equal texts. The string is never destroyed.
const std::string* intern_scope(std::string_view text);

/// Enters a part for as long as the object lives.
using Scope = detail::Set<&detail::Context::scope>;

/// ", in Net.fc1", or nothing.
inline std::string in_scope(const std::string* scope) {
  return scope != nullptr ? ", in " + *scope : std::string();
}

}  // namespace tapegrad
