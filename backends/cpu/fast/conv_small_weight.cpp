#include "backends/cpu/fast/conv_small_weight.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/tools/per_thread.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int kChannelsTogether =
    kLanes<float> >= 16 ? 3 : 1;                          // channels whose sums fit in registers
constexpr int64_t kFewestPositions = 32 * kLanes<float>;  // whose sums are worth joining the lanes

/// Loads the given lanes; the others are zero, and their memory is not read.
B load_lanes(const float* from, B::batch_bool_type lanes) {
#if XSIMD_WITH_AVX512F
  return _mm512_maskz_loadu_ps(lanes.data, from);
#else
  return _mm256_maskload_ps(from, _mm256_castps_si256(lanes.data));
#endif
}

/// The vectors of a band of dz.
struct BandVectors {
  struct Begin {
    int64_t image, dz;  // elements from the beginnings of the padded parts and of dz
    int64_t in_image;   // elements from the beginning of the part of this image
  };
  std::vector<Begin> begins;
  std::vector<char> is_whole;   // whether all elements of the vector are elements of dz
  std::vector<float> is_in_dz;  // 1 for elements of dz, 0 for elements between rows

  /// Rows and images of dz are dz_row and dz_image elements apart.
  BandVectors(const RowSizes& s, const BandRows& band, int64_t dz_row, int64_t dz_image)
      : is_in_dz(size_t(in_lanes(band.rows * s.row()))) {
    for (int64_t i = 0; i < band.rows; ++i)
      std::fill_n(is_in_dz.begin() + i * s.row(), s.out_width, 1.0f);
    const int64_t lines = s.joins_rows ? 1 : band.rows;
    const int64_t length = s.joins_rows ? band.rows * s.row() : s.out_width;
    for (int64_t n = 0; n < band.images; ++n)
      for (int64_t i = 0; i < lines; ++i)
        for (int64_t j = 0; j < length; j += kLanes<float>) {
          const int64_t at = i * s.row() + j;
          const auto first = is_in_dz.begin() + at;
          begins.push_back({n * s.padded_part() + at, n * dz_image + i * dz_row + j, at});
          is_whole.push_back(std::find(first, first + kLanes<float>, 0.0f) ==
                             first + kLanes<float>);
        }
  }
  /// Calls add(is_whole, begin) for each vector; is_whole is true_type or false_type.
  template <typename Add>
  void for_each(const Add& add) const {
    for (size_t i = 0; i < begins.size(); ++i)
      is_whole[i] ? add(std::true_type(), begins[i]) : add(std::false_type(), begins[i]);
  }
};

/// For kPlanes channels of dz, which are `plane` elements apart, adds the sum of dz times each of
/// kCount taps of the image to parts[channel * step].
template <int kCount, int kPlanes>
void add_plane_products(const BandVectors& vectors, const float* dz, int64_t plane,
                        const float* image, const int64_t* offsets, double* parts, int64_t step) {
  B sums[kPlanes][kCount];
  unrolled<kPlanes>([&](auto p) { unrolled<kCount>([&](auto k) { sums[p][k] = B(0.0f); }); });
  vectors.for_each([&](auto whole, BandVectors::Begin at) {
    const auto is_in_dz = B::load_unaligned(vectors.is_in_dz.data() + at.in_image) > B(0.5f);
    const auto load = [&](const float* from) {  // excluded values may be infinite
      return in_register(whole ? B::load_unaligned(from) : load_lanes(from, is_in_dz));
    };
    B gradients[kPlanes];
    unrolled<kPlanes>([&](auto p) { gradients[p] = load(dz + p * plane + at.dz); });
    unrolled<kCount>([&](auto k) {
      const B values = load(image + at.image + offsets[k]);
      unrolled<kPlanes>(
          [&](auto p) { sums[p][k] = functions::fused(values, gradients[p], sums[p][k]); });
    });
  });
  unrolled<kPlanes>([&](auto p) {
    unrolled<kCount>([&](auto k) { parts[p * step + k] += double(xsimd::hadd(sums[p][k])); });
  });
}

}  // namespace

void set_gradient_band(RowSizes& s) {
  s.joins_rows = kLanes<float> >= 16 && gains_by_joining(s);  // AVX2 masks vectors slowly
  const int64_t share = (s.batch * s.out_height + kFewestParts - 1) / kFewestParts;
  const int64_t fewest = (kFewestPositions + s.out_width - 1) / s.out_width;
  s.band = std::clamp<int64_t>(std::max(std::min(s.rows_within(2 * kPaddedFloats), share), fewest),
                               1, s.out_height);
  if (s.band < s.out_height) return;
  const int64_t fit = std::min(2 * kPaddedFloats / s.padded_part(), s.batch / kFewestParts);
  const int64_t images = (kFewestPositions + s.out_plane() - 1) / s.out_plane();
  s.images = std::clamp<int64_t>(std::min(images, fit), 1, s.batch);
}

bool has_long_gradient_sums(const RowSizes& s) {
  return s.images * s.out_plane() >= kFewestPositions && s.padded_part() <= 2 * kPaddedFloats;
}

void small_weight_gradient(RowSizes s, const float* dy, const float* from_relu, const float* x,
                           float* dw, float* db) {
  set_gradient_band(s);
  const int64_t tasks = (s.batch + s.images - 1) / s.images * s.bands();
  const int64_t pieces = std::min(tasks, kMostPieces);
  const int64_t step = s.taps() + 1, results = s.out * step;
  std::vector<double> parts(size_t(pieces * results));  // per channel: the taps, then the bias
  // A copy of dz pays off if it is read for several groups of taps. Planes of several volumes are
  // not equally far apart.
  const bool copies =
      s.joins_rows || from_relu != nullptr || s.taps() > 9 || (s.images > 1 && s.out_depth > 1);
  const int64_t dz_row = copies ? s.row() : s.out_width;
  const int64_t dz_image = copies ? in_lanes(s.band * s.row()) : s.to.channels * s.out_plane();
  const int64_t plane = copies ? s.images * dz_image : s.to.depth * s.out_plane();
  const BandVectors vectors(s, BandRows(s, 0), dz_row, dz_image);
  const BandVectors last_vectors(s, BandRows(s, tasks - 1), dz_row, dz_image);
  const int64_t part_floats = in_lanes(s.images * s.padded_part()) + kLanes<float>;
  PerThread memory(part_floats + (copies ? kChannelsTogether * plane : 0));
  const auto offsets = tap_offsets(s);
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float *image = memory.mine(), *dz = image + part_floats;
    for (int64_t task = piece * tasks / pieces; task < (piece + 1) * tasks / pieces; ++task) {
      const BandRows band(s, task);
      const bool is_first = band.images == s.images && band.rows == s.band;
      for (int64_t n = 0; n < band.images; ++n)
        pad_image(x, nullptr, s, band.first_image + n, band.begin, image + n * s.padded_part());
      for_each_group<kChannelsTogether, 1>(
          s.out, [&]<int kPlanes>(int64_t o, std::integral_constant<int, kPlanes>) {
            double* sums = parts.data() + piece * results + o * step;
            const auto place = [&](int64_t n, int64_t channel) {
              return s.to_plane(band.first_image + n, channel) * s.out_plane() +
                     band.begin * s.out_width;
            };
            for (int64_t n = 0; n < band.images; ++n)
              for (int p = 0; p < kPlanes; ++p) {
                const int64_t at = place(n, o + p);
                sums[p * step + s.taps()] +=
                    sum_rows(dy + at, from_relu != nullptr ? from_relu + at : nullptr, s, band.rows,
                             copies ? dz + p * plane + n * dz_image : nullptr);
              }
            for_each_group<9, 3, 1>(
                s.taps(), [&]<int kCount>(int64_t tap, std::integral_constant<int, kCount>) {
                  add_plane_products<kCount, kPlanes>(is_first ? vectors : last_vectors,
                                                      copies ? dz : dy + place(0, o), plane, image,
                                                      offsets.data() + tap, sums + tap, step);
                });
          });
    }
  }
  for (int64_t o = 0; o < s.out; ++o)
    for (int64_t tap = 0; tap <= s.taps(); ++tap) {
      double sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece)
        sum += parts[size_t(piece * results + o * step + tap)];
      if (tap < s.taps())
        dw[o * s.taps() + tap] = float(sum);
      else if (db != nullptr)
        db[o] = float(sum);
    }
}

}  // namespace tapegrad::backends::cpu
