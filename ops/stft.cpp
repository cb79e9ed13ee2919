#include "ops/stft.h"

#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/fft.h"
#include "ops/index.h"
#include "ops/internal/value_checks.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using namespace detail;

struct Frames {
  int64_t n, hop;
  Variable window;  // [n]
};

Frames frames_of(std::string_view op, int64_t n_fft, std::optional<int64_t> hop_length,
                 std::optional<int64_t> win_length, const Variable& window, const Variable& like) {
  const int64_t hop = hop_length.value_or(n_fft / 4), length = win_length.value_or(n_fft);
  if (n_fft < 1 || hop < 1 || length < 1 || length > n_fft)
    fail<ArgumentError>(op, ": n_fft ", n_fft, ", hop_length ", hop, ", win_length ", length,
                        "; wanted are a positive hop_length and 1 <= win_length <= n_fft");
  Variable w =
      window.defined() ? window : ones({length}, {.dtype = like.dtype(), .device = like.device()});
  if (w.shape() != Shape{length})
    fail<ShapeError>(op, ": a window of [", length, "] wanted, not ", w.shape());
  const int64_t before = (n_fft - length) / 2;
  return {n_fft, hop, pad(w, {before, n_fft - length - before})};
}

}  // namespace

ComplexPairs stft(const Variable& x, int64_t n_fft, StftOptions o, Where where) {
  const CallLine line(where);
  if (x.rank() == 1) return squeeze(stft(unsqueeze(x, 0), n_fft, o), 0);
  if (x.rank() != 2) fail<ShapeError>("stft: [n] or [batch, n] wanted, not ", x.shape());
  const Frames f = frames_of("stft", n_fft, o.hop_length, o.win_length, o.window, x);
  const Variable signal =
      o.center ? squeeze(pad(unsqueeze(x, 1), {n_fft / 2, n_fft / 2}, o.pad_mode), 1) : x;
  if (signal.size(1) < n_fft)
    fail<ShapeError>("stft: ", x.shape(), " is shorter than a frame of ", n_fft);
  const Variable frames = signal.unfold(1, n_fft, f.hop) * f.window;  // [batch, frames, n_fft]
  const fft::Norm norm = o.normalized ? fft::Norm::kOrtho : fft::Norm::kBackward;
  return transpose(fft::rfft(frames, {.norm = norm}), 1, 2);
}

Variable istft(const Variable& spectrum, int64_t n_fft, IstftOptions o, Where where) {
  const CallLine line(where);
  if (spectrum.rank() == 3) return squeeze(istft(unsqueeze(spectrum, 0), n_fft, o), 0);
  if (spectrum.rank() != 4 || spectrum.size(1) != n_fft / 2 + 1 || spectrum.size(2) == 0)
    fail<ShapeError>("istft: [batch, ", n_fft / 2 + 1, ", frames, 2] wanted, not ",
                     spectrum.shape());
  const Frames f = frames_of("istft", n_fft, o.hop_length, o.win_length, o.window, spectrum);
  const fft::Norm norm = o.normalized ? fft::Norm::kOrtho : fft::Norm::kBackward;
  const Variable frames =
      fft::irfft(transpose(spectrum, 1, 2), {.n = n_fft, .norm = norm}) * f.window;
  const int64_t batch = frames.size(0), count = frames.size(1), whole = n_fft + f.hop * (count - 1);
  // Element i of frame t belongs to place t hop + i.
  const Variable place =
      reshape(unsqueeze(arange(count) * f.hop, 1) + arange(n_fft), {count * n_fft})
          .to(spectrum.device());
  const auto overlap = [&](const Variable& parts, int64_t rows) {
    const Variable flat = reshape(parts, {rows, count * n_fft});
    return index_add(zeros({rows, whole}, {.dtype = flat.dtype(), .device = flat.device()}), 1,
                     place, flat);
  };
  const Variable weight = overlap(expand(f.window * f.window, {count, n_fft}), 1);
  const int64_t start = o.center ? n_fft / 2 : 0;
  const int64_t end = o.length ? start + *o.length : whole - (o.center ? n_fft / 2 : 0);
  const int64_t known = std::min(end, whole);
  if (end < start || start >= whole)
    fail<ArgumentError>("istft: no values from ", start, " to ", end, " of ", whole);
  const Variable sums = slice(weight, 1, start, known);
  require_value(all(sums > 1e-11), "istft: the windows do not cover every value");
  const Variable y = slice(overlap(frames, batch), 1, start, known) / sums;
  return end > whole ? pad(y, {0, end - whole}) : y;
}

}  // namespace tapegrad
