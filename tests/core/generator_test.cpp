// The state of a RandomGenerator, and the numbers that its words become. tests/ops/random_test.cpp
// tests the words.
#include "core/base/generator.h"

#include <gtest/gtest.h>

namespace tapegrad {
namespace {

TEST(Generator, T68_StateIsSavedAndRestored) {
  RandomGenerator generator(42);
  generator.draw(5);
  const RandomState saved = generator.state();
  EXPECT_EQ(saved, (RandomState{42, 2})) << "five words are two counters";
  const RandomState first = generator.draw(8);
  EXPECT_EQ(first, saved);
  EXPECT_EQ(generator.state().offset, 4u);
  generator.set_state(saved);
  EXPECT_EQ(generator.draw(8), first);
  generator.seed(7);
  EXPECT_EQ(generator.state(), (RandomState{7, 0}));
  manual_seed(11);
  EXPECT_EQ(default_generator().state(), (RandomState{11, 0}));
}

TEST(Generator, UniformNeverReachesOne) {
  EXPECT_LT(uniform_float(0xffffffffu), 1.0f);
  EXPECT_LT(uniform_double(0xffffffffu, 0xffffffffu), 1.0);
  EXPECT_EQ(uniform_float(0), 0.0f);
}

}  // namespace
}  // namespace tapegrad
