// Random streams of samplers.
#include "data/sampler.h"

#include <gtest/gtest.h>

#include "ops/create.h"
#include "ops/random.h"

namespace tapegrad {
namespace {

TEST(RandomSampler, DrawsFromAnotherStreamThanTheExamples) {
  constexpr int64_t kExamples = 1000;
  const RandomSampler sampler(kExamples, {.replacement = true, .seed = 7});
  for (const uint64_t epoch : {uint64_t(0), uint64_t(3)}) {
    const std::vector<int64_t> drawn = sampler.indices(epoch);
    EXPECT_EQ(drawn, sampler.indices(epoch));
    for (const int64_t example : {int64_t(0), int64_t(1), kExamples - 1}) {
      RandomGenerator generator = SampleRandom{7, epoch}.at(example);
      const Variable numbers = randint(0, kExamples, {kExamples}, {}, generator);
      EXPECT_NE(drawn, numbers.to_vector<int64_t>()) << example;
    }
  }
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
}

}  // namespace
}  // namespace tapegrad
