// Short-time Fourier transforms of real signals. Complex numbers are pairs, as in ops/fft.h.
//
//   Variable y = stft(wave, 512, {.hop_length = 128, .window = hann_window(512)});
//   Variable magnitude = complex_abs(y);
#pragma once

#include <concepts>
#include <optional>

#include "core/base/error.h"
#include "ops/complex_pairs.h"
#include "ops/image.h"

namespace tapegrad {

struct StftOptions {
  std::optional<int64_t> hop_length = {};  // default: n_fft / 4
  std::optional<int64_t> win_length = {};  // default: n_fft
  Variable window = {};                    // [win_length]; default: ones
  bool center = true;                      // frame t is centred at t hop_length: pads the signal
  Choice<PadMode> pad_mode = PadMode::kReflect;
  bool normalized = false;     // multiply by 1 / sqrt(n_fft)
  bool return_complex = true;  // PyTorch's option; no effect, since pairs are the only format
};
/// Computes the short-time Fourier transform of real signals [n] or [batch, n]: the rfft of each
/// frame of n_fft values. Returns [..., n_fft / 2 + 1, frames, 2], pairs of real and imaginary
/// part. A window that is shorter than n_fft is padded with zeros on both sides.
ComplexPairs stft(const Variable& x, int64_t n_fft, StftOptions options = {},
                  Where where = Where::current());
/// Overload with PyTorch's options by position. Throws ArgumentError for two-sided results. Results
/// are complex numbers as pairs for either value of return_complex.
template <std::integral N>
ComplexPairs stft(const Variable& x, int64_t n_fft, N hop_length,
                  std::optional<int64_t> win_length = {}, const Variable& window = {},
                  bool center = true, Choice<PadMode> pad_mode = PadMode::kReflect,
                  bool normalized = false, bool onesided = true, bool /*return_complex*/ = true,
                  Where where = Where::current()) {
  try {
    if (!onesided) fail<ArgumentError>("stft: there are no two-sided results");
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
  return stft(x, n_fft,
              StftOptions{int64_t(hop_length), win_length, window, center, pad_mode, normalized},
              where);
}

struct IstftOptions {
  std::optional<int64_t> hop_length = {}, win_length = {};  // as in StftOptions
  Variable window = {};
  bool center = true;
  bool normalized = false;
  std::optional<int64_t> length = {};  // length of the result; default: the length of all frames
};
/// Computes the inverse of stft with equal options: overlapping frames are added and divided by the
/// sum of the squared windows. Throws ArgumentError if this sum is 0 within the result.
Variable istft(const Variable& spectrum, int64_t n_fft, IstftOptions options = {},
               Where where = Where::current());
template <std::integral N>
Variable istft(const Variable& spectrum, int64_t n_fft, N hop_length,
               std::optional<int64_t> win_length = {}, const Variable& window = {},
               bool center = true, bool normalized = false, bool onesided = true,
               std::optional<int64_t> length = {}, Where where = Where::current()) {
  try {
    if (!onesided) fail<ArgumentError>("istft: there are no two-sided results");
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
  return istft(spectrum, n_fft,
               IstftOptions{int64_t(hop_length), win_length, window, center, normalized, length},
               where);
}

}  // namespace tapegrad
