// Bilinear: y = x1^T W x2 + b.
#pragma once

#include "nn/module.h"
#include "nn/refused_nullptr.h"

namespace tapegrad::nn {

/// Computes y = x1^T W x2 + b: maps [..., in1_features] and [..., in2_features] to [...,
/// out_features].
class Bilinear final : public Model<Bilinear> {
 public:
  static constexpr std::string_view kName = "Bilinear";
  explicit Bilinear(RefusedNullptr);
  Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias = true,
           Where where = Where::current());
  void members(Members& m) override;
  Variable forward(const Variable& x1, const Variable& x2) const;
  std::string options() const override;

  Parameter weight;  // [out_features, in1_features, in2_features]
  Parameter bias;    // [out_features], or empty
};

}  // namespace tapegrad::nn
