// The run that the checks of fit() train, on any number of ranks.
#pragma once

#include "data/loader.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "tests/dist/checks.h"
#include "train/fit.h"

namespace tapegrad::dist {

inline constexpr int64_t kExamples = 120,
                         kBatch = 60;  // of all ranks together; 1 ... 5 divide both

inline TensorDataset data(int64_t examples = kExamples) {
  return TensorDataset(drawn(1, {examples, 4}), drawn(2, {examples, 2}));
}

/// Returns a net with the same weights on all ranks and in every run.
inline nn::Sequential net() {
  nn::Sequential made(nn::Linear(4, 7), nn::Tanh(), nn::Linear(7, 2));
  made.to(f64);
  uint64_t seed = 10;
  for (const Variable& each : made.parameters()) each.rebind(drawn(seed++, each.shape()).value());
  return made;
}

inline FitOptions options_of(const Communicator& world) {
  return {.epochs = 2,
          .loss = [](const Variable& y, const Variable& target) { return mse_loss(y, target); },
          .accuracy = false,
          .world = world,
          .progress = {.style = ProgressStyle::kNone}};
}

inline DataLoader loader_of(const Communicator& world, int64_t examples = kExamples) {
  return DataLoader(
      data(examples),
      {.batch_size = kBatch / world.size(), .shuffle = true, .seed = 4, .shard = world});
}

}  // namespace tapegrad::dist
