// Python's enumerate(), zip() and len().
//
//   for (auto [i, batch] : enumerate(loader)) {
//     auto& [x, y] = batch;
//     ...
//   }
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// An element of enumerate(range): its index, and the element that the range refers to. If the
/// range creates its elements during iteration, this holds the element by value.
template <typename T>
struct Enumerated {
  Enumerated(int64_t at, T&& element) : index(at), value(std::forward<T>(element)) {}

  int64_t index;
  T value;
};

/// Returns the elements of a range with their indices, counted from `start`. A temporary range is
/// kept.
template <typename Range>
class Enumerate {
 public:
  Enumerate(Range range, int64_t start) : range_(std::forward<Range>(range)), start_(start) {}

  class Iterator {
   public:
    using At = decltype(std::begin(std::declval<std::remove_reference_t<Range>&>()));
    using Item = Enumerated<decltype(*std::declval<At&>())>;
    Iterator(At at, int64_t index) : at_(std::move(at)), index_(index) {}
    /// Returns a reference, so that both `auto [i, x]` and `auto& [i, x]` name the element.
    Item& operator*() { return item_.emplace(index_, *at_); }
    Iterator& operator++() {
      ++at_;
      ++index_;
      return *this;
    }
    template <typename End>
    bool operator!=(const End& end) const {
      return at_ != end.at;
    }

   private:
    At at_;
    int64_t index_;
    std::optional<Item> item_;
  };
  struct End {
    decltype(std::end(std::declval<std::remove_reference_t<Range>&>())) at;
  };
  Iterator begin() { return {std::begin(range_), start_}; }
  End end() { return {std::end(range_)}; }

 private:
  Range range_;
  int64_t start_;
};
template <typename Range>
requires requires(std::remove_reference_t<Range>& range) { std::begin(range), std::end(range); }
Enumerate<Range> enumerate(Range&& range, int64_t start = 0) {
  return {std::forward<Range>(range), start};
}

/// Returns the pairs of equally placed elements of two lists, up to the end of the shorter list:
/// `for (auto [p, q] : zip(net.parameters(), target.parameters())) q.copy_(p);`.
template <typename A, typename B>
std::vector<std::pair<A, B>> zip(const std::vector<A>& a, const std::vector<B>& b) {
  std::vector<std::pair<A, B>> pairs;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) pairs.emplace_back(a[i], b[i]);
  return pairs;
}

/// Returns the number of batches of a loader, of examples of a data set, of layers of a Sequential,
/// or of elements of a list; for a tensor, the size of dimension 0.
template <typename T>
requires(!std::derived_from<T, Variable> && requires(const T& x) {
  { x.size() } -> std::integral;
}) int64_t len(const T& x) {
  return int64_t(x.size());
}
template <std::derived_from<Variable> V>
int64_t len(const V& x) {
  return x.size(0);
}

}  // namespace tapegrad
