// Measures a GPU and prints lines of name, value and unit for scripts/gpu_check.sh.
//
//   gpu bandwidth                  memory-bound kernels and a copy of 256 MiB, in GB/s
//   gpu products                   matrix products, cuBLAS alone, and layers, in TFLOP/s
//   gpu attention                  as one op and composed of ops, in TFLOP/s
//   gpu loading                    an epoch of batches from a DeviceLoader, in milliseconds
//   gpu steps [workload...]        a training step, eager and graphed, in milliseconds
//
// Runs on the default device (TAPEGRAD_DEVICE=cuda). Times are measured with device events. Loading
// and steps also run on a CPU.
#include "benchmarks/gpu.h"

#include <iostream>
#include <vector>

#include "benchmarks/measure.h"
#include "core/cuda.h"

namespace tapegrad::bench {

double device_ms(const std::function<void()>& call) {
  std::vector<double> times;
  for (int i = 0; i < 25; ++i) {
    cuda::Event begin, end;
    begin.record();
    call();
    end.record();
    const double ms = begin.elapsed_ms(end);
    if (i >= 5) times.push_back(ms);
  }
  return ::bench::median(std::move(times));
}

namespace {

constexpr const char* kUsage =
    "gpu bandwidth | products | attention | loading | steps [workload...]\n";

int main_of(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
  void (*measure)() = what == "bandwidth"   ? measure_bandwidth
                      : what == "products"  ? measure_products
                      : what == "attention" ? measure_attention
                                            : nullptr;
  if (measure != nullptr && !cuda::is_available()) {
    std::cerr << "gpu: " << cuda::why_unavailable() << '\n';
    return 77;
  }
  if (what == "loading") measure = measure_loading;
  if (measure != nullptr && names.empty()) {
    measure();
    return 0;
  }
  if (names.empty()) names = {"peaks", "keras_cnn", "keras_cnn_1024", "lstm_lm", "gpt", "resnet50"};
  for (const std::string& name : names)
    if (what != "steps" || !is_workload(name)) {
      std::cerr << kUsage;
      return 2;
    }
  for (const std::string& name : names)
    for (const bool graph : {false, true}) measure_steps(name, graph);
  return 0;
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  try {
    return tapegrad::bench::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gpu: " << error.what() << '\n';
    return 1;
  }
}
