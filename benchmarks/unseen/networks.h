// Networks as users write them: layers and ops called one after another, no fused calls, no tuning.
// benchmarks/peers/torch_unseen.py has the same networks in PyTorch.
#pragma once

#include "benchmarks/steps.h"

namespace tapegrad::bench {

std::vector<Network> image_networks();
std::vector<Network> dense_image_networks();
std::vector<Network> sequence_networks();
std::vector<Network> other_networks();
std::vector<Network> further_networks();

}  // namespace tapegrad::bench
