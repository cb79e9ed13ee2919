// Weights that are computed from other parameters: weight_norm and spectral_norm, as in
// torch.nn.utils.parametrizations.
//
//   nn::Conv2d conv = nn::utils::spectral_norm(nn::Conv2d(3, 64, 3));
//   nn::utils::weight_norm(net.fc);
//
// The parameters are named as in PyTorch: "parametrizations.weight.original0" ... `layer.weight` is
// then a constant, the weight of the handle's last call in training. Handles that were copied from
// the layer before keep their own weight.
#pragma once

#include <optional>

#include "nn/weighted.h"

namespace tapegrad::nn {

namespace detail {
void set_weight_norm(Weighted& layer, std::string_view name, int dim);
void set_spectral_norm(Weighted& layer, std::string_view name, int64_t n_power_iterations,
                       double eps, std::optional<int> dim);
template <typename Layer>
concept HasWeight = std::derived_from<std::remove_cvref_t<Layer>, Weighted>;
}  // namespace detail

namespace utils {

/// Trains length and direction of the weight apart (Salimans and Kingma 2016): weight = g v / |v|,
/// with one length for each entry of dimension dim, or one for all with dim -1. Returns the layer.
/// Throws ArgumentError if the size of the weight is unknown, or if it is computed already.
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
/// Make the weight as it is a parameter again.
void remove_weight_norm(Weighted& layer);
void remove_spectral_norm(Weighted& layer);

namespace parametrizations {
using utils::spectral_norm;
using utils::weight_norm;
}  // namespace parametrizations

}  // namespace utils
}  // namespace tapegrad::nn
