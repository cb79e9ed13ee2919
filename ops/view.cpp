#include "ops/view.h"

#include "core/op.h"
#include "ops/catalog.h"

namespace tapegrad {

void catalog_view(Catalog&) {}

}  // namespace tapegrad
