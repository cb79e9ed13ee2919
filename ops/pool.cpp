#include "ops/pool.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_pool(Catalog&) {}

}  // namespace tapegrad
