// Windows under the names of torch.signal.windows. ops/windows.h has those of torch itself. There
// is no namespace tapegrad::signal, since "using namespace tapegrad" would hide signal() of
// <csignal>.
#pragma once

#include <initializer_list>
#include <optional>

#include "core/base/by_name.h"
#include "ops/create.h"

namespace tapegrad {
namespace windows {

/// Options of all windows; a window ignores parameters that its description does not name.
struct Options {
  ByName by_name = {};
  std::optional<double> center = {};  // default: the middle of the window
  double tau = 1.0, std = 1.0, beta = 12.0, alpha = 0.54;
  bool sym = true;  // whether the period is n - 1 steps, not n (for a DFT)
  decltype(TensorOptions::dtype) dtype = {};
  decltype(TensorOptions::device) device = {};
};

Variable bartlett(int64_t n, const Options& options = {});
Variable blackman(int64_t n, const Options& options = {});
/// Half a period of a sine, sin(pi (i + 1/2) / n).
Variable cosine(int64_t n, const Options& options = {});
/// exp(-|i - center| / tau). A symmetric window has no other center than its middle.
Variable exponential(int64_t n, const Options& options = {});
/// exp(-(i - (n - 1) / 2)^2 / (2 std^2)).
Variable gaussian(int64_t n, const Options& options = {});
/// The sum of (-1)^k a[k] cos(2 pi k i / period).
Variable general_cosine(int64_t n, std::initializer_list<double> a, const Options& options = {});
/// alpha - (1 - alpha) cos(2 pi i / period).
Variable general_hamming(int64_t n, const Options& options = {});
Variable hamming(int64_t n, const Options& options = {});
Variable hann(int64_t n, const Options& options = {});
/// The window of kaiser_window() with this beta.
Variable kaiser(int64_t n, const Options& options = {});
Variable nuttall(int64_t n, const Options& options = {});

}  // namespace windows
namespace torch::signal {
namespace windows = ::tapegrad::windows;
}
}  // namespace tapegrad
