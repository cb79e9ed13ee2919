// The name of the module that is running on this thread, such as "Net.fc1". Errors and pictures of
// the tape show it. Modules set it when they are called (nn/module.h).
#pragma once

#include <string>
#include <string_view>

#include "core/base/context.h"

namespace tapegrad {

/// Returns the name of the running module; null outside of all modules.
inline const std::string* current_scope() { return detail::context.scope; }

/// Returns one shared string for equal texts. The string is never destroyed.
const std::string* intern_scope(std::string_view text);

/// Sets the name of the running module for the lifetime of the object.
using Scope = detail::Set<&detail::Context::scope>;

/// Returns ", in Net.fc1", for example; empty outside of all modules.
inline std::string in_scope(const std::string* scope) {
  return scope != nullptr ? ", in " + *scope : std::string();
}

}  // namespace tapegrad
