#include "data/shard.h"

#include <algorithm>

#include "core/base/error.h"

namespace tapegrad {

int64_t Shard::count(int64_t count, bool drop_last) const {
  const int64_t ranks = std::max(size, 1);  // check() refuses others
  return count / ranks + (!drop_last && count % ranks != 0 ? 1 : 0);
}

std::vector<int64_t> Shard::take(const std::vector<int64_t>& order, bool drop_last) const {
  check("Shard");
  if (size == 1) return order;
  const int64_t n = int64_t(order.size()), own = count(n, drop_last);
  std::vector<int64_t> part(static_cast<size_t>(own));
  for (int64_t i = 0; i < own; ++i) part[size_t(i)] = order[size_t((i * size + rank) % n)];
  return part;
}

void Shard::check(const char* loader) const {
  if (size < 1 || rank < 0 || rank >= size)
    fail<ArgumentError>(loader, ": shard: rank ", rank, " of ", size);
}

}  // namespace tapegrad
