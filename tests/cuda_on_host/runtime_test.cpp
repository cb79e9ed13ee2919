// Devices, memory, copies and streams of the CUDA backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "core/cuda.h"
#include "core/dispatch/kernels.h"
#include "core/inspect/runtime_info.h"
#include "data/loader.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/error_message.h"

namespace tapegrad {
namespace {

using testing::message_of;

const Device kSecond{DeviceType::kCuda, 1};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

TEST(CudaDevices, AreFoundByIndex) {
  EXPECT_TRUE(cuda::is_available());
  EXPECT_EQ(cuda::why_unavailable(), "");
  EXPECT_EQ(cuda::device_count(), 2);
  EXPECT_TRUE(is_available(gpu));
  EXPECT_TRUE(is_available(kSecond));
  EXPECT_TRUE(contains(why_unavailable({DeviceType::kCuda, 2}), "no CUDA device 2, of 2"));
  EXPECT_TRUE(contains(runtime_info(), "cuda:1: cuda_on_host"));
  EXPECT_TRUE(contains(runtime_info(), "cuDNN "));
  const std::string text = message_of<DeviceError>([] {
    Tensor::empty({1}, f32, {DeviceType::kCuda, 2});
  });
  EXPECT_TRUE(contains(text, "cuda:2: there is no CUDA device 2")) << text;
}

TEST(CudaDevices, OperandsAreOnOneDevice) {
  const Variable x = ones({2}), y = x.to(gpu), z = x.to(kSecond);
  EXPECT_THROW(x + y, DeviceError);
  EXPECT_THROW(y + z, DeviceError);
  EXPECT_EQ((z + z).to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ((z + z).device(), kSecond);
}

TEST(CudaDevices, TheDefaultDeviceIsTheSwitch) {
  const Device before = default_device();
  set_default_device(kSecond);
  EXPECT_EQ(zeros({3}).device(), kSecond);
  set_default_device(before);
}

TEST(CudaCopies, GoEveryWay) {
  const Variable x = randn({3, 5}, {.device = cpu});
  const auto values = x.to_vector<float>();
  EXPECT_EQ(x.to(gpu).to(kSecond).to(gpu).to(cpu).to_vector<float>(), values);
  // A strided view is copied by value.
  const Tensor t = x.to(gpu).value();
  const Tensor transposed = t.with_layout({{5, 3}, {1, 5}, 0});
  const Variable back{transposed.to(cpu)};
  EXPECT_EQ(back.to_vector<float>()[1], values[5]);
  EXPECT_EQ(Tensor::full({}, 2.5, f64, gpu).item(), 2.5);
  EXPECT_EQ(Tensor::full({}, int64_t(1) << 60, i64, gpu).number().to<int64_t>(), int64_t(1) << 60);
  EXPECT_EQ(Tensor::empty({0, 3}, f32, cpu).to(gpu).to(cpu).numel(), 0);
}

// With COH_LAZY=1 no kernel has run before the condition waits for it.
TEST(CudaCopies, AConditionWaitsForItsValue) {
  Variable loss = full({}, 8, {.device = gpu});
  int steps = 0;
  while (loss > 0.5) {
    loss = loss * 0.5;
    ASSERT_LT(++steps, 10);
  }
  EXPECT_EQ(steps, 4);
}

TEST(CudaCopies, TheSourceMayChangeAtOnce) {
  std::vector<float> values(1000, 1.0f);
  Tensor host = Tensor::from<float>(values, {1000});
  const Tensor x = host.to(gpu);
  kernels::fill(host, 7);
  EXPECT_EQ(Variable(x).to_vector<float>(), values);
}

TEST(CudaCopies, NobodyWaitsForThem) {
  const bool lazy = std::getenv("COH_LAZY") != nullptr;
  empty_cache(kSecond);
  cuda::synchronize(kSecond);
  const MemoryStats start = cuda::pinned_memory_stats();
  // The source, and the staging memory of the copies, are overwritten at once.
  std::vector<Tensor> copies;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      const std::vector<float> values(50000, float(8 * round + i));
      copies.push_back(Tensor::from<float>(values, {50000}).to(kSecond));
    }
    if (lazy && round == 0) {
      EXPECT_FALSE(cuda::current_stream(kSecond).is_idle());
      EXPECT_EQ(cuda::pinned_memory_stats().in_use - start.in_use, 8 * (256 << 10));
    }
    cuda::synchronize(kSecond);
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    const std::vector<float> values = Variable(copies[i]).to_vector<float>();
    EXPECT_EQ(std::count(values.begin(), values.end(), float(i)), 50000) << i;
  }
  const MemoryStats end = cuda::pinned_memory_stats();
  EXPECT_EQ(end.in_use, start.in_use);
  EXPECT_EQ(end.allocations - start.allocations, 32);
  EXPECT_EQ(end.system_allocations - start.system_allocations, lazy ? 8 : 1);
  EXPECT_GE(end.cached, 256 << 10);
  empty_cache(kSecond);
  EXPECT_LT(cuda::pinned_memory_stats().cached, end.cached);
}

TEST(CudaCopies, WaitWhenTooMuchIsUnderWay) {
  const Tensor host = Tensor::full({64 << 20}, 1, u8);
  std::vector<Tensor> copies;
  for (int i = 0; i < 6; ++i) copies = {host.to(kSecond)};
  EXPECT_LE(cuda::pinned_memory_stats().peak, 257 << 20);
  EXPECT_EQ(Tensor(copies[0].with_layout({{1}, {1}, (64 << 20) - 1})).item(), 1);
  empty_cache(kSecond);
}

TEST(CudaPinned, GoesByNoOtherMemory) {
  const bool lazy = std::getenv("COH_LAZY") != nullptr;
  const int64_t bytes = 80 << 20;  // more than the staging memory
  cuda::synchronize();
  const MemoryStats start = cuda::pinned_memory_stats();
  Variable x = cuda::pin_memory(full({bytes / 4}, 1.0, {.device = cpu}));
  EXPECT_EQ(cuda::pinned_memory_stats().in_use - start.in_use, bytes);
  const Variable y = x.to(gpu);
  EXPECT_EQ(cuda::pinned_memory_stats().allocations - start.allocations, 1);
  // The device reads the values later, directly from the tensor.
  EXPECT_EQ(cuda::current_stream().is_idle(), !lazy);
  Tensor values = x.value();
  kernels::fill(values, 7);
  EXPECT_EQ(narrow(y, 0, 0, 3).to_vector<float>(), std::vector<float>(3, lazy ? 7 : 1));
  // For another device, a pinned tensor is an ordinary tensor.
  EXPECT_FALSE(cuda::is_pinned(x, kSecond));
  const Variable part = narrow(x, 0, 5, 100), elsewhere = part.to(kSecond);
  kernels::fill(values, 8);
  EXPECT_EQ(elsewhere.to_vector<float>(), std::vector<float>(100, 7));

  values = {}, x = {};
  EXPECT_EQ(cuda::pinned_memory_stats().in_use - start.in_use, bytes);  // kept alive by `part`
}

TEST(CudaPinned, IsKeptForFurtherTensors) {
  cuda::synchronize();
  empty_cache(gpu);
  const MemoryStats start = cuda::pinned_memory_stats();
  for (int i = 0; i < 10; ++i) {
    const Variable y = cuda::pin_memory(full({1 << 20}, double(i), {.device = cpu})).to(gpu);
    EXPECT_EQ(max(y).item(), i);
  }
  const MemoryStats end = cuda::pinned_memory_stats();
  EXPECT_EQ(end.allocations - start.allocations, 10);
  EXPECT_EQ(end.system_allocations - start.system_allocations, 1);
  EXPECT_EQ(end.in_use, start.in_use);
  EXPECT_EQ(end.cached - start.cached, 4 << 20);
  empty_cache(gpu);
  EXPECT_EQ(cuda::pinned_memory_stats().cached, start.cached);
}

TEST(CudaPinned, BatchesOfALoader) {
  const Variable data = randn({50, 6}, {.device = cpu});
  const Variable ids = randint(0, 9, {50}, {.device = cpu});
  const auto batches = [&](bool pin_memory, int num_workers) {
    DataLoader loader(
        TensorDataset(data, ids),
        {.batch_size = 8, .shuffle = true, .num_workers = num_workers, .pin_memory = pin_memory});
    std::vector<std::vector<float>> all;
    for (auto& [x, y] : loader) {
      EXPECT_EQ(cuda::is_pinned(x) && cuda::is_pinned(y), pin_memory);
      all.push_back(x.to(gpu).to_vector<float>());
      all.push_back(y.to(gpu).to_vector<float>());
    }
    return all;
  };
  const auto expected = batches(false, 0);
  EXPECT_EQ(batches(true, 0), expected);
  EXPECT_EQ(batches(true, 2), expected);
}

TEST(CudaMemory, IsListedByWhatHoldsIt) {
  const Tensor x = Tensor::empty({1 << 20}, f32, kSecond);
  const std::vector<cuda::PoolStats> pools = cuda::pool_stats(kSecond);
  ASSERT_FALSE(pools.empty());
  const MemoryStats all = memory_stats(kSecond);
  int64_t in_use = 0, cached = 0;
  for (const cuda::PoolStats& pool : pools) in_use += pool.in_use, cached += pool.cached;
  EXPECT_EQ(in_use, all.in_use);
  EXPECT_EQ(cached, all.cached);
  EXPECT_EQ(pools.front().pool, 0);
  EXPECT_GE(pools.front().segments, 1);
  const std::string text = cuda::memory_summary(kSecond);
  EXPECT_TRUE(contains(text, "  tensors              " + std::to_string(all.in_use))) << text;
  EXPECT_THROW(cuda::pool_stats(cpu), DeviceError);
  EXPECT_THROW(cuda::memory_summary({DeviceType::kCuda, 2}), DeviceError);
}

TEST(CudaMemory, CountsWhatIsInUse) {
  const MemoryStats before = memory_stats(kSecond);
  {
    const Tensor small = Tensor::empty({100}, f32, kSecond);
    const Tensor large = Tensor::empty({1 << 20}, f32, kSecond);
    const MemoryStats now = memory_stats(kSecond);
    EXPECT_EQ(now.in_use - before.in_use, 512 + (4 << 20));
    EXPECT_EQ(now.allocations - before.allocations, 2);
    EXPECT_GE(now.peak, now.in_use);
  }
  const MemoryStats after = memory_stats(kSecond);
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_GE(after.cached, 4 << 20);
  empty_cache(kSecond);
  EXPECT_LT(memory_stats(kSecond).cached, after.cached);
}

TEST(CudaMemory, BlocksAreReusedCutAndJoined) {
  empty_cache(kSecond);
  const auto segments = [] { return memory_stats(kSecond).system_allocations; };
  const int64_t before = segments();
  void* address;
  {
    const Tensor x = Tensor::empty({8 << 20}, u8, kSecond);
    address = x.data<uint8_t>();
    EXPECT_EQ(segments() - before, 1);
  }
  std::vector<Tensor> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(Tensor::empty({2 << 20}, u8, kSecond));
  EXPECT_EQ(segments() - before, 1);  // all fit into the freed block
  for (int i : {1, 3, 0, 2}) parts[size_t(i)] = {};
  const Tensor again = Tensor::empty({8 << 20}, u8, kSecond);
  EXPECT_EQ(again.data<uint8_t>(), address);
  EXPECT_EQ(segments() - before, 1);
}

TEST(CudaMemory, AStreamReusesItsOwn) {
  const cuda::Stream side = cuda::Stream::create(kSecond);
  void* address;
  {
    const cuda::StreamGuard guard(side);
    address = Tensor::empty({4 << 20}, u8, kSecond).data<uint8_t>();
  }
  EXPECT_NE(Tensor::empty({4 << 20}, u8, kSecond).data<uint8_t>(), address);
  const cuda::StreamGuard guard(side);
  EXPECT_EQ(Tensor::empty({4 << 20}, u8, kSecond).data<uint8_t>(), address);
}

TEST(CudaMemory, ALimitIsKept) {
  empty_cache(kSecond);
  const MemoryStats before = memory_stats(kSecond);
  set_memory_limit(before.in_use + before.cached + (8 << 20), kSecond);
  const std::string text = message_of<OutOfMemory>([] { Tensor::empty({16 << 20}, u8, kSecond); });
  EXPECT_TRUE(contains(text, "cuda:1 is out of memory: 16777216 bytes wanted")) << text;
  EXPECT_TRUE(contains(text, "limit ")) << text;
  EXPECT_TRUE(contains(text, "\n  kernels' workspaces  ")) << text;
  { const Tensor x = Tensor::empty({8 << 20}, u8, kSecond); }
  // Cached blocks of another size are returned to the system before an error is thrown.
  { const Tensor x = Tensor::empty({6 << 20}, u8, kSecond); }
  EXPECT_NO_THROW(Tensor::empty({8 << 20}, u8, kSecond));
  set_memory_limit(-1, kSecond);
  EXPECT_THROW(Tensor::empty({int64_t(1) << 45}, u8, kSecond), OutOfMemory);
  EXPECT_NO_THROW(Tensor::empty({16 << 20}, u8, kSecond));
}

TEST(CudaStreams, EventsOrderThem) {
  const cuda::Stream side = cuda::Stream::create();
  EXPECT_NE(side, cuda::current_stream());
  Tensor x = Tensor::full({1000}, 1.0, f32, gpu);
  cuda::Event ready, done;
  ready.record();
  {
    const cuda::StreamGuard guard(side);
    EXPECT_EQ(side, cuda::current_stream());
    side.wait(ready);
    kernels::fill(x, 2);
    done.record();
  }
  cuda::current_stream().wait(done);
  EXPECT_EQ(Variable(x).to_vector<float>()[999], 2);
  EXPECT_TRUE(done.query());
  side.synchronize();
  EXPECT_TRUE(side.is_idle());
  EXPECT_GE(ready.elapsed_ms(done), 0);
  cuda::synchronize();
}

TEST(CudaStreams, ThreadsShareADevice) {
  std::vector<float> sums(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sums.size(); ++i)
    threads.emplace_back([i, &sums] {
      Variable x = full({1000}, double(i), {.device = gpu});
      for (int k = 0; k < 5; ++k) x = x + 1.0;
      sums[i] = float(sum(x).item());
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], 1000.0f * float(i + 5));
}

TEST(CudaErrors, NameTheOp) {
  const Variable x = ones({2}, {.device = gpu});
  const std::string text =
      message_of<KernelError>([&] { kernels::exp.at(DeviceType::kCuda, i16); });
  EXPECT_TRUE(contains(text, "exp: no kernel for cuda int16; registered: cpu {")) << text;
  EXPECT_TRUE(contains(text, "cuda {")) << text;
}

}  // namespace
}  // namespace tapegrad
