// Layouts in memory of the operands of recorded calls. A recording does not know them, because
// kernels choose packed layouts (core/base/storage.h) when they run; the first run of a captured
// step shows them. An elementwise call whose operands have one packed layout, or are constant in
// each channel of an image, computes the elements in their order in memory: a segment (segment.h)
// can divide this order into blocks like that of row-major tensors.
#pragma once

#include <optional>
#include <vector>

#include "core/autograd/internal/step_call.h"

namespace tapegrad {

/// Whether values with these layouts correspond to each other in memory. Images and channels may be
/// divided differently.
bool is_same_order(const Packing& a, const Packing& b);

/// Views an operand of an elementwise call, whose packed result has the shape and layout, as a
/// tensor [images, blocks of channels, size, channels of a block]: a packed operand in its order in
/// memory, and an operand that is constant in each channel with repeated elements. An operand of
/// one element is returned as it is.
Tensor in_memory_order(const Tensor& x, const Shape& result, const Packing& packing);

/// The packed layouts of the operands of a call, from before its run to after it.
class ObservedLayouts {
 public:
  /// To be called before the run.
  explicit ObservedLayouts(const StepCall& step);
  /// Writes what the run has shown to the call.
  void finish(StepCall& step) const;

 private:
  std::optional<Packing> common(RecordedCall& call) const;

  std::vector<std::optional<Packing>> before_;  // in the order of each_tensor()
};

}  // namespace tapegrad
