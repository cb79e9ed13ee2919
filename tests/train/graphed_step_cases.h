// Device of the tests in graphed_step_cases.cpp, and helpers shared with the tests of one device.
#pragma once

#include <gtest/gtest.h>

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {

/// Returns the device that records the steps; each program defines it.
Device step_device();

/// Makes it the default device during the lifetime of the object.
struct OnStepDevice {
  Device before = default_device();
  OnStepDevice() { set_default_device(step_device()); }
  ~OnStepDevice() { set_default_device(before); }
};

/// A parameter of one element whose gradient is 2 in each call.
struct Weight {
  Variable w = tensor({1.0}, {.device = step_device(), .requires_grad = true});
  void backward() const { sum(w * 2.0).backward(); }
  double gradient() const { return w.grad().defined() ? w.grad().to_vector<double>()[0] : 0.0; }
};

/// Returns the reason why a step cannot be replayed. Its values must be those of a step that is not
/// graphed.
inline std::string reason_of(const std::function<Variable()>& fn,
                             const std::vector<double>& expected) {
  GraphedStep step(fn, {}, {.warmup = 1});
  std::vector<double> got;
  for (size_t i = 0; i < expected.size(); ++i) got.push_back(step().item());
  EXPECT_EQ(got, expected);
  EXPECT_FALSE(step.is_graphed());
  return step.reason();
}

inline void expect_contains(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace tapegrad::testing
