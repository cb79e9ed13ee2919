// NCCL with one rank, which a single GPU can run: calls and their order, not the communication.
#include <gtest/gtest.h>

#include <thread>

#include "core/cuda.h"
#include "dist/internal/device_moves.h"
#include "dist/internal/nccl.h"
#include "dist/internal/thread_engine.h"

namespace tapegrad::dist {
namespace {

struct NeverLate final : Waiting {
  void pause() override { std::this_thread::yield(); }
};

TEST(NcclAlone, OneRankCallsEverything) {
  std::string why_not;
  if (NcclApi::open(why_not) == nullptr) GTEST_SKIP() << "no NCCL: " << why_not;
  NeverLate waiting;
  ThreadEngine engine(std::make_shared<Board>(1), 0);
  const auto link = NcclLink::make(engine, gpu, waiting);
  ASSERT_NE(link, nullptr);
  const cuda::StreamGuard stream(link->stream());
  const auto bytes_of = [](const Tensor& x) { return x.storage().data(); };
  for (const DType dtype : {f32, bf16, i64}) {
    const Tensor x = Tensor::full({1001}, 3, dtype, gpu), y = x.empty_like();
    const size_t bytes = size_t(1001 * size_of(dtype));
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax})
      reduce_on_device(*link, {dtype, dtype, op}, x);
    link->all_to_all(bytes_of(x), bytes_of(y), bytes);
    link->all_gather(bytes_of(y), bytes_of(x), bytes);
    link->broadcast(bytes_of(x), bytes, 0);
    link->finish(waiting);
    const Tensor host = x.to(cpu).to(f64);
    for (int64_t i = 0; i < 1001; ++i) ASSERT_EQ(host.data<double>()[i], 3);
  }
}

}  // namespace
}  // namespace tapegrad::dist
