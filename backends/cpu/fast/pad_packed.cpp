// Padding and cropping of images with a packed layout (packed.h), which stay packed.
#include <algorithm>

#include "backends/cpu/dnnl/dnnl.h"
#include "backends/cpu/fast/packed.h"
#include "core/dispatch/implementations.h"
#include "ops/internal/pad_kernel.h"

namespace tapegrad::backends::cpu {
namespace {

/// The elements [begin, end) of a padded dimension that come from x.
struct Inside {
  int64_t begin, end;
  Inside(int64_t before, int64_t from, int64_t to)
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
    const bool spatial = x.rank() >= 3 && before[0] == 0 && before[1] == 0 &&
                         x.shape()[0] == y.shape()[0] && x.shape()[1] == y.shape()[1];
    if (values && (!spatial || !can_be_packed(y, values->packing.block))) values.reset();
    return values;
  }

  static void run(Type<T>, const PackedValues& values, const Tensor& x, const Dims& before,
                  Number value, Tensor& y) {
    const int64_t block = values.packing.block,
                  images = values.packing.batch * values.packing.channels / block;
    const int last = x.rank() - 1;
    const Packing packing = packing_of(y.shape(), block);
    const int64_t rows = packing.size / y.shape()[last], width = y.shape()[last] * block;
    const Inside inside(before[last], x.shape()[last], y.shape()[last]);
    const T* from = data<T>(values);
    T *to = y.data<T>(), element = value.to<T>();
#pragma omp parallel for collapse(2)
    for (int64_t image = 0; image < images; ++image)
      for (int64_t row = 0; row < rows; ++row) {
        T* line = to + (image * rows + row) * width;
        const int64_t place = row_of(row, x.shape(), before, y.shape());
        const int64_t begin = place < 0 ? 0 : inside.begin, end = place < 0 ? 0 : inside.end;
        std::fill(line, line + begin * block, element);
        if (begin < end)
          std::copy_n(from + (image * values.packing.size + place * x.shape()[last] + begin -
                              before[last]) *
                                 block,
                      (end - begin) * block, line + begin * block);
        std::fill(line + end * block, line + width, element);
      }
    y.storage().set_packed(packing);
  }

 private:
  /// The row of x, over all dimensions between channels and the last, that becomes a row of y; -1
  /// if there is none.
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
  template <Packable T>
  static void run(Type<T>, const Tensor& x, const Dims& before, Number value, Tensor& y) {
    kernels::pad_by_parts(x, before, value, y);
  }
};

}  // namespace

void register_pad() {
  set_implementations<kernels::pad, PadPacked<float>, PadPacked<bfloat16>, PadByParts>(
      DeviceType::kCpu, TypeList<float, bfloat16>{});
}

}  // namespace tapegrad::backends::cpu
