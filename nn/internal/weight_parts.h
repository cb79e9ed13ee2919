// The parameters from which a layer's weight is computed (nn/weight_norm.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nn/weight_norm.h"
#include "nn/weighted.h"

namespace tapegrad::nn::detail {

/// Parameters with the names of PyTorch's parametrizations: "original0" is g and "original1" is v
/// of weight_norm; "original" is the weight of spectral_norm before the division, and "0._u" and
/// "0._v" are the singular vectors. A pruned weight is "original" times "mask". The modules of
/// register_parametrization, "0" ..., are applied to "original" one after another.
class WeightParts final : public Model<WeightParts> {
 public:
  static constexpr std::string_view kName = "WeightParts";

  static void weight_norm(Weighted& layer, std::string_view name, int dim);
  static void spectral_norm(Weighted& layer, std::string_view name, int64_t n_power_iterations,
                            double eps, std::optional<int> dim);
  /// Clears `amount` of the kept elements of the mask: those with the smallest |weight|, or random
  /// ones if `at_random`.
  static void prune(Weighted& layer, std::string_view function, std::string_view name,
                    utils::prune::Amount amount, bool at_random);
  static void remove_mask(Weighted& layer, std::string_view name);
  static bool is_pruned(const Weighted& layer);
  static void add_module(Weighted& layer, std::string_view name, AnyModule module);
  static void remove_modules(Weighted& layer, std::string_view name, bool leave_parametrized);
  static bool is_computed(const Weighted& layer) { return layer.parts_ != nullptr; }
  /// Makes the weight a parameter again.
  static void remove(Weighted& layer);

  void members(Members& m) override {
    m("original", original_)("original0", g_)("original1", v_)("0", vectors_)("mask", mask_);
    for (size_t i = 0; i < modules_.size(); ++i) m(std::to_string(i), modules_[i]);
  }
  /// Returns the weight. In training, spectral_norm first improves its singular vectors.
  Variable compute(bool is_training);
  /// Sets the parameters so that the weight is w; for spectral_norm, w is the weight before the
  /// division.
  void set(const Variable& w);

 private:
  explicit WeightParts(int dim) : dim_(dim) {}
  static void check(const Weighted& layer, std::string_view function, std::string_view name,
                    int dim);
  Variable norm_of(const Variable& w) const;
  Variable as_matrix(const Variable& w) const;
  void iterate(const Variable& matrix, int64_t times);

  Variable original_, g_, v_;
  Buffer mask_;  // for a pruned weight: 1 for elements that are kept, otherwise 0
  std::map<std::string, Buffer> vectors_;
  std::vector<AnyModule> modules_;
  int dim_;
  int64_t iterations_ = 0;
  double eps_ = 0;
};

}  // namespace tapegrad::nn::detail
