// Averages of a model's weights over the steps of training. Averaged weights often generalise
// better than the last weights.
//
//   Ema average(model, {.decay = 0.999});
//   for (auto& [x, y] : batches) {
//     ...
//     optimizer.step();
//     average.update();
//   }
//   {
//     const UseAverage use(average);        // the model has the averaged weights in this scope
//     evaluate(model, test).print("test");
//   }
//   average.copy_to_model();                // permanently
//
// Averages include floating-point buffers, such as the statistics of batch norm; other buffers are
// not changed. The average of a 16-bit weight is float32.
#pragma once

#include <memory>
#include <vector>

#include "core/base/tensor_map.h"
#include "nn/module.h"

namespace tapegrad {

/// Base of Ema and Swa.
class WeightAverage {
 public:
  WeightAverage(const WeightAverage&) = delete;
  WeightAverage& operator=(const WeightAverage&) = delete;
  virtual ~WeightAverage() = default;

  /// Adds the model's weights to the average. Call it after each step of the optimizer.
  void update();
  /// Overwrites the model's weights with the average. Before the first update the average equals
  /// the initial weights.
  void copy_to_model();
  /// Returns the number of calls of update().
  int64_t updates() const { return updates_; }

  /// Returns "updates", and the averages by the names of the weights.
  TensorMap state_dict() const;
  /// Throws ArgumentError, and changes nothing, unless `state` matches the model.
  void load_state_dict(const TensorMap& state);

 protected:
  /// Throws ArgumentError if a size of the model is unknown.
  explicit WeightAverage(const nn::Module& model);
  /// Returns the share of the current weights in the average after update number `update`, from 1;
  /// 0 skips the update.
  virtual double share(int64_t update) const = 0;

 private:
  friend class UseAverage;
  struct Weight {
    std::string name;
    Variable weight, average;
  };

  std::unique_ptr<nn::Module> model_;
  std::vector<Weight> weights_;
  int64_t updates_ = 0;
};

struct EmaOptions {
  double decay = 0.999;
  bool warmup = false;  // limit the decay to (1 + n) / (10 + n) in update n
};
/// Exponential moving average: average = decay average + (1 - decay) weight.
class Ema final : public WeightAverage {
 public:
  /// Throws ArgumentError unless 0 <= decay < 1.
  explicit Ema(const nn::Module& model, EmaOptions options = {});
  Ema(const nn::Module& model, double decay);

 private:
  double share(int64_t update) const override;
  EmaOptions options_;
};

struct SwaOptions {
  int64_t start = 0;  // number of updates before the first one that counts
  int64_t every = 1;  // number of updates from one that counts to the next
};
/// Mean of the weights after every `every` updates (stochastic weight averaging, Izmailov et al.
/// 2018).
class Swa final : public WeightAverage {
 public:
  /// Throws ArgumentError for a negative start, and for an `every` below 1.
  explicit Swa(const nn::Module& model, SwaOptions options = {});

 private:
  double share(int64_t update) const override;
  SwaOptions options_;
};

/// Gives the model the averaged weights for a scope, then restores its own weights.
class [[nodiscard]] UseAverage {
 public:
  explicit UseAverage(WeightAverage& average);
  ~UseAverage();
  UseAverage(const UseAverage&) = delete;
  UseAverage& operator=(const UseAverage&) = delete;

 private:
  WeightAverage& average_;
  std::vector<Tensor> own_;
};

}  // namespace tapegrad
