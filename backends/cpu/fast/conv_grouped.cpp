#include "backends/cpu/fast/conv_grouped.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "backends/cpu/fast/channel_blocks.h"
#include "backends/cpu/fast/conv_windows.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"
#include "backends/formulas_activation.h"
#include "ops/activation.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kMaxGroup = 8;          // channels of a group, on either side
constexpr int64_t kMaxGroupedTaps = 128;  // elements of a channel's kernel
constexpr int64_t kMaxParts = 64;         // sums of a weight gradient that are added at last
constexpr int64_t kParallelGrouped = int64_t(1)
                                     << 16;  // products of vectors that justify a second thread

/// Returns the number of taps for which a vector is loaded once. Vectors that need no permutation
/// are loaded for each tap.
int run_of(const Windows::Phase& phase, const Wiring& wiring) {
  return wiring.straight ? 1 : phase.run;
}

/// Calls visit(tap, index of the term) for the factors of a sum: for each run of `run` taps all
/// terms, for each term the taps of the run in the order of their columns.
template <typename Visit>
void for_each_factor(const Windows::Phase& phase, const Wiring& wiring, int run,
                     const Visit& visit) {
  const size_t each = size_t(run);
  for (size_t first = 0; first < phase.taps.size(); first += each) {
    const Windows::Tap* taps = phase.taps.data() + first;
    const bool is_down = taps[each - 1].offset < taps[0].offset;
    for (size_t term = 0; term < wiring.terms.size(); ++term)
      for (size_t i = 0; i < each; ++i) visit(taps[is_down ? each - 1 - i : i], term);
  }
}

/// Weights [out, channels per group, kernel] as vectors of channels of the destination.
struct Weights {
  const float* data;
  int64_t taps, in_group, out_group;
  bool backward;  // whether the destination is dx

  /// Vectors for a block of the destination, in the order of the phases' entries.
  std::vector<float> of_block(const Windows& windows, const Wiring& wiring, int64_t block) const {
    std::vector<const float*> rows;  // of each term and lane; null: none
    for (const Wiring::Term& term : wiring.terms)
      for (int64_t lane = 0; lane < kLanes<float>; ++lane) {
        const int64_t k = term.index[size_t(lane)], channel = block * kLanes<float> + lane;
        const int64_t row =
            backward ? (channel / in_group * out_group + k) * in_group + channel % in_group
                     : channel * in_group + k;
        rows.push_back(k < 0 ? nullptr : data + row * taps);
      }
    std::vector<float> result;
    result.reserve(rows.size() * size_t(taps));
    for (const Windows::Phase& phase : windows.phases)
      for_each_factor(phase, wiring, run_of(phase, wiring),
                      [&](const Windows::Tap& tap, size_t term) {
                        for (size_t lane = 0; lane < size_t(kLanes<float>); ++lane) {
                          const float* row = rows[term * size_t(kLanes<float>) + lane];
                          result.push_back(row == nullptr ? 0 : row[tap.weight]);
                        }
                      });
    return result;
  }
};

/// One factor of the sum: values of the band, in which order of lanes.
struct Entry {
  int64_t offset;
  const int32_t* lanes;
  int64_t row;  // of the source, for the first result
};

/// Returns the entries of a phase, in the order of for_each_factor().
std::vector<Entry> entries_of(const Windows::Phase& phase, const Wiring& wiring, int run,
                              int64_t band_floats) {
  std::vector<Entry> entries;
  for_each_factor(phase, wiring, run, [&](const Windows::Tap& tap, size_t term) {
    entries.push_back({wiring.terms[term].source * band_floats + tap.offset,
                       wiring.terms[term].lanes.data(), tap.row});
  });
  return entries;
}

/// Returns the entries that read rows of the image, which are successive: `row` is the source's row
/// of an entry of row 0. The other entries would add zeros.
std::span<const Entry> entries_within(std::span<const Entry> entries, int64_t row, int64_t height) {
  const auto is_outside = [&](const Entry& entry) {
    return row + entry.row < 0 || row + entry.row >= height;
  };
  while (!entries.empty() && is_outside(entries.front())) entries = entries.subspan(1);
  while (!entries.empty() && is_outside(entries.back()))
    entries = entries.first(entries.size() - 1);
  return entries;
}

/// Loads a vector and permutes its lanes, unless the wiring is straight.
template <bool kStraight>
[[gnu::always_inline]] inline B load_permuted(const float* from, const int32_t* lanes) {
  if constexpr (kStraight) {
    return B::load_unaligned(from);
  } else {
#if XSIMD_WITH_AVX512F
    return _mm512_maskz_permutexvar_ps(0xffff, _mm512_loadu_si512(lanes), _mm512_loadu_ps(from));
#elif XSIMD_WITH_AVX2
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(from),
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes)));
#else
    alignas(64) float picked[kLanes<float>];
    for (int64_t i = 0; i < kLanes<float>; ++i) picked[i] = from[lanes[i]];
    return B::load_aligned(picked);
#endif
  }
}

/// The results of `count` windows, `step` floats apart: start + sum of entries times weights.
/// kStep is the step if it is known to the compiler.
template <bool kStraight, int64_t kStep>
void run_row(std::span<const Entry> entries, const float* weights, const float* band, int64_t step,
             B start, bool relu, int64_t count, float* to, int64_t to_step) {
  if constexpr (kStep != 0) step = kStep;
  for_each_group<8, 7, 6, 5, 4, 3, 2, 1>(
      count, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
        B sums[kCount];
        unrolled<kCount>([&](auto q) { sums[q] = start; });
        const float* from = band + first * step;
        const float* factors = weights;
        for (const Entry& entry : entries) {
          const B factor = B::load_unaligned(factors);
          const float* values = from + entry.offset;
          unrolled<kCount>([&](auto q) {
            sums[q] = functions::fused(load_permuted<kStraight>(values + q() * step, entry.lanes),
                                       factor, sums[q]);
          });
          factors += kLanes<float>;
        }
        unrolled<kCount>([&](auto q) {
          if (relu) sums[q] = formulas::Relu()(sums[q]);
          sums[q].store_unaligned(to + (first + q()) * to_step);
        });
      });
}

/// run_row() for entries in runs, and windows that begin at adjacent columns: a vector of the band
/// is loaded and permuted once for all taps of a run.
void run_row_by_runs(std::span<const Entry> entries, const float* weights, const float* band,
                     int64_t, B start, bool relu, int64_t count, float* to, int64_t to_step) {
  constexpr int kRun = Windows::kRun;
  for_each_group<8, 7, 6, 5, 4, 3, 2, 1>(
      count, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
        B sums[kCount];
        unrolled<kCount>([&](auto q) { sums[q] = start; });
        const float* factors = weights;
        for (size_t e = 0; e < entries.size(); e += kRun, factors += kRun * kLanes<float>) {
          B factor[kRun];
          unrolled<kRun>(
              [&](auto tap) { factor[tap] = B::load_unaligned(factors + tap() * kLanes<float>); });
          const float* values = band + first * kLanes<float> + entries[e].offset;
          unrolled<kCount + kRun - 1>([&](auto column) {
            const B value =
                load_permuted<false>(values + column() * kLanes<float>, entries[e].lanes);
            unrolled<kRun>([&](auto tap) {
              constexpr int kResult = column() - tap();
              if constexpr (kResult >= 0 && kResult < kCount)
                sums[kResult] = functions::fused(value, factor[tap], sums[kResult]);
            });
          });
        }
        unrolled<kCount>([&](auto q) {
          if (relu) sums[q] = formulas::Relu()(sums[q]);
          sums[q].store_unaligned(to + (first + q()) * to_step);
        });
      });
}

using RunRow = decltype(&run_row<true, 0>);
RunRow runner(bool straight, bool by_runs, int64_t step) {
  if (by_runs) return run_row_by_runs;
  constexpr int64_t kAdjacent = kLanes<float>;
  if (step == kAdjacent) return straight ? run_row<true, kAdjacent> : run_row<false, kAdjacent>;
  return straight ? run_row<true, 0> : run_row<false, 0>;
}

/// Copies the rows that a band of results reads, with zeros beside the image, and above and below
/// it if `fills_rows`.
void read_band(const ChannelBlocks& from, const Windows& windows, int64_t n, int64_t block,
               int64_t first_row, int64_t rows, bool fills_rows, float* to) {
  const int64_t pitch = windows.columns * kLanes<float>;
  const int64_t begin = std::clamp<int64_t>(-windows.first_column, 0, windows.columns);
  const int64_t end =
      std::clamp<int64_t>(from.width() - windows.first_column, begin, windows.columns);
  const int64_t top = std::clamp<int64_t>(-first_row, 0, rows);
  const int64_t bottom = std::clamp<int64_t>(from.height() - first_row, top, rows);
  if (fills_rows) {
    std::fill_n(to, top * pitch, 0.0f);
    std::fill_n(to + bottom * pitch, (rows - bottom) * pitch, 0.0f);
  }
  for (int64_t row = top; row < bottom; ++row) {
    std::fill_n(to + row * pitch, begin * kLanes<float>, 0.0f);
    std::fill_n(to + row * pitch + end * kLanes<float>, (windows.columns - end) * kLanes<float>,
                0.0f);
  }
  if (begin < end && top < bottom)
    from.read(n, block, first_row + top, bottom - top, windows.first_column + begin, end - begin,
              to + top * pitch + begin * kLanes<float>, pitch);
}

/// A convolution from `from` to `to`, by blocks of channels and bands of rows.
void convolve_grouped(const ChannelBlocks& from, const Windows& windows, const Weights& weights,
                      int64_t from_group, int64_t to_group, const float* bias, bool relu,
                      const ChannelBlocks& to) {
  struct Block {
    Wiring wiring;
    std::vector<float> weights;
    std::vector<std::vector<Entry>> entries;  // of each phase
    std::array<float, kLanes<float>> start{};
  };
  const int64_t band_floats = windows.band_floats();
  std::vector<Block> blocks(size_t(to.blocks()));
  int64_t sources = 1, products = 0;
  for (int64_t b = 0; b < to.blocks(); ++b) {
    Block& block = blocks[size_t(b)];
    block.wiring = Wiring(b, to.channels(), to_group, from_group);
    block.weights = weights.of_block(windows, block.wiring, b);
    for (const Windows::Phase& phase : windows.phases)
      block.entries.push_back(
          entries_of(phase, block.wiring, run_of(phase, block.wiring), band_floats));
    if (bias != nullptr)
      std::copy_n(bias + b * kLanes<float>,
                  std::min(kLanes<float>, to.channels() - b * kLanes<float>), block.start.begin());
    sources = std::max<int64_t>(sources, int64_t(block.wiring.sources.size()));
    products += int64_t(block.weights.size()) / kLanes<float>;
  }
  const int64_t tasks = to.batch() * to.blocks() * windows.bands;
  PerThread workspace(sources * band_floats + windows.band_rows * to.width() * kLanes<float>);
#pragma omp parallel for if (products * to.batch() * to.height() * to.width() > kParallelGrouped)
  for (int64_t task = 0; task < tasks; ++task) {
    const int64_t band = task % windows.bands, b = task / windows.bands % to.blocks();
    const int64_t n = task / windows.bands / to.blocks();
    const Block& block = blocks[size_t(b)];
    float* values = workspace.mine();
    float* buffer = values + sources * band_floats;
    const Windows::Rows rows = windows.rows_of(band);
    for (size_t s = 0; s < block.wiring.sources.size(); ++s)
      read_band(from, windows, n, block.wiring.sources[s], rows.first_read, rows.read,
                /*fills_rows=*/false, values + int64_t(s) * band_floats);
    float* const direct = to.row(n, b, rows.begin);
    float* const target = direct != nullptr ? direct : buffer;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      float* row = target + (i - rows.begin) * to.width() * kLanes<float>;
      const float* factors = block.weights.data();
      for (size_t p = 0; p < windows.phases.size(); ++p) {
        const Windows::Phase& phase = windows.phases[p];
        const std::vector<Entry>& entries = block.entries[p];
        const bool by_runs = run_of(phase, block.wiring) > 1;
        const RunRow run = runner(block.wiring.straight, by_runs, windows.step());
        if (phase.row == i % windows.to_stride.height) {
          const int64_t source = i / windows.to_stride.height * windows.from_stride.height;
          const auto within = entries_within(entries, source, from.height());
          run(within, factors + (within.data() - entries.data()) * kLanes<float>,
              values + windows.place(i, rows), windows.step(),
              B::load_unaligned(block.start.data()), relu, windows.count(phase),
              row + phase.column * kLanes<float>, windows.to_stride.width * kLanes<float>);
        }
        factors += int64_t(entries.size()) * kLanes<float>;
      }
    }
    if (direct == nullptr) to.write(n, b, rows.begin, rows.end - rows.begin, buffer);
  }
}

/// Adds dz times the values of kCount entries, summed over a band, to sums[kCount][kLanes<float>].
template <int kCount, bool kStraight>
void add_band(const Entry* entries, const float* dz, const float* band, int64_t rows,
              int64_t columns, int64_t row_step, int64_t step, double* sums) {
  B parts[kCount];
  unrolled<kCount>([&](auto k) { parts[k] = B(0.0f); });
  for (int64_t i = 0; i < rows; ++i, band += row_step)
    for (int64_t j = 0; j < columns; ++j, dz += kLanes<float>) {
      const B factor = B::load_unaligned(dz);
      const float* values = band + j * step;
      unrolled<kCount>([&](auto k) {
        parts[k] = functions::fused(
            load_permuted<kStraight>(values + entries[k()].offset, entries[k()].lanes), factor,
            parts[k]);
      });
    }
  unrolled<kCount>([&](auto k) {
    alignas(64) float lanes[kLanes<float>];
    parts[k].store_aligned(lanes);
    for (int64_t lane = 0; lane < kLanes<float>; ++lane)
      sums[k() * kLanes<float> + lane] += double(lanes[lane]);
  });
}

void add_bias(const float* dz, int64_t count, double* sums) {
  B total(0.0f);
  for (int64_t i = 0; i < count; ++i) total += B::load_unaligned(dz + i * kLanes<float>);
  alignas(64) float lanes[kLanes<float>];
  total.store_aligned(lanes);
  for (int64_t lane = 0; lane < kLanes<float>; ++lane) sums[lane] += double(lanes[lane]);
}

/// dw and, unless it is null, db. Each part of the images and bands has its own sums; the number of
/// parts does not depend on the number of threads.
void grouped_weight_gradient(const ChannelBlocks& dz, const ChannelBlocks& x,
                             const Windows& windows, int64_t in_group, int64_t out_group,
                             int64_t taps, float* dw, float* db) {
  const int64_t blocks = dz.blocks(), units = dz.batch() * windows.bands;
  const int64_t parts = std::min(units, std::max<int64_t>(1, kMaxParts / blocks));
  const int64_t band_floats = windows.band_floats();
  std::vector<Wiring> wirings;
  std::vector<std::vector<Entry>> entries;
  std::vector<int64_t> starts{0};  // of each block's sums: entries, then the bias
  int64_t sources = 1;
  for (int64_t b = 0; b < blocks; ++b) {
    wirings.emplace_back(b, dz.channels(), out_group, in_group);
    starts.push_back(starts.back() +
                     (taps * int64_t(wirings.back().terms.size()) + 1) * kLanes<float>);
    sources = std::max<int64_t>(sources, int64_t(wirings.back().sources.size()));
  }
  for (const Wiring& wiring : wirings)
    entries.push_back(entries_of(windows.phases[0], wiring, /*run=*/1, band_floats));
  std::vector<double> sums(size_t(parts * starts.back()));
  PerThread workspace(sources * band_floats + windows.band_rows * dz.width() * kLanes<float>);
#pragma omp parallel for if (starts.back() / kLanes <float> * units * windows.band_rows * \
                                 dz.width() >                                             \
                             kParallelGrouped)
  for (int64_t task = 0; task < blocks * parts; ++task) {
    const int64_t b = task / parts, part = task % parts;
    float* values = workspace.mine();
    float* buffer = values + sources * band_floats;
    double* to = sums.data() + part * starts.back() + starts[size_t(b)];
    for (int64_t unit = part * units / parts; unit < (part + 1) * units / parts; ++unit) {
      const int64_t n = unit / windows.bands;
      const Windows::Rows rows = windows.rows_of(unit % windows.bands);
      const int64_t height = rows.end - rows.begin;
      for (size_t s = 0; s < wirings[size_t(b)].sources.size(); ++s)
        read_band(x, windows, n, wirings[size_t(b)].sources[s], rows.first_read, rows.read,
                  /*fills_rows=*/true, values + int64_t(s) * band_floats);
      const float* gradient = dz.row(n, b, rows.begin);
      if (gradient == nullptr) {
        dz.read(n, b, rows.begin, height, 0, dz.width(), buffer, dz.width() * kLanes<float>);
        gradient = buffer;
      }
      const int64_t count = int64_t(entries[size_t(b)].size());
      for_each_group<kLanes<float> >= 16 ? 25 : 12, 18, 12, 9, 6, 4, 3, 2, 1>(
          count, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
            const auto add =
                wirings[size_t(b)].straight ? add_band<kCount, true> : add_band<kCount, false>;
            add(entries[size_t(b)].data() + first, gradient, values, height, dz.width(),
                windows.row_step(), windows.step(), to + first * kLanes<float>);
          });
      if (db != nullptr) add_bias(gradient, height * dz.width(), to + count * kLanes<float>);
    }
  }
  for (int64_t b = 0; b < blocks; ++b) {
    const Wiring& wiring = wirings[size_t(b)];
    const int64_t terms = int64_t(wiring.terms.size());
    for (int64_t lane = 0; lane < std::min(kLanes<float>, dz.channels() - b * kLanes<float>);
         ++lane) {
      const int64_t channel = b * kLanes<float> + lane;
      const auto total = [&](int64_t entry) {
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part)
          sum +=
              sums[size_t(part * starts.back() + starts[size_t(b)] + entry * kLanes<float> + lane)];
        return float(sum);
      };
      for (int64_t term = 0; term < terms; ++term)
        if (const int64_t k = wiring.terms[size_t(term)].index[size_t(lane)]; k >= 0)
          for (int64_t tap = 0; tap < taps; ++tap)
            dw[(channel * in_group + k) * taps + tap] = total(tap * terms + term);
      if (db != nullptr) db[channel] = total(taps * terms);
    }
  }
}

bool is_grouped(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& o) {
  return o.groups > 1 && w[1] <= kMaxGroup && w[0] / o.groups <= kMaxGroup &&
         w[2] * w[3] <= kMaxGroupedTaps && numel(x) > 0 && numel(y) > 0;
}

}  // namespace

bool ConvGrouped::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                          const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  return is_grouped(x.shape(), weight.shape(), y.shape(), options);
}

void ConvGrouped::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  const Shape& w = weight.shape();
  const ChannelBlocks from = ChannelBlocks::of_input(x), to = ChannelBlocks::of_result(y);
  const int64_t out_group = w[0] / options.groups;
  convolve_grouped(from, Windows::forward(w, y.shape(), options),
                   {weight.data<float>(), w[2] * w[3], w[1], out_group, /*backward=*/false}, w[1],
                   out_group, bias ? bias.data<float>() : nullptr, relu, to);
  to.finish(y);
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardGrouped::accepts(const Tensor& dy, const Epilogue&, const Tensor& x,
                                  const Tensor& weight, const Conv2dOptions& options,
                                  const Tensor& dx, const Tensor& dw, const Tensor&) {
  if (!dx && !dw) return false;
  return is_grouped(dx ? dx.shape() : x.shape(), dw ? dw.shape() : weight.shape(), dy.shape(),
                    options);
}

void ConvBackwardGrouped::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                              const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                              Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor dz = dy, none;
  kernels::run_epilogue_backward(behind, dy, dz);
  const Shape& w = dw ? dw.shape() : weight.shape();
  const int64_t taps = w[2] * w[3], out_group = w[0] / options.groups;
  const ChannelBlocks gradient = ChannelBlocks::of_input(dz);
  if (dx) {
    const ChannelBlocks to = ChannelBlocks::of_result(dx);
    convolve_grouped(gradient, Windows::backward(w, dx.shape(), options),
                     {weight.data<float>(), taps, w[1], out_group, /*backward=*/true}, out_group,
                     w[1], nullptr, false, to);
    to.finish(dx);
  }
  if (dw)
    grouped_weight_gradient(gradient, ChannelBlocks::of_input(x),
                            Windows::forward(w, dy.shape(), options), w[1], out_group, taps,
                            dw.data<float>(), db ? db.data<float>() : nullptr);
  else if (db)
    kernels::conv2d_backward(dz, {}, x, weight, options, none, none, db);
}

}  // namespace tapegrad::backends::cpu
