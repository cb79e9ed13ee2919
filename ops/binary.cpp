#include "ops/binary.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_binary(Catalog&) {}

}  // namespace tapegrad
