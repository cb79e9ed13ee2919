// Counts the calls of the cuDNN stand-in, for tests.
#pragma once

namespace coh {

int cudnn_calls();       // convolutions computed
int cudnn_graphs_run();  // graphs computed

// Properties of the last convolution:
bool cudnn_used_tensor_cores();  // whether its math type allowed tensor cores
bool cudnn_used_winograd();
bool cudnn_used_channels_last();

}  // namespace coh
