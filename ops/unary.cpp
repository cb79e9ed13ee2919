#include "ops/unary.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_unary(Catalog&) {}

}  // namespace tapegrad
