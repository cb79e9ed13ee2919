// Narrow linear layers with a row in each lane of a vector (LaneLayout,
// core/dispatch/internal/tasks.h), for captured steps. Vectors along the columns, which the other
// form uses (linear_narrow.h), are mostly empty if a layer has 1, 5 or 20 columns; vectors along
// the rows never are. A lane has the rows of one tile, so that the sums over rows have the order of
// linear_sums.h.
#pragma once

#include "backends/cpu/fast/linear_sums.h"
#include "core/dispatch/internal/tasks.h"
#include "core/dispatch/recorded_call.h"
#include "ops/epilogue.h"

namespace tapegrad::backends::cpu {

/// Describes the blocks of a call of linear or of its gradient that its RowFunctions compute.
LaneLayout describe_lanes(RecordedCall& call);

/// Returns whether the rows of an operand of a block are in lanes.
inline bool is_in_lanes(const Tensor& x) { return x.rank() == 3; }

/// RowFunctions::run of linear for rows in lanes.
void multiply_lanes(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Epilogue& epilogue, Tensor& y);

/// Bytes of the sums over the rows of a tile in each lane.
size_t bytes_for_lanes(const narrow_layer::Sums& sums, bool has_weight, bool has_bias);
/// RowFunctions::run of linear's gradient for rows in lanes, which adds the sums over rows to
/// `pieces`. `memory` has bytes_for_lanes() bytes, aligned to 64, which belong to the thread until
/// the last rows of the tiles are computed.
void differentiate_lanes(const RowBlock& block, const narrow_layer::PieceSums& pieces,
                         float* memory, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                         const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw,
                         Tensor& db);

}  // namespace tapegrad::backends::cpu
