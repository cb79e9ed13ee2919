// embedding_bag (ops/attention.h).
#include <algorithm>
#include <vector>

#include "core/base/internal/step_constant.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/bag_kernels.h"
#include "ops/internal/extent.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/read_again.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(bag_sum) bag_sum{"embedding_bag"};
constinit decltype(bag_spread) bag_spread{"embedding_bag_backward"};
constinit decltype(bag_argmax) bag_argmax{"embedding_bag"};
}  // namespace kernels

using namespace detail;

namespace {

constexpr std::string_view kName = "embedding_bag";

/// The ids of all bags, and the bounds of each bag among them.
struct Bags {
  ReadAgain checked;  // the ids, which are in range
  Tensor bounds;

  const Tensor& ids() const { return checked.value(kName); }
  /// Returns the bag of each id.
  Variable owners() const {
    const int64_t* at = bounds.data<int64_t>();
    std::vector<int64_t> owners(static_cast<size_t>(ids().numel()));
    for (int64_t bag = 0; bag + 1 < bounds.numel(); ++bag)
      std::fill(owners.begin() + at[bag], owners.begin() + at[bag + 1], bag);
    return tensor(owners, {.device = ids().device()});
  }
};

/// Returns the gradient of the factors: products of the gradients of the bags with rows of the
/// weight.
Variable factor_gradient(const Bags& bags, const Variable& dy, const Variable& weight) {
  return sum(index_select(dy, 0, bags.owners()) *
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
    Tensor y = Tensor::empty({bags.bounds.numel() - 1, weight.shape()[1]}, dtype == f64 ? f64 : f32,
                             weight.device());
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
    Tensor rows = Tensor::empty({bags.bounds.numel() - 1, weight.shape()[1]}, i64, weight.device());
    kernels::bag_argmax(weight.contiguous(), bags.ids(), bags.bounds, rows);
    return rows;
  }
};

/// Returns the bounds of the bags among `count` indices.
std::vector<int64_t> bag_bounds(const Variable& offsets, bool include_last, int64_t count) {
  if (offsets.rank() != 1 || !is_integer(offsets.dtype()))
    fail<ArgumentError>(kName, ": offsets are a vector of integers, not ", offsets.dtype(), ' ',
                        offsets.shape());
  std::vector<int64_t> bounds = offsets.to_vector<int64_t>();
  if (!include_last) bounds.push_back(count);
  for (size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] < (i == 0 ? 0 : bounds[i - 1]) || bounds[i] > count || bounds[0] != 0)
      fail<ArgumentError>(kName, ": offset ", bounds[i], " of bag ", i,
                          " does not begin at 0, falls, or lies past the ", count, " indices");
  return bounds;
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

/// Divides sums by the sizes of the bags, at least 1.
Variable means_of(const Variable& sums, const std::vector<int64_t>& bounds) {
  std::vector<double> sizes;
  for (size_t bag = 0; bag + 1 < bounds.size(); ++bag)
    sizes.push_back(double(std::max<int64_t>(bounds[bag + 1] - bounds[bag], 1)));
  if (std::count(sizes.begin(), sizes.end(), sizes.empty() ? 0 : sizes[0]) == int64_t(sizes.size()))
    return sizes.empty() ? sums : sums / sizes[0];
  return sums / tensor(sizes, {int64_t(sizes.size()), 1},
                       {.dtype = sums.dtype(), .device = sums.device()});
}

/// Computes the result with kernels that read each row of the weight once.
Variable bags_in_one_pass(const Variable& indices, const Variable& weight,
                          std::vector<int64_t> bounds, const EmbeddingBagOptions& o) {
  check_same_device(kName, weight.value(), indices.value());
  const Tensor whole = as_index(kName, indices.value());
  check_index(kName, whole, weight.shape()[0]);
  const TensorOptions here{.device = weight.device()};
  Variable ids = narrow(flatten(Variable(whole)), 0, 0, bounds.back());
  Variable factors = o.per_sample_weights;
  if (factors.defined())
    factors = narrow(flatten(factors.to(weight.dtype() == f64 ? f64 : f32)), 0, 0, bounds.back());
  if (o.padding_idx >= 0) {
    const Kept kept(ids, bounds, o.padding_idx);
    const Variable places = tensor(kept.places, here);
    ids = index_select(ids, 0, places);
    if (factors.defined()) factors = index_select(factors, 0, places);
    bounds = kept.bounds;
  }
  const Tensor at = step_constant([&] { return tensor(bounds, here).value(); });
  const Bags bags{ids.value().contiguous(), at};
  if (o.mode == BagMode::kMax && bounds.back() > 0) {
    const Variable rows = apply(BagArgmax{bags}, Where::current(), weight);
    const Variable largest = gather(weight, 0, rows);
    std::vector<double> filled;
    for (size_t bag = 0; bag + 1 < bounds.size(); ++bag)
      filled.push_back(bounds[bag + 1] > bounds[bag]);
    if (std::find(filled.begin(), filled.end(), 0.0) == filled.end()) return largest;
    return where(tensor(filled, {int64_t(filled.size()), 1}, here) > 0, largest, 0);
  }
  const Variable sums = add_up(bags, weight, factors);
  return (o.mode == BagMode::kMean ? means_of(sums, bounds) : sums).to(weight.dtype());
}

}  // namespace

Variable embedding_bag(const Variable& indices, const Variable& weight, const Variable& offsets,
                       EmbeddingBagOptions options, Where where) {
  const CallLine line(where);
  const auto& [named, mode, sparse, factors, include_last, padding_idx] = options;
  require_float(kName, weight.value());
  if (weight.rank() != 2) fail<ShapeError>(kName, ": weight [n, d] wanted: ", weight.shape());
  if (indices.rank() != (offsets.defined() ? 1 : 2))
    fail<ShapeError>(kName,
                     ": indices [bags, size], or [count] with offsets, wanted: ", indices.shape());
  if (factors.defined() && (mode != BagMode::kSum || factors.shape() != indices.shape()))
    fail<ArgumentError>(kName, ": per_sample_weights ", factors.shape(), " for the sum of indices ",
                        indices.shape(), " only");
  if (padding_idx >= weight.shape()[0])
    fail<IndexError>(kName, ": padding_idx ", padding_idx, " is not one of ", weight.shape()[0],
                     " rows");
  const int64_t count = indices.numel();
  std::vector<int64_t> bounds;
  if (offsets.defined()) {
    bounds = bag_bounds(offsets, include_last, count);
  } else {
    for (int64_t i = 0; i <= indices.shape()[0]; ++i) bounds.push_back(i * indices.shape()[1]);
  }
  const int64_t bags = int64_t(bounds.size()) - 1, width = weight.shape()[1];
  if (bags < 0) fail<ArgumentError>(kName, ": no offsets");

  if (!sparse && kernels::bag_sum.has(weight.device().type, weight.dtype()))
    return bags_in_one_pass(indices, weight, bounds, options);
  const Kept counting(indices, bounds, padding_idx);
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
      embedding(index_select(flatten(indices), 0, kept), weight, /*padding_idx=*/-1, sparse)
          .to(wide);
  if (mode == BagMode::kMax) {
    const int64_t longest = int64_t(bags > 0 ? *std::max_element(sizes.begin(), sizes.end()) : 0);
    if (longest > 0) return largest_of_bags(rows, sizes, longest).to(weight.dtype());
  }
  if (factors.defined())
    rows = rows * unsqueeze(index_select(flatten(factors.to(wide)), 0, kept), 1);
  Variable sums =
      index_add(zeros({bags, width}, {.dtype = wide, .device = weight.device()}), 0, bag_of, rows);
  if (mode == BagMode::kMean) sums = means_of(sums, counting.bounds);
  return sums.to(weight.dtype());
}

}  // namespace tapegrad
