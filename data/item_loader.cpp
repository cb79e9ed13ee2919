#include "data/item_loader.h"

#include <optional>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "data/internal/prefetch.h"
#include "data/stream_loader.h"
#include "ops/rearrange.h"

namespace tapegrad {
namespace {

class ItemStream final : public BatchStream {
 public:
  using Read = std::function<std::shared_ptr<void>(int64_t)>;
  ItemStream(Read read, std::function<Example(void*)> example, int64_t first, int64_t end,
             const DataLoaderOptions& options)
      : read_(std::move(read)), example_(std::move(example)), next_(first), end_(end) {
    if (options.num_workers > 0)
      ahead_.emplace(read_, first, end, options.num_workers, options.prefetch_factor);
  }
  bool next(Example& batch) override {
    item_ = nullptr;  // frees its memory for the next batch
    if (ahead_)
      item_ = ahead_->next();
    else if (next_ < end_)
      item_ = read_(next_++);
    if (item_) batch = example_(item_.get());
    return item_ != nullptr;
  }
  std::shared_ptr<void> item() const override { return item_; }

 private:
  Read read_;
  std::function<Example(void*)> example_;
  int64_t next_, end_;
  std::shared_ptr<void> item_;
  std::optional<Prefetch> ahead_;
};

}  // namespace

void detail::check_rows(std::span<const Variable> tensors) {
  for (const Variable& x : tensors) {
    if (x.rank() == 0) fail<ShapeError>("StackDataset: a tensor has no dimensions");
    if (x.size(0) != tensors[0].size(0))
      fail<ShapeError>("StackDataset: ", tensors[0].size(0), " and ", x.size(0),
                       " rows; the tensors need equal sizes in dimension 0");
  }
}

Variable detail::stack_items(const std::vector<Variable>& items) {
  if (items.empty()) fail<ArgumentError>("default_collate: no items");
  return items[0].defined() ? stack(items) : Variable();
}

void detail::check_item_options(int64_t count, const DataLoaderOptions& options, Where where) {
  const ErrorLine line(where);
  if (count < 0) fail<ArgumentError>("ItemLoader: a data set of ", count, " items");
  check_workers("ItemLoader", options);
}

std::unique_ptr<BatchStream> detail::read_items(std::function<std::shared_ptr<void>(int64_t)> read,
                                                std::function<Example(void*)> example,
                                                int64_t first, int64_t end,
                                                const DataLoaderOptions& options) {
  return std::make_unique<ItemStream>(std::move(read), std::move(example), first, end, options);
}

void detail::fail_batch_size(int64_t batch_size, Where where) {
  fail_at<ArgumentError>(where, "StreamLoader: .batch_size is ", batch_size, ", not at least 1");
}

}  // namespace tapegrad
