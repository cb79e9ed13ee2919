#include "ops/matmul.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_matmul(Catalog&) {}

}  // namespace tapegrad
