// Which dtypes an op takes. The dispatch tables cannot say it of an op that is composed of others,
// nor of one that converts its inputs; so each op is run on tiny inputs.
#pragma once

#include <vector>

#include <tapegrad/ops/catalog.h>

namespace tapegrad::tools {

/// The dtypes with which the op runs on the device, of those inputs that have a choice (of the
/// result, for an op without inputs). The arguments are the row's `example`, or else the first that
/// the op accepts among sizes of 3, small attributes and inputs of the dtype, of int64 and of bool.
/// Empty when it accepts none.
std::vector<DType> find_dtypes(const OpInfo& op, Device device);

}  // namespace tapegrad::tools
