// Windows and transforms of signals.
#include <cmath>
#include <numbers>

#include "ops/binary.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// sum of a_k cos(2 pi k i / n); with n - 1 instead of n if the window is not periodic.
std::function<Variable(N)> window(std::vector<double> coefficients) {
  return [=](N n) {
    const int64_t size = n.ints_at(0).at(0);
    const double steps = double(n.flag("periodic", true) ? size : size - 1);
    const Variable angle = arange(size).to(f64) * (2 * std::numbers::pi / steps);
    Variable y = full({size}, coefficients[0], {.dtype = f64});
    for (size_t k = 1; k < coefficients.size(); ++k)
      y = y + coefficients[k] * cos(angle * double(k));
    return y.to(dtype_of(n.integer("output_datatype", 1)));
  };
}

/// Converts real numbers to complex numbers.
Variable as_pairs(const Variable& x) { return x.size(-1) == 2 ? x : cat({x, zeros_like(x)}, -1); }

Variable transformed(N n) {
  const int axis = normalize_dim("DFT", n.axis(1), n[0].rank());
  fft::Options options{.dim = axis};
  if (n.has(1)) options.n = n.ints_at(1).at(0);
  const Variable x = as_pairs(n[0]).to(f64);  // like the expected values
  const Variable y = n.flag("inverse", false) ? fft::ifft(x, options) : fft::fft(x, options);
  return (n.flag("onesided", false) ? narrow(y, axis, 0, y.size(axis) / 2 + 1) : y)
      .to(n[0].dtype());
}

/// Transforms a window every frame_step: [batch, frames, frequencies, 2].
Variable of_frames(N n) {
  const Variable x = n[0].size(-1) == 1 ? squeeze(n[0], -1) : Variable();
  if (!x.defined()) throw Unsupported("STFT of complex signals");
  const int64_t step = n.ints_at(1).at(0);
  const int64_t length = n.has(3) ? n.ints_at(3).at(0) : n[2].numel();
  Variable frames = x.unfold(1, length, step);
  if (n.has(2)) frames = frames * n[2];
  return n.flag("onesided", true) ? fft::rfft(frames)
                                  : fft::fft(stack({frames, zeros_like(frames)}, -1));
}

}  // namespace

void add_signal(Operators& table) {
  add(table, "HannWindow", window({0.5, -0.5}));
  add(table, "HammingWindow", window({25.0 / 46, -21.0 / 46}));
  add(table, "BlackmanWindow", window({0.42, -0.5, 0.08}));
  add(table, "DFT", transformed);
  add(table, "STFT", of_frames);
}

}  // namespace tapegrad::onnx_conformance
