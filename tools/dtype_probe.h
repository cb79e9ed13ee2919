// Finds the dtypes that an op supports. The dispatch table does not tell this for composed ops, or
// for ops that convert their inputs; so each op is run on tiny inputs.
#pragma once

#include <vector>

#include <tapegrad/ops/catalog.h>

namespace tapegrad::tools {

/// Returns the dtypes with which the op runs on the device, for those inputs that have a choice
/// (for the result, if the op has no inputs). Uses the catalog row's `example`, or the first
/// arguments that the op accepts among sizes of 3, small attributes, and inputs of the dtype, of
/// int64 and of bool. Empty if the op accepts none.
std::vector<DType> find_dtypes(const OpInfo& op, Device device);

}  // namespace tapegrad::tools
