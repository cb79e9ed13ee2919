// The counter reports the correct numbers for kernels whose accesses are known.
#include "counter.h"

#include <gtest/gtest.h>

#include "known.h"

namespace coh {
namespace {

/// Counts the accesses of the last kernel.
struct Count : Observer {
  Traffic traffic;

  Count() { observer = this; }
  ~Count() { observer = nullptr; }
  void begin_kernel(void (*)(), dim3, dim3, std::size_t shared) override { begin_counting(shared); }
  void end_kernel() override { traffic = end_counting(); }
  void on_library_call() override {}
  void on_copy(std::size_t) override {}
  void on_wait() override {}
};

struct Buffers {
  float *x = nullptr, *y = nullptr;
  explicit Buffers(int n) {
    void* p = nullptr;
    EXPECT_EQ(cudaMalloc(&p, std::size_t(n) * sizeof(float)), cudaSuccess);
    x = static_cast<float*>(p);
    EXPECT_EQ(cudaMalloc(&p, std::size_t(n) * sizeof(float)), cudaSuccess);
    y = static_cast<float*>(p);
  }
  ~Buffers() {
    EXPECT_EQ(cudaFree(x), cudaSuccess);
    EXPECT_EQ(cudaFree(y), cudaSuccess);
  }
};

/// Returns the accesses of the loads or stores of a kernel to one kind of memory.
Accesses sum(const Traffic& traffic, bool is_shared, bool is_store) {
  Accesses all;
  for (const InstructionTraffic& each : traffic.instructions)
    if (each.is_shared == is_shared && each.is_store == is_store) all += each.accesses;
  return all;
}
Accesses loads(const Traffic& t) { return sum(t, false, false); }
Accesses stores(const Traffic& t) { return sum(t, false, true); }

void expect(const Accesses& got, std::int64_t count, std::int64_t lanes, std::int64_t units,
            std::int64_t fewest) {
  EXPECT_EQ(got.count, count);
  EXPECT_EQ(got.lanes, lanes);
  EXPECT_EQ(got.units, units);
  EXPECT_EQ(got.fewest, fewest);
}

constexpr int kItems = 4096, kWarps = kItems / 32;

TEST(TrafficCounter, Copy) {
  Count count;
  const Buffers b(kItems);
  copy(b.y, b.x, kItems);
  expect(loads(count.traffic), kWarps, kItems, 4 * kWarps, 4 * kWarps);
  expect(stores(count.traffic), kWarps, kItems, 4 * kWarps, 4 * kWarps);
  EXPECT_EQ(count.traffic.read, kItems * 4);
  EXPECT_EQ(count.traffic.written, kItems * 4);
  EXPECT_EQ(count.traffic.shared.count, 0);
}

TEST(TrafficCounter, CopyOfPacks) {  // 16 bytes per lane
  Count count;
  const Buffers b(kItems);
  copy_packs(b.y, b.x, kItems);
  expect(loads(count.traffic), kWarps / 4, kItems / 4, 4 * kWarps, 4 * kWarps);
  expect(stores(count.traffic), kWarps / 4, kItems / 4, 4 * kWarps, 4 * kWarps);
  EXPECT_EQ(count.traffic.read, kItems * 4);
}

TEST(TrafficCounter, StridedCopy) {  // each element of x is in a sector of its own
  Count count;
  const Buffers b(8 * kItems);
  copy(b.y, b.x, kItems, 8);
  expect(loads(count.traffic), kWarps, kItems, 32 * kWarps, 4 * kWarps);
  expect(stores(count.traffic), kWarps, kItems, 4 * kWarps, 4 * kWarps);
  EXPECT_EQ(count.traffic.read, kItems * 32);
  EXPECT_EQ(count.traffic.written, kItems * 4);
}

TEST(TrafficCounter, ShiftedCopy) {  // 128 bytes that begin inside of a sector
  Count count;
  const Buffers b(kItems + 8);
  copy(b.y, b.x, kItems, 1, 1);
  expect(loads(count.traffic), kWarps, kItems, 5 * kWarps, 4 * kWarps);
  EXPECT_EQ(count.traffic.read, kItems * 4 + 32);
}

TEST(TrafficCounter, HalfOfTheLanes) {
  Count count;
  const Buffers b(kItems);
  copy_even(b.y, b.x, kItems);
  expect(loads(count.traffic), kWarps, kItems / 2, 4 * kWarps, 2 * kWarps);
}

TEST(TrafficCounter, OneElementForAll) {
  Count count;
  const Buffers b(kItems);
  spread(b.y, b.x, kItems);
  expect(loads(count.traffic), kWarps, kItems, kWarps, kWarps);
  EXPECT_EQ(count.traffic.read, 32);
}

constexpr int kSide = 64, kElements = kSide * kSide, kRows = kElements / 32;

TEST(TrafficCounter, NaiveTranspose) {
  Count count;
  const Buffers b(kElements);
  transpose(b.y, b.x, kSide, Tile::kNone);
  expect(loads(count.traffic), kRows, kElements, 4 * kRows, 4 * kRows);
  expect(stores(count.traffic), kRows, kElements, 32 * kRows, 4 * kRows);
  EXPECT_EQ(count.traffic.written, kElements * 4);
}

TEST(TrafficCounter, TiledTranspose) {  // a column of the tile is in one bank
  Count count;
  const Buffers b(kElements);
  transpose(b.y, b.x, kSide, Tile::kSquare);
  expect(loads(count.traffic), kRows, kElements, 4 * kRows, 4 * kRows);
  expect(stores(count.traffic), kRows, kElements, 4 * kRows, 4 * kRows);
  expect(sum(count.traffic, true, true), kRows, kElements, kRows, kRows);
  expect(sum(count.traffic, true, false), kRows, kElements, 32 * kRows, kRows);
}

TEST(TrafficCounter, PaddedTile) {
  Count count;
  const Buffers b(kElements);
  transpose(b.y, b.x, kSide, Tile::kPadded);
  expect(stores(count.traffic), kRows, kElements, 4 * kRows, 4 * kRows);
  expect(sum(count.traffic, true, true), kRows, kElements, kRows, kRows);
  expect(sum(count.traffic, true, false), kRows, kElements, kRows, kRows);
}

TEST(TrafficCounter, WideElementsInSharedMemory) {  // by half and quarter warps
  Count count;
  const Buffers b(32 * 4);
  for (const int bytes : {4, 8, 16}) {
    read_shared(b.y, bytes);
    expect(sum(count.traffic, true, false), 1, 32, bytes / 4, bytes / 4);
    expect(stores(count.traffic), 1, 32, bytes, bytes);
  }
}

}  // namespace
}  // namespace coh
