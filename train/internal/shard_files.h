// The files of a checkpoint that several ranks write together; see TrainingState::save().
#pragma once

#include <functional>
#include <string>

#include "core/base/tensor_map.h"
#include "dist/communicator.h"

namespace tapegrad {

/// Whether a name says that the tensor has some elements of a whole: "state.3.exp_avg@128" is a row
/// of the elements from number 128. "state.3.exp_avg@shape" is the shape of the whole.
bool is_piece(const std::string& name);

/// A collective. Rank 0 writes `common` to the path. If `own` is not empty, which must be so on all
/// ranks or on none, each rank writes it to a file of its own before. If one rank cannot write, all
/// throw IoError.
void save_by_ranks(const std::string& path, const dist::Communicator& world,
                   const TensorMap& common, const TensorMap& own);

/// Puts the pieces that the ranks have written together with the tensors of the file `path`.
/// `read` returns the tensors of a file. Throws FormatError if elements are missing.
TensorMap join_pieces(const std::string& path, TensorMap common,
                      const std::function<TensorMap(const std::string& path)>& read);

}  // namespace tapegrad
