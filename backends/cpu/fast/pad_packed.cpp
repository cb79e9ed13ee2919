// Padding and cropping of images with a packed layout (packed.h), and concatenation along channels.
// The results stay packed.
#include <algorithm>
#include <cstring>

#include "backends/cpu/dnnl/dnnl.h"
#include "backends/cpu/fast/packed.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "ops/internal/kernels/pad.h"

namespace tapegrad::backends::cpu {
namespace {

/// The elements [begin, end) of a padded dimension that come from x.
struct CopiedRange {
  int64_t begin, end;
  CopiedRange(int64_t before, int64_t from, int64_t to)
      : begin(std::clamp<int64_t>(before, 0, to)), end(std::clamp(before + from, begin, to)) {}
};

template <Packable T>
struct PadPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available() { return std::is_same_v<T, float> || multiplies_bfloat16(); }

  static std::optional<PackedValues> accepts(const Tensor& x, const Dims& before, Number,
                                             const Tensor& y) {
    auto values = packed_values(x);
    if (!values) return values;
    const int64_t block = values->packing.block;
    const bool whole_blocks = before[0] == 0 && before[1] % block == 0 &&
                              x.shape()[0] == y.shape()[0] && can_be_packed(y, block);
    if (!whole_blocks) values.reset();
    return values;
  }

  static void run(TypeTag<T>, const PackedValues& values, const Tensor& x, const Dims& before,
                  Number value, Tensor& y) {
    const int64_t block = values.packing.block, from_blocks = values.packing.channels / block,
                  blocks = y.shape()[1] / block, images = y.shape()[0] * blocks;
    const int last = x.rank() - 1;
    const Packing packing = packing_of(y.shape(), block);
    const int64_t rows = packing.size / y.shape()[last], width = y.shape()[last] * block;
    const CopiedRange inside(before[last], x.shape()[last], y.shape()[last]);
    const T* from = data<T>(values);
    T *to = y.data<T>(), element = value.to<T>();
#pragma omp parallel for collapse(2)
    for (int64_t image = 0; image < images; ++image)
      for (int64_t row = 0; row < rows; ++row) {
        T* line = to + (image * rows + row) * width;
        const int64_t source = image % blocks - before[1] / block;  // block of channels
        const bool has_source = source >= 0 && source < from_blocks;
        const int64_t place = has_source ? row_of(row, x.shape(), before, y.shape()) : -1;
        const int64_t begin = place < 0 ? 0 : inside.begin, end = place < 0 ? 0 : inside.end;
        std::fill(line, line + begin * block, element);
        if (begin < end)
          std::copy_n(from + ((image / blocks * from_blocks + source) * values.packing.size +
                              place * x.shape()[last] + begin - before[last]) *
                                 block,
                      (end - begin) * block, line + begin * block);
        std::fill(line + end * block, line + width, element);
      }
    y.storage().set_packed(packing);
  }

 private:
  /// Returns the row of x, over all dimensions between channels and the last, that becomes a row of
  /// y; -1 if there is none.
  static int64_t row_of(int64_t row, const Shape& x, const Dims& before, const Shape& y) {
    int64_t place = 0, step = 1;
    for (int dim = x.rank() - 2; dim >= 2; --dim) {
      const int64_t index = row % y[dim] - before[dim];
      row /= y[dim];
      if (index < 0 || index >= x[dim]) return -1;
      place += index * step;
      step *= x[dim];
    }
    return place;
  }
};

struct PadByParts {
  static constexpr std::string_view kName = "by_parts";
  static bool is_available(DType dtype) { return is_packable(dtype); }
  template <Packable T>
  static void run(TypeTag<T>, const Tensor& x, const Dims& before, Number value, Tensor& y) {
    kernels::pad_by_parts(x, before, value, y);
  }
};

/// Copies the values of x to a packed y; returns false if they do not fill whole blocks of it.
bool put_blocks(const PackedValues& x, int64_t first, const PackedValues& y) {
  const int64_t block = y.packing.block, channels = x.packing.channels;
  if (x.packing.block != block || first % block != 0) return false;
  const int64_t element =
      int64_t(y.buffer->bytes()) / (y.packing.batch * y.packing.channels * y.packing.size);
  const int64_t bytes = x.packing.size * block * element;  // of a block of an image
  const std::byte* from = x.buffer->data();
  std::byte* to = y.buffer->data();
  const int64_t blocks = channels / block;
#pragma omp parallel for
  for (int64_t i = 0; i < x.packing.batch * blocks; ++i) {
    const int64_t image = i / blocks * y.packing.channels / block;
    std::memcpy(to + (image + first / block + i % blocks) * bytes, from + i * bytes, size_t(bytes));
  }
  return true;
}

void put_channels(const Tensor& x, int64_t first, Tensor& y) {
  std::optional<PackedValues> from = packed_values(x), to = packed_values(y);
  if (from && first == 0 && can_be_packed(y, from->packing.block)) {
    const PackedValues fresh{RefPtr<TensorStorage>::share(&y.storage()),
                             packing_of(y.shape(), from->packing.block)};
    if (put_blocks(*from, 0, fresh)) return y.storage().set_packed(fresh.packing);
  }
  if (to && !from && x.is_contiguous() && x.shape()[1] % to->packing.block == 0)
    from = pack(x, packing_of(x.shape(), to->packing.block));
  if (from && to && put_blocks(*from, first, *to)) return;
  from.reset(), to.reset();
  StridedLayout part = y.layout();
  part.offset += first * part.strides[1];
  part.shape[1] = x.shape()[1];
  x.storage().data(), y.storage().data();  // unpacks
  Tensor target = y.with_layout(part);
  kernels::copy(x, target);
}

}  // namespace

void register_pad() {
  set_kernel(kernels::put_channels, DeviceType::kCpu, TypeList<float, bfloat16>{},
             [](auto, const Tensor& x, int64_t first, Tensor& y) { put_channels(x, first, y); },
             {.takes_packed = true});
  set_implementations<kernels::pad, PadPacked<float>, PadPacked<bfloat16>, PadByParts>(
      DeviceType::kCpu, TypeList<float, bfloat16>{});
}

}  // namespace tapegrad::backends::cpu
