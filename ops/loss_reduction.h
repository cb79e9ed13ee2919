// How a loss reduces its element losses.
#pragma once

namespace tapegrad {

enum class Reduction { kMean, kSum, kNone };

}  // namespace tapegrad
