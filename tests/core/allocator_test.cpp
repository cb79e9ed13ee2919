// The caching CPU allocator and its public statistics. All sizes are above a kilobyte: smaller
// buffers come from the small-object pool and are not counted.
#include "core/base/allocator.h"

#include "core/base/internal/sanitizer.h"
#include "tests/make_variable.h"

namespace tapegrad::testing {
namespace {

constexpr int64_t kMega = int64_t(1) << 20;

class CpuMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    empty_cache();
    reset_peak_memory();
    before_ = memory_stats();
  }
  void TearDown() override {
    set_memory_limit(-1);
    EXPECT_EQ(memory_stats().in_use, before_.in_use);
    empty_cache();
  }
  static Tensor mega(int64_t count) { return Tensor::empty({count * kMega}, u8); }

  MemoryStats before_;
};

TEST_F(CpuMemory, CountsInUseAndPeak) {
  {
    const Tensor a = mega(4);
    { const Tensor b = mega(8); }
    EXPECT_EQ(memory_stats().in_use, before_.in_use + 4 * kMega);
    EXPECT_EQ(memory_stats().peak, before_.in_use + 12 * kMega);
    EXPECT_EQ(memory_stats().cached, 8 * kMega);
    EXPECT_EQ(memory_stats().allocations, before_.allocations + 2);
  }
  reset_peak_memory();
  EXPECT_EQ(memory_stats().peak, before_.in_use);
}

TEST_F(CpuMemory, FreedBlocksAreUsedAgain) {
  const void* first = mega(3).storage().data();
  const Tensor again = mega(3);
  EXPECT_EQ(again.storage().data(), first);
  EXPECT_EQ(memory_stats().system_allocations, before_.system_allocations + 1);
  EXPECT_EQ(memory_stats().cached, 0);
}

TEST_F(CpuMemory, EmptyCacheReturnsBlocks) {
  { const Tensor a = mega(2); }
  EXPECT_EQ(memory_stats().cached, 2 * kMega);
  empty_cache();
  EXPECT_EQ(memory_stats().cached, 0);
}

TEST_F(CpuMemory, WasteIsAtMostAnEighth) {
  for (int64_t bytes : {1025, 5000, 123457, 1000001, 33333333}) {
    const Tensor x = Tensor::empty({bytes}, u8);
    const int64_t held = memory_stats().in_use - before_.in_use;
    EXPECT_GE(held, bytes);
    EXPECT_LE(held, bytes + bytes / 8 + 64);
  }
}

/// A load waits for an earlier store to a slightly higher address in the low 12 bits.
TEST_F(CpuMemory, LargeBlocksAreAMultipleOf512BytesApart) {
  std::vector<Tensor> blocks;
  for (const int64_t bytes : {8192, 16384, 20000, 65536, 200000})
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(Tensor::empty({bytes}, u8));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().storage().data()) % 512, 0u) << bytes;
    }
}

TEST_F(CpuMemory, T52_LimitIsAnErrorWithNumbersAndTheNextSmallerOneSucceeds) {
  set_memory_limit(before_.in_use + 10 * kMega);
  const Tensor a = mega(6);
  expect_error<OutOfMemory>([] { mega(5); },
                            {"cpu: out of memory", std::to_string(5 * kMega) + " bytes wanted",
                             std::to_string(before_.in_use + 6 * kMega) + " in use",
                             "limit " + std::to_string(before_.in_use + 10 * kMega)});
  EXPECT_EQ(memory_stats().in_use, before_.in_use + 6 * kMega);
  const Tensor b = mega(4);
  EXPECT_EQ(memory_stats().in_use, before_.in_use + 10 * kMega);
}

TEST_F(CpuMemory, CacheMakesRoomUnderTheLimit) {
  set_memory_limit(before_.in_use + 10 * kMega);
  { const Tensor a = mega(8); }
  EXPECT_EQ(memory_stats().cached, 8 * kMega);
  const Tensor b = mega(9);
  EXPECT_EQ(memory_stats().cached, 0) << "given back to make room";
}

TEST_F(CpuMemory, SmallBuffersStayUncounted) {
  const Tensor x = Tensor::empty({100}, f32);
  EXPECT_EQ(memory_stats().in_use, before_.in_use);
}

#ifdef TAPEGRAD_ADDRESS_SANITIZER
TEST_F(CpuMemory, BytesThatNobodyOwnsAreMarked) {
  const Tensor x = Tensor::empty({5000}, u8), small = Tensor::empty({100}, u8);
  const auto marked = [](const Tensor& t, int64_t byte) {
    return __asan_address_is_poisoned(t.storage().data() + byte) != 0;
  };
  EXPECT_FALSE(marked(x, 4999));
  EXPECT_TRUE(marked(x, 5000)) << "the tail of the size class";
  EXPECT_FALSE(marked(small, 99));
  EXPECT_TRUE(marked(small, 100));
  const void* freed = Tensor::empty({9000}, u8).storage().data();
  EXPECT_TRUE(__asan_address_is_poisoned(freed)) << "kept for reuse";
  EXPECT_EQ(Tensor::full({9000}, 7, u8).storage().data(), freed);
}
#endif

}  // namespace
}  // namespace tapegrad::testing
