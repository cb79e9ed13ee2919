// Implementation of ops/margin_loss.h: all losses are composed of other ops.
#include "ops/margin_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/base/error.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/index.h"
#include "ops/internal/loss_reduction.h"
#include "ops/internal/operands.h"
#include "ops/internal/value_checks.h"
#include "ops/option_checks.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

Variable positive_part(const Variable& x) { return clamp(x, {.min = 0.0}); }

/// Throws DTypeError unless all are float tensors.
template <std::same_as<Variable>... Variables>
void check_all_floats(std::string_view op, const Variables&... xs) {
  (check_floats(op, xs), ...);
}

}  // namespace

Variable triplet_margin_with_distance_loss(const Variable& anchor, const Variable& positive,
                                           const Variable& negative, TripletDistanceOptions options,
                                           Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return triplet_margin_with_distance_loss(a...); },
                      where, anchor, positive, negative, options);
  const CallLine line(where);
  require_positive("triplet_margin_with_distance_loss", "margin", options.margin);
  const auto distance = [&](const Variable& a, const Variable& b) {
    return options.distance_function ? options.distance_function(a, b) : pairwise_distance(a, b);
  };
  Variable far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  return reduced(positive_part(distance(anchor, positive) - far + options.margin),
                 options.reduction);
}

Variable triplet_margin_loss(const Variable& anchor, const Variable& positive,
                             const Variable& negative, TripletMarginOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return triplet_margin_loss(a...); }, where, anchor,
                      positive, negative, options);
  const CallLine line(where);
  constexpr std::string_view kName = "triplet_margin_loss";
  for (const Variable* x : {&anchor, &positive, &negative})
    if (x->rank() == 0 || x->rank() != anchor.rank())
      fail<ShapeError>(kName, ": [..., d] of one rank wanted: ", anchor.shape(), ", ",
                       positive.shape(), ", ", negative.shape());
  require_positive(kName, "margin", options.margin);
  require_positive(kName, "p", options.p);
  require_number(kName, "eps", options.eps);
  const auto distance = [&](const Variable& a, const Variable& b) {
    return norm(a - b + options.eps, options.p, {-1});
  };
  return triplet_margin_with_distance_loss(anchor, positive, negative,
                                           {.distance_function = distance,
                                            .margin = options.margin,
                                            .swap = options.swap,
                                            .reduction = options.reduction});
}

Variable margin_ranking_loss(const Variable& x1, const Variable& x2, const Variable& target,
                             MarginOptions options, Where where) {
  return margin_ranking_loss(x1, x2, target, options.margin, options.reduction, where);
}
Variable cosine_embedding_loss(const Variable& x1, const Variable& x2, const Variable& target,
                               MarginOptions options, Where where) {
  return cosine_embedding_loss(x1, x2, target, options.margin, options.reduction, where);
}
Variable hinge_embedding_loss(const Variable& x, const Variable& target,
                              HingeEmbeddingOptions options, Where where) {
  return hinge_embedding_loss(x, target, options.margin, options.reduction, where);
}

Variable margin_ranking_loss(const Variable& x1, const Variable& x2, const Variable& target,
                             double margin, Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return margin_ranking_loss(a...); }, where, x1, x2,
                      target, margin, reduction);
  const CallLine line(where);
  require_number("margin_ranking_loss", "margin", margin);
  return reduced(positive_part(target * (x2 - x1) + margin), reduction);
}

Variable cosine_embedding_loss(const Variable& x1, const Variable& x2, const Variable& target,
                               double margin, Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return cosine_embedding_loss(a...); }, where, x1, x2,
                      target, margin, reduction);
  const CallLine line(where);
  constexpr std::string_view kName = "cosine_embedding_loss";
  check_equal_shapes(kName, x1, x2);
  require_number(kName, "margin", margin);
  if (x1.rank() < 1 || x1.rank() > 2 || target.rank() != x1.rank() - 1 ||
      (target.rank() == 1 && target.shape()[0] != x1.shape()[0]))
    fail<ShapeError>(kName, ": inputs [n, d] and target [n], or [d] and [], wanted: ", x1.shape(),
                     " and ", target.shape());
  constexpr double kLeast = 1e-12;  // keeps the cosine of a zero vector finite
  const auto along = [](const Variable& x) { return sum(x, {-1}); };
  const Variable cosine =
      along(x1 * x2) * rsqrt((along(square(x1)) + kLeast) * (along(square(x2)) + kLeast));
  const Variable losses = tapegrad::where(
      target == 1, 1 - cosine, tapegrad::where(target == -1, positive_part(cosine - margin), 0));
  return reduced(losses, reduction);
}

Variable hinge_embedding_loss(const Variable& x, const Variable& target, double margin,
                              Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return hinge_embedding_loss(a...); }, where, x, target,
                      margin, reduction);
  const CallLine line(where);
  check_floats("hinge_embedding_loss", x);
  check_equal_shapes("hinge_embedding_loss", x, target);
  require_number("hinge_embedding_loss", "margin", margin);
  const Variable apart = tapegrad::where(target != 1, positive_part(margin - x), 0);
  return reduced(apart + tapegrad::where(target != -1, x, 0), reduction);
}

Variable soft_margin_loss(const Variable& x, const Variable& target, Reduction reduction,
                          Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return soft_margin_loss(a...); }, where, x, target,
                      reduction);
  const CallLine line(where);
  check_floats("soft_margin_loss", x);
  check_equal_shapes("soft_margin_loss", x, target);
  return reduced(-logsigmoid(target * x), reduction);
}

Variable multi_margin_loss(const Variable& x, const Variable& target, MultiMarginOptions options,
                           Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return multi_margin_loss(a...); }, where, x, target,
                      options);
  const CallLine line(where);
  constexpr std::string_view kName = "multi_margin_loss";
  check_floats(kName, x);
  if (options.p != 1 && options.p != 2)
    fail<ArgumentError>(kName, ": p is 1 or 2, not ", options.p);
  require_number(kName, "margin", options.margin);
  if (x.rank() < 1 || x.rank() > 2 || x.size(-1) == 0)
    fail<ShapeError>(kName, ": [n, classes] or [classes] wanted: ", x.shape());
  const bool one = x.rank() == 1;
  if (one ? target.numel() != 1 : target.shape() != Shape{x.shape()[0]})
    fail<ShapeError>(kName, ": class ids are ", target.shape(), " for an input of ", x.shape());
  const int64_t classes = x.size(-1);
  if (options.weight.defined() && options.weight.shape() != Shape{classes})
    fail<ShapeError>(kName, ": weight is ", options.weight.shape(), " for ", classes, " classes");
  const Variable rows = one ? unsqueeze(x, 0) : x;
  const Variable ids = reshape(target, {rows.shape()[0], 1});
  Variable terms = positive_part(rows - gather(rows, 1, ids) + options.margin);
  if (options.p == 2) terms = square(terms);
  if (options.weight.defined())
    terms =
        terms * unsqueeze(index_select(options.weight.detach().to(x.dtype()), 0, flatten(ids)), 1);
  const Variable own = one_hot(flatten(ids), classes) == 1;
  const Variable losses = mean(tapegrad::where(own, 0, terms), {1});
  return reduced(one ? squeeze(losses, 0) : losses, options.reduction);
}

Variable multilabel_margin_loss(const Variable& x, const Variable& target, Reduction reduction,
                                Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return multilabel_margin_loss(a...); }, where, x,
                      target, reduction);
  const CallLine line(where);
  constexpr std::string_view kName = "multilabel_margin_loss";
  check_floats(kName, x);
  check_equal_shapes(kName, x, target);
  if (x.rank() < 1 || x.rank() > 2 || x.size(-1) == 0)
    fail<ShapeError>(kName, ": [n, classes] or [classes] wanted: ", x.shape());
  if (!is_integer(target.dtype()))
    fail<DTypeError>(kName, ": class ids are ", target.dtype(), ", not integers");
  const int64_t classes = x.size(-1);
  const bool one = x.rank() == 1;
  const Variable rows = one ? unsqueeze(x, 0) : x;
  // Valid ids are those before the first -1.
  const Variable given = one ? unsqueeze(target, 0) : target;
  const Variable valid = cumsum((given == -1).to(i64), 1) == 0;
  const Variable ids = tapegrad::where(valid, given, 0).to(i64);
  const Variable bounds = gather(rows, 1, ids) - 1;
  // The classes that no id names are sorted, so that the classes above a bound are at the end,
  // and their sum is one of the sums from the end.
  const Variable last_column = tapegrad::where(valid, ids, classes);
  const Variable named =
      narrow(scatter(zeros({rows.size(0), classes + 1}, {.dtype = boolean, .device = x.device()}),
                     1, last_column, true),
             1, 0, classes);
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const Variable others = flip(sort(masked_fill(rows, named, kLowest), -1).values, {1});
  const Variable sums =
      pad(cumsum(tapegrad::where(others == kLowest, 0, others).to(f64), 1), {1, 0}, 0.0);
  const Variable above =
      classes - searchsorted(flip(others.detach(), {1}).contiguous(), bounds.detach(), true);
  const Variable terms = gather(sums, 1, above) - above * bounds.to(f64);
  const Variable counted = logical_and(valid, logical_or(above > 0, isnan(bounds)));
  const Variable losses =
      (sum(tapegrad::where(counted, terms, 0), {1}) / double(classes)).to(x.dtype());
  return reduced(one ? squeeze(losses, 0) : losses, reduction);
}

Variable multilabel_soft_margin_loss(const Variable& x, const Variable& target,
                                     const Variable& weight, Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return multilabel_soft_margin_loss(a...); }, where, x,
                      target, weight, reduction);
  const CallLine line(where);
  constexpr std::string_view kName = "multilabel_soft_margin_loss";
  check_floats(kName, x);
  check_equal_shapes(kName, x, target);
  if (x.rank() == 0) fail<ShapeError>(kName, ": the input has no class dimension");
  Variable losses = (target - 1) * logsigmoid(-x) - target * logsigmoid(x);
  if (weight.defined()) losses = losses * weight;
  return reduced(mean(losses, {-1}), reduction);
}

Variable poisson_nll_loss(const Variable& x, const Variable& target, PoissonNllOptions options,
                          Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return poisson_nll_loss(a...); }, where, x, target,
                      options);
  const CallLine line(where);
  require_number("poisson_nll_loss", "eps", options.eps);
  Variable losses = options.log_input ? exp(x) - target * x : x - target * log(x + options.eps);
  if (options.full) {
    const Variable large = target > 1;
    const Variable t = tapegrad::where(large, target, 1);
    const Variable factorial = t * log(t) - t + 0.5 * log(2 * std::numbers::pi * t);
    losses = losses + tapegrad::where(large, factorial, 0);
  }
  return reduced(losses, options.reduction);
}

Variable gaussian_nll_loss(const Variable& x, const Variable& target, const Variable& var,
                           GaussianNllOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return gaussian_nll_loss(a...); }, where, x, target,
                      var, options);
  const CallLine line(where);
  constexpr std::string_view kName = "gaussian_nll_loss";
  check_all_floats(kName, x, target, var);
  require_not_negative(kName, "eps", options.eps);
  const DType dtype = x.dtype(), wide = compute_dtype(dtype);
  if (wide != dtype && target.dtype() == dtype && var.dtype() == dtype)
    return gaussian_nll_loss(x.to(wide), target.to(wide), var.to(wide), options, where).to(dtype);
  Shape reduced_shape = x.shape(), kept_shape = x.shape();
  if (x.rank() > 0) {
    kept_shape[x.rank() - 1] = 1;
    reduced_shape = Shape();
    for (int i = 0; i + 1 < x.rank(); ++i) reduced_shape.push_back(x.shape()[i]);
  }
  const bool lacks_last = var.shape() != x.shape() && var.shape() == reduced_shape;
  if (var.shape() != x.shape() && var.shape() != kept_shape && !lacks_last)
    fail<ShapeError>(kName, ": var is ", var.shape(), " for an input of ", x.shape());
  Variable variance = lacks_last ? unsqueeze(var, -1) : var;
  {
    const NoGrad off;
    require_value(!any(variance < 0), "gaussian_nll_loss: var has a negative element");
  }
  const Variable plain = variance.detach();
  variance = variance + (clamp(plain, {.min = options.eps}) - plain);
  const Variable distance = x - target;  // its square may be out of range
  Variable losses = 0.5 * (log(variance) + distance * (distance / variance));
  if (options.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, options.reduction);
}

void catalog_margin_loss(Catalog& catalog) {
  catalog.add(
      "triplet_margin_loss(anchor, positive, negative, margin: float = 1.0, p: float = 2.0, "
      "eps: float = 1e-6, swap: bool = false, reduction: str = mean)",
      "max(margin + |a - p| - |a - n|, 0)", [](const Arguments& a) {
        return triplet_margin_loss(a[0], a[1], a[2],
                                   {.margin = a.real("margin"),
                                    .p = a.real("p"),
                                    .eps = a.real("eps"),
                                    .swap = a.flag("swap"),
                                    .reduction = reduction_of(a)});
      });
  catalog.add(
      "margin_ranking_loss(input1, input2, target, margin: float = 0.0, reduction: str = mean)",
      "max(margin - t (x1 - x2), 0)", [](const Arguments& a) {
        return margin_ranking_loss(a[0], a[1], a[2], a.real("margin"), reduction_of(a));
      });
  catalog.add(
      "cosine_embedding_loss(input1, input2, target, margin: float = 0.0, reduction: str = mean)",
      "1 - cos(x1, x2) where t = 1, max(cos(x1, x2) - margin, 0) where t = -1",
      [](const Arguments& a) {
        return cosine_embedding_loss(a[0], a[1], a[2], a.real("margin"), reduction_of(a));
      });
  catalog.add("hinge_embedding_loss(input, target, margin: float = 1.0, reduction: str = mean)",
              "x where t = 1, max(margin - x, 0) where t = -1", [](const Arguments& a) {
                return hinge_embedding_loss(a[0], a[1], a.real("margin"), reduction_of(a));
              });
  catalog.add("soft_margin_loss(input, target, reduction: str = mean)", "log(1 + exp(-t x))",
              [](const Arguments& a) { return soft_margin_loss(a[0], a[1], reduction_of(a)); });
  catalog.add(
      "multi_margin_loss(input, target, weight?, p: int = 1, margin: float = 1.0, "
      "reduction: str = mean)",
      "sum over i != t of weight[t] max(margin - x[t] + x[i], 0)^p / C", [](const Arguments& a) {
        return multi_margin_loss(
            a[0], a[1],
            {.p = int(std::clamp<int64_t>(a.integer("p"), 0, 3)),  // others throw
             .margin = a.real("margin"),
             .weight = a[2],
             .reduction = reduction_of(a)});
      });
  catalog.add(
      "multilabel_margin_loss(input, target, reduction: str = mean)",
      "sum over targets t and others i of max(1 - (x[t] - x[i]), 0) / C",
      [](const Arguments& a) { return multilabel_margin_loss(a[0], a[1], reduction_of(a)); });
  catalog.add("multilabel_soft_margin_loss(input, target, weight?, reduction: str = mean)",
              "the mean of binary_cross_entropy_with_logits over the classes",
              [](const Arguments& a) {
                return multilabel_soft_margin_loss(a[0], a[1], a[2], reduction_of(a));
              });
  catalog.add(
      "poisson_nll_loss(input, target, log_input: bool = true, full: bool = false, "
      "eps: float = 1e-8, reduction: str = mean)",
      "exp(x) - t x, or x - t log(x + eps)", [](const Arguments& a) {
        return poisson_nll_loss(a[0], a[1],
                                {.log_input = a.flag("log_input"),
                                 .full = a.flag("full"),
                                 .eps = a.real("eps"),
                                 .reduction = reduction_of(a)});
      });
  catalog.add(
      "gaussian_nll_loss(input, target, var, full: bool = false, eps: float = 1e-6, "
      "reduction: str = mean)",
      "(log(var) + (x - t)^2 / var) / 2", [](const Arguments& a) {
        return gaussian_nll_loss(
            a[0], a[1], a[2],
            {.full = a.flag("full"), .eps = a.real("eps"), .reduction = reduction_of(a)});
      });
}

}  // namespace tapegrad
