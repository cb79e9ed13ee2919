#include "ops/rearrange.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/internal/kernels/pad.h"
#include "ops/internal/operands.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(pad) pad{"pad"};
constinit decltype(put_channels) put_channels{"put_channels"};
constinit decltype(pad_from) pad_from{"pad_from"};
constinit decltype(pad_from_backward) pad_from_backward{"pad_from_backward"};

}  // namespace kernels

using namespace detail;
namespace {

struct Cat {
  static constexpr std::string_view kName = "cat";
  int dim;
  std::vector<int64_t> sizes{};  // along dim; 0 for skipped inputs
  std::vector<Shape> shapes{};
  std::vector<DType> dtypes{};
  bool of_images = false;

  Tensor forward(std::span<const Variable> inputs) {
    if (inputs.empty()) fail<ArgumentError>(kName, ": no inputs");
    // As in PyTorch, an empty vector may occur among tensors of any rank.
    const auto skipped = [](const Variable& input) { return input.shape() == Shape{0}; };
    const auto model = std::find_if_not(inputs.begin(), inputs.end(), skipped);
    const Variable& first = model == inputs.end() ? inputs[0] : *model;
    dim = normalize_dim(kName, dim, first.rank());
    Shape shape = first.shape();
    DType dtype = inputs[0].dtype();
    shape[dim] = 0;
    for (const Variable& input : inputs) {
      check_same_device(kName, first.value(), input.value());
      dtype = promote(dtype, input.dtype());
      shapes.push_back(input.shape());
      dtypes.push_back(input.dtype());
      Shape rest = skipped(input) ? shape : input.shape();
      sizes.push_back(skipped(input) || dim >= rest.rank() ? 0 : rest[dim]);
      if (dim < rest.rank()) rest[dim] = shape[dim];
      if (rest != shape)
        fail<ShapeError>(kName, ": ", input.shape(), " does not continue ", first.shape(),
                         " along dim ", dim,
                         draw_mismatch({{"", first.shape(), mismatched_dim(shape, rest)},
                                        {"", input.shape(), mismatched_dim(shape, rest)}}));
      if (__builtin_add_overflow(shape[dim], sizes.back(), &shape[dim]))
        fail<ShapeError>(kName, ": too many elements along dim ", dim);
    }
    Tensor y = Tensor::empty(shape, dtype, first.device());
    of_images = are_images(inputs, y);
    if (!of_images && are_narrow(inputs, y)) {
      write_narrow(inputs, y);
      return y;
    }
    int64_t at = 0;
    for (size_t i = 0; i < inputs.size(); at += sizes[i++]) {
      if (of_images) {
        kernels::put_channels(inputs[i].value(), at, y);
        continue;
      }
      Tensor target = y.with_layout(slice_layout(y.layout(), dim, at, sizes[i]));
      if (sizes[i] > 0) kernels::copy(inputs[i].value(), target);
    }
    return y;
  }
  std::vector<Variable> backward(const Variable& dy, Needs needs) const {
    std::vector<Variable> dx(sizes.size());
    int64_t at = 0;
    for (size_t i = 0; i < sizes.size(); at += sizes[i++])
      if (needs[i]) {
        if (of_images && dy.value().storage().is_packed())
          dx[i] = channels(dy, at, sizes[i]);
        else
          dx[i] = slice(dy, dim, at, at + sizes[i]).to(dtypes[i]);
        if (dx[i].shape() != shapes[i]) dx[i] = reshape(dx[i], shapes[i]);  // skipped inputs
      }
    return dx;
  }

 private:
  /// Returns whether the operands are many columns of y, or narrow blocks of columns, of one shape.
  /// Copied one after the other, each of them would touch most cache lines of y.
  bool are_narrow(std::span<const Variable> inputs, const Tensor& y) const {
    constexpr int64_t kFewest = 8, kRow = 16;  // operands; bytes
    const Shape& part = inputs[0].shape();
    if (int64_t(inputs.size()) < kFewest || numel(part, 0, dim) < kFewest) return false;
    return numel(part, dim, part.rank()) * size_of(y.dtype()) <= kRow &&
           std::ranges::all_of(inputs, [&](const Variable& x) { return x.shape() == part; });
  }
  /// Copies the operands one after the other, then transposes.
  void write_narrow(std::span<const Variable> inputs, Tensor& y) const {
    const Shape& part = inputs[0].shape();
    const int64_t parts = int64_t(inputs.size()), count = numel(part);
    const int64_t outer = numel(part, 0, dim), row = count / outer;
    const Tensor stacked = Tensor::empty({parts * count}, y.dtype(), y.device());
    for (int64_t i = 0; i < parts; ++i) {
      Tensor target = stacked.with_layout({part, contiguous_strides(part), i * count});
      kernels::copy(inputs[size_t(i)].value(), target);
    }
    Tensor rows = y.with_layout({{outer, parts, row}, {parts * row, row, 1}, y.layout().offset});
    kernels::copy(stacked.with_layout({{outer, parts, row}, {row, count, 1}, 0}), rows);
  }
  /// Returns whether the operands are large images or volumes, one of which is packed, or may be
  /// when a recorded step runs. Blocks have 8 or 16 channels.
  bool are_images(std::span<const Variable> inputs, const Tensor& y) const {
    constexpr int64_t kLarge = int64_t(1) << 15;
    if (dim != 1 || y.rank() < 4 || y.numel() < kLarge ||
        !kernels::put_channels.has(y.device().type, y.dtype()))
      return false;
    const auto fits = [&](const Variable& x) {
      return x.dtype() == y.dtype() && x.rank() == y.rank() && x.size(1) % 8 == 0 && x.size(1) > 0;
    };
    const auto is_packed = [](const Variable& x) { return x.value().storage().is_packed(); };
    return std::ranges::all_of(inputs, fits) && std::ranges::any_of(inputs, is_packed);
  }
  /// Returns a copy, which keeps a packed layout.
  static Variable channels(const Variable& dy, int64_t first, int64_t count) {
    std::vector<int64_t> amounts(size_t(2 * dy.rank() - 2));
    amounts[amounts.size() - 2] = -first;
    amounts.back() = first + count - dy.size(1);
    return pad(dy, amounts);
  }
};

struct Flip {
  static constexpr std::string_view kName = "flip";
  Dims dims;

  Tensor forward(const Tensor& x) {
    StridedLayout layout = x.layout();
    std::array<bool, kMaxRank> seen{};
    for (int64_t& each : std::span(&dims[0], size_t(dims.rank()))) {
      const int dim = normalize_dim(kName, each, std::max(x.rank(), 1));  // 0-d: one element
      if (seen[dim]) fail<ArgumentError>(kName, ": dim ", dim, " twice in ", dims);
      seen[dim] = true;
      if (x.rank() == 0) continue;
      if (layout.shape[dim] > 0) layout.offset += (layout.shape[dim] - 1) * layout.strides[dim];
      layout.strides[dim] = -layout.strides[dim];
    }
    return x.with_layout(layout).clone();
  }
  Variable backward(const Variable& dy) const { return flip(dy, dims); }
};

// y[i] = x[(i - shift) mod n] along one dimension.
struct Roll {
  static constexpr std::string_view kName = "roll";
  int64_t shift;
  int dim;

  Tensor forward(const Tensor& x) {
    const int64_t size = x.shape()[dim];
    Tensor y = x.empty_like(x.shape());
    if (size == 0) return y;
    shift = (shift % size + size) % size;
    copy_part(x, 0, y, shift, size - shift);
    copy_part(x, size - shift, y, 0, shift);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(Roll{-shift, dim}, Where::current(), dy);
  }

  void copy_part(const Tensor& x, int64_t from, const Tensor& y, int64_t to, int64_t count) const {
    Tensor target = y.with_layout(slice_layout(y.layout(), dim, to, count));
    if (count > 0) kernels::copy(x.with_layout(slice_layout(x.layout(), dim, from, count)), target);
  }
};

}  // namespace

void kernels::pad_by_parts(const Tensor& x, const Dims& before, Number value, Tensor& y) {
  kernels::fill(y, value);
  StridedLayout from = x.layout(), to = y.layout();
  for (int dim = 0; dim < x.rank(); ++dim) {
    const int64_t after = y.shape()[dim] - x.shape()[dim] - before[dim];
    const int64_t cut = std::max<int64_t>(-before[dim], 0);
    const int64_t left = std::max<int64_t>(x.shape()[dim] - cut - std::max<int64_t>(-after, 0), 0);
    from = slice_layout(from, dim, cut, left);
    to = slice_layout(to, dim, std::max<int64_t>(before[dim], 0), left);
  }
  if (numel(from.shape) == 0) return;
  Tensor target = y.with_layout(to);
  kernels::copy(x.with_layout(from), target);
}

namespace {

struct Pad {
  static constexpr std::string_view kName = "pad";
  std::vector<int64_t> amounts;
  double value;

  Tensor forward(const Tensor& x) {
    if (amounts.size() % 2 != 0 || int64_t(amounts.size() / 2) > x.rank())
      fail<ArgumentError>(kName, ": ", amounts.size(), " amounts are not two for each of at most ",
                          x.rank(), " dimensions");
    Shape shape = x.shape();
    Dims moved = Dims::filled(x.rank(), 0);
    for (size_t i = 0; i < amounts.size(); i += 2) {
      const int dim = x.rank() - 1 - int(i / 2);
      const int64_t before = amounts[i], after = amounts[i + 1];
      if (__builtin_add_overflow(shape[dim], before, &shape[dim]) ||
          __builtin_add_overflow(shape[dim], after, &shape[dim]) || shape[dim] < 0)
        fail<ShapeError>(kName, ": dim ", dim, " of ", x.shape(), " cannot take ", before,
                         " before and ", after, " after");
      moved[dim] = before;
    }
    Tensor y = x.empty_like(shape);
    // A storage without data is packed, or a step is recorded and it may be packed later.
    if (x.storage().is_packed() && kernels::pad.accepts(x, moved, value, y))
      kernels::pad(x, moved, value, y);
    else
      kernels::pad_by_parts(x, moved, value, y);
    return y;
  }
  Variable backward(const Variable& dy) const {
    std::vector<int64_t> back = amounts;
    for (int64_t& amount : back) amount = -amount;
    return pad(dy, back);
  }
};

struct Copy {
  static constexpr std::string_view kName = "copy_";
  static constexpr bool kChecksFirst = true;
  Shape from{};
  DType dtype{};

  void write(const Tensor&, const Tensor& x, Tensor& y) {
    from = x.shape();
    dtype = x.dtype();
    // A source that shares the target's storage is copied before anything is written.
    kernels::copy(x.shares_storage(y) ? x.clone() : x, y);
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[1]) dx[1] = sum_to(dy, from).to(dtype);
    return dx;
  }
};

struct Fill {
  static constexpr std::string_view kName = "fill_";
  static constexpr bool kChecksFirst = true;
  Number value;

  void write(const Tensor&, Tensor& y) { kernels::fill(y, value); }
  Variable backward(const Variable&) const { return {}; }
};

struct Zero {
  static constexpr std::string_view kName = "zero_";
  static constexpr bool kChecksFirst = true;

  void write(const Tensor&, Tensor& y) { kernels::fill(y, 0); }
  Variable backward(const Variable&) const { return {}; }
};

/// Returns y if it is contiguous and has its own storage, otherwise a copy.
Variable own_copy(const Variable& y, const Variable& x, Where where) {
  const bool own = !y.value().shares_storage(x.value()) && y.value().is_contiguous();
  return own ? y : clone(y, where);
}

/// Repeats each block of dimensions dim, dim + 1, ... this number of times.
Variable repeat_blocks(const Variable& x, int dim, int64_t times, const Shape& to, Where where) {
  numel(to);
  const int64_t outer = numel(x.shape(), 0, dim), inner = numel(x.shape(), dim, x.rank());
  const Variable blocks = reshape(x, {outer, 1, inner}, where);
  return reshape(expand(blocks, {outer, times, inner}, where), to, where);
}

/// repeat() for more repeated dimensions than one copy can make: first the dimensions from
/// `first` on, then the dimensions before `first`.
Variable repeat_in_halves(const Variable& x, const Dims& times, int first, Where where) {
  Dims before = times, after = times;
  for (int i = 0; i < times.rank(); ++i) (i < first ? after : before)[i] = 1;
  return repeat(repeat(x, after, where), before, where);
}

}  // namespace

Variable cat(VariableList inputs, int dim, Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return apply(Cat{dim}, where, std::span<const Variable>(promoted(inputs, where)));
  return apply(Cat{dim}, where, std::span<const Variable>(inputs));
}
Variable stack(VariableList inputs, int dim, Where where) {
  const ErrorLine line(where);
  if (inputs.empty()) fail<ArgumentError>("stack: no inputs");
  dim = normalize_dim("stack", dim, inputs[0].rank() + 1);
  std::vector<Variable> entries;
  for (const Variable& input : inputs) {
    if (input.shape() != inputs[0].shape())
      fail<ShapeError>("stack: shapes differ: ", inputs[0].shape(), " and ", input.shape(),
                       draw_difference("", inputs[0].shape(), "", input.shape()));
    entries.push_back(unsqueeze(input, dim, where));
  }
  return cat(entries, dim, where);
}

Variable flip(const Variable& x, const Dims& dims, Where where) {
  const ErrorLine line(where);
  return apply(Flip{dims}, where, x);
}

Variable rot90(const Variable& x, int64_t k, const Dims& dims, Where where) {
  const ErrorLine line(where);
  if (dims.rank() != 2) fail<ArgumentError>("rot90: two dims are wanted, not ", dims);
  const int from = normalize_dim("rot90", dims[0], x.rank()),
            to = normalize_dim("rot90", dims[1], x.rank());
  if (from == to) fail<ArgumentError>("rot90: the dims are one: ", dims);
  switch ((k % 4 + 4) % 4) {
    case 0:
      return clone(x, where);
    case 1:
      return transpose(flip(x, {to}, where), from, to, where);
    case 2:
      return flip(x, {from, to}, where);
    default:
      return flip(transpose(x, from, to, where), {to}, where);
  }
}

std::vector<Variable> meshgrid(VariableList inputs, std::string_view indexing, Where where) {
  const ErrorLine line(where);
  if (indexing != "ij" && indexing != "xy")
    fail<ArgumentError>("meshgrid: indexing is \"ij\" or \"xy\", not \"", indexing, '"');
  if (inputs.empty()) fail<ArgumentError>("meshgrid: no vectors");
  const bool exchanged = indexing == "xy" && inputs.size() > 1;
  Shape shape;
  for (const Variable& x : inputs) {
    if (x.rank() > 1) fail<ShapeError>("meshgrid: a vector is wanted, not ", x.shape());
    shape.push_back(x.numel());
  }
  std::vector<Variable> grids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Shape alone = Dims::filled(shape.rank(), 1);
    alone[int(i)] = shape[int(i)];
    const Variable grid = expand(reshape(inputs[i], alone, where), shape, where);
    grids.push_back(exchanged ? transpose(grid, 0, 1, where) : grid);
  }
  return grids;
}

Variable roll(const Variable& x, const Dims& shifts, const Dims& dims, Where where) {
  const ErrorLine line(where);
  if (dims.rank() == 0 && shifts.rank() == 1)
    return reshape(roll(flatten(x, 0, -1, where), shifts, {0}, where), x.shape(), where);
  if (shifts.rank() != dims.rank() || dims.rank() == 0)
    fail<ArgumentError>("roll: one dim is wanted for each shift: ", shifts, " and ", dims);
  for (int64_t dim : dims) normalize_dim("roll", dim, x.rank());
  Variable y = x;
  for (int i = 0; i < dims.rank(); ++i)
    y = apply(Roll{shifts[i], normalize_dim("roll", dims[i], x.rank())}, where, y);
  return y;
}

Variable pad(const Variable& x, const std::vector<int64_t>& amounts, double value, Where where) {
  const ErrorLine line(where);
  return apply(Pad{amounts, value}, where, x);
}

Variable repeat(const Variable& x, const Dims& times, Where where) {
  const ErrorLine line(where);
  const int added = times.rank() - x.rank();
  if (added < 0)
    fail<ShapeError>("repeat: ", times, " has fewer numbers than ", x.shape(), " dimensions");
  for (int64_t count : times)
    if (count < 0) fail<ArgumentError>("repeat: a negative number of times: ", times);
  Shape shape = Dims::filled(times.rank(), 1);
  for (int i = 0; i < x.rank(); ++i) shape[added + i] = x.shape()[i];
  // The repetitions of a dimension are one of their own before its entries, so that one copy makes
  // them all. Dimensions that are not repeated belong to the entries of the dimension before them.
  Dims once, repeated;
  for (int i = 0; i < times.rank(); ++i) {
    if (i == 0 || times[i] != 1) {
      if (once.rank() > kMaxRank - 2) return repeat_in_halves(x, times, i, where);
      once.push_back(1), once.push_back(1);
      repeated.push_back(times[i]), repeated.push_back(1);
    }
    once[once.rank() - 1] *= shape[i], repeated[repeated.rank() - 1] *= shape[i];
    if (__builtin_mul_overflow(shape[i], times[i], &shape[i]))
      fail<ShapeError>("repeat: too many elements: ", x.shape(), " times ", times);
  }
  numel(shape);
  return own_copy(reshape(expand(reshape(x, once, where), repeated, where), shape, where), x,
                  where);
}

Variable tile(const Variable& x, const Dims& times, Where where) {
  const ErrorLine line(where);
  Dims all = Dims::filled(std::max(0, x.rank() - times.rank()), 1);
  for (int64_t count : times) all.push_back(count);
  return repeat(x, all, where);
}

Variable repeat_interleave(const Variable& x, int64_t times, int dim, Where where) {
  const ErrorLine line(where);
  dim = normalize_dim("repeat_interleave", dim, x.rank());
  if (times < 0) fail<ArgumentError>("repeat_interleave: a negative number of times: ", times);
  Shape shape = x.shape();
  if (__builtin_mul_overflow(shape[dim], times, &shape[dim]))
    fail<ShapeError>("repeat_interleave: too many elements: ", x.shape(), " times ", times);
  const Variable y = repeat_blocks(x, dim + 1, times, shape, where);
  return own_copy(y, x, where);
}

Variable& copy_(Variable& y, const Variable& x, Where where) {
  const ErrorLine line(where);
  if (broadcast("copy_", y.shape(), x.shape()) != y.shape())
    fail<ShapeError>("copy_: ", x.shape(), " does not broadcast to ", y.shape());
  const Variable source = x.to(y.device(), where);
  apply_in_place(Copy{}, where, y, is_float(y.dtype()) ? source : source.detach());
  return y;
}

Variable& fill_(Variable& y, Number value, Where where) {
  const ErrorLine line(where);
  if (!is_float(y.dtype()) && value.kind() == f64 && std::trunc(value.real()) != value.real())
    fail<DTypeError>("fill_: ", value, " is no ", name(y.dtype()));
  check_fits("fill_", value, y.dtype());
  apply_in_place(Fill{value}, where, y);
  return y;
}

Variable& zero_(Variable& y, Where where) {
  apply_in_place(Zero{}, where, y);
  return y;
}

std::array<Variable, 2> meshgrid(const Variable& a, const Variable& b, std::string_view indexing,
                                 Where where) {
  return detail::exactly<2>(meshgrid({a, b}, indexing, where), where);
}
std::array<Variable, 3> meshgrid(const Variable& a, const Variable& b, const Variable& c,
                                 std::string_view indexing, Where where) {
  return detail::exactly<3>(meshgrid({a, b, c}, indexing, where), where);
}
}  // namespace tapegrad
