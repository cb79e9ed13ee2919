#include "ops/random.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_random(Catalog&) {}

}  // namespace tapegrad
