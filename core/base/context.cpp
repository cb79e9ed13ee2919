#include "core/base/context.h"

namespace tapegrad {

constinit thread_local detail::Context detail::context;

}  // namespace tapegrad
