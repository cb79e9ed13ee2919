// The source line of the newest node, for observers of results (core/autograd/internal).
#pragma once

#include <optional>

#include "core/base/where.h"

namespace tapegrad::detail {

/// Returns the line of the newest node that this thread made since the last call; empty if there is
/// none.
std::optional<Where> take_newest_line();

}  // namespace tapegrad::detail
