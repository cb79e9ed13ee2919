#include "ops/index.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/autograd/sparse_gradient.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/embedding_rows.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/kernels/scatter.h"
#include "ops/internal/operands.h"
#include "ops/internal/scalar_dimension.h"
#include "ops/scatter.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(scan_index) scan_index{"scan_index"};
constinit decltype(index_select) index_select{"index_select"};
constinit decltype(index_add) index_add{"index_add"};
constinit decltype(gather) gather{"gather"};
constinit decltype(scatter_add) scatter_add{"scatter_add"};
constinit decltype(masked_fill) masked_fill{"masked_fill"};
}  // namespace kernels

using namespace detail;

namespace {

/// Checks a vector of indices and normalizes dim.
Tensor check_vector(std::string_view op, const Shape& x, int& dim, const Tensor& index) {
  dim = normalize_dim(op, dim, x.rank());
  if (index.rank() != 1)
    fail<ShapeError>(op, ": the index is a vector, not of shape ", index.shape());
  const Tensor whole = as_index(op, index);
  check_index(op, whole, x[dim]);
  return whole;
}

/// Op that computes y = the entries of x along dim at the index.
struct IndexSelect {
  static constexpr std::string_view kName = "index_select";
  int dim;
  Shape from{};
  SavedInput<1, 0> index{};
  auto saved() { return std::tie(index); }

  Tensor forward(const Tensor& x, const Tensor& index) {
    check_same_device(kName, x, index);
    const Tensor which = check_vector(kName, x.shape(), dim, index);
    from = x.shape();
    Shape shape = from;
    shape[dim] = which.numel();
    Tensor y = x.empty_like(shape);
    if (y.numel() > 0) kernels::index_select(x, which, dim, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy) const;
};

/// Op that computes y = x + alpha * source at the index; an empty x means zeros.
struct IndexAdd {
  static constexpr std::string_view kName = "index_add";
  static constexpr size_t kRequired = 0;
  int dim;
  double alpha = 1;
  Shape shape{};
  int64_t times = 1;  // entries of the index of each entry of a source without gradient
  SavedInput<1, 2> index{};
  auto saved() { return std::tie(index); }

  Tensor forward(const Tensor& x, const Tensor& index, const Tensor& source) {
    if (x) shape = x.shape();
    check_same_device(kName, source, index, x);
    check_same_dtype(kName, source, x);
    const Tensor which = check_vector(kName, shape, dim, index);
    Shape wanted = shape;
    wanted[dim] = which.numel() / times;
    if (source.shape() != wanted)
      fail<ShapeError>(kName, ": the source is ", source.shape(), ", wanted is ", wanted);
    const bool whole = std::trunc(alpha) == alpha && std::abs(alpha) < 0x1p53;
    if (!is_float(source.dtype()) && !whole)
      fail<ArgumentError>(kName, ": alpha ", alpha, " for ", name(source.dtype()));
    Tensor y = x ? x.clone() : Tensor::full(shape, 0, source.dtype(), source.device());
    const Number scale = is_float(source.dtype()) ? Number(alpha) : Number(int64_t(alpha));
    if (source.numel() > 0) kernels::index_add(source.contiguous(), which, dim, scale, y);
    return y;
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = dy;
    if (needs[2]) {
      dx[2] = index_select(dy, dim, index());
      if (alpha != 1) dx[2] = dx[2] * alpha;
    }
    return dx;
  }
};

/// Adds dy at the index along dim to the gradient of an input of the running rule, which has the
/// given shape; or returns the gradient. The entry `unused` of the input gets no gradient. Each
/// entry of dy belongs to `times` successive entries of the index; if they are several, dy has no
/// history.
Variable send_at_index(size_t input, const Variable& dy, const Variable& index, int dim,
                       const Shape& shape, int64_t unused = -1, int64_t times = 1) {
  Tensor sum = gradient_sum(input);
  if (!sum) {
    Variable dx = apply(IndexAdd{dim, 1, shape, times}, Where::current(), Variable(), index, dy);
    if (unused >= 0) dx.narrow(dim, unused, 1).zero_();
    return dx;
  }
  const Tensor which = check_vector(IndexAdd::kName, shape, dim, index.value());
  if (dy.numel() == 0) return {};
  Tensor entry, before;
  if (unused >= 0) {
    entry = narrow(Variable(sum), dim, unused, 1).value();
    before = entry.clone();
  }
  kernels::index_add(dy.value().contiguous(), which, dim, 1.0, sum);
  if (entry) kernels::copy(before, entry);
  return {};
}

std::array<Variable, 2> IndexSelect::backward(const Variable& dy) const {
  return {send_at_index(0, dy, index(), dim, from)};
}

struct Gather {
  static constexpr std::string_view kName = "gather";
  int dim;
  Shape from{};
  SavedInput<1, 0> index{};
  auto saved() { return std::tie(index); }

  Tensor forward(const Tensor& x, const Tensor& index) {
    check_same_device(kName, x, index);
    dim = normalize_dim(kName, dim, x.rank());
    from = x.shape();
    check_fits(kName, index, from, dim, "x");
    const Tensor vector = repeated_vector(index, dim);
    const bool has_rows = kernels::index_copy.has(x.device().type, x.dtype());
    const Tensor which = as_index(kName, vector     ? vector
                                         : has_rows ? unrepeated(index, dim)
                                                    : index);
    check_index(kName, which, from[dim]);
    Tensor y = x.empty_like(index.shape());
    if (y.numel() == 0) return y;
    const Tensor part = corner(x, index.shape(), dim);
    if (vector)
      kernels::index_select(part, detail::as_vector(which), dim, y);
    else
      kernels::gather(part, which, dim, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const;
};

/// Sixteen-bit values are summed in float32: in float16, 2048 + 1 is 2048.
DType dtype_of_sums(DType dtype) { return size_of(dtype) == 2 && is_float(dtype) ? f32 : dtype; }

/// Adds the source to y at the index along dim.
void add_scattered(std::string_view op, const Tensor& source, const Tensor& index, int dim,
                   const Tensor& y) {
  const bool has_rows = kernels::index_accumulate.has(y.device().type, y.dtype());
  const Tensor vector = has_rows ? repeated_vector(index, dim) : Tensor();
  const Tensor which = as_index(op, has_rows ? unrepeated(index, dim) : index);
  check_index(op, which, y.shape()[dim]);
  Tensor target = corner(y, index.shape(), dim);
  const Tensor part = corner(source, index.shape(), -1).to(y.dtype()).contiguous();
  if (part.numel() == 0) return;
  if (vector && target.is_contiguous())
    kernels::index_accumulate(part, detail::as_vector(which), dim, target);
  else
    kernels::scatter_add(part, which, dim, target);
}

/// Op that computes y = x with source added at the index; an empty x means zeros.
struct ScatterAdd {
  static constexpr std::string_view kName = "scatter_add";
  static constexpr size_t kRequired = 0;
  int dim;
  Shape shape{};
  Shape source_shape{};
  SavedInput<1, 2> index{};
  auto saved() { return std::tie(index); }

  Tensor forward(const Tensor& x, const Tensor& index, const Tensor& source) {
    if (x) shape = x.shape();
    source_shape = source.shape();
    check_same_device(kName, source, index, x);
    check_same_dtype(kName, source, x);
    dim = normalize_dim(kName, dim, shape.rank());
    check_fits(kName, index, shape, dim, "x");
    check_fits(kName, index, source_shape, -1, "the source");
    Tensor y = Tensor::empty(shape, dtype_of_sums(source.dtype()), source.device());
    x ? kernels::copy(x, y) : kernels::fill(y, 0);
    add_scattered(kName, source, index, dim, y);
    return y.to(source.dtype());
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = dy;
    if (needs[2]) {
      dx[2] = gather(dy, dim, index());
      std::vector<int64_t> unread;  // unread part of the source, last dimension first
      for (int i = source_shape.rank() - 1; i >= 0; --i) {
        unread.push_back(0);
        unread.push_back(source_shape[i] - dx[2].shape()[i]);
      }
      if (dx[2].shape() != source_shape) dx[2] = pad(dx[2], unread);
    }
    return dx;
  }
};

/// If x is an expanded value, adds the gradients to that value: the repeated dimensions of dy and
/// index become a part of dimension dim.
std::array<Variable, 2> Gather::backward(const Variable& dy, Needs needs) const {
  if (!needs[0]) return {};
  const Variable which = index();
  const std::optional<Shape> origin = unexpanded_shape();
  std::vector<int64_t> order, sizes, merged;  // of dy: the repeated dimensions precede dim
  const auto is_repeated = [&](int i) {
    const int added = from.rank() - origin->rank();
    return i < added || (*origin)[i - added] != from[i];
  };
  if (!origin || is_repeated(dim)) {
    const bool adds_in_place = dtype_of_sums(dy.dtype()) == dy.dtype();
    const Tensor sum = adds_in_place ? gradient_sum(0) : Tensor();
    if (!sum) return {apply(ScatterAdd{dim, from}, Where::current(), Variable(), which, dy)};
    add_scattered(ScatterAdd::kName, dy.value(), which.value(), dim, sum);
    return {};
  }
  int64_t count = 1;
  for (int i = 0; i < from.rank(); ++i)
    if (is_repeated(i)) count *= dy.size(i);
  for (int i = 0; i < from.rank(); ++i) {
    if (is_repeated(i)) continue;
    if (i == dim)
      for (int j = 0; j < from.rank(); ++j)
        if (is_repeated(j)) order.push_back(j);
    order.push_back(i);
    sizes.push_back(from[i]);
    merged.push_back(i == dim ? count * dy.size(i) : dy.size(i));
  }
  const int along = int(std::count_if(order.begin(), std::ranges::find(order, dim),
                                      [&](int64_t i) { return !is_repeated(int(i)); }));
  const Variable sum =
      apply(ScatterAdd{along, Shape(sizes)}, Where::current(), Variable(),
            reshape(permute(which, order), merged), reshape(permute(dy, order), merged));
  send_unexpanded(reshape(sum, *origin));
  return {};
}

void check_mask(std::string_view op, const Tensor& x, const Tensor& mask, const Number& value) {
  check_same_device(op, x, mask);
  if (mask.dtype() != boolean) fail<DTypeError>(op, ": the mask is bool, not ", name(mask.dtype()));
  if (broadcast(op, x.shape(), mask.shape()) != x.shape())
    fail<ShapeError>(op, ": a mask of ", mask.shape(), " does not broadcast to ", x.shape());
  if (!is_float(x.dtype()) && value.kind() == f64 && std::trunc(value.real()) != value.real())
    fail<DTypeError>(op, ": ", value, " is no ", name(x.dtype()));
  check_fits(op, value, x.dtype());
}

template <Literal name>
struct MaskedFill {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kChecksFirst = true;
  Number value;
  SavedInput<1, 0> mask{};
  auto saved() { return std::tie(mask); }

  void write(const Tensor& x, const Tensor& mask, Tensor& y) {
    check_mask(kName, x, mask, value);
    // A mask that shares x's storage would change while it is read.
    if (y.numel() > 0)
      kernels::masked_fill(x, mask.shares_storage(y) ? mask.clone() : mask, value, y);
  }
  static bool fits(const Tensor& x, const Tensor& mask) { return x.device() == mask.device(); }
  std::array<Variable, 2> backward(const Variable& dy) const {
    return {masked_fill(dy, mask(), 0)};
  }
};

/// Returns the number of successive rows of a gradient that are the same memory, as those of a sum
/// or a mean of rows. A recorded gradient counts as one of different rows.
int64_t equal_rows(const Variable& dy) {
  if (dy.requires_grad() || dy.numel() == 0) return 1;
  int64_t times = 1;
  for (int dim = dy.rank() - 2; dim >= 0; --dim) {
    if (dy.size(dim) > 1 && dy.value().strides()[dim] != 0) break;
    times *= dy.size(dim);
  }
  return times;
}
/// Returns the first of each `times` successive equal rows.
Variable first_of_equal_rows(const Variable& dy, int64_t times) {
  Tensor rows = dy.value();
  StridedLayout layout{{}, {}, rows.layout().offset};
  int last = dy.rank() - 2;
  for (; times > 1; --last) times /= dy.size(last);
  for (int dim = 0; dim < dy.rank(); ++dim) {
    if (dim > last && dim < dy.rank() - 1) continue;
    layout.shape.push_back(dy.size(dim)), layout.strides.push_back(rows.strides()[dim]);
  }
  return reshape(Variable(rows.with_layout(layout)), {-1, dy.size(-1)});
}

/// Rows of the weight. Not composed of index_select and reshape, so that an error names the id's
/// own position and this op.
struct Embedding {
  static constexpr std::string_view kName = "embedding";
  int64_t padding_idx;  // negative: none
  bool sparse;
  bool scale_grad_by_freq = false;
  Shape from{};
  SavedInput<0, 1> indices{};
  auto saved() { return std::tie(indices); }

  Tensor forward(const Tensor& indices, const Tensor& weight) {
    check_same_device(kName, weight, indices);
    if (weight.rank() != 2)
      fail<ShapeError>(kName, ": the weight is a matrix, not of shape ", weight.shape());
    from = weight.shape();
    const Tensor which = as_index(kName, indices);
    check_index(kName, which, from[0]);
    Shape shape = indices.shape();
    shape.push_back(from[1]);
    Tensor y = weight.empty_like(shape);
    Tensor rows = y.with_layout({{which.numel(), from[1]}, {from[1], 1}, 0});
    const Tensor flat = which.with_layout({{which.numel()}, {1}, which.layout().offset});
    if (y.numel() > 0) kernels::index_select(weight, flat, 0, rows);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy) const {
    const Variable which = flatten(indices());
    const bool sends_rows = sparse && takes_rows(1);
    const int64_t times = scale_grad_by_freq || sends_rows ? 1 : equal_rows(dy);
    Variable rows =
        times > 1 ? first_of_equal_rows(dy, times) : reshape(dy, {which.numel(), from[1]});
    if (scale_grad_by_freq) {
      const Variable one = ones({which.numel()}, {.dtype = dy.dtype(), .device = dy.device()});
      const Variable none = zeros({from[0]}, {.dtype = dy.dtype(), .device = dy.device()});
      const Variable uses = index_select(index_add(none, 0, which, one), 0, which);
      rows = rows / unsqueeze(uses, 1);
    }
    std::array<Variable, 2> dx;
    if (sends_rows) {
      send_rows(1, sum_rows(as_index(kName, which.value()), rows.value().contiguous(), from[0],
                            padding_idx));
      return dx;
    }
    dx[1] = send_at_index(1, rows, which, 0, from, padding_idx, times);
    return dx;
  }
};

struct OneHot {
  static constexpr std::string_view kName = "one_hot";
  static constexpr bool kDifferentiable = false;
  int64_t num_classes;

  Tensor forward(const Tensor& ids) {
    const Tensor which = as_index(kName, ids);
    if (num_classes < -1) fail<ArgumentError>(kName, ": num_classes is ", num_classes);
    if (num_classes == -1) {
      if (which.numel() == 0) fail<ArgumentError>(kName, ": no ids to count the classes of");
      kernels::IndexScan scan;
      kernels::scan_index(which, kEnd, scan);
      if (scan.outside >= 0) fail<IndexError>(kName, ": the class id ", scan.value, " is negative");
      num_classes = scan.largest + 1;
    }
    check_index(kName, which, num_classes);
    Shape shape = ids.shape();
    shape.push_back(num_classes);
    Tensor y = Tensor::full(shape, 0, i64, ids.device());
    const int64_t count = which.numel();
    Tensor rows = y.with_layout({{count, num_classes}, {num_classes, 1}, 0});
    const Tensor columns = which.with_layout({{count, 1}, {1, 1}, which.layout().offset});
    const Tensor ones = Tensor::full({count, 1}, 1, i64, ids.device());
    if (count > 0) kernels::scatter_add(ones, columns, 1, rows);
    return y;
  }
};

}  // namespace

Variable embedding(const Variable& indices, const Variable& weight,
                   std::optional<int64_t> padding_idx, Where where) {
  return embedding(indices, weight, padding_idx, /*sparse=*/false, where);
}
Variable embedding(const Variable& indices, const Variable& weight,
                   std::optional<int64_t> padding_idx, bool sparse, Where where) {
  return embedding(indices, weight, {.padding_idx = padding_idx, .sparse = sparse}, where);
}

Variable index_select(const Variable& x, int dim, const Variable& index, Where where) {
  const ErrorLine line(where);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where,
                             [&](const Variable& v) { return index_select(v, dim, index); });
  if (index.defined() && index.rank() == 0) [[unlikely]]  // one index, as in PyTorch
    return index_select(x, dim, reshape(index, {1}), where);
  return apply(IndexSelect{dim}, where, x, index);
}
namespace {

/// ArgumentError for an empty variable; rules apply the ops without an x.
template <std::same_as<Variable>... Variables>
void require_values(const Variables&... variables) {
  (variables.value(), ...);
}

}  // namespace

Variable index_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                   double alpha, Where where) {
  const ErrorLine line(where);
  require_values(x, index, source);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where, [&](const Variable& v) {
      return index_add(v, dim, reshape(index, {-1}), reshape(source, {-1}), alpha);
    });
  return apply(IndexAdd{dim, alpha}, where, x, index, source);
}
Variable gather(const Variable& x, int dim, const Variable& index, Where where) {
  if (detail::is_scalar(x) || detail::is_scalar(index)) [[unlikely]] {
    const CallLine line(where);
    if (x.rank() > 1 || index.rank() > 1)
      fail<ShapeError>("gather: an index of ", index.shape(), " for a tensor of ", x.shape());
    return reshape(gather(reshape(x, {-1}), dim, reshape(index, {-1})), index.shape());
  }
  return apply(Gather{dim}, where, x, index);
}
Variable scatter_add(const Variable& x, int dim, const Variable& index, const Variable& source,
                     Where where) {
  const ErrorLine line(where);
  require_values(x, index, source);
  if (detail::is_scalar(x)) [[unlikely]]
    return detail::as_vector(x, where, [&](const Variable& v) {
      return scatter_add(v, dim, reshape(index, {-1}), reshape(source, {-1}));
    });
  return apply(ScatterAdd{dim}, where, x, index, source);
}

Variable masked_fill(Variable x, const Variable& mask, Number value, Where where) {
  if (mask.value_or_empty().rank() > x.value_or_empty().rank()) [[unlikely]] {
    const CallLine line(where);
    const Shape shape = broadcast("masked_fill", x.shape(), mask.shape());
    return masked_fill(expand(x, shape), mask, value);
  }
  return apply_over(MaskedFill<"masked_fill">{value}, where, {std::move(x), mask});
}
Variable& masked_fill_(Variable& x, const Variable& mask, Number value, Where where) {
  apply_in_place(MaskedFill<"masked_fill_">{value}, where, x, mask);
  return x;
}

Variable one_hot(const Variable& ids, int64_t num_classes, Where where) {
  return apply(OneHot{num_classes}, where, ids);
}

void catalog_index(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("embedding(input, weight, padding_idx: int = -1)",
              "y[..., :] = weight[input[...], :]",
              [](A a) { return embedding(a[0], a[1], row_or_none(a.integer("padding_idx"))); });
  catalog.add("index_select(input, index, dim: int)", "y[i] = x[index[i]] along dim",
              [](A a) { return index_select(a[0], a.int32("dim"), a[1]); });
  catalog.add("index_add(input, index, source, dim: int, alpha: float = 1.0)",
              "y = x, then y[index[i]] += alpha * source[i] along dim",
              [](A a) { return index_add(a[0], a.int32("dim"), a[1], a[2], a.real("alpha")); });
  catalog.add("gather(input, index, dim: int)", "y[i, j] = x[index[i, j], j] for dim 0",
              [](A a) { return gather(a[0], a.int32("dim"), a[1]); });
  catalog.add("scatter_add(input, index, src, dim: int)",
              "y = x, then y[index[i, j], j] += src[i, j] for dim 0",
              [](A a) { return scatter_add(a[0], a.int32("dim"), a[1], a[2]); });
  catalog.add("masked_fill(input, mask, value: number)", "value where mask, else x",
              [](A a) { return masked_fill(a[0], a[1], a.number("value")); });
  catalog.add("masked_fill_(input, mask, value: number)", "input = value where mask",
              [](A a) {
                Variable y = a[0];
                return masked_fill_(y, a[1], a.number("value"));
              },
              {.inplace = true});
  catalog.add("one_hot(input, num_classes: int = -1)", "y[..., j] = 1 if input[...] = j, else 0",
              [](A a) { return one_hot(a[0], a.integer("num_classes")); }, {.max_order = 0});
}

Variable embedding(const Variable& indices, const Variable& weight, EmbeddingFuncOptions options,
                   Where where) {
  int64_t row = -1;
  if (options.padding_idx) {
    const CallLine line(where);
    row = padding_row("embedding", options.padding_idx, weight.rank() > 0 ? weight.size(0) : 0);
  }
  return apply(Embedding{row, options.sparse, options.scale_grad_by_freq}, where, indices, weight);
}
}  // namespace tapegrad
