// Counts of the device's work.
#pragma once

#include <utility>

#include "state.h"

namespace tapegrad {

/// Counts the device's work during its lifetime.
class Work final : public coh::Observer {
 public:
  Work() : outer_(std::exchange(coh::observer, this)) {}
  ~Work() { coh::observer = outer_; }

  int kernels = 0, copies = 0, waits = 0;

 private:
  void begin_kernel(void (*)(), dim3, dim3, size_t) override { ++kernels; }
  void end_kernel() override {}
  void on_library_call() override {}
  void on_copy(size_t) override { ++copies; }
  void on_wait() override { ++waits; }

  coh::Observer* outer_;
};

}  // namespace tapegrad
