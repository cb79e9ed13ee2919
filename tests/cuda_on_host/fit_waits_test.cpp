// fit() reads losses once an epoch: the host does not wait for the device in a step. A loss of
// class ids waits, because cross_entropy() checks the ids.
#include <gtest/gtest.h>

#include "core/cuda.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"
#include "train/fit.h"
#include "work.h"

namespace tapegrad {
namespace {

constexpr int64_t kRows = 4;

/// Returns how often the host waits in two epochs of `batches` batches.
int waits_of_fit(int64_t batches, FitOptions options, bool logs_each_loss = false) {
  manual_seed(3);
  nn::Sequential model({nn::Linear(6, 8), nn::ReLU(), nn::Linear(8, 3)});
  model.to(gpu);
  optim::Adam adam(model, 1e-2);
  const TensorDataset data(randn({batches * kRows, 6}), randn({batches * kRows, 3}));
  DeviceLoader loader(data, {.batch_size = kRows, .shuffle = true, .device = gpu});
  options.epochs = 2;
  options.loss = [](const Variable& y, const Variable& target) { return mse_loss(y, target); };
  options.accuracy = false;
  options.progress.out = nullptr;
  if (logs_each_loss)
    options.callbacks.push_back(
        {.after_step = [&](Training&) { model.parameters()[0].to_vector<float>(); }});
  cuda::synchronize();
  Work work;
  const History history = fit(model, loader, adam, options);
  EXPECT_EQ(history.epochs.size(), 2u);
  return work.waits;
}

TEST(FitWaits, TheirNumberDoesNotDependOnTheNumberOfBatches) {
  FitOptions plain{}, clipped{.clip_norm = 1.0};
  FitOptions accumulated{.accumulate = 2}, half{.amp = bf16};
  for (const FitOptions& options : {plain, clipped, accumulated, half}) {
    waits_of_fit(2, options);  // allocates buffers of the libraries
    EXPECT_EQ(waits_of_fit(4, options), waits_of_fit(32, options));
  }
}

TEST(FitWaits, AreCountedIfAStepReadsFromTheDevice) {
  const FitOptions options{};
  EXPECT_GE(waits_of_fit(32, options, true), waits_of_fit(4, options, true) + 2 * 28);
}

}  // namespace
}  // namespace tapegrad
