// The files of a checkpoint that several ranks write together; see TrainingState::save().
#pragma once

#include <functional>
#include <string>

#include "core/base/tensor_map.h"
#include "dist/communicator.h"

namespace tapegrad {

/// Returns whether a name denotes some elements of a tensor: "state.3.exp_avg@128" is a row of the
/// elements from number 128 on. "state.3.exp_avg@shape" is the shape of the whole tensor.
bool is_piece(const std::string& name);

/// Writes `common` to the path on rank 0. If `own` is not empty, which must hold on all ranks or on
/// none, each rank first writes `own` to a separate file. If one rank cannot write, all ranks throw
/// IoError. A collective.
void save_by_ranks(const std::string& path, const dist::Communicator& world,
                   const TensorMap& common, const TensorMap& own);

/// Joins the pieces that the ranks have written with the tensors of the file `path`. `read` returns
/// the tensors of a file. Throws FormatError if elements are missing.
TensorMap join_pieces(const std::string& path, TensorMap common,
                      const std::function<TensorMap(const std::string& path)>& read);

}  // namespace tapegrad
