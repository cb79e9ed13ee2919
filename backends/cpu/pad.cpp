// Padding that copies elements of x: reflected, repeated or circular. Images with a packed layout
// (fast/packed.h) stay packed.
#include <algorithm>
#include <vector>

#include "backends/cpu/dnnl/dnnl.h"
#include "backends/cpu/fast/packed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/share.h"
#include "core/dispatch/implementations.h"
#include "ops/internal/kernels/pad.h"

namespace tapegrad::backends::cpu {
namespace {

/// The padded dimensions as images of rows and columns; a column is a run of `inner` elements.
struct Images {
  int64_t count = 1, inner = 1;
  int64_t rows = 1, columns = 1;  // of an image of x
  std::vector<int64_t> row_from;  // the row of x of each row of y
  std::vector<int64_t> from;      // the column of x of each column of y
  int64_t begin = 0, end = 0;     // columns of y whose sources are consecutive

  Images(const Shape& x, const PadSources& sources) {
    int first = 0, last = x.rank() - 1;
    while (sources[size_t(first)].is_identity()) count *= x[first++];
    while (sources[size_t(last)].is_identity()) inner *= x[last--];
    row_from = {0};
    for (int dim = first; dim < last; ++dim) {
      const PadSource& source = sources[size_t(dim)];
      std::vector<int64_t> next;
      next.reserve(row_from.size() * size_t(source.count));
      for (const int64_t row : row_from)
        for (int64_t i = 0; i < source.count; ++i) next.push_back(row * x[dim] + source(i));
      row_from = std::move(next);
      rows *= x[dim];
    }
    columns = x[last];
    for (int64_t i = 0; i < sources[size_t(last)].count; ++i)
      from.push_back(sources[size_t(last)](i));
    for (int64_t start = 0, i = 1; i <= int64_t(from.size()); ++i) {
      if (i < int64_t(from.size()) && from[size_t(i)] == from[size_t(i - 1)] + 1) continue;
      if (i - start > end - begin) begin = start, end = i;
      start = i;
    }
  }

  int64_t padded_rows() const { return int64_t(row_from.size()); }
  int64_t padded_columns() const { return int64_t(from.size()); }
  int64_t padded_numel() const { return count * padded_rows() * padded_columns() * inner; }

  /// Calls visit(column of x, column of y, columns) for each run of consecutive columns.
  template <typename Visit>
  void each_run(const Visit& visit) const {
    for (int64_t i = 0; i < begin; ++i) visit(from[size_t(i)], i, int64_t(1));
    visit(from[size_t(begin)], begin, end - begin);
    for (int64_t i = end; i < padded_columns(); ++i) visit(from[size_t(i)], i, int64_t(1));
  }
};

template <typename T>
void copy_images(const Images& images, const T* x, T* y) {
  const int64_t rows = images.padded_rows(), width = images.columns * images.inner,
                padded = images.padded_columns() * images.inner;
#pragma omp parallel for if (images.padded_numel() > kParallel)
  for (int64_t row = 0; row < images.count * rows; ++row) {
    const T* line = x + (row / rows * images.rows + images.row_from[size_t(row % rows)]) * width;
    T* to = y + row * padded;
    images.each_run([&](int64_t source, int64_t target, int64_t columns) {
      const int64_t count = columns * images.inner;
      if (count == 1)  // a call of memmove takes longer
        to[target] = line[source];
      else
        std::copy_n(line + source * images.inner, count, to + target * images.inner);
    });
  }
}

/// One thread adds all gradients of an image, in the order of dy.
template <typename T>
void add_images(const Images& images, const T* dy, T* dx) {
  using Sum = Compute<T>;
  const int64_t rows = images.padded_rows(), width = images.columns * images.inner,
                padded = images.padded_columns() * images.inner;
#pragma omp parallel for if (images.count > 1 && images.padded_numel() > kParallel)
  for (int64_t image = 0; image < images.count; ++image) {
    T* to = dx + image * images.rows * width;
    std::vector<Sum> wide(std::is_same_v<T, Sum> ? 0 : size_t(images.rows * width));
    Sum* sums = wide.data();
    if constexpr (std::is_same_v<T, Sum>) {
      sums = to;
      std::fill_n(sums, images.rows * width, Sum(0));
    }
    for (int64_t row = 0; row < rows; ++row) {
      const T* line = dy + (image * rows + row) * padded;
      Sum* sum = sums + images.row_from[size_t(row)] * width;
      images.each_run([&](int64_t target, int64_t source, int64_t columns) {
        const T* add = line + source * images.inner;
        Sum* into = sum + target * images.inner;
        for (int64_t i = 0; i < columns * images.inner; ++i) into[i] += Sum(add[i]);
      });
    }
    if constexpr (!std::is_same_v<T, Sum>)
      for (int64_t i = 0; i < images.rows * width; ++i) to[i] = convert<T>(sums[i]);
  }
}

/// Returns whether neither batch nor channels are padded, so that the blocks of channels stay
/// whole.
bool is_spatial(const Tensor& x, const PadSources& from) {
  return x.rank() >= 3 && from[0].is_identity() && from[1].is_identity();
}
/// Returns the packed elements of x as [blocks of channels, spatial dimensions ..., block].
Shape blocks_of(const Shape& x, int64_t block) {
  Shape shape = {x[0] * x[1] / block};
  for (int dim = 2; dim < x.rank(); ++dim) shape.push_back(x[dim]);
  shape.push_back(block);
  return shape;
}
PadSources of_blocks(const PadSources& from) {
  PadSources sources(from.begin() + 1, from.end());
  sources.emplace_back();  // the channels of a block
  return sources;
}

template <Packable T>
struct FromPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available() { return std::is_same_v<T, float> || multiplies_bfloat16(); }
  static std::optional<PackedValues> accepts(const Tensor& x, const PadSources& from, Tensor&) {
    return is_spatial(x, from) ? packed_values(x) : std::nullopt;
  }
  static bool run(TypeTag<T>, const PackedValues& values, const Tensor& x, const PadSources& from,
                  Tensor& y) {
    const int64_t block = values.packing.block;
    if (!can_be_packed(y, block)) return false;
    copy_images(Images(blocks_of(x.shape(), block), of_blocks(from)), data<T>(values), y.data<T>());
    y.storage().set_packed(packing_of(y.shape(), block));
    return true;
  }
};
template <Packable T>
struct BackwardPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available() { return FromPacked<T>::is_available(); }
  static std::optional<PackedValues> accepts(const Tensor& dy, const PadSources& from, Tensor& dx) {
    auto values = is_spatial(dy, from) ? packed_values(dy) : std::nullopt;
    if (values && !can_be_packed(dx, values->packing.block)) values.reset();
    return values;
  }
  static void run(TypeTag<T>, const PackedValues& values, const Tensor&, const PadSources& from,
                  Tensor& dx) {
    const int64_t block = values.packing.block;
    add_images(Images(blocks_of(dx.shape(), block), of_blocks(from)), data<T>(values),
               dx.data<T>());
    dx.storage().set_packed(packing_of(dx.shape(), block));
  }
};

struct From {
  static constexpr std::string_view kName = "rows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const PadSources& from, Tensor& y) {
    copy_images(Images(x.shape(), from), x.contiguous().data<T>(), y.data<T>());
  }
};
struct PadBackward {
  static constexpr std::string_view kName = "rows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& dy, const PadSources& from, Tensor& dx) {
    add_images(Images(dx.shape(), from), dy.contiguous().data<T>(), dx.data<T>());
  }
};

}  // namespace

void register_pad_from() {
  set_implementations<kernels::pad_from, FromPacked<float>, FromPacked<bfloat16>, From>(
      DeviceType::kCpu, kAllTypes);
  set_implementations<kernels::pad_from_backward, BackwardPacked<float>, BackwardPacked<bfloat16>,
                      PadBackward>(DeviceType::kCpu, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
