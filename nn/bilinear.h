// Bilinear, y = x1^T W x2 + b, and RReLU, a LeakyReLU with a random slope.
#pragma once

#include "core/base/generator.h"
#include "nn/module.h"
#include "nn/refused_nullptr.h"

namespace tapegrad {

/// Returns x for x >= 0, else x times a slope. In training the slope of each element is drawn from
/// [lower, upper); otherwise it is the mean of both bounds.
Variable rrelu(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3,
               bool training = false, RandomGenerator& generator = default_generator(),
               Where where = Where::current());

}  // namespace tapegrad

namespace tapegrad::nn {

/// Computes y = x1^T W x2 + b: maps [..., in1_features] and [..., in2_features] to [...,
/// out_features].
class Bilinear final : public Model<Bilinear> {
 public:
  static constexpr std::string_view kName = "Bilinear";
  explicit Bilinear(RefusedNullptr);
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias = true);
  void members(Members& m) override { m("weight", weight)("bias", bias); }
  Variable forward(const Variable& x1, const Variable& x2) const;
  std::string options() const override;

  Parameter weight;  // [out_features, in1_features, in2_features]
  Parameter bias;    // [out_features], or empty
};

class RReLU final : public Model<RReLU> {
 public:
  static constexpr std::string_view kName = "RReLU";
  explicit RReLU(double lower = 1.0 / 8, double upper = 1.0 / 3, bool inplace = false);
  void members(Members&) override {}
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

 private:
  double lower_, upper_;
};

}  // namespace tapegrad::nn
