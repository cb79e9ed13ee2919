#include "data/item_loader.h"

#include <optional>

#include "core/base/error.h"
#include "data/internal/prefetch.h"
#include "ops/rearrange.h"

namespace tapegrad {

Variable detail::stack_items(const std::vector<Variable>& items) {
  return items.at(0).defined() ? stack(items) : Variable();
}

struct BatchReader::Impl {
  Read read;
  int64_t next = 0, count = 0;
  std::optional<Prefetch> ahead;
};

BatchReader::BatchReader(Read read, int64_t count, const DataLoaderOptions& options)
    : impl_(std::make_unique<Impl>()) {
  if (options.batch_size < 1)
    fail<ArgumentError>("ItemLoader: batch_size must be at least 1: ", options.batch_size);
  check_workers("ItemLoader", options);
  impl_->read = std::move(read);
  impl_->count = count;
  if (options.num_workers > 0)
    impl_->ahead.emplace(impl_->read, 0, count, options.num_workers, options.prefetch_factor);
}
BatchReader::BatchReader(BatchReader&&) noexcept = default;
BatchReader::~BatchReader() = default;

std::shared_ptr<void> BatchReader::next() {
  if (impl_->ahead) return impl_->ahead->next();
  return impl_->next < impl_->count ? impl_->read(impl_->next++) : nullptr;
}

}  // namespace tapegrad
