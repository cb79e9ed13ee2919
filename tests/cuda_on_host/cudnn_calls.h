// What the stand-in for cuDNN was asked, for tests of who asks it.
#pragma once

namespace coh {

int cudnn_calls();       // convolutions that were computed
int cudnn_graphs_run();  // graphs that were

// Of the last convolution:
bool cudnn_used_tensor_cores();  // whether the math type allows them
bool cudnn_used_winograd();
bool cudnn_used_channels_last();

}  // namespace coh
