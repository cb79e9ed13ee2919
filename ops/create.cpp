#include "ops/create.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_create(Catalog&) {}

}  // namespace tapegrad
