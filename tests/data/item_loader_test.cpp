#include "data/item_loader.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "core/base/error.h"
#include "nn/packed_sequence.h"
#include "ops/create.h"
#include "ops/random.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

struct Pair {
  Variable image, mask, box;
};

TEST(ItemLoader, StacksTheFieldsOfAStruct) {
  std::vector<Pair> items;
  for (int i = 0; i < 5; ++i)
    items.push_back({full({2, 2}, double(i)), full({2}, 1.0), full({4}, double(i * i))});
  ItemLoader loader(items, {.batch_size = 2});
  EXPECT_EQ(loader.size(), 3);
  std::vector<int64_t> sizes;
  for (auto& [image, mask, box] : loader) {
    sizes.push_back(image.size(0));
    EXPECT_EQ(box.shape(), (Shape{image.size(0), 4}));
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(loader.begin()->box.to_vector<float>()[4], 1);
}

TEST(ItemLoader, CollatesTuples) {
  using Item = std::tuple<Variable, int64_t, double, bool, std::string>;
  std::vector<Item> items;
  for (int i = 0; i < 4; ++i)
    items.emplace_back(full({3}, i), i, 0.5 * i, i % 2, std::to_string(i));
  for (auto& [x, length, weight, flag, name] : ItemLoader(items, {.batch_size = 4})) {
    EXPECT_EQ(x.shape(), (Shape{4, 3}));
    EXPECT_EQ(length.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(weight.dtype(), f32);
    EXPECT_EQ(weight.to_vector<float>()[3], 1.5f);
    EXPECT_EQ(flag.dtype(), boolean);
    EXPECT_EQ(flag.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1}));
    EXPECT_EQ(name, (std::vector<std::string>{"0", "1", "2", "3"}));
  }
}

/// A data set of sequences of different lengths, with random noise.
struct Sequences {
  int64_t size() const { return 20; }
  std::pair<Variable, int64_t> get(int64_t i, RandomGenerator& random) const {
    return {rand({1 + i % 5, 2}, {}, random), i};
  }
};

TEST(ItemLoader, TakesABatchFunctionAndWorkers) {
  const auto make_batch = [](std::vector<std::pair<Variable, int64_t>> items) {
    std::vector<Variable> sequences;
    std::vector<int64_t> lengths, ids;
    for (auto& [x, id] : items) {
      sequences.push_back(x);
      lengths.push_back(x.size(0));
      ids.push_back(id);
    }
    return std::tuple(nn::pad_sequence(sequences), lengths, ids);
  };
  const auto epoch = [&](auto& loader) {
    std::vector<int64_t> ids;
    std::vector<float> values;
    for (auto& [padded, lengths, batch_ids] : loader) {
      EXPECT_EQ(padded.size(1), int64_t(lengths.size()));
      ids.insert(ids.end(), batch_ids.begin(), batch_ids.end());
      const auto part = padded.template to_vector<float>();
      values.insert(values.end(), part.begin(), part.end());
    }
    return std::pair(ids, values);
  };
  ItemLoader plain(Sequences(), {.batch_size = 6, .shuffle = true, .seed = 3}, make_batch);
  ItemLoader threaded(Sequences(), {.batch_size = 6, .shuffle = true, .num_workers = 2, .seed = 3},
                      make_batch);
  const auto first = epoch(plain), second = epoch(plain);
  EXPECT_EQ(first.first, shuffled_order(20, 3, 0));
  EXPECT_NE(first.first, second.first);
  EXPECT_EQ(epoch(threaded), first);
  EXPECT_EQ(epoch(threaded), second);
}

TEST(ItemLoader, SplitsAnyDataSet) {
  std::vector<int64_t> items(10);
  std::iota(items.begin(), items.end(), int64_t{0});
  const auto [train, validation] = split_dataset(items, 0.3, 4);
  const auto [first, second] = split_dataset(TensorDataset(arange(10)), 0.3, 4);
  ASSERT_EQ(validation.size(), 3);
  ItemLoader batches(train, {.batch_size = 7}), rest(validation, {.batch_size = 3});
  EXPECT_EQ(next(iter(batches)).to_vector<int64_t>(), first.data().to_vector<int64_t>());
  EXPECT_EQ(next(iter(rest)).to_vector<int64_t>(), second.data().to_vector<int64_t>());
  EXPECT_THROW(split_dataset(items, -0.1), ArgumentError);
}

TEST(ItemLoader, ReportsErrors) {
  const std::vector<Variable> items = {ones({2}), ones({3})};
  ItemLoader unequal(items, {.batch_size = 2});
  EXPECT_THROW(unequal.begin(), ShapeError);
  ItemLoader threaded(items, {.batch_size = 2, .num_workers = 1});
  EXPECT_THROW(threaded.begin(), ShapeError);
  EXPECT_THROW(ItemLoader(items, {.batch_size = 0}).begin(), ArgumentError);
  EXPECT_THROW(ItemLoader(items, {.batch_size = 1, .num_workers = -1}).begin(), ArgumentError);
}

/// A data set whose item 3 has the wrong length, and whose item 5 cannot be read.
struct Damaged {
  int64_t size() const { return 8; }
  Variable get(int64_t index) const {
    if (index == 5) fail<IoError>("photo: the file is empty");
    return zeros({index == 3 ? 1 : 2});
  }
};

/// The message of the error that reading all batches ends with.
std::string error_of(DataLoaderOptions options) {
  ItemLoader loader(Damaged(), options);
  return testing::message_of([&] {
    for ([[maybe_unused]] auto& batch : loader) {
    }
  });
}

TEST(ItemLoader, ErrorsNameTheItems) {
  for (const int workers : {0, 2}) {
    EXPECT_NE(error_of({.batch_size = 4, .num_workers = workers}).find("items 0, 1, 2, 3 of the"),
              std::string::npos);
    const std::string message = error_of({.batch_size = 1, .num_workers = workers});
    EXPECT_NE(message.find("photo: the file is empty\n"), std::string::npos) << message;
    EXPECT_NE(message.find("item 5 of the data set"), std::string::npos) << message;
  }
}

TEST(ItemLoader, T57_NoBatchFollowsTheEnd) {
  const std::vector<Variable> items = {ones({2}), zeros({2})};
  ItemLoader loader(items, {.batch_size = 2});
  auto at = loader.begin();
  EXPECT_EQ((*at).shape(), (Shape{2, 2}));
  ++at;
  EXPECT_THROW(*at, ArgumentError);
  EXPECT_THROW(++at, ArgumentError);
}

}  // namespace
}  // namespace tapegrad
