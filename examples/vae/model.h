// A variational autoencoder of two dense layers on each side (Kingma and Welling 2013).
#pragma once

#include <tapegrad/tapegrad.h>

namespace vae {

using tapegrad::Variable;
namespace nn = tapegrad::nn;

/// Mean and log variance of the code z, [batch, code].
struct Code {
  Variable mean, log_variance;
};

struct Vae : nn::Model<Vae> {
  nn::Linear hidden, mean, log_variance, grow, out;

  Vae(int64_t pixels, int64_t width, int64_t code)
      : hidden({.in_features = pixels, .out_features = width}),
        mean({.in_features = width, .out_features = code}),
        log_variance({.in_features = width, .out_features = code}),
        grow({.in_features = code, .out_features = width}),
        out({.in_features = width, .out_features = pixels}) {}

  void members(nn::Members& m) override {
    m("hidden", hidden)("mean", mean)("log_variance", log_variance)("grow", grow)("out", out);
  }
  Code encode(const Variable& x) const {
    const Variable y = relu(hidden(x));
    return {mean(y), log_variance(y)};
  }
  /// Returns the logits of the pixels.
  Variable decode(const Variable& z) const { return out(relu(grow(z))); }

  /// Returns the negative evidence lower bound per image: the cross entropy of the pixels, and the
  /// divergence of the code from a standard normal distribution.
  Variable forward(const Variable& x) const {
    const Code code = encode(x);
    const Variable noise = tapegrad::randn(code.mean.shape());
    const Variable z = code.mean + exp(0.5 * code.log_variance) * noise;
    const Variable pixels =
        binary_cross_entropy_with_logits(decode(z), x, {.reduction = tapegrad::Reduction::kSum});
    const Variable divergence =
        -0.5 * sum(1 + code.log_variance - square(code.mean) - exp(code.log_variance));
    return (pixels + divergence) / double(x.size(0));
  }
};

}  // namespace vae
