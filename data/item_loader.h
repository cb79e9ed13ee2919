// ItemLoader: batches of examples with any fields.
//
//   struct Sentence { Variable words, label; };                  // named fields
//   std::vector<Sentence> sentences = ...;
//   ItemLoader loader(sentences, {.batch_size = 32, .shuffle = true});
//   for (auto& [words, label] : loader) ...                      // Sentence, stacked
//
//   for (auto& [x, age, y] : ItemLoader(StackDataset(xs, ages, ys), {.batch_size = 8})) ...
//
//   using Item = std::tuple<Variable, int64_t, std::string>;     // lengths, names ...
//   for (auto& [x, length, name] : ItemLoader(items, {.batch_size = 8})) ...
//
//   // Sentences of different lengths: a function makes the batch.
//   ItemLoader loader(sentences, {.batch_size = 32}, [](std::vector<Sentence> items) {
//     ...
//     return std::tuple(nn::pad_sequence(words), lengths, labels);
//   });
//
// The order of an epoch depends only on the seed and the epoch. A DataLoader with equal options has
// the same order. train/fit_items.h trains and evaluates with such batches.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "data/loader.h"
#include "data/split.h"

namespace tapegrad {

namespace detail {

/// Reads batches `first` to `end` in order, on threads if requested. `example` returns the Example
/// of a batch for fit() and evaluate().
std::unique_ptr<BatchStream> read_items(std::function<std::shared_ptr<void>(int64_t number)> read,
                                        std::function<Example(void*)> example, int64_t first,
                                        int64_t end, const DataLoaderOptions& options);
void check_item_options(int64_t count, const DataLoaderOptions& options, Where where);

/// Throws ShapeError unless the tensors have equal sizes in dimension 0.
void check_rows(std::span<const Variable> tensors);

/// Stacks items. Returns an empty Variable if the first item is empty.
Variable stack_items(const std::vector<Variable>& items);
/// Converts to Variables only.
struct AnyVariable {
  template <std::same_as<Variable> T>
  operator T() const;
};
/// Number of fields of a struct whose fields are all Variables; 0 for other types.
template <typename T>
constexpr int count_variables() {
  using V = AnyVariable;
  if constexpr (!std::is_aggregate_v<T>)
    return 0;
  else if constexpr (requires { T{V(), V(), V(), V(), V(), V()}; })
    return 6;
  else if constexpr (requires { T{V(), V(), V(), V(), V()}; })
    return 5;
  else if constexpr (requires { T{V(), V(), V(), V()}; })
    return 4;
  else if constexpr (requires { T{V(), V(), V()}; })
    return 3;
  else if constexpr (requires { T{V(), V()}; })
    return 2;
  else if constexpr (requires { T{V()}; })
    return 1;
  else
    return 0;
}
template <typename T>
auto tie_variables(T& item) {
  constexpr int n = count_variables<T>();
  if constexpr (n == 1) {
    auto& [a] = item;
    return std::tie(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = item;
    return std::tie(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = item;
    return std::tie(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = item;
    return std::tie(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = item;
    return std::tie(a, b, c, d, e);
  } else {
    auto& [a, b, c, d, e, f] = item;
    return std::tie(a, b, c, d, e, f);
  }
}
template <typename T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

}  // namespace detail

/// Makes a batch of items. Variables are stacked, and numbers become tensors (int64, bool or the
/// default float dtype). Each field of a tuple, a pair, or a struct of Variables is treated in this
/// way. Values of other types, such as std::string, become a std::vector.
template <typename T>
auto default_collate(const std::vector<T>& items) {
  if constexpr (std::same_as<T, Variable>) {
    return detail::stack_items(items);
  } else if constexpr (std::same_as<T, bool>) {
    Variable batch(Tensor::empty({int64_t(items.size())}, boolean));
    for (size_t i = 0; i < items.size(); ++i) batch.value().data<bool>()[i] = items[i];
    return batch;
  } else if constexpr (std::is_arithmetic_v<T>) {
    using Stored = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
    const std::vector<Stored> values(items.begin(), items.end());
    const Tensor tensor = Tensor::from<Stored>(values, {int64_t(values.size())});
    return Variable(std::is_floating_point_v<T> ? tensor.to(default_dtype()) : tensor);
  } else if constexpr (detail::TupleLike<T>) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      const auto field = [&]<size_t k>(std::integral_constant<size_t, k>) {
        std::vector<std::tuple_element_t<k, T>> values;
        for (const T& item : items) values.push_back(std::get<k>(item));
        return default_collate(values);
      };
      return std::tuple(field(std::integral_constant<size_t, i>())...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (detail::count_variables<T>() > 0) {
    T batch;
    [&]<size_t... i>(std::index_sequence<i...>) {
      const auto field = [&]<size_t k>(std::integral_constant<size_t, k>) {
        std::vector<Variable> values;
        for (T item : items) values.push_back(std::get<k>(detail::tie_variables(item)));
        std::get<k>(detail::tie_variables(batch)) = detail::stack_items(values);
      };
      (field(std::integral_constant<size_t, i>()), ...);
    }
    (std::make_index_sequence<size_t(detail::count_variables<T>())>());
    return batch;
  } else {
    return items;
  }
}

namespace detail {

template <typename Data>
auto item_at(const Data& data, int64_t index, RandomGenerator& random) {
  if constexpr (requires { data.get(index, random); })
    return data.get(index, random);
  else if constexpr (requires { data.get(index); })
    return data.get(index);
  else if constexpr (requires { data[size_t(index)]; })
    return data[size_t(index)];
  else
    static_assert(
        kNever<Data>,
        "ItemLoader: the data set has no `Item get(int64_t index) const`; members that get() "
        "changes are `mutable`, as several threads may call it");
}
template <typename Collate, typename Item>
auto batch_of(const Collate& make_batch, std::vector<Item> items) {
  if constexpr (std::same_as<Collate, std::nullptr_t>)
    return default_collate(items);
  else
    return make_batch(std::move(items));
}

}  // namespace detail

namespace detail {

/// Returns whether a batch consists of two Variables.
template <typename Batch>
constexpr bool is_example() {
  if constexpr (TupleLike<Batch>) {
    if constexpr (std::tuple_size_v<Batch> == 2)
      return std::same_as<std::tuple_element_t<0, Batch>, Variable> &&
             std::same_as<std::tuple_element_t<1, Batch>, Variable>;
    else
      return false;
  } else {
    return count_variables<Batch>() == 2;
  }
}
template <typename Batch>
Example example_of(Batch& batch, int64_t count) {
  if constexpr (!is_example<Batch>()) {
    return {Variable(Tensor::empty({count}, u8)), {}};  // only the number of items is meaningful
  } else if constexpr (TupleLike<Batch>) {
    return {std::get<0>(batch), std::get<1>(batch)};
  } else {
    const auto fields = tie_variables(batch);
    return {std::get<0>(fields), std::get<1>(fields)};
  }
}
/// Moves the Variables of a batch to a device.
template <typename Batch>
void move_fields(Batch& batch, Device device) {
  if constexpr (std::same_as<Batch, Variable>) {
    if (batch.defined()) batch = batch.to(device);
  } else if constexpr (TupleLike<Batch>) {
    std::apply([&](auto&... field) { (move_fields(field, device), ...); }, batch);
  } else if constexpr (count_variables<Batch>() > 0) {
    std::apply([&](auto&... field) { (move_fields(field, device), ...); }, tie_variables(batch));
  }
}

}  // namespace detail

/// Some items of a data set, in the order of the indices: a validation set or a fold.
template <typename Data>
class ItemSubset {
 public:
  /// Copies the data set. Throws IndexError for an index outside of it.
  ItemSubset(Data data, std::vector<int64_t> indices)
      : data_(std::make_shared<const Data>(std::move(data))), indices_(std::move(indices)) {
    for (const int64_t index : indices_)
      if (index < 0 || index >= int64_t(data_->size()))
        fail<IndexError>("ItemSubset: the index ", index, " is outside of ", data_->size(),
                         " items");
  }
  int64_t size() const { return int64_t(indices_.size()); }
  /// Throws IndexError for an index outside [0, size()).
  auto get(int64_t index, RandomGenerator& random) const {
    if (index < 0 || index >= size())
      fail<IndexError>("ItemSubset: the index ", index, " is outside of ", size(), " items");
    return detail::item_at(*data_, indices_[size_t(index)], random);
  }

 private:
  std::shared_ptr<const Data> data_;
  std::vector<int64_t> indices_;
};

/// Splits a data set of items, like random_split() of data/split.h.
template <typename Data, size_t N>
requires(!std::derived_from<Data, Dataset> &&
         requires(const Data& data) {
           data.size();
         }) std::array<ItemSubset<Data>, N> random_split(const Data& data,
                                                         const double (&shares)[N],
                                                         uint64_t seed = 0,
                                                         Where where = Where::current()) {
  const auto parts = detail::random_parts(int64_t(data.size()), {shares, shares + N}, seed, where);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return std::array{ItemSubset<Data>(data, parts[I])...};
  }
  (std::make_index_sequence<N>());
}

/// Splits a data set of items, like split_dataset() of data/split.h.
template <typename Data>
requires(!std::derived_from<Data, Dataset> && requires(const Data& data) { data.size(); })
    std::pair<ItemSubset<Data>, ItemSubset<Data>> split_dataset(const Data& data, double share,
                                                                uint64_t seed = 0,
                                                                Where where = Where::current()) {
  auto [first, second] = detail::split_indices(int64_t(data.size()), share, seed, where);
  return {ItemSubset<Data>(data, std::move(first)), ItemSubset<Data>(data, std::move(second))};
}

/// Tensors with equal sizes in dimension 0, such as two inputs and a target. Item i consists of row
/// i of each tensor.
///
///   StackDataset data(images, ages, labels);
///   for (auto& [image, age, label] : ItemLoader(data, {.batch_size = 32})) ...
template <size_t N>
class StackDataset {
 public:
  /// Throws ShapeError if the sizes differ or a tensor has no dimensions.
  template <std::derived_from<Variable>... Xs>
  requires(N > 0 && sizeof...(Xs) == N) explicit StackDataset(const Xs&... tensors)
      : tensors_{tensors...} {
    detail::check_rows(tensors_);
  }
  int64_t size() const { return tensors_[0].size(0); }
  /// Throws IndexError for an index outside of the tensors.
  std::array<Variable, N> get(int64_t index) const {
    std::array<Variable, N> item;
    for (size_t k = 0; k < N; ++k) item[k] = tensors_[k][index];
    return item;
  }

 private:
  std::array<Variable, N> tensors_;
};
template <typename... Xs>
StackDataset(const Xs&...) -> StackDataset<sizeof...(Xs)>;

/// Data is a std::vector of items, or a type with size() and get(index) or get(index,
/// RandomGenerator&). pin_memory has no effect. If a batch consists of two Variables, fit() and
/// evaluate() use them as data and target; for other batches, fit() and evaluate() need a function
/// of model and batch.
template <typename Data, typename Collate = std::nullptr_t>
class ItemLoader final : public Loader {
 public:
  /// Copies the data set. `make_batch` is called with a std::vector of items, by several threads if
  /// there are workers; by default default_collate() is called. Throws ArgumentError for the
  /// options that DataLoader refuses.
  explicit ItemLoader(Data data, DataLoaderOptions options = {}, Collate make_batch = {},
                      Where where = Where::current())
      : Loader(options.batch_size, options.drop_last, "ItemLoader", where),
        data_(std::make_shared<const Data>(std::move(data))),
        options_(options),
        make_batch_(std::make_shared<const Collate>(std::move(make_batch))) {
    options_.seed = options.generator.value_or(options.seed);
    detail::check_item_options(dataset_size(), options, where);
  }

  using Item =
      decltype(detail::item_at(std::declval<const Data&>(), 0, std::declval<RandomGenerator&>()));
  using Batch = decltype(detail::batch_of(std::declval<const Collate&>(), std::vector<Item>()));

  /// Returns the number of items of the shard.
  int64_t num_examples() const override { return epoch_size(dataset_size(), options_); }
  Shard shard() const override { return options_.shard; }
  int64_t dataset_size() const override {
    if (!data_) fail<ArgumentError>("ItemLoader: this object was moved from");
    return int64_t(data_->size());
  }
  uint64_t seed() const override { return options_.seed; }
  const std::type_info* item_type() const override { return &typeid(Batch); }
  bool has_examples() const override { return detail::is_example<Batch>(); }

  class Iterator {
   public:
    explicit Iterator(Loader::Iterator at) : at_(std::move(at)) {}
    Batch& operator*() {
      const std::shared_ptr<void> item = at_.item();
      if (!item) fail<ArgumentError>("loader: no batch follows the end of an epoch, or an error");
      return static_cast<Held*>(item.get())->batch;
    }
    Batch* operator->() { return &**this; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(std::default_sentinel_t end) const { return at_ == end; }

   private:
    Loader::Iterator at_;
  };
  /// Begins the next epoch, or continues one (see Loader).
  Iterator begin() { return Iterator(Loader::begin()); }

 private:
  /// Object that BatchStream::item() points to; the batch is its first member.
  struct Held {
    Batch batch;
    int64_t count;
  };

  std::unique_ptr<BatchStream> start(LoaderState from) override {
    const SampleRandom random{options_.seed, from.epoch};
    std::vector<int64_t> order;
    if (options_.shuffle || options_.shard.size > 1 || options_.sampler.get() != nullptr)
      order = order_of_epoch(dataset_size(), options_, random.epoch);
    auto read = [data = data_, make_batch = make_batch_, order = std::move(order), random,
                 count = num_examples(),
                 batch_size = batch_size()](int64_t number) -> std::shared_ptr<void> {
      const NoGrad no_grad;
      std::vector<Item> items;
      std::vector<int64_t> indices;
      for (int64_t i = number * batch_size; i < std::min(count, (number + 1) * batch_size); ++i) {
        const int64_t index = order.empty() ? i : order[size_t(i)];
        indices.push_back(index);
        items.push_back(detail::about_items({&index, 1}, [&] {
          RandomGenerator generator = random.at(index);
          return detail::item_at(*data, index, generator);
        }));
      }
      return detail::about_items(indices, [&] {
        return std::make_shared<Held>(
            Held{detail::batch_of(*make_batch, std::move(items)), int64_t(indices.size())});
      });
    };
    const auto example = [](void* item) {
      Held& held = *static_cast<Held*>(item);
      return detail::example_of(held.batch, held.count);
    };
    return detail::read_items(std::move(read), example, from.position, size(), options_);
  }

  std::shared_ptr<const Data> data_;
  DataLoaderOptions options_;
  std::shared_ptr<const Collate> make_batch_;
};

}  // namespace tapegrad
