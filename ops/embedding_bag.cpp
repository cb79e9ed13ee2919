#include "ops/embedding_bag.h"

#include <algorithm>
#include <vector>

#include "core/base/internal/step_constant.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/embedding_rows.h"
#include "ops/internal/extent.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/kernels/bag.h"
#include "ops/internal/read_again.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(bag_sum) bag_sum{"embedding_bag"};
constinit decltype(bag_spread) bag_spread{"embedding_bag_backward"};
constinit decltype(bag_argmax) bag_argmax{"embedding_bag"};
constinit decltype(check_bounds) check_bounds{"check_bounds"};
}  // namespace kernels

using namespace detail;

namespace {

constexpr std::string_view kName = "embedding_bag";

/// The ids of all bags, and the bounds of each bag among them. Ids past the last bound belong to no
/// bag.
struct Bags {
  ReadAgain checked;  // the ids, which are in range
  Tensor bounds;

  const Tensor& ids() const { return checked.value(kName); }
  int64_t count() const { return bounds.numel() - 1; }
  Variable begins() const { return narrow(Variable(bounds), 0, 0, count()); }
  Variable ends() const { return narrow(Variable(bounds), 0, 1, count()); }
  /// Returns the bag of each id; count() for ids without a bag.
  Variable owners() const {
    return searchsorted(ends(), arange(ids().numel(), {.device = bounds.device()}), /*right=*/true);
  }
};

/// Returns the gradient of the factors: products of the gradients of the bags with rows of the
/// weight. The gradient of an id without a bag is 0.
Variable factor_gradient(const Bags& bags, const Variable& dy, const Variable& weight) {
  return sum(index_select(pad(dy, {0, 0, 0, 1}), 0, bags.owners()) *
                 index_select(weight.to(dy.dtype()), 0, Variable(bags.ids())),
             {1});
}

Variable spread(const Bags& bags, int64_t rows, const Variable& dy, const Variable& factors);
Variable add_up(const Bags& bags, const Variable& weight, const Variable& factors);

/// Op that computes y[bag] = the sum of weight[id] * factor. Bilinear, and so is its adjoint.
struct BagSum {
  static constexpr std::string_view kName = tapegrad::kName;
  static constexpr size_t kRequired = 1;
  Bags bags;
  SavedInput<0, /*for*/ 1> weight{};
  SavedInput<1, /*for*/ 0> factors{};
  int64_t rows{};
  DType dtype{};
  auto saved() { return std::tie(bags.checked.tensor, bags.bounds, weight, factors); }

  Tensor forward(const Tensor& weight, const Tensor& factors) {
    rows = weight.shape()[0];
    dtype = weight.dtype();
    Tensor y =
        Tensor::empty({bags.count(), weight.shape()[1]}, dtype == f64 ? f64 : f32, weight.device());
    kernels::bag_sum(weight.contiguous(), bags.ids(), bags.bounds,
                     factors ? factors.contiguous() : factors, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = spread(bags, rows, dy, factors ? factors() : Variable()).to(dtype);
    if (needs[1]) dx[1] = factor_gradient(bags, dy, weight());
    return dx;
  }
};

/// Op that computes dweight[id] = the sum of dy[bag] * factor.
struct BagSpread {
  static constexpr std::string_view kName = "embedding_bag_backward";
  static constexpr size_t kRequired = 1;
  Bags bags;
  int64_t rows;
  SavedInput<0, /*for*/ 1> dy{};
  SavedInput<1, /*for*/ 0> factors{};
  auto saved() { return std::tie(bags.checked.tensor, bags.bounds, dy, factors); }

  Tensor forward(const Tensor& dy, const Tensor& factors) {
    Tensor dweight = dy.empty_like({rows, dy.shape()[1]});
    kernels::bag_spread(dy.contiguous(), bags.ids(), bags.bounds,
                        factors ? factors.contiguous() : factors, dweight);
    return dweight;
  }
  std::array<Variable, 2> backward(const Variable& dw, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = add_up(bags, dw, factors ? factors() : Variable());
    if (needs[1]) dx[1] = factor_gradient(bags, dy(), dw);
    return dx;
  }
};

Variable spread(const Bags& bags, int64_t rows, const Variable& dy, const Variable& factors) {
  return apply(BagSpread{bags, rows}, Where::current(), dy, factors);
}
Variable add_up(const Bags& bags, const Variable& weight, const Variable& factors) {
  return apply(BagSum{bags}, Where::current(), weight, factors);
}

/// The row that each element of a bag's maximum comes from.
struct BagArgmax {
  static constexpr std::string_view kName = tapegrad::kName;
  static constexpr bool kDifferentiable = false;
  Bags bags;

  Tensor forward(const Tensor& weight) const {
    Tensor rows = Tensor::empty({bags.count(), weight.shape()[1]}, i64, weight.device());
    kernels::bag_argmax(weight.contiguous(), bags.ids(), bags.bounds, rows);
    return rows;
  }
};

/// Returns the bounds of the bags that begin at the offsets among `count` indices.
Tensor bounds_at(const Variable& offsets, bool include_last, int64_t count, Device device) {
  if (offsets.rank() != 1 || !is_integer(offsets.dtype()))
    fail<ArgumentError>(kName, ": offsets are a vector of integers, not ", offsets.dtype(), ' ',
                        offsets.shape());
  const Variable given = offsets.detach().to(i64).to(device);
  const Variable end = full({include_last ? 0 : 1}, count, {.dtype = i64, .device = device});
  const Tensor bounds = cat({given, end}, 0).value();
  if (bounds.numel() == 0) fail<ArgumentError>(kName, ": no offsets");
  kernels::check_bounds(kernels::check_bounds.has(device.type, i64) ? bounds : bounds.to(cpu),
                        kName, count);
  return bounds;
}

/// Returns the bounds of bags of equal size.
Tensor bounds_of(int64_t bags, int64_t size, Device device) {
  return step_constant(
      [&] { return (arange(bags + 1, {.dtype = i64, .device = device}) * size).value(); });
}

/// Returns the largest elements of consecutive rows, 0 for a bag without rows.
Variable largest_of_bags(const Variable& rows, const std::vector<double>& sizes, int64_t longest) {
  const int64_t bags = int64_t(sizes.size()), width = rows.size(1);
  const TensorOptions here{.device = rows.device()};
  int64_t first = 0;
  if (bags * longest > 8 * rows.size(0)) {  // one by one: to fill short bags would take much memory
    std::vector<Variable> largest;
    for (const double size : sizes) {
      largest.push_back(size > 0
                            ? max(narrow(rows, 0, first, int64_t(size)), 0).values
                            : zeros({width}, {.dtype = rows.dtype(), .device = rows.device()}));
      first += int64_t(size);
    }
    return stack(largest);
  }
  // Fills each bag with copies of its first row: of equal elements, max takes the first.
  std::vector<int64_t> picked;
  std::vector<double> filled;
  for (const double size : sizes) {
    for (int64_t i = 0; i < longest; ++i)
      picked.push_back(size > 0 ? first + (i < int64_t(size) ? i : 0) : 0);
    filled.push_back(size > 0), first += int64_t(size);
  }
  const Variable by_bag =
      reshape(index_select(rows, 0, tensor(picked, here)), {bags, longest, width});
  return tapegrad::where(tensor(filled, {bags, 1}, here) > 0, max(by_bag, 1).values, 0);
}

/// The positions among the indices that count: all but those of the padding.
struct Kept {
  std::vector<int64_t> places, bounds{0};

  Kept(const Variable& indices, const std::vector<int64_t>& all, int64_t padding_idx) {
    const std::vector<int64_t> ids = flatten(indices).to_vector<int64_t>();
    for (size_t bag = 0; bag + 1 < all.size(); ++bag) {
      for (int64_t i = all[bag]; i < all[bag + 1]; ++i)
        if (padding_idx < 0 || ids[size_t(i)] != padding_idx) places.push_back(i);
      bounds.push_back(int64_t(places.size()));
    }
  }
};

/// Moves the ids of the padding, and their factors, past the last bound.
void drop_padding(Variable& ids, Variable& factors, Tensor& bounds, int64_t padding_idx) {
  if (ids.numel() == 0) return;
  const Variable keeps = (ids != padding_idx).to(i64);
  const Variable kept = cumsum(keeps, 0), dropped = cumsum(1 - keeps, 0);
  const Variable places =
      tapegrad::where(keeps > 0, kept, narrow(kept, 0, kept.numel() - 1, 1) + dropped) - 1;
  const TensorOptions whole{.dtype = i64, .device = ids.device()};
  const Variable order =
      scatter(zeros(places.shape(), whole), 0, places, arange(places.numel(), whole));
  ids = index_select(ids, 0, order);
  if (factors.defined()) factors = index_select(factors, 0, order);
  bounds = index_select(pad(kept, {1, 0}), 0, Variable(bounds)).value();
}

/// Computes the result with kernels that read each row of the weight once.
Variable bags_in_one_pass(const Variable& indices, const Variable& weight, Tensor bounds,
                          const EmbeddingBagOptions& o, int64_t padding_idx) {
  check_same_device(kName, weight.value(), indices.value());
  const Tensor whole = as_index(kName, indices.value());
  check_index(kName, whole, weight.shape()[0]);
  Variable ids = flatten(Variable(whole)), factors = o.per_sample_weights;
  if (factors.defined()) factors = flatten(factors.to(weight.dtype() == f64 ? f64 : f32));
  if (padding_idx >= 0) drop_padding(ids, factors, bounds, padding_idx);
  const Bags bags{ids.value().contiguous(), bounds};
  const int64_t size = indices.rank() == 2 && padding_idx < 0 ? indices.size(1) : 0;  // of all bags
  const auto sizes = [&] { return unsqueeze(bags.ends() - bags.begins(), 1); };
  if (o.mode == BagMode::kMax && ids.numel() > 0) {
    const Variable rows = apply(BagArgmax{bags}, Where::current(), weight);
    const Variable largest = gather(weight, 0, rows);
    return size > 0 ? largest : where(sizes() > 0, largest, 0);
  }
  Variable sums = add_up(bags, weight, factors);
  if (o.mode == BagMode::kMean)
    sums = size > 0 ? sums / size : sums / clamp_min(sizes(), 1).to(sums.dtype());
  return sums.to(weight.dtype());
}

}  // namespace

Variable embedding_bag(const Variable& indices, const Variable& weight, const Variable& offsets,
                       EmbeddingBagOptions options, Where where) {
  const CallLine line(where);
  const auto& [named, mode, sparse, factors, include_last, padding] = options;
  require_float(kName, weight.value());
  if (weight.rank() != 2) fail<ShapeError>(kName, ": weight [n, d] wanted: ", weight.shape());
  if (indices.rank() != (offsets.defined() ? 1 : 2))
    fail<ShapeError>(kName,
                     ": indices [bags, size], or [count] with offsets, wanted: ", indices.shape());
  if (factors.defined() && (mode != BagMode::kSum || factors.shape() != indices.shape()))
    fail<ArgumentError>(kName, ": per_sample_weights ", factors.shape(), " for the sum of indices ",
                        indices.shape(), " only");
  const int64_t padding_idx = padding_row(kName, padding, weight.shape()[0]);
  const Tensor bounds = offsets.defined()
                            ? bounds_at(offsets, include_last, indices.numel(), weight.device())
                            : bounds_of(indices.shape()[0], indices.shape()[1], weight.device());
  if (!sparse && kernels::bag_sum.has(weight.device().type, weight.dtype()))
    return bags_in_one_pass(indices, weight, bounds, options, padding_idx);
  const int64_t bags = bounds.numel() - 1, width = weight.shape()[1];
  const Kept counting(indices, Variable(bounds).to_vector<int64_t>(), padding_idx);
  std::vector<int64_t> owners;
  std::vector<double> sizes;
  for (int64_t bag = 0; bag < bags; ++bag) {
    const int64_t size = counting.bounds[size_t(bag) + 1] - counting.bounds[size_t(bag)];
    owners.insert(owners.end(), size_t(size), bag);
    sizes.push_back(double(size));
  }
  const TensorOptions here{.device = weight.device()};
  const Variable kept = tensor(counting.places, here), bag_of = tensor(owners, here);
  const DType wide = weight.dtype() == f64 ? f64 : f32;
  Variable rows =
      embedding(index_select(flatten(indices), 0, kept), weight, /*padding_idx=*/{}, sparse)
          .to(wide);
  if (mode == BagMode::kMax) {
    const int64_t longest = int64_t(bags > 0 ? *std::max_element(sizes.begin(), sizes.end()) : 0);
    if (longest > 0) return largest_of_bags(rows, sizes, longest).to(weight.dtype());
  }
  if (factors.defined())
    rows = rows * unsqueeze(index_select(flatten(factors.to(wide)), 0, kept), 1);
  Variable sums =
      index_add(zeros({bags, width}, {.dtype = wide, .device = weight.device()}), 0, bag_of, rows);
  if (mode == BagMode::kMean)
    sums =
        sums / clamp_min(tensor(sizes, {bags, 1}, {.dtype = wide, .device = weight.device()}), 1);
  return sums.to(weight.dtype());
}
Variable embedding_bag(const Variable& indices, const Variable& weight, EmbeddingBagOptions options,
                       Where where) {
  return embedding_bag(indices, weight, {}, options, where);
}

void catalog_embedding_bag(Catalog& catalog) {
  catalog.add(
      "embedding_bag(input, weight, offsets?, per_sample_weights?, mode: str = mean, "
      "include_last_offset: bool = false, padding_idx: int = -1)",
      "the sum, mean or maximum of weight[input] over bags", [](const Arguments& a) {
        return embedding_bag(a[0], a[1], a[2],
                             {.mode = a.text("mode"),
                              .per_sample_weights = a[3],
                              .include_last_offset = a.flag("include_last_offset"),
                              .padding_idx = row_or_none(a.integer("padding_idx"))});
      });
}

}  // namespace tapegrad
