// The layout-dependent part of elementwise kernels.
#include "backends/cuda/layout/operands.h"

#include <bit>
#include <optional>

#include "backends/cuda/layout/number.h"
#include "backends/cuda/layout/packed.h"
#include "backends/joint_layout.h"

namespace tapegrad::backends::cuda {
namespace {

template <size_t N>
bool is_linear(const JointLayout<N>& joint, size_t operand) {
  int64_t step = 1;
  for (int d = joint.rank - 1; d >= 0; --d) {
    if (joint.strides[operand][d] != step) return false;
    step *= joint.sizes[d];
  }
  return true;
}

template <size_t N>
bool is_single(const JointLayout<N>& joint, size_t operand) {
  for (int d = 0; d < joint.rank; ++d)
    if (joint.strides[operand][d] != 0) return false;
  return joint.rank > 0;
}

/// Returns whether the operand repeats one row: channel values with channels-last images, or a bias
/// with a matrix.
template <size_t N>
bool is_row(const JointLayout<N>& joint, size_t operand, int pack) {
  const int last = joint.rank - 1;
  for (int d = 0; d < last; ++d)
    if (joint.strides[operand][d] != 0) return false;
  return last > 0 && joint.strides[operand][last] == 1 && joint.sizes[last] % pack == 0;
}

/// Returns how the operand is accessed. A `pack` of 0 means that the operand is not aligned for
/// packs.
template <size_t N>
Access access_of(const JointLayout<N>& joint, size_t operand, int pack) {
  if (is_linear<N>(joint, operand)) return pack > 0 ? Access::kPacked : Access::kLinear;
  if (is_single<N>(joint, operand)) return Access::kSingle;
  return pack > 0 && is_row<N>(joint, operand, pack) ? Access::kRow : Access::kStrided;
}

/// Address of the first element of an operand. For a number, the bits of the address are the
/// number.
struct First {
  std::byte* address;
  bool is_number = false;
};

First first_of(const Tensor& x, int64_t element, bool is_read) {
  if (is_read)
    if (const std::optional<uint64_t> bits = held_number(x, element))
      return {std::bit_cast<std::byte*>(*bits), true};
  return {x.storage().data() + x.layout().offset * element};
}

template <size_t N>
Operands<N> operands_of(const JointLayout<N>& joint, const std::array<First, N>& first,
                        const std::array<int64_t, N>& element, int pack) {
  Operands<N> o;
  o.count = 1;
  o.rank = joint.rank;
  for (int d = 0; d < joint.rank; ++d) o.count *= joint.sizes[d];
  for (size_t i = 0; i < N; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(first[i].address);
    const bool aligned = address % size_t(element[i] * pack) == 0;
    o.access[i] = first[i].is_number ? Access::kNumber : access_of<N>(joint, i, aligned ? pack : 0);
    o.strided |= o.access[i] >= Access::kRow;
    o.packed &= o.access[i] == Access::kPacked ||
                (i > 0 && o.access[i] >= Access::kSingle && o.access[i] <= Access::kRow);
    o.data[i] = first[i].address;
    for (int d = 0; d < joint.rank; ++d) o.strides[i][d] = joint.strides[i][d];
  }
  return o;
}

constexpr int64_t kMost = int64_t(1) << 31;

template <size_t N, typename Run>
void split(JointLayout<N> joint, std::array<First, N> first, const std::array<int64_t, N>& element,
           int pack, const Run& run) {
  Operands<N> o = operands_of<N>(joint, first, element, pack);
  if (!o.strided || o.count < kMost) {
    if (o.strided)
      for (int d = 0; d < joint.rank; ++d) o.sizes[d] = Divisor(uint32_t(joint.sizes[d]));
    return run(o);
  }
  int largest = 0;
  for (int d = 1; d < joint.rank; ++d)
    if (joint.sizes[d] > joint.sizes[largest]) largest = d;
  JointLayout<N> rest = joint;
  joint.sizes[largest] /= 2;
  rest.sizes[largest] -= joint.sizes[largest];
  split<N>(joint, first, element, pack, run);
  for (size_t i = 0; i < N; ++i)
    if (!first[i].is_number)
      first[i].address += joint.sizes[largest] * joint.strides[i][largest] * element[i];
  split<N>(rest, first, element, pack, run);
}

}  // namespace

Divisor::Divisor(uint32_t by) : by_(by) {
  while ((uint64_t(1) << shift_) < by) ++shift_;
  multiplier_ = uint32_t((((uint64_t(1) << shift_) - by) << 32) / by + 1);
}

namespace {

template <size_t N>
using Views = std::array<Tensor, N>;

/// Replaces operands by their pixels, if one of them is a packed image and y may be packed: y is
/// new or packed, too. Other images are copied; operands that broadcast are viewed channels-last.
template <size_t N>
std::optional<Views<N>> as_pixels(const std::array<const Tensor*, N>& operands) {
  const Tensor& y = *operands[0];
  const auto is_image = [&](const Tensor& x) { return x.shape() == y.shape(); };
  bool found = false, in_place = false;
  for (size_t i = 1; i < N; ++i) {
    const Tensor& x = *operands[i];
    found |= x.storage().is_packed() && is_image(x) && pixels_of(x);
    in_place |= x.shares_storage(y);
  }
  if (!found) return {};
  Views<N> views;
  if (const auto pixels = pixels_of(y))
    views[0] = *pixels;
  else if (!in_place && can_be_packed(y))
    views[0] = pixels_to_write(y);
  else
    return {};
  for (size_t i = 1; i < N; ++i) {
    const Tensor& x = *operands[i];
    const int64_t size = size_of(x.dtype());
    if (is_image(x) && x.is_contiguous() && (size == 2 || size == 4))
      views[i] = pixels_or_copy(x);
    else
      views[i] = channels_last(
          x.with_layout({y.shape(), broadcast_strides(x.layout(), y.shape()), x.layout().offset}));
  }
  return views;
}

template <size_t N, typename Run>
void run_all(const std::array<const Tensor*, N>& operands, const std::array<int64_t, N>& element,
             int pack, const Run& run) {
  const Tensor& y = *operands[0];
  std::array<Strides, N> strides;
  std::array<First, N> first;
  for (size_t i = 0; i < N; ++i) {
    strides[i] = broadcast_strides(operands[i]->layout(), y.shape());
    first[i] = first_of(*operands[i], element[i], /*is_read=*/i > 0);
  }
  JointLayout<N> joint;
  for (int d = 0; d < y.rank(); ++d) {
    std::array<int64_t, N> steps;
    for (size_t i = 0; i < N; ++i) steps[i] = strides[i][d];
    joint.add_dim(y.shape()[d], steps);
  }
  split<N>(joint, first, element, pack, run);
}

}  // namespace

template <size_t N>
void for_each_piece(const std::array<const Tensor*, N>& operands,
                    const std::array<int64_t, N>& element, int pack, const void* formula,
                    void (*run)(const void* formula, const Operands<N>& o, const Tensor& y)) {
  const Tensor& y = *operands[0];
  if (y.numel() == 0) return;
  const auto run_piece = [&](const Operands<N>& o) { run(formula, o, y); };
  const std::optional<Views<N>> views = as_pixels<N>(operands);
  if (!views) return run_all<N>(operands, element, pack, run_piece);
  std::array<const Tensor*, N> pixels;
  for (size_t i = 0; i < N; ++i) pixels[i] = &(*views)[i];
  run_all<N>(pixels, element, pack, run_piece);
  if (!y.storage().is_packed()) set_packed(y);
}

template void for_each_piece(const std::array<const Tensor*, 1>&, const std::array<int64_t, 1>&,
                             int, const void*,
                             void (*)(const void*, const Operands<1>&, const Tensor&));
template void for_each_piece(const std::array<const Tensor*, 2>&, const std::array<int64_t, 2>&,
                             int, const void*,
                             void (*)(const void*, const Operands<2>&, const Tensor&));
template void for_each_piece(const std::array<const Tensor*, 3>&, const std::array<int64_t, 3>&,
                             int, const void*,
                             void (*)(const void*, const Operands<3>&, const Tensor&));
template void for_each_piece(const std::array<const Tensor*, 4>&, const std::array<int64_t, 4>&,
                             int, const void*,
                             void (*)(const void*, const Operands<4>&, const Tensor&));
template void for_each_piece(const std::array<const Tensor*, 5>&, const std::array<int64_t, 5>&,
                             int, const void*,
                             void (*)(const void*, const Operands<5>&, const Tensor&));
template void for_each_piece(const std::array<const Tensor*, 7>&, const std::array<int64_t, 7>&,
                             int, const void*,
                             void (*)(const void*, const Operands<7>&, const Tensor&));

}  // namespace tapegrad::backends::cuda
