#include "ops/index.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_index(Catalog&) {}

}  // namespace tapegrad
