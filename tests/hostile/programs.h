// Parts of the programs that misuse the library.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"

namespace tapegrad::testing {

using Values = std::vector<double>;
inline Values values(const Variable& x) { return x.to_vector<double>(); }

struct Thrown : std::runtime_error {
  Thrown() : std::runtime_error("of the user") {}
};

inline Variable leaf(const Shape& shape = {3}) { return ones(shape).requires_grad_(); }

/// The library works as before: an op, a backward pass, and the modes.
inline void expect_sound() {
  EXPECT_TRUE(is_recording());
  EXPECT_FALSE(is_inference_mode());
  EXPECT_FALSE(is_autocast_enabled());
  const Variable x = leaf();
  sum(x * x).backward();
  EXPECT_EQ(values(x.grad()), (Values{2, 2, 2}));
}

}  // namespace tapegrad::testing
