// Log of the storages whose variables became leaves, or constants again, by requires_grad_(). A
// captured step computes the gradients that were required when it was recorded, and checks whether
// the log contains a storage that it reads.
#pragma once

#include <cstdint>
#include <functional>

namespace tapegrad {

class TensorStorage;

namespace detail {

void note_leaf_change(const TensorStorage& storage);
/// Number of calls of note_leaf_change().
uint64_t leaf_change_count();
/// Returns whether `of` holds for a storage noted after the first `seen` calls. Only the last calls
/// are kept; returns true if there were more.
bool any_leaf_change(uint64_t seen, const std::function<bool(const TensorStorage*)>& of);

}  // namespace detail
}  // namespace tapegrad
