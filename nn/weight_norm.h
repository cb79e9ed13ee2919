// Weights that are computed from other parameters: weight_norm and spectral_norm, as in
// torch.nn.utils.parametrizations, weights that a module computes, and pruned weights.
//
//   nn::Conv2d conv = nn::utils::spectral_norm(nn::Conv2d(3, 64, 3));
//   nn::utils::weight_norm(net.fc);
//   nn::utils::prune::l1_unstructured(net.fc, "weight", 0.3);
//
// The parameters are named as in PyTorch: "parametrizations.weight.original0" ... `layer.weight` is
// then a constant, the weight of the handle's last call in training. Handles that were copied from
// the layer before keep their own weight.
#pragma once

#include <optional>

#include "nn/sequential.h"
#include "nn/weighted.h"

namespace tapegrad::nn {

namespace detail {
void set_weight_norm(Weighted& layer, std::string_view name, int dim);
void set_spectral_norm(Weighted& layer, std::string_view name, int64_t n_power_iterations,
                       double eps, std::optional<int> dim);
void set_parametrization(Weighted& layer, std::string_view name, AnyModule module);
template <typename Layer>
concept HasWeight = std::derived_from<std::remove_cvref_t<Layer>, Weighted>;
}  // namespace detail

namespace utils {

/// Splits the weight into length and direction, which are trained separately (Salimans and Kingma
/// 2016): weight = g v / |v|, with one length for each entry of dimension dim, or one for all with
/// dim -1. Returns the layer. Throws ArgumentError if the size of the weight is unknown, or if the
/// weight is already computed from other parameters.
template <detail::HasWeight Layer>
Layer weight_norm(Layer&& layer, std::string_view name = "weight", int dim = 0) {
  detail::set_weight_norm(layer, name, dim);
  return std::forward<Layer>(layer);
}
/// Divides the weight, as a matrix with the rows of dimension dim, by its largest singular value
/// (Miyato et al. 2018). Each call in training makes n_power_iterations steps of the power
/// iteration that approximates the value. dim is 0, for transposed convolutions 1.
template <detail::HasWeight Layer>
Layer spectral_norm(Layer&& layer, std::string_view name = "weight", int64_t n_power_iterations = 1,
                    double eps = 1e-12, std::optional<int> dim = {}) {
  detail::set_spectral_norm(layer, name, n_power_iterations, eps, dim);
  return std::forward<Layer>(layer);
}
/// Make the current weight a parameter again.
void remove_weight_norm(Weighted& layer);
void remove_spectral_norm(Weighted& layer);

/// Weights with elements that stay 0, as in torch.nn.utils.prune. The weight is the product of the
/// parameter "parametrizations.weight.original", which is the same handle as before and known to
/// optimizers, and the buffer "parametrizations.weight.mask". Each call prunes elements that are
/// still kept.
namespace prune {
/// Amount of elements to prune: a number, 3, or a share of the elements that are kept, 0.3.
class Amount {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> Amount(T amount)
      : value_(double(amount)), is_share_(std::is_floating_point_v<T>) {}
  /// Returns the number of elements. Throws ArgumentError unless the number is in [0, count], or
  /// the share in [0, 1].
  int64_t of(int64_t count) const;

 private:
  double value_;
  bool is_share_;
};
/// Prune elements. Throw ArgumentError for a name other than "weight", and if the size of the
/// weight is unknown or weight_norm or spectral_norm computes the weight.
void l1_unstructured(Weighted& layer, std::string_view name, Amount amount);
void random_unstructured(Weighted& layer, std::string_view name, Amount amount);
/// Makes the weight, with its zeros, the parameter again.
void remove(Weighted& layer, std::string_view name);
bool is_pruned(const Weighted& layer);
}  // namespace prune

/// Weights that modules compute, as in torch.nn.utils.parametrize.
namespace parametrize {
/// Makes the weight the result of the module for the parameter "parametrizations.weight.original",
/// which is the same handle as before. A further module is applied to the result of the modules
/// before it. Returns the layer. Throws ArgumentError for a name other than "weight", if the size
/// of the weight is unknown, and if weight_norm, spectral_norm or a mask computes the weight.
/// Throws ShapeError if the module changes the shape.
template <detail::HasWeight Layer>
Layer register_parametrization(Layer&& layer, std::string_view name, AnyModule module) {
  detail::set_parametrization(layer, name, std::move(module));
  return std::forward<Layer>(layer);
}
/// Makes the computed weight a parameter again, or the parameter from which it was computed if
/// leave_parametrized is false.
void remove_parametrizations(Weighted& layer, std::string_view name,
                             bool leave_parametrized = true);
/// Returns whether the weight is computed, in any of the ways above.
bool is_parametrized(const Weighted& layer);
}  // namespace parametrize

namespace parametrizations {
using utils::spectral_norm;
using utils::weight_norm;
}  // namespace parametrizations

}  // namespace utils
}  // namespace tapegrad::nn
