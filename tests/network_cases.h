// The rows of the families of ops/catalog_network.h.
#pragma once

#include "tests/op_case.h"

namespace tapegrad::testing {

void noise_cases(OpCases& cases);
void conv_nd_cases(OpCases& cases);
void pool_nd_cases(OpCases& cases);
void margin_loss_cases(OpCases& cases);
void ctc_loss_cases(OpCases& cases);
void image_cases(OpCases& cases);
void sample_cases(OpCases& cases);
void attention_cases(OpCases& cases);
void recurrent_cases(OpCases& cases);

}  // namespace tapegrad::testing
