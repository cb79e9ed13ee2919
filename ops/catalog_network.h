// The rows of the ops that only networks use, beside the families in ops/catalog.h.
#pragma once

#include "ops/catalog.h"

namespace tapegrad {

void catalog_noise(Catalog& catalog);
void catalog_activation_composed(Catalog& catalog);
void catalog_conv_nd(Catalog& catalog);
void catalog_pool_nd(Catalog& catalog);
void catalog_norm_composed(Catalog& catalog);
void catalog_margin_loss(Catalog& catalog);
void catalog_ctc_loss(Catalog& catalog);
void catalog_image(Catalog& catalog);
void catalog_sample(Catalog& catalog);
void catalog_attention(Catalog& catalog);
void catalog_recurrent(Catalog& catalog);

}  // namespace tapegrad
