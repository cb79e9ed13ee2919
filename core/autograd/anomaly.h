// AnomalyMode: who made that NaN?
//
//   const AnomalyMode anomaly;
//   loss = model(x);    // AutogradError: log: made an infinity at [3] of [8], from inputs without
//                       //   at model.cpp:12, in Net.head
//   loss.backward();    // AutogradError: sqrt: its gradient made an infinity at [0] of [4] ...
//                       //   in the backward of sqrt, recorded at model.cpp:9
#pragma once

#include <span>

#include "core/tape/variable.h"

namespace tapegrad {

struct AnomalyOptions {
  bool infinity = true;  // look for infinities too; NaN always
};

/// For a scope, on this thread, every op looks at its floating results, and every rule of a
/// backward pass at its gradients, and the first that makes a NaN or an infinity is an
/// AutogradError that names the op and the user's line. An op that was given one did not make it;
/// but the rule by which a NaN comes into the gradients is named also when it had saved one.
/// Inside ops composed of others only NaN is looked for: many use an infinity on the way (a masked
/// softmax, say). Slow: it reads every result once more. Off, it costs one predicted branch an op.
class [[nodiscard]] AnomalyMode {
 public:
  explicit AnomalyMode(AnomalyOptions options = {});

 private:
  detail::Set<&detail::Context::anomaly> wanted_;
};

}  // namespace tapegrad
