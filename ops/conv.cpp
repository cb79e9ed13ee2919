#include "ops/conv.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_conv(Catalog&) {}

}  // namespace tapegrad
