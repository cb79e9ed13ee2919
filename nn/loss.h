// Losses as modules, for code that takes a loss as an object. The formulas are in ops/loss.h.
//
//   nn::CrossEntropyLoss loss({.label_smoothing = 0.1});
//   loss(model(x), targets).backward();
#pragma once

#include "nn/linear.h"
#include "ops/loss.h"

namespace tapegrad::nn {

struct MSELoss final : Stateless<MSELoss> {
  Reduction reduction;
  explicit MSELoss(Reduction reduction = Reduction::kMean);
  explicit MSELoss(LossOptions options);
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
struct L1Loss final : Stateless<L1Loss> {
  Reduction reduction;
  explicit L1Loss(Reduction reduction = Reduction::kMean);
  explicit L1Loss(LossOptions options);
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
using tapegrad::HuberOptions;
using tapegrad::SmoothL1Options;
struct SmoothL1Loss final : Stateless<SmoothL1Loss> {
  SmoothL1Options with;
  explicit SmoothL1Loss(SmoothL1Options options = {}, Where where = Where::current());
  template <std::floating_point T>
  explicit SmoothL1Loss(T beta, Where where = Where::current())
      : SmoothL1Loss(SmoothL1Options{.beta = double(beta)}, where) {}
  explicit SmoothL1Loss(Reduction reduction, double beta = 1.0, Where where = Where::current());
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
struct HuberLoss final : Stateless<HuberLoss> {
  HuberOptions with;
  explicit HuberLoss(HuberOptions options = {}, Where where = Where::current());
  template <std::floating_point T>
  explicit HuberLoss(T delta, Where where = Where::current())
      : HuberLoss(HuberOptions{.delta = double(delta)}, where) {}
  explicit HuberLoss(Reduction reduction, double delta = 1.0, Where where = Where::current());
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};

// Weights of classes and elements are buffers: they move to a device with the loss.

struct CrossEntropyLoss final : Stateless<CrossEntropyLoss> {
  CrossEntropyOptions with;
  explicit CrossEntropyLoss(CrossEntropyOptions options = {}, Where where = Where::current());
  /// Takes the weights of the classes, and options by name: CrossEntropyLoss(weight,
  /// {.label_smoothing = 0.1}).
  explicit CrossEntropyLoss(const Variable& weight, CrossEntropyOptions options = {},
                            Where where = Where::current());
  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
struct LinearCrossEntropyLossOptions {
  ByName by_name = {};
  bool bias = false;  // of the layer
  Reduction reduction = Reduction::kMean;
  Variable weight = {};  // of each class
  std::optional<int64_t> ignore_index = {};
  double label_smoothing = 0.0;
};
/// The last layer of a classifier with its loss: CrossEntropyLoss of linear(x), without storing all
/// logits (ops/linear_cross_entropy.h). Takes x [..., in_features] and targets [...].
class LinearCrossEntropyLoss final : public Model<LinearCrossEntropyLoss> {
 public:
  static constexpr std::string_view kName = "LinearCrossEntropyLoss";
  LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes, Where where = Where::current());
  LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes,
                         LinearCrossEntropyLossOptions options);
  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;

  Linear linear;

 private:
  LinearCrossEntropyLossOptions options_;
};
struct NLLLoss final : Stateless<NLLLoss> {
  NllLossOptions with;
  explicit NLLLoss(NllLossOptions options = {});
  explicit NLLLoss(const Variable& weight, NllLossOptions options = {});
  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
struct BCELoss final : Stateless<BCELoss> {
  BCEOptions with;
  explicit BCELoss(BCEOptions options = {});
  /// Takes the weights of the elements.
  explicit BCELoss(const Variable& weight, BCEOptions options = {});
  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
struct BCEWithLogitsLoss final : Stateless<BCEWithLogitsLoss> {
  BceWithLogitsOptions with;
  explicit BCEWithLogitsLoss(BceWithLogitsOptions options = {});
  /// Takes the weights of the elements, as PyTorch's first argument; pos_weight has a name.
  explicit BCEWithLogitsLoss(const Variable& weight, BceWithLogitsOptions options = {});
  void members(Members& m) override;
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};
using tapegrad::KLDivReduction;
struct KLDivOptions {
  KLDivReduction reduction = Reduction::kMean;
  bool log_target = false;
};
struct KLDivLoss final : Stateless<KLDivLoss> {
  KLDivOptions with;
  explicit KLDivLoss(KLDivOptions options = {});
  explicit KLDivLoss(const char* reduction, bool log_target = false,
                     Where where = Where::current());
  Variable forward(const Variable& x, const Variable& target, Where where = Where::current()) const;
};

}  // namespace tapegrad::nn
