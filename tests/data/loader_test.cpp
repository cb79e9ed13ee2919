#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "core/base/error.h"
#include "core/dispatch/dispatch_log.h"
#include "core/tape/device_pipe.h"
#include "data/item_loader.h"
#include "data/split.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::message_of;

Variable column(int64_t n) {
  std::vector<int64_t> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), int64_t(0));
  return Variable(Tensor::from<int64_t>(values, {n}));
}

/// Calls a function for every example that is read.
class Watched final : public Dataset {
 public:
  Watched(int64_t size, std::function<void(int64_t)> on_read)
      : size_(size), on_read_(std::move(on_read)) {}
  int64_t size() const override { return size_; }
  Example get(int64_t, RandomGenerator&) const override { return {}; }
  Example gather(std::span<const int64_t> indices, const SampleRandom&) const override {
    for (int64_t index : indices) on_read_(index);
    return {Variable(Tensor::from<int64_t>(indices, {int64_t(indices.size())})), {}};
  }

 private:
  int64_t size_;
  std::function<void(int64_t)> on_read_;
};

/// Returns the first random word of each example.
class Drawn final : public Dataset {
 public:
  explicit Drawn(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Example get(int64_t, RandomGenerator&) const override { return {}; }
  Example gather(std::span<const int64_t> indices, const SampleRandom& random) const override {
    std::vector<int64_t> words;
    for (int64_t index : indices) words.push_back(int64_t(random.at(index).state().seed >> 1));
    return {Variable(Tensor::from<int64_t>(words, {int64_t(words.size())})), {}};
  }

 private:
  int64_t size_;
};

std::vector<std::vector<int64_t>> batches_of(Loader& loader) {
  std::vector<std::vector<int64_t>> batches;
  for (auto& [x, y] : loader) batches.push_back(x.to_vector<int64_t>());
  return batches;
}

std::vector<int64_t> flat(const std::vector<std::vector<int64_t>>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

TEST(DataLoader, T57_EveryIndexOncePerEpochWhateverTheWorkers) {
  for (int64_t n : {0, 1, 5, 16, 33})
    for (int64_t batch_size : {1, 4, 16, 40})
      for (bool drop_last : {false, true})
        for (bool shuffle : {false, true}) {
          std::vector<std::vector<int64_t>> expected;
          for (int workers : {0, 1, 2, 5}) {
            SCOPED_TRACE(::testing::Message() << "n " << n << ", batch " << batch_size << ", drop "
                                              << drop_last << ", workers " << workers);
            DataLoader loader(TensorDataset(column(n)), {.batch_size = batch_size,
                                                         .shuffle = shuffle,
                                                         .num_workers = workers,
                                                         .pin_memory = workers % 2 == 1,
                                                         .drop_last = drop_last,
                                                         .seed = 7});
            const auto batches = batches_of(loader);
            ASSERT_EQ(int64_t(batches.size()), loader.size());
            const int64_t whole = n / batch_size;
            ASSERT_EQ(loader.size(), whole + (!drop_last && n % batch_size ? 1 : 0));
            for (size_t i = 0; i < batches.size(); ++i)
              ASSERT_EQ(int64_t(batches[i].size()),
                        std::min(batch_size, n - int64_t(i) * batch_size));
            std::vector<int64_t> seen = flat(batches);
            const std::set<int64_t> unique(seen.begin(), seen.end());
            ASSERT_EQ(unique.size(), seen.size());
            ASSERT_EQ(int64_t(seen.size()), drop_last ? whole * batch_size : n);
            for (int64_t index : seen) ASSERT_TRUE(0 <= index && index < n);
            if (!shuffle) {
              ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end()));
            }
            if (workers == 0)
              expected = batches;
            else
              ASSERT_EQ(batches, expected);
          }
        }
}

TEST(DataLoader, T57_OrderComesFromSeedAndEpochAlone) {
  const TensorDataset data(column(100));
  DataLoader loader(data, {.batch_size = 10, .shuffle = true, .seed = 3});
  const auto first = batches_of(loader), second = batches_of(loader);
  EXPECT_NE(first, second);
  DataLoader other(data, {.batch_size = 10, .shuffle = true, .num_workers = 3, .seed = 3});
  manual_seed(99);  // other random numbers have no influence
  other.set_epoch(1);
  EXPECT_EQ(batches_of(other), second);
  other.set_epoch(0);
  EXPECT_EQ(batches_of(other), first);
  DataLoader seeded(data, {.batch_size = 10, .shuffle = true, .seed = 4});
  EXPECT_NE(batches_of(seeded), first);
}

TEST(DataLoader, ShuffleIsUniform) {
  // Counts each of 6 values in each of 6 places over 6000 epochs; the expected count is 1000, sigma
  // 29.
  int count[6][6] = {};
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) {
    const auto order = shuffled_order(6, 1, epoch);
    for (size_t i = 0; i < 6; ++i) ++count[i][order[i]];
  }
  for (const auto& row : count)
    for (int c : row) EXPECT_NEAR(c, 1000, 150);
}

TEST(DataLoader, T57_RandomNumbersDependOnSeedEpochAndIndexAlone) {
  auto words = [](int workers, uint64_t epoch, uint64_t seed) {
    DataLoader loader(std::make_shared<Drawn>(40),
                      {.batch_size = 3, .num_workers = workers, .seed = seed});
    loader.set_epoch(epoch);
    return flat(batches_of(loader));
  };
  const auto expected = words(0, 0, 5);
  EXPECT_EQ(std::set<int64_t>(expected.begin(), expected.end()).size(), 40u);
  EXPECT_EQ(words(1, 0, 5), expected);
  EXPECT_EQ(words(4, 0, 5), expected);
  EXPECT_NE(words(4, 1, 5), expected);
  EXPECT_NE(words(4, 0, 6), expected);
}

TEST(DataLoader, T57_ExceptionInAWorkerArrivesInItsPlace) {
  for (int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<Watched>(100,
                                                [](int64_t index) {
                                                  if (index == 37)
                                                    throw std::domain_error("page 37 is torn");
                                                }),
                      {.batch_size = 5, .num_workers = workers});
    int64_t delivered = 0;
    const std::string text = message_of<std::domain_error>([&] {
      for (auto& [x, y] : loader) delivered += x.numel();
    });
    EXPECT_EQ(text, "page 37 is torn") << workers << " workers";
    EXPECT_EQ(delivered, 35) << "the batches before it arrive";
  }
}

TEST(DataLoader, T57_LeavingEarlyNeverHangs) {
  const TensorDataset data(column(64));
  for (int round = 0; round < 1000; ++round) {
    DataLoader loader(data, {.batch_size = 1,
                             .shuffle = true,
                             .num_workers = 1 + round % 4,
                             .prefetch_factor = 1 + round % 3});
    int left = round % 7;
    if (round % 10 == 9) {
      auto unused = loader.begin();  // destroyed with unread batches
      continue;
    }
    for (auto& [x, y] : loader) {
      ASSERT_EQ(x.numel(), 1);
      if (left-- == 0) break;
    }
  }
}

TEST(DataLoader, T57_LeavingEarlyWithExceptionsNeverHangs) {
  for (int round = 0; round < 300; ++round) {
    DataLoader loader(std::make_shared<Watched>(50,
                                                [round](int64_t index) {
                                                  if (index % 7 == round % 7)
                                                    throw std::runtime_error("x");
                                                }),
                      {.batch_size = 2, .num_workers = 3});
    EXPECT_THROW(batches_of(loader), std::runtime_error);
  }
}

TEST(DataLoader, ReadsAheadNoFurtherThanAsked) {
  std::atomic<int64_t> read{0};
  DataLoader loader(std::make_shared<Watched>(100, [&](int64_t) { ++read; }),
                    {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3});
  auto batch = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GE(read, 2) << "reads ahead";
  EXPECT_LE(read, 1 + 2 * 3) << "one delivered, six waiting";
}

TEST(DataLoader, StateGoesOnInTheMiddleOfAnEpoch) {
  const TensorDataset data(column(30));
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .num_workers = 2, .seed = 8};
  DataLoader whole(data, options);
  std::vector<std::vector<int64_t>> expected = batches_of(whole);
  for (const auto& batch : batches_of(whole)) expected.push_back(batch);

  std::vector<std::vector<int64_t>> seen;
  LoaderState saved;
  {
    DataLoader loader(data, options);
    for (auto& [x, y] : loader) {
      seen.push_back(x.to_vector<int64_t>());
      saved = loader.state();
      if (seen.size() == 5) break;
    }
  }
  EXPECT_EQ(saved, (LoaderState{0, 5}));
  DataLoader again(data, options);
  again.set_state(saved);
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& batch : batches_of(again)) seen.push_back(batch);
  EXPECT_EQ(seen, expected);
  EXPECT_THROW(again.set_state({0, 9}), ArgumentError);
}

TEST(DataLoader, DataAndTargetStayTogether) {
  const Variable x(Tensor::from<float>(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}));
  const Variable y(Tensor::from<int64_t>(std::vector<int64_t>{0, 1, 2, 3}, {4}));
  DataLoader loader(TensorDataset(x, y), {.batch_size = 3, .shuffle = true});
  for (auto& [data, target] : loader) {
    ASSERT_EQ(data.shape(), (Shape{target.size(0), 2}));
    const auto values = data.to_vector<float>();
    const auto ids = target.to_vector<int64_t>();
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(values[2 * i], float(2 * ids[i]));
      EXPECT_EQ(values[2 * i + 1], float(2 * ids[i] + 1));
    }
  }
}

TEST(DataLoader, MapsExamplesOnReading) {
  const TensorDataset data(column(7));
  auto mapped = map_dataset(data, [](Example example, RandomGenerator&) {
    return Example{Variable(Tensor::full({}, -example.data.item(), f32)), {}};
  });
  DataLoader loader(mapped, {.batch_size = 7, .num_workers = 1});
  EXPECT_EQ((*loader.begin()).data.to_vector<float>(),
            (std::vector<float>{0, -1, -2, -3, -4, -5, -6}));
}

// The targets of the others were dropped if the first example had none.
TEST(DataLoader, SomeTargetsOnlyAreAnError) {
  const TensorDataset whole(arange(4), arange(4));
  const auto some = [&](int64_t without) {
    return map_dataset(whole, [without](Example e, RandomGenerator&) {
      if (e.data.item() == without) e.target = Variable();
      return e;
    });
  };
  for (const int64_t without : {0, 2}) {
    DataLoader loader(some(without), 4);
    EXPECT_THROW(loader.begin(), ArgumentError);
  }
  DataLoader loader(some(9), 4);
  EXPECT_EQ(loader.begin()->target.size(0), 4);
}

TEST(DataLoader, RefusesWhatCannotBeMeant) {
  const TensorDataset data(column(4));
  EXPECT_THROW(DataLoader(data, {.batch_size = 0}), ArgumentError);
  EXPECT_THROW(DataLoader(data, {.num_workers = -1}), ArgumentError);
  EXPECT_THROW(DataLoader(data, {.prefetch_factor = 0}), ArgumentError);
  EXPECT_THROW(TensorDataset(column(4), column(5)), ShapeError);
  EXPECT_THROW(TensorDataset(Variable(Tensor::full({}, 1.0, f32))), ShapeError);
  EXPECT_THROW(data.get(4), IndexError);
  EXPECT_THROW(data.get(-1), IndexError);
  EXPECT_THROW(data.gather(std::vector<int64_t>{0, 9}, {}), IndexError);
  EXPECT_EQ(data.take(3).size(), 3);
  EXPECT_EQ(data.take(9).size(), 4);
}

TEST(DeviceLoader, GivesTheBatchesOfADataLoader) {
  const TensorDataset data(column(23), column(23));
  for (bool shuffle : {false, true})
    for (bool drop_last : {false, true}) {
      DataLoader expected(data,
                          {.batch_size = 5, .shuffle = shuffle, .drop_last = drop_last, .seed = 2});
      DeviceLoader loader(data,
                          {.batch_size = 5, .shuffle = shuffle, .drop_last = drop_last, .seed = 2});
      for (int epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(batches_of(loader), batches_of(expected));
    }
}

// For many examples, the order of the following epoch is computed ahead; another epoch may be
// requested instead.
TEST(DeviceLoader, KnowsEveryEpochsOrder) {
  const TensorDataset data(column(5000), column(5000));
  DataLoader expected(data, {.batch_size = 600, .shuffle = true, .seed = 3});
  DeviceLoader loader(data, {.batch_size = 600, .shuffle = true, .seed = 3});
  for (const uint64_t epoch : {0, 1, 7, 8, 8, 0, 3}) {
    loader.set_epoch(epoch), expected.set_epoch(epoch);
    EXPECT_EQ(batches_of(loader), batches_of(expected)) << epoch;
  }
  EXPECT_EQ(batches_of(loader), batches_of(expected));
  loader.begin();  // begun, then abandoned
  loader.set_state({5, 2}), expected.set_state({5, 2});
  EXPECT_EQ(batches_of(loader), batches_of(expected));
}

// The loader drew the indices, so it need not wait for the device to check them.
TEST(DeviceLoader, ChecksNoIndexThatItDrew) {
  const TensorDataset data(column(10), column(10));
  DeviceLoader loader(data, {.batch_size = 4, .shuffle = true});
  const DispatchLog log;
  for (int epoch = 0; epoch < 2; ++epoch)
    for ([[maybe_unused]] const auto& batch : loader) continue;
  EXPECT_EQ(log.calls("index_select"), 12);
  EXPECT_EQ(log.calls("scan_index"), 0);
}

TEST(DeviceLoader, MovesTensorsOfTheCpuToTheDefaultDevice) {
  DeviceLoader loader(TensorDataset(column(4)), {.batch_size = 2});
  for (const auto& batch : loader) EXPECT_EQ(batch.data.device(), default_device());
}

TEST(Device, PipeMovesExamplesAndTuples) {
  const auto [x, y] = Example{column(3), {}} | cpu;
  EXPECT_EQ(x.size(0), 3);
  EXPECT_FALSE(y.defined());
  const auto [a, both] =
      std::tuple(column(2), std::pair(column(1), Example{column(3), column(3)})) | cpu;
  EXPECT_EQ(a.size(0) + both.first.size(0) + both.second.target.size(0), 6);
}

TEST(DeviceLoader, CopiesNothingWithoutShuffling) {
  const TensorDataset data(column(10));
  DeviceLoader loader(data, {.batch_size = 4});
  for (auto& [x, y] : loader) EXPECT_TRUE(x.value().shares_storage(data.data().value()));
}

TEST(SplitDataset, EveryExampleIsInOnePart) {
  const TensorDataset data(arange(10), arange(10) * 2);
  const auto [train, test] = split_dataset(data, 0.3, 4);
  EXPECT_EQ(test.size(), 3);
  std::vector<int64_t> all = train.data().to_vector<int64_t>();
  EXPECT_TRUE(std::ranges::is_sorted(all));
  for (const int64_t each : test.data().to_vector<int64_t>()) all.push_back(each);
  std::ranges::sort(all);
  EXPECT_EQ(all, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(test.target().to_vector<int64_t>(), (test.data() * 2).to_vector<int64_t>());
  // A data set that reads its examples has the same parts.
  const auto [first, second] = split_dataset(std::make_shared<TensorDataset>(data), 0.3, 4);
  EXPECT_EQ(first->size(), 7);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(second->get(i).data.item(), test.data().to_vector<int64_t>()[size_t(i)]);
  const int64_t last[] = {2, 0};
  EXPECT_EQ(second->gather(last, {}).data.to_vector<int64_t>()[0],
            test.data().to_vector<int64_t>()[2]);
  const auto [most, few] = split_dataset(Subset(data, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 0.3, 4);
  EXPECT_EQ(most.size(), 7);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(few.get(i).data.item(), second->get(i).data.item());
  EXPECT_EQ(split_dataset(data, 0).second.size(), 0);
  EXPECT_THROW(split_dataset(data, 1.1), ArgumentError);
}

TEST(DataLoader, T57_NoBatchFollowsTheEnd) {
  for (const int workers : {0, 2}) {
    DataLoader loader(TensorDataset(column(3)), {.batch_size = 2, .num_workers = workers});
    Loader::Iterator at = loader.begin();
    ++at;
    ++at;
    EXPECT_TRUE(at == loader.end());
    EXPECT_THROW(++at, ArgumentError);
    EXPECT_THROW(++at, ArgumentError);
    EXPECT_EQ(loader.begin()->data.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
  }
}

/// PyTorch's option: the generator's numbers determine the order.
TEST(DataLoader, TakesAGenerator) {
  const TensorDataset data(arange(40));
  const auto order = [&](const DataLoaderOptions& options) {
    std::vector<int64_t> all;
    for (auto& batch : DataLoader(data, options))
      for (const int64_t i : batch.data.to_vector<int64_t>()) all.push_back(i);
    return all;
  };
  const auto of_seed = [&](uint64_t seed) {
    RandomGenerator generator(seed);
    return order({.batch_size = 8, .shuffle = true, .generator = generator});
  };
  EXPECT_EQ(of_seed(1), of_seed(1));
  EXPECT_NE(of_seed(1), of_seed(2));
  RandomGenerator generator(1);
  EXPECT_EQ(order({.batch_size = 8, .shuffle = true, .generator = generator}), of_seed(1));
  EXPECT_NE(order({.batch_size = 8, .shuffle = true, .generator = generator}), of_seed(1));
  const std::vector<int> items(40, 1);
  EXPECT_NE(ItemLoader(items, {.generator = RandomGenerator(7)}).seed(), 0);
  const auto first = [&](uint64_t seed) {
    auto [a, b] = random_split(data, {30, 10}, {.generator = RandomGenerator(seed)});
    return a.get(0).data.item();
  };
  EXPECT_EQ(first(3), first(3));
  EXPECT_NE(first(3), first(4));
}

}  // namespace
}  // namespace tapegrad
