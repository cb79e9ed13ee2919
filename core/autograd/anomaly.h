// AnomalyMode finds the op that first produced a NaN or an infinity.
//
//   const AnomalyMode anomaly;
//   loss = model(x);    // AutogradError: log: made an infinity at [3] of [8], from inputs without
//                       //   at model.cpp:12, in Net.head
//   loss.backward();    // AutogradError: sqrt: its gradient made an infinity at [0] of [4] ...
//                       //   in the backward of sqrt, recorded at model.cpp:9
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

struct AnomalyOptions {
  bool infinity = true;  // also look for infinities; NaN is always looked for
};

/// While the object exists, every op on this thread checks its floating-point results, and every
/// rule checks its gradients. The first op or rule that produces a NaN or an infinity throws
/// AutogradError with its name and the user's source line. An op whose input already has such a
/// value is not blamed. A rule that introduces NaN into the gradients is named even if the NaN came
/// from its saved tensors. Inside composed ops only NaN is searched for, because many of them use
/// infinities internally (a masked softmax, for example). The mode is slow: it reads every result
/// once more. When off, it costs one predicted branch per op.
class [[nodiscard]] AnomalyMode {
 public:
  explicit AnomalyMode(AnomalyOptions options = {});

 private:
  detail::Set<&detail::Context::anomaly> wanted_;
};

}  // namespace tapegrad
