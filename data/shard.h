// Shard: the part of a data set that one of several processes reads.
//
//   DataLoader batches(train, {.batch_size = 128, .shuffle = true, .shard = {rank, size}});
//   auto world = dist::init();                                           // dist/init.h
//   DataLoader batches(train, {.batch_size = 128, .shuffle = true, .shard = world});
//
// All processes compute the same order of the epoch, and rank r takes entries r, r + size,
// r + 2 size ... of the order. Batch k of all ranks together therefore contains the next
// batch_size * size entries of the order. The seed, the data set and the options must be the same
// on all ranks.
//
// If the number of examples is not a multiple of `size`, the order is extended by its first
// entries, so that all ranks have the same number; with drop_last the order is shortened instead.
#pragma once

#include <cstdint>
#include <vector>

namespace tapegrad {

struct Shard {
  int rank = 0;
  int size = 1;  // 1: the whole data set

  /// Number of the examples of this shard, of `count` examples in all.
  int64_t count(int64_t count, bool drop_last) const;
  /// Returns the entries of this shard. Calls check().
  std::vector<int64_t> take(const std::vector<int64_t>& order, bool drop_last) const;
  /// Throws ArgumentError, which names the loader, unless 0 <= rank < size.
  void check(const char* loader) const;
};

}  // namespace tapegrad
