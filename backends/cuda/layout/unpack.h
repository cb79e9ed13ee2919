// Conversion from packed layouts: in the pool and stream of the packed values, which packed.h
// explains.
#pragma once

#include <functional>
#include <string_view>

#include "core/base/storage.h"

namespace tapegrad::backends::cuda {

/// Returns new memory of packed.bytes() bytes, to which write(memory) has enqueued the values.
/// `why` is the reason that a recording ends for, if the host has to wait.
std::byte* unpack_at_home(const TensorStorage& packed, std::string_view why,
                          const std::function<void(std::byte* memory)>& write);

}  // namespace tapegrad::backends::cuda
