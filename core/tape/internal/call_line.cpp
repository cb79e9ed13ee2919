#include "core/tape/internal/call_line.h"

#include "core/base/error.h"
#include "core/base/internal/scope.h"

namespace tapegrad {

// Declared in core/base/error.h, which does not depend on nodes.
void detail::locate_call(Error& error) {
  const TapeNode* node = running_node();
  if (node == nullptr) {
    if (context.error_line != nullptr) locate(error, *context.error_line);
  } else if (is_call_line(*node)) {
    locate(error, node->where());
  } else {
    error.locate("in the backward of " + describe(*node) + in_scope(node->scope()));
  }
}

}  // namespace tapegrad
