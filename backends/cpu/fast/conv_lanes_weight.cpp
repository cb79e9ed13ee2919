#include "backends/cpu/fast/conv_lanes_weight.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kFewestProducts = 256;  // positions whose sums are worth adding in double
constexpr int64_t kMostSums = 1 << 18;    // of all pieces of dy, unless they are few

/// Numbers and vectors whose products are added over positions: rows of positions of images.
struct OuterOperands {
  struct Steps {
    int64_t image, row, position;
  };
  int64_t images, rows, columns;
  Steps of_numbers, of_vectors;
};

/// Computes kNumbers x kVectors vectors: the sums over all positions of each number times each
/// vector. offsets[k] is the place of number k at the first position.
template <int kNumbers, int kVectors>
void sum_outer_products(const OuterOperands& o, const float* numbers, const int64_t* offsets,
                        const float* vectors, float* sums) {
  Batch<float> totals[kNumbers][kVectors];
  unrolled<kNumbers>(
      [&](auto k) { unrolled<kVectors>([&](auto v) { totals[k][v] = Batch<float>(0.0f); }); });
  for (int64_t n = 0; n < o.images; ++n)
    for (int64_t i = 0; i < o.rows; ++i) {
      const float* number = numbers + n * o.of_numbers.image + i * o.of_numbers.row;
      const float* vector = vectors + n * o.of_vectors.image + i * o.of_vectors.row;
      for (int64_t j = 0; j < o.columns; ++j) {
        Batch<float> values[kVectors];
        unrolled<kVectors>(
            [&](auto v) { values[v] = Batch<float>::load_aligned(vector + v * kLanes<float>); });
        unrolled<kNumbers>([&](auto k) {
          const Batch<float> factor = in_register(Batch<float>(number[offsets[k]]));
          unrolled<kVectors>(
              [&](auto v) { totals[k][v] = functions::fused(values[v], factor, totals[k][v]); });
        });
        number += o.of_numbers.position, vector += o.of_vectors.position;
      }
    }
  unrolled<kNumbers>([&](auto k) {
    unrolled<kVectors>(
        [&](auto v) { totals[k][v].store_aligned(sums + (k * kVectors + v) * kLanes<float>); });
  });
}

/// Calls run(first, integral_constant<vectors>) for two or three vectors at a time.
template <typename Run>
void for_each_two_or_three(int64_t vectors, const Run& run) {
  const int64_t groups = (vectors + 2) / 3;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = g * vectors / groups;
    if ((g + 1) * vectors / groups - first == 3)
      run(first, std::integral_constant<int, 3>());
    else
      run(first, std::integral_constant<int, 2>());
  }
}

constexpr int numbers_beside(int vectors) { return (kLanes<float> >= 16 ? 24 : 12) / vectors; }

/// Adds the products of `count` numbers and all vectors to totals[number * pitch + lane].
void add_outer_products(const OuterOperands& o, const float* numbers, const int64_t* offsets,
                        int64_t count, const float* vectors, double* totals, int64_t pitch) {
  constexpr int64_t kLane = kLanes<float>;
  for_each_two_or_three(pitch / kLane,
                        [&]<int kVectors>(int64_t vector, std::integral_constant<int, kVectors>) {
                          constexpr int64_t kNumbers = numbers_beside(kVectors);
                          for (int64_t done = 0; done < count; done += kNumbers) {
                            // The last numbers may overlap the previous ones.
                            const int64_t first = std::min(done, count - kNumbers);
                            alignas(64) float sums[kNumbers * kVectors * kLane];
                            sum_outer_products<kNumbers, kVectors>(o, numbers, offsets + first,
                                                                   vectors + vector * kLane, sums);
                            for (int64_t k = done - first; k < kNumbers; ++k) {
                              double* to = totals + (first + k) * pitch + vector * kLane;
                              for (int64_t i = 0; i < kVectors * kLane; ++i)
                                to[i] += double(sums[k * kVectors * kLane + i]);
                            }
                          }
                        });
}

/// Sets the rows, or the images if these are small, that are processed together.
void set_lanes_band(RowSizes& s) {
  s.joins_rows = true;
  const int64_t share = (s.batch * s.out_height + kFewestParts - 1) / kFewestParts;
  s.band = std::clamp<int64_t>(std::min(std::max<int64_t>(s.rows_within(kPaddedFloats), 4), share),
                               1, s.out_height);
  if (s.band < s.out_height) return;
  const int64_t fit = std::min(kPaddedFloats / s.padded_part(), s.batch / kFewestParts);
  const int64_t images = (kFewestProducts + s.out_plane() - 1) / s.out_plane();
  s.images = std::clamp<int64_t>(std::min(images, fit), 1, s.batch);
}

/// The sums of products of some images and rows: numbers of one side, times vectors of the channels
/// of the other. Numbers are elements of the padded image, and vectors have the output channels of
/// dz; or numbers are elements of dz, and vectors have the input channels of the image.
class LanesGradient {
 public:
  LanesGradient(const RowSizes& s, const float* dy, const float* from_relu, const float* x,
                bool has_outputs_in_lanes)
      : s_(s),
        images_(x),
        dy_(dy),
        from_relu_(from_relu),
        outputs_(has_outputs_in_lanes),
        // Planes of several volumes are not equally far apart.
        copies_(from_relu != nullptr || (s.images > 1 && s.out_depth > 1)),
        offsets_(tap_offsets(s)) {
    for (int64_t o = 0; o < s.out; ++o) planes_.push_back(o * plane_of_dz());
  }

  /// Vectors of sums: taps of all input channels, or of each output channel.
  int64_t pitch() const { return in_lanes(outputs_ ? s_.out : s_.in); }
  int64_t kernel() const { return s_.kernel_height * s_.kernel_width; }
  int64_t results() const { return pitch() * (outputs_ ? s_.taps() : s_.out * kernel()); }
  /// Returns the floats of workspace that add() needs.
  int64_t workspace() const { return part_floats() + vector_floats() + copied_floats(); }

  /// Adds the products of a band to sums[0, results()), and those of the bias to what follows.
  void add(const BandRows& band, float* memory, double* sums) const {
    float *part = memory, *vectors = part + part_floats();
    const float* dz = copy_dz(band, vectors + vector_floats(), sums + results());
    for (int64_t n = 0; n < band.images; ++n) {
      float* padded = part + n * s_.padded_part();
      pad_image(images_, nullptr, s_, band.first_image + n, band.begin, padded);
      if (outputs_)
        copy_transposed(s_.out, band.rows * s_.out_width, dz + n * image_of_dz(), plane_of_dz(),
                        vectors + n * positions() * pitch(), pitch());
      else
        copy_transposed(s_.in, area(), padded, area(), vectors + n * area() * pitch(), pitch());
    }
    OuterOperands operands{band.images, band.rows, s_.out_width, {}, {}};
    if (outputs_) {
      operands.of_numbers = {s_.padded_part(), s_.row(), 1};
      operands.of_vectors = {positions() * pitch(), s_.out_width * pitch(), pitch()};
      add_outer_products(operands, part, offsets_.data(), s_.taps(), vectors, sums, pitch());
      return;
    }
    operands.of_numbers = {image_of_dz(), s_.out_width, 1};
    operands.of_vectors = {area() * pitch(), s_.row() * pitch(), pitch()};
    for (int64_t tap = 0; tap < kernel(); ++tap)  // the offsets of the first channel come first
      add_outer_products(operands, dz, planes_.data(), s_.out,
                         vectors + offsets_[size_t(tap)] * pitch(), sums + tap * s_.out * pitch(),
                         pitch());
  }

  /// Writes sums to dw.
  void write(const float* sums, float* dw) const {
    if (outputs_) return copy_transposed(s_.taps(), s_.out, sums, pitch(), dw, s_.taps());
    for (int64_t o = 0; o < s_.out; ++o)
      copy_transposed(kernel(), s_.in, sums + o * pitch(), s_.out * pitch(), dw + o * s_.taps(),
                      kernel());
  }

 private:
  int64_t area() const { return s_.padded_part() / s_.in; }
  int64_t positions() const { return s_.band * s_.out_width; }
  int64_t plane_of_dz() const { return copies_ ? positions() : s_.to.depth * s_.out_plane(); }
  int64_t image_of_dz() const { return (copies_ ? s_.out : s_.to.channels) * plane_of_dz(); }
  int64_t part_floats() const { return in_lanes(s_.images * s_.padded_part()); }
  int64_t vector_floats() const { return s_.images * (outputs_ ? positions() : area()) * pitch(); }
  int64_t copied_floats() const { return copies_ ? s_.images * s_.out * positions() : 0; }

  /// Returns dz from the first position of the band on: dy itself, or a copy.
  const float* copy_dz(const BandRows& band, float* copy, double* bias_sums) const {
    const auto place = [&](int64_t n, int64_t channel) {
      return s_.to_plane(band.first_image + n, channel) * s_.out_plane() +
             band.begin * s_.out_width;
    };
    for (int64_t n = 0; n < band.images; ++n)
      for (int64_t o = 0; o < s_.out; ++o) {
        const int64_t at = place(n, o), count = band.rows * s_.out_width;
        const float* results = from_relu_ != nullptr ? from_relu_ + at : nullptr;
        float* to = copy + (n * s_.out + o) * positions();
        if (results != nullptr)
          mask_by_result(dy_ + at, results, count, to);
        else if (copies_)
          copy_row(dy_ + at, count, to);
        bias_sums[o] += sum_rows(dy_ + at, results, s_, band.rows, nullptr);
      }
    return copies_ ? copy : dy_ + place(0, 0);
  }

  const RowSizes& s_;
  const float *images_, *dy_, *from_relu_;
  const bool outputs_, copies_;
  const std::vector<int64_t> offsets_;
  std::vector<int64_t> planes_;
};

}  // namespace

double products_in_lanes(const RowSizes& s, bool has_outputs_in_lanes) {
  const int64_t lanes = has_outputs_in_lanes ? s.out : s.in;
  const int64_t numbers = has_outputs_in_lanes ? s.taps() : s.out;
  if (lanes <= kLanes<float> || numbers < numbers_beside(2))
    return std::numeric_limits<double>::infinity();
  const int64_t together = numbers_beside(in_lanes(lanes) / kLanes<float> % 3 == 0 ? 3 : 2);
  const int64_t computed = (numbers + together - 1) / together * together;
  return double(in_lanes(lanes) * computed) /
         double(has_outputs_in_lanes ? s.kernel_height * s.kernel_width : 1);
}

void weight_gradient_in_lanes(RowSizes s, const float* dy, const float* from_relu, const float* x,
                              bool has_outputs_in_lanes, float* dw, float* db) {
  set_lanes_band(s);
  const LanesGradient gradient(s, dy, from_relu, x, has_outputs_in_lanes);
  const int64_t tasks = (s.batch + s.images - 1) / s.images * s.bands();
  const int64_t results = gradient.results(), sums = results + s.out;
  const int64_t pieces =
      std::min(tasks, std::clamp<int64_t>(kMostSums / results, kFewestParts, kMostPieces));
  const Tensor totals = Tensor::empty({pieces, sums}, f64), joined = Tensor::empty({sums}, f32);
  double* total = totals.data<double>();
  float* result = joined.data<float>();
  PerThread memory(gradient.workspace());
#pragma omp parallel for if (s.products() > kParallelSmall)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    std::fill_n(total + piece * sums, sums, 0.0);
    for (int64_t task = piece * tasks / pieces; task < (piece + 1) * tasks / pieces; ++task)
      gradient.add(BandRows(s, task), memory.mine(), total + piece * sums);
  }
#pragma omp parallel for if (pieces * sums > kParallelSmall)
  for (int64_t first = 0; first < sums; first += kLanes<float>) {
    double sum[kLanes<float>] = {};
    const int64_t count = std::min(kLanes<float>, sums - first);
    for (int64_t piece = 0; piece < pieces; ++piece)
      for (int64_t i = 0; i < count; ++i) sum[i] += total[piece * sums + first + i];
    for (int64_t i = 0; i < count; ++i) result[first + i] = float(sum[i]);
  }
  gradient.write(result, dw);
  if (db != nullptr) std::copy_n(result + results, s.out, db);
}

}  // namespace tapegrad::backends::cpu
