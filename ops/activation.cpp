#include "ops/activation.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_activation(Catalog&) {}

}  // namespace tapegrad
