// Batches of a stream: items that are read one after another and cannot be counted or indexed, as
// in PyTorch's IterableDataset.
//
//   struct Lines : IterableDataset {                    // the base is optional
//     std::optional<Variable> next();                   // an item, or nothing at the end
//   };
//   for (Variable& batch : StreamLoader(Lines(), {.batch_size = 32})) ...
#pragma once

#include <iterator>
#include <optional>
#include <utility>

#include "data/item_loader.h"

namespace tapegrad {

/// A name for streams. Any copyable type with next() is a stream.
struct IterableDataset {};

template <typename T>
concept Stream = std::copy_constructible<T> && requires(T stream) {
  stream.next().has_value();
  *stream.next();
};

struct StreamLoaderOptions {
  ByName by_name = {};
  int64_t batch_size = 1;
  bool drop_last = false;  // leave out a last batch that is not full
};

namespace detail {
[[noreturn, gnu::cold]] void fail_batch_size(int64_t batch_size, Where where);
}  // namespace detail

/// Makes batches of the items of a stream, in the order of the stream, on the thread of the loop.
/// Every loop reads a copy of the stream and therefore starts where the given stream was; a stream
/// that must not be copied keeps its state behind a pointer. `make_batch` is called with a
/// std::vector of items; by default default_collate() is called. Throws ArgumentError unless
/// batch_size is positive.
template <Stream Items, typename Collate = std::nullptr_t>
class StreamLoader {
 public:
  using Item = std::remove_cvref_t<decltype(*std::declval<Items&>().next())>;
  using Batch = decltype(detail::batch_of(std::declval<const Collate&>(), std::vector<Item>()));

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(const StreamLoader& loader) : loader_(&loader), items_(loader.items_) {
      ++*this;
    }
    Batch& operator*() { return *batch_; }
    Iterator& operator++() {
      std::vector<Item> items;
      while (int64_t(items.size()) < loader_->options_.batch_size) {
        auto item = items_.next();
        if (!item.has_value()) break;
        items.push_back(*std::move(item));
      }
      const bool is_full = int64_t(items.size()) == loader_->options_.batch_size;
      batch_.reset();
      if (!items.empty() && (is_full || !loader_->options_.drop_last))
        batch_.emplace(detail::batch_of(loader_->make_batch_, std::move(items)));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_; }

   private:
    const StreamLoader* loader_;
    Items items_;
    std::optional<Batch> batch_;
  };

  explicit StreamLoader(Items items, StreamLoaderOptions options = {}, Collate make_batch = {})
      : items_(std::move(items)), options_(options), make_batch_(std::move(make_batch)) {
    if (options_.batch_size < 1)
      detail::fail_batch_size(options_.batch_size, options.by_name.where);
  }
  explicit StreamLoader(Items items, int64_t batch_size, Where where = Where::current())
      : StreamLoader(std::move(items), {.by_name = {where}, .batch_size = batch_size}) {}

  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Items items_;
  StreamLoaderOptions options_;
  Collate make_batch_;
};

}  // namespace tapegrad
