// Declarations shared by the two kernels of log_cosh.
#pragma once

#include <tapegrad/core/dispatcher.h>

namespace tg = tapegrad;

extern tg::Kernel<void(const tg::Tensor& x, tg::Tensor& y)> log_cosh_kernel;

void register_log_cosh_cuda();
