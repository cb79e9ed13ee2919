// ReadAgain: a tensor of the caller that the rule of an op reads again, such as class ids.
#pragma once

#include <string_view>

#include "core/base/error.h"
#include "core/base/tensor.h"

namespace tapegrad::detail {

/// A tensor and the version of its storage. In contrast to SavedInput, ReadAgain is a member of an
/// op that has checked the values, and may be a converted copy of the input.
struct ReadAgain {
  ReadAgain() = default;
  ReadAgain(const Tensor& x) : tensor(x), version(x ? x.storage().version() : 0) {}
  explicit operator bool() const { return bool(tensor); }

  /// Throws AutogradError if the values were written since they were saved.
  const Tensor& value(std::string_view op) const {
    if (tensor && tensor.storage().version() != version) [[unlikely]]
      fail<AutogradError>(op, ": ", tensor.dtype(), ' ', tensor.shape(),
                          " that the rule reads again was changed in place");
    return tensor;
  }

  Tensor tensor;
  uint32_t version = 0;
};

}  // namespace tapegrad::detail
