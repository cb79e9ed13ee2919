// Linear: y = x W^T + b.
#pragma once

#include "nn/weighted.h"

namespace tapegrad {
struct Activated;  // ops/linear.h
enum class Activation;
}  // namespace tapegrad

namespace tapegrad::nn {

struct LinearOptions {
  int64_t in_features = 0;   // optional: taken from the first input
  int64_t out_features = 0;  // required
  bool bias = true;
};

/// Maps x [..., in_features] to [..., out_features]. weight: [out_features, in_features].
class Linear final : public Model<Linear, Weighted> {
 public:
  static constexpr std::string_view kName = "Linear";
  explicit Linear(LinearOptions options);

  Variable forward(const Variable& x, Where where = Where::current()) const;
  /// relu(forward(x)) as one op.
  Variable forward_relu(const Variable& x, Where where = Where::current()) const;
  /// With an activation in front, behind or both: linear_joined().
  Activated forward_joined(const Activated& x, Activation behind,
                           Where where = Where::current()) const;
  std::string options() const override;

 private:
  void infer(const Variable& x) const;

  int64_t out_features_;
};

}  // namespace tapegrad::nn
