// Pixel and channel shuffling, and padding, for images and other signals.
#pragma once

#include <vector>

#include "core/base/choice.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Turns r^2 channels into a block of r x r pixels: [..., c r^2, h, w] -> [..., c, h r, w r] for r
/// = upscale_factor. Throws ShapeError if r^2 does not divide the number of channels.
Variable pixel_shuffle(const Variable& x, int64_t upscale_factor, Where where = Where::current());
/// Computes the inverse of pixel_shuffle: [..., c, h r, w r] -> [..., c r^2, h, w] for r =
/// downscale_factor.
Variable pixel_unshuffle(const Variable& x, int64_t downscale_factor,
                         Where where = Where::current());
/// Permutes channels (dimension 1) across groups: channel i of group g becomes channel g of group
/// i.
Variable channel_shuffle(const Variable& x, int64_t groups, Where where = Where::current());

enum class PadMode {
  kConstant,   // a constant value
  kReflect,    // mirrors x without repeating the border; padding < size
  kReplicate,  // repeats the border
  kCircular,   // wraps around to the other end; padding <= size
};
constexpr auto choice_names(PadMode) {
  return std::to_array<ChoiceName<PadMode>>({{"constant", PadMode::kConstant},
                                             {"reflect", PadMode::kReflect},
                                             {"replicate", PadMode::kReplicate},
                                             {"circular", PadMode::kCircular}});
}
/// Pads x with the given mode. `amounts` has the order of pad in ops/view.h; negative amounts crop.
/// `value` applies to kConstant only. Throws ShapeError if x is too small for the mode.
Variable pad(const Variable& x, const std::vector<int64_t>& amounts, Choice<PadMode> mode,
             double value = 0.0, Where where = Where::current());
struct PadOptions {
  Choice<PadMode> mode = PadMode::kConstant;
  double value = 0.0;
};
/// Overload with options: pad(x, {1, 1}, {.mode = "reflect"}).
Variable pad(const Variable& x, const std::vector<int64_t>& amounts, PadOptions options,
             Where where = Where::current());

}  // namespace tapegrad
