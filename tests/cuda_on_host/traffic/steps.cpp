// Counts the work that one training step of each benchmark model requests from the device
// (benchmarks/workloads.h). Matrix products and convolutions are counted and not computed.
//
//   traffic_steps                    all models
//   traffic_steps peaks gpt          some models
//   traffic_steps --planted=STRIDE   a copy that reads with this stride, instead of models
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "benchmarks/workloads.h"
#include "core/base/device.h"
#include "core/base/generator.h"
#include "core/tape/autocast.h"
#include "known.h"
#include "ledger.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/random.h"

namespace tapegrad::bench {
namespace {

/// Makes the backend test how cuBLASLt's ReLU treats NaN, while values are computed.
void try_libraries() {
  for (const DType dtype : {f32, bf16}) {
    const Variable x = rand({8, 8}).to(dtype);
    linear_relu(x, x, zeros({8}, {.dtype = dtype}));
  }
}

void count_step(const WorkloadInfo& info) {
  manual_seed(1);
  Workload work = info.make();
  // The precision of benchmarks/gpu_steps.cpp.
  const bool half = info.name == "gpt" || info.name.starts_with("resnet");
  const auto step = [&] {
    work.optimizer->zero_grad();
    Variable loss;
    {
      const Autocast amp(bf16, half);
      loss = work.loss();
    }
    loss.backward();
    work.optimizer->step();
    return loss.item();
  };
  step();  // makes the optimizer's state
  coh::Ledger ledger;
  step();
  ledger.print(info.name);
}

void count_planted(int stride) {
  constexpr int64_t kItems = 1 << 12;
  const Tensor x = Tensor::empty({kItems * 8}, f32, gpu), y = Tensor::empty({kItems}, f32, gpu);
  coh::Ledger ledger;
  coh::copy(y.data<float>(), x.data<float>(), kItems, stride);
  ledger.print("planted");
}

int main_of(int argc, char** argv) {
  setenv("COH_MULTIPROCESSORS", "132", 0);  // as an H100 and an H200 have
  set_default_device(gpu);
  if (argc == 2 && std::strncmp(argv[1], "--planted=", 10) == 0) {
    count_planted(std::atoi(argv[1] + 10));
    return 0;
  }
  std::vector<const WorkloadInfo*> chosen;
  for (const WorkloadInfo& info : workloads())
    if (argc == 1 || std::find(argv + 1, argv + argc, info.name) != argv + argc)
      chosen.push_back(&info);
  if (argc > 1 && chosen.size() + 1 != size_t(argc)) {
    std::cerr << "usage: traffic_steps [--planted=STRIDE | model...]\n";
    return 2;
  }
  try_libraries();
  coh::skips_arithmetic = true;
  for (const WorkloadInfo* info : chosen) count_step(*info);
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) { return tapegrad::bench::main_of(argc, argv); }
