// Linear: y = x W^T + b.
#pragma once

#include "nn/refused_nullptr.h"
#include "nn/weighted.h"
#include "ops/epilogue.h"

namespace tapegrad::nn {

struct LinearSettings {
  ByName by_name = {};
  int64_t in_features = 0;   // optional: taken from the first input
  int64_t out_features = 0;  // required
  bool bias = true;
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
};

/// Maps x [..., in_features] to [..., out_features]. weight: [out_features, in_features].
class Linear final : public Model<Linear, Weighted> {
 public:
  static constexpr std::string_view kName = "Linear";
  explicit Linear(LinearSettings options);
  explicit Linear(RefusedNullptr);
  Linear(int64_t in_features, int64_t out_features, bool bias = true,
         Where where = Where::current());
  /// Takes both sizes, and options by name: Linear(784, 10, {.bias = false}).
  Linear(int64_t in_features, int64_t out_features, LinearSettings options);

  Variable forward(const Variable& x, Where where = Where::current()) const;
  /// Returns the epilogue of forward(x), computed by one kernel.
  Variable forward(const Variable& x, Epilogue epilogue, Where where = Where::current()) const;
  std::string options() const override;
  int64_t in_features() const;  // 0 while unknown
  int64_t out_features() const { return out_features_; }

 private:
  int64_t out_features_;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<Linear, Weighted, false>;

}  // namespace tapegrad::nn
