// Chained: options whose members are set by chained calls, as in libtorch.
//
//   using SGDOptions = Chained<optim::SGDOptions, &optim::SGDOptions::lr>;
//   optim::SGD sgd(parameters, SGDOptions(0.1).momentum(0.9).nesterov(true));
//
// The pointers name the members that the constructor takes. A call that names no member of the
// options does not compile.
#pragma once

#include <utility>

namespace tapegrad {

namespace detail {
template <typename Member>
struct MemberType;
template <typename Struct, typename T>
struct MemberType<T Struct::*> {
  using Type = T;
};
}  // namespace detail

template <typename Plain, auto... kFirst>
struct Chained : Plain {
  Chained() = default;
  /// This constructor is a template, so that `Options({2, 2})` is not ambiguous with a copy.
  template <typename P = Plain>
  requires(sizeof...(kFirst) > 0)
      Chained(typename detail::MemberType<decltype(kFirst)>::Type... values) {
    ((this->*kFirst = std::move(values)), ...);
  }

  template <typename P = Plain>
  Chained& activation(decltype(P::activation) set) {
    return P::activation = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& affine(decltype(P::affine) set) {
    return P::affine = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& align_corners(decltype(P::align_corners) set) {
    return P::align_corners = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& alpha(decltype(P::alpha) set) {
    return P::alpha = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& amsgrad(decltype(P::amsgrad) set) {
    return P::amsgrad = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& approximate(decltype(P::approximate) set) {
    return P::approximate = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& batch_first(decltype(P::batch_first) set) {
    return P::batch_first = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& batch_size(decltype(P::batch_size) set) {
    return P::batch_size = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& beta(decltype(P::beta) set) {
    return P::beta = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& betas(decltype(P::betas) set) {
    return P::betas = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& bias(decltype(P::bias) set) {
    return P::bias = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& bidirectional(decltype(P::bidirectional) set) {
    return P::bidirectional = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& blank(decltype(P::blank) set) {
    return P::blank = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& ceil_mode(decltype(P::ceil_mode) set) {
    return P::ceil_mode = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& centered(decltype(P::centered) set) {
    return P::centered = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& count_include_pad(decltype(P::count_include_pad) set) {
    return P::count_include_pad = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dampening(decltype(P::dampening) set) {
    return P::dampening = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& delta(decltype(P::delta) set) {
    return P::delta = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dilation(decltype(P::dilation) set) {
    return P::dilation = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dim(decltype(P::dim) set) {
    return P::dim = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dim_feedforward(decltype(P::dim_feedforward) set) {
    return P::dim_feedforward = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& drop_last(decltype(P::drop_last) set) {
    return P::drop_last = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dropout(decltype(P::dropout) set) {
    return P::dropout = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& dtype(decltype(P::dtype) set) {
    return P::dtype = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& elementwise_affine(decltype(P::elementwise_affine) set) {
    return P::elementwise_affine = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& eps(decltype(P::eps) set) {
    return P::eps = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& full(decltype(P::full) set) {
    return P::full = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& groups(decltype(P::groups) set) {
    return P::groups = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& hard(decltype(P::hard) set) {
    return P::hard = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& history_size(decltype(P::history_size) set) {
    return P::history_size = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& ignore_index(decltype(P::ignore_index) set) {
    return P::ignore_index = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& include_last_offset(decltype(P::include_last_offset) set) {
    return P::include_last_offset = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& initial_accumulator_value(decltype(P::initial_accumulator_value) set) {
    return P::initial_accumulator_value = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& inplace(decltype(P::inplace) set) {
    return P::inplace = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& kdim(decltype(P::kdim) set) {
    return P::kdim = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& keepdim(decltype(P::keepdim) set) {
    return P::keepdim = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& kernel_size(decltype(P::kernel_size) set) {
    return P::kernel_size = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& label_smoothing(decltype(P::label_smoothing) set) {
    return P::label_smoothing = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& line_search_fn(decltype(P::line_search_fn) set) {
    return P::line_search_fn = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& log_input(decltype(P::log_input) set) {
    return P::log_input = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& log_target(decltype(P::log_target) set) {
    return P::log_target = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& lr(decltype(P::lr) set) {
    return P::lr = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& lr_decay(decltype(P::lr_decay) set) {
    return P::lr_decay = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& margin(decltype(P::margin) set) {
    return P::margin = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& max_eval(decltype(P::max_eval) set) {
    return P::max_eval = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& max_iter(decltype(P::max_iter) set) {
    return P::max_iter = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& max_val(decltype(P::max_val) set) {
    return P::max_val = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& min_val(decltype(P::min_val) set) {
    return P::min_val = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& mode(decltype(P::mode) set) {
    return P::mode = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& momentum(decltype(P::momentum) set) {
    return P::momentum = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& negative_slope(decltype(P::negative_slope) set) {
    return P::negative_slope = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& nesterov(decltype(P::nesterov) set) {
    return P::nesterov = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& nhead(decltype(P::nhead) set) {
    return P::nhead = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& nonlinearity(decltype(P::nonlinearity) set) {
    return P::nonlinearity = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& norm_first(decltype(P::norm_first) set) {
    return P::norm_first = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& num_decoder_layers(decltype(P::num_decoder_layers) set) {
    return P::num_decoder_layers = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& num_encoder_layers(decltype(P::num_encoder_layers) set) {
    return P::num_encoder_layers = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& num_layers(decltype(P::num_layers) set) {
    return P::num_layers = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& offsets(decltype(P::offsets) set) {
    return P::offsets = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& output_padding(decltype(P::output_padding) set) {
    return P::output_padding = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& p(decltype(P::p) set) {
    return P::p = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& padding(decltype(P::padding) set) {
    return P::padding = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& padding_idx(decltype(P::padding_idx) set) {
    return P::padding_idx = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& padding_mode(decltype(P::padding_mode) set) {
    return P::padding_mode = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& per_sample_weights(decltype(P::per_sample_weights) set) {
    return P::per_sample_weights = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& pos_weight(decltype(P::pos_weight) set) {
    return P::pos_weight = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& reduction(decltype(P::reduction) set) {
    return P::reduction = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& rho(decltype(P::rho) set) {
    return P::rho = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& sampler(decltype(P::sampler) set) {
    return P::sampler = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& scale_factor(decltype(P::scale_factor) set) {
    return P::scale_factor = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& shuffle(decltype(P::shuffle) set) {
    return P::shuffle = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& size(decltype(P::size) set) {
    return P::size = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& sparse(decltype(P::sparse) set) {
    return P::sparse = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& stride(decltype(P::stride) set) {
    return P::stride = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& swap(decltype(P::swap) set) {
    return P::swap = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& tau(decltype(P::tau) set) {
    return P::tau = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& threshold(decltype(P::threshold) set) {
    return P::threshold = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& tolerance_change(decltype(P::tolerance_change) set) {
    return P::tolerance_change = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& tolerance_grad(decltype(P::tolerance_grad) set) {
    return P::tolerance_grad = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& track_running_stats(decltype(P::track_running_stats) set) {
    return P::track_running_stats = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& training(decltype(P::training) set) {
    return P::training = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& value(decltype(P::value) set) {
    return P::value = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& vdim(decltype(P::vdim) set) {
    return P::vdim = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& weight(decltype(P::weight) set) {
    return P::weight = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& weight_decay(decltype(P::weight_decay) set) {
    return P::weight_decay = std::move(set), *this;
  }
  template <typename P = Plain>
  Chained& zero_infinity(decltype(P::zero_infinity) set) {
    return P::zero_infinity = std::move(set), *this;
  }
  /// Sets num_workers under libtorch's name.
  template <typename P = Plain>
  Chained& workers(decltype(P::num_workers) set) {
    return P::num_workers = std::move(set), *this;
  }
};

}  // namespace tapegrad
