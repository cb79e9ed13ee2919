// Shards: the shards of all ranks together are the data set.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "data/item_loader.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "ops/create.h"

namespace tapegrad {
namespace {

/// Returns the examples that a loader delivers, batch by batch.
template <typename L>
std::vector<std::vector<int64_t>> batches_of(L& loader) {
  std::vector<std::vector<int64_t>> all;
  for (auto& batch : loader) all.push_back(batch.data.template to_vector<int64_t>());
  return all;
}

std::vector<int64_t> flat(const std::vector<std::vector<int64_t>>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

TensorDataset numbers(int64_t n) { return TensorDataset(arange(n)); }

TEST(Shard, ShardsAreDisjointUpToPaddingAndTheirUnionIsTheDataSet) {
  for (const int64_t n : {0, 1, 4, 7, 60, 101})
    for (const int ranks : {1, 2, 3, 4, 5})
      for (const bool drop_last : {false, true}) {
        std::multiset<int64_t> seen;
        for (int rank = 0; rank < ranks; ++rank) {
          DataLoader loader(numbers(n), {.batch_size = 3,
                                         .shuffle = true,
                                         .drop_last = drop_last,
                                         .seed = 5,
                                         .shard = {rank, ranks}});
          const auto batches = batches_of(loader);
          EXPECT_EQ(int64_t(batches.size()), loader.size());
          for (const int64_t each : flat(batches)) seen.insert(each);
        }
        const int64_t per_rank = drop_last ? n / ranks / 3 * 3 : (n + ranks - 1) / ranks;
        EXPECT_EQ(int64_t(seen.size()), per_rank * ranks) << n << " examples, " << ranks;
        if (drop_last) {
          EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), seen.size());
        } else {
          EXPECT_EQ(int64_t(std::set<int64_t>(seen.begin(), seen.end()).size()), n);
        }
      }
}

/// Batch k of all ranks together is batch k of one process with a batch as large as all of theirs.
TEST(Shard, BatchesOfTheRanksAreABatchOfOneProcess) {
  DataLoader whole(numbers(48), {.batch_size = 12, .shuffle = true, .seed = 3});
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto expected = batches_of(whole);
    std::vector<std::vector<int64_t>> together(expected.size());
    for (int rank = 0; rank < 4; ++rank) {
      DataLoader part(numbers(48),
                      {.batch_size = 3, .shuffle = true, .seed = 3, .shard = {rank, 4}});
      part.set_epoch(uint64_t(epoch));
      const auto batches = batches_of(part);
      ASSERT_EQ(batches.size(), expected.size());
      for (size_t k = 0; k < batches.size(); ++k)
        together[k].insert(together[k].end(), batches[k].begin(), batches[k].end());
    }
    for (size_t k = 0; k < expected.size(); ++k) {
      std::ranges::sort(expected[k]);
      std::ranges::sort(together[k]);
      EXPECT_EQ(expected[k], together[k]) << "epoch " << epoch << ", batch " << k;
    }
  }
}

TEST(Shard, AnotherNumberOfRanksContinuesTheOrder) {
  std::set<int64_t> seen;
  for (int rank = 0; rank < 4; ++rank) {
    DataLoader part(numbers(48), {.batch_size = 3, .shuffle = true, .shard = {rank, 4}});
    auto it = part.begin();
    for (int k = 0; k < 2; ++k, ++it)
      for (const int64_t each : it->data.to_vector<int64_t>()) seen.insert(each);
  }
  for (int rank = 0; rank < 2; ++rank) {
    DataLoader part(numbers(48), {.batch_size = 6, .shuffle = true, .shard = {rank, 2}});
    part.set_state({0, 2});
    for (const int64_t each : flat(batches_of(part))) EXPECT_TRUE(seen.insert(each).second);
  }
  EXPECT_EQ(seen.size(), 48u);
}

TEST(Shard, AllLoadersReadTheSameShard) {
  for (const bool shuffle : {false, true})
    for (int rank = 0; rank < 3; ++rank) {
      const Shard shard{rank, 3};
      DataLoader loader(
          numbers(50),
          {.batch_size = 4, .shuffle = shuffle, .num_workers = 2, .seed = 2, .shard = shard});
      DeviceLoader device(numbers(50),
                          {.batch_size = 4, .shuffle = shuffle, .seed = 2, .shard = shard});
      std::vector<int64_t> items(50);
      for (size_t i = 0; i < items.size(); ++i) items[i] = int64_t(i);
      ItemLoader by_item(items, {.batch_size = 4, .shuffle = shuffle, .seed = 2, .shard = shard});
      const auto expected = batches_of(loader);
      EXPECT_EQ(batches_of(device), expected);
      EXPECT_EQ(device.num_examples(), 17);
      EXPECT_EQ(device.dataset_size(), 50);
      std::vector<std::vector<int64_t>> of_items;
      for (auto& batch : by_item) of_items.push_back(batch.to_vector<int64_t>());
      EXPECT_EQ(of_items, expected);
      EXPECT_EQ(by_item.size(), int64_t(expected.size()));
    }
}

/// DistributedSampler, PyTorch's name for a shard, reads the same examples.
TEST(Shard, ADistributedSamplerIsAShard) {
  for (const int64_t n : {1, 7, 50})
    for (const bool shuffle : {false, true})
      for (const bool drop_last : {false, true})
        for (int rank = 0; rank < 3; ++rank) {
          const Shard shard{rank, 3};
          const TensorDataset set = numbers(n);
          const DistributedSampler sampler(set, shard,
                                           {.shuffle = shuffle, .seed = 2, .drop_last = drop_last});
          const Shard same{rank, 3};
          EXPECT_EQ(sampler.size(), same.count(n, drop_last));
          if (sampler.size() == 0) continue;
          DataLoader by_sampler(set, {.batch_size = 1, .sampler = sampler});
          DataLoader by_shard(set, {.batch_size = 1,
                                    .shuffle = shuffle,
                                    .drop_last = drop_last,
                                    .seed = 2,
                                    .shard = shard});
          for (int epoch = 0; epoch < 2; ++epoch)
            EXPECT_EQ(batches_of(by_sampler), batches_of(by_shard)) << n << " examples";
        }
  EXPECT_THROW(DistributedSampler(4, {3, 3}), ArgumentError);
  EXPECT_THROW(DistributedSampler(-1, {0, 3}), ArgumentError);
}

TEST(Shard, RefusesRanksThatDoNotExist) {
  for (const Shard shard : {Shard{-1, 2}, Shard{2, 2}, Shard{0, 0}, Shard{0, -3}}) {
    EXPECT_THROW(DataLoader(numbers(4), {.shard = shard}), ArgumentError);
    EXPECT_THROW(DeviceLoader(numbers(4), {.shard = shard}), ArgumentError);
  }
}

}  // namespace
}  // namespace tapegrad
