// Storages whose variables became leaves, or constants again, by requires_grad_(). A captured step
// asks whether it reads one of them: it computes the gradients that were wanted when it was
// recorded.
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
/// are remembered; returns true if there were more.
bool any_leaf_change(uint64_t seen, const std::function<bool(const TensorStorage*)>& of);

}  // namespace detail
}  // namespace tapegrad
