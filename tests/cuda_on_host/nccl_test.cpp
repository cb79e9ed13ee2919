// Ranks with a GPU each, connected by a stand-in for NCCL.
#include <dlfcn.h>
#include <gtest/gtest.h>
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/cuda.h"
#include "dist/data_parallel.h"
#include "dist/internal/connection.h"
#include "dist/internal/nccl.h"
#include "dist/internal/socket.h"
#include "dist/internal/tcp_engine.h"
#include "dist/sharded_optimizer.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/optimizers.h"

namespace tapegrad::dist {
namespace {

#ifdef NCCL_MAJOR
// Our declarations are those of the real header.
static_assert(sizeof(ncclUniqueId) == sizeof(NcclApi::Id) && ncclUint8 == 1 && ncclSuccess == 0);
using Send = ncclResult_t (*)(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
static_assert(std::is_same_v<Send, decltype(&ncclSend)>);
using Receive = ncclResult_t (*)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
static_assert(std::is_same_v<Receive, decltype(&ncclRecv)>);
using Gather = ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, ncclComm_t,
                                cudaStream_t);
static_assert(std::is_same_v<Gather, decltype(&ncclAllGather)>);
using Cast = ncclResult_t (*)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                              cudaStream_t);
static_assert(std::is_same_v<Cast, decltype(&ncclBroadcast)>);
using Init = ncclResult_t (*)(ncclComm_t*, int, ncclUniqueId, int);
static_assert(std::is_same_v<Init, decltype(&ncclCommInitRank)>);
using AsyncError = ncclResult_t (*)(ncclComm_t, ncclResult_t*);
static_assert(std::is_same_v<AsyncError, decltype(&ncclCommGetAsyncError)>);
#endif

class Nccl : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("TAPEGRAD_NCCL_LIBRARY", TAPEGRAD_NCCL_DOUBLE, 1); }
  template <typename Function>
  static Function function(const char* name) {
    return reinterpret_cast<Function>(dlsym(dlopen(TAPEGRAD_NCCL_DOUBLE, RTLD_NOW), name));
  }
  static std::string calls() { return function<const char* (*)()>("nccl_double_calls")(); }
};

Device gpu_of(const Communicator& world) { return {DeviceType::kCuda, int8_t(world.rank())}; }

Tensor numbers(int rank, int64_t count, DType dtype) {
  RandomGenerator generator(uint64_t(rank + 1));
  return randn({count}, {.dtype = f64}, generator).value().to(dtype);
}

void expect_equal(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(cpu).contiguous(), y = b.to(cpu).contiguous();
  ASSERT_EQ(x.shape(), y.shape());
  EXPECT_EQ(
      std::memcmp(x.storage().data(), y.storage().data(), size_t(x.numel() * size_of(x.dtype()))),
      0);
}

TEST_F(Nccl, CollectivesHaveTheBitsOfTheHost) {
  run_threads(2, [](const Communicator& world) {
    const Device gpu = gpu_of(world);
    ASSERT_TRUE(world.has_nccl(gpu));
    for (const DType dtype : {f32, f64, bf16, i64})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean})
        for (const bool compress : {false, true}) {
          if (dtype == i64 && op == ReduceOp::kMean) continue;
          const ReduceOptions how{op, compress, "values"};
          const Tensor host = numbers(world.rank(), 10'001, dtype), on_gpu = host.to(gpu);
          world.all_reduce(host, how);
          world.all_reduce(on_gpu, how);
          expect_equal(host, on_gpu);
          const Tensor part = numbers(world.rank(), 600, dtype);
          expect_equal(world.reduce_scatter(part, how), world.reduce_scatter(part.to(gpu), how));
        }
    for (const ReduceOp op : {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
      const Tensor host = numbers(world.rank(), 5'000, f32), on_gpu = host.to(gpu);
      world.all_reduce(host, {.op = op});
      world.all_reduce(on_gpu, {.op = op});
      expect_equal(host, on_gpu);
    }
    const Tensor x = numbers(world.rank(), 7, f32), y = x.to(gpu);
    const Tensor parts = numbers(world.rank(), 600, f32);
    expect_equal(world.all_to_all(parts), world.all_to_all(parts.to(gpu)));
    const Tensor of_host = world.gather(x, 1), of_gpu = world.gather(y, 1);
    if (world.rank() == 1) expect_equal(of_host, of_gpu);
    const Communicator alone = world.split(world.rank());
    EXPECT_EQ(alone.size(), 1);
    expect_equal(world.all_gather(x), world.all_gather(y));
    world.broadcast(x, 1);
    world.broadcast(y, 1);
    expect_equal(x, y);
  });
}

TEST_F(Nccl, AnAllReduceSendsPartsAndGathersSums) {
  calls();
  run_threads(2, [](const Communicator& world) {
    world.all_reduce(Tensor::full({5}, 1, f32, gpu_of(world)));
  });
  EXPECT_EQ(calls(), "init 2\nsend 12 to 0\nsend 12 to 1\ngroup of 2\nall_gather 12\ndestroy\n");
}

/// Without MPI, TCP introduces the ranks to each other and carries the checks.
TEST_F(Nccl, RanksMayMeetByTcp) {
  calls();
  const int port = Socket::listen("127.0.0.1", 0).own_address().second;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([=] {
      const Communicator world = Connections::wrap(Connection::open(
          [&] {
            return make_tcp_engine({rank, 2, "127.0.0.1", port}, 20);
          },
          20));
      const Device gpu = gpu_of(world);
      EXPECT_TRUE(world.has_nccl(gpu));
      const Tensor host = numbers(rank, 10'001, f32), on_gpu = host.to(gpu);
      world.all_reduce(host);
      world.all_reduce(on_gpu);
      expect_equal(host, on_gpu);
      const Tensor parts = numbers(rank, 600, f32);
      expect_equal(world.all_to_all(parts), world.all_to_all(parts.to(gpu)));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string all = calls();
  EXPECT_TRUE(all.starts_with("init 2\n")) << all;
}

TEST_F(Nccl, RanksThatShareAGpuGoThroughTheHost) {
  calls();
  run_threads(2, [](const Communicator& world) {
    EXPECT_FALSE(world.has_nccl(gpu));
    const Tensor x = Tensor::full({3}, world.rank() + 1, f32, gpu);
    world.all_reduce(x);
    expect_equal(x, Tensor::full({3}, 3, f32));
  });
  EXPECT_EQ(calls(), "");
}

TEST_F(Nccl, AnErrorOfNcclEndsAllRanks) {
  const auto fail = function<void (*)(int)>("nccl_double_fail");
  std::string message;
  fail(1);
  try {
    run_threads(2, [](const Communicator& world) {
      world.all_reduce(Tensor::full({3}, 1, f32, gpu_of(world)));
    });
  } catch (const Error& error) {
    message = error.what();
  }
  fail(0);
  EXPECT_NE(message.find("NCCL: an error of the stand-in"), message.npos) << message;
}

/// Training on GPUs makes the bits of the same training with messages through the host.
TEST_F(Nccl, TrainingHasTheBitsOfMessagesThroughTheHost) {
  std::vector<std::vector<Tensor>> results(4);
  const auto train = [&](bool shares_a_gpu, bool is_sharded) {
    run_threads(2, [&](const Communicator& world) {
      const Device device = shares_a_gpu ? gpu : gpu_of(world);
      nn::Sequential net(nn::Linear(4, 9), nn::Tanh(), nn::Linear(9, 2));
      uint64_t seed = 1;
      for (const Variable& each : net.parameters()) {
        RandomGenerator generator(seed++);
        each.rebind(randn(each.shape(), {}, generator).value());
      }
      net.to(device);
      const DataParallel parallel(
          net, world,
          {.bucket_bytes = 50, .first_bucket_bytes = 50, .shard_gradients = is_sharded});
      const Variable x(numbers(world.rank(), 12, f32).to(device));
      const auto run = [&](auto&& opt) {
        for (int i = 0; i < 3; ++i) {
          opt.zero_grad();
          sum(square(parallel(x.reshape({3, 4})))).backward();
          opt.step();
        }
      };
      if (is_sharded)
        run(ShardedOptimizer<optim::Adam>(parallel, 0.01));
      else
        run(optim::Adam(net, 0.01));
      if (world.is_first())
        for (const Variable& each : net.parameters())
          results[size_t(2 * shares_a_gpu + is_sharded)].push_back(each.value().to(cpu));
    });
  };
  for (const bool shares : {false, true})
    for (const bool is_sharded : {false, true}) train(shares, is_sharded);
  for (size_t i = 1; i < 4; ++i)
    for (size_t k = 0; k < results[0].size(); ++k) expect_equal(results[0][k], results[i][k]);
}

}  // namespace
}  // namespace tapegrad::dist
