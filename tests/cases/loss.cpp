#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

/// Reduces the losses of elements; `divisor` is the divisor of the mean.
Array reduced(const Shape& shape, const Values& losses, const std::string& reduction,
              double divisor) {
  if (reduction == "none") return {shape, losses};
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return {{}, {reduction == "sum" ? sum : sum / divisor}};
}

/// Returns a loss of each pair of elements, times the weight if there is one; all of one shape.
template <typename F>
Reference pairwise(const std::string& reduction, F f) {
  return [=](const std::vector<Array>& in) {
    Values losses;
    for (size_t i = 0; i < in[0].values.size(); ++i) {
      double loss = f(in[0].values[i], in[1].values[i]);
      if (in.size() > 2 && !in[2].values.empty()) loss *= in[2].values[i];
      losses.push_back(loss);
    }
    return reduced(in[0].shape, losses, reduction, double(losses.size()));
  };
}

/// Log probabilities along dimension 1 (0 for a vector). If `already`, the input is returned.
Values log_probabilities(const Array& x, bool already, int64_t& outer, int64_t& classes,
                         int64_t& inner) {
  const Shape& shape = x.shape;
  const int dim = shape.rank() == 1 ? 0 : 1;
  outer = dim == 0 ? 1 : shape[0];
  classes = shape[dim];
  inner = 1;
  for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  Values y = x.values;
  if (already) return y;
  for (int64_t n = 0; n < outer; ++n)
    for (int64_t s = 0; s < inner; ++s) {
      double top = -INFINITY, sum = 0;
      for (int64_t c = 0; c < classes; ++c) top = std::max(top, y[(n * classes + c) * inner + s]);
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(y[(n * classes + c) * inner + s] - top);
      for (int64_t c = 0; c < classes; ++c) y[(n * classes + c) * inner + s] -= top + std::log(sum);
    }
  return y;
}

struct ClassLoss {
  bool log_input = false;  // true for nll_loss
  bool soft = false;       // targets are probabilities
  int64_t ignore_index = -100;
  double smoothing = 0;
  std::string reduction = "mean";
};

Reference class_loss(ClassLoss options) {
  return [=](const std::vector<Array>& in) {
    int64_t outer, classes, inner;
    const Values logs = log_probabilities(in[0], options.log_input, outer, classes, inner);
    const auto weight = [&](int64_t c) {
      return in.size() > 2 && !in[2].values.empty() ? in[2].values[c] : 1.0;
    };
    Values losses;
    double weights = 0;
    for (int64_t n = 0; n < outer; ++n)
      for (int64_t s = 0; s < inner; ++s) {
        const int64_t id = options.soft ? 0 : int64_t(in[1].values[n * inner + s]);
        double loss = 0;
        if (options.soft || id != options.ignore_index) {
          for (int64_t c = 0; c < classes; ++c) {
            const int64_t at = (n * classes + c) * inner + s;
            const double target = options.soft ? in[1].values[at] : double(c == id);
            loss -= weight(c) *
                    (target * (1 - options.smoothing) + options.smoothing / double(classes)) *
                    logs[at];
          }
          weights += options.soft ? 1 : weight(id);
        }
        losses.push_back(loss);
      }
    Shape shape;
    for (int i = 0; i < in[0].shape.rank(); ++i)
      if (i != (in[0].shape.rank() == 1 ? 0 : 1)) shape.push_back(in[0].shape[i]);
    return reduced(shape, losses, options.reduction, weights);
  };
}

Input ids(const Shape& shape, int64_t bound) {
  return {.shape = shape, .fill = Fill::kIndices, .bound = bound};
}

void pairwise_cases(OpCases& cases) {
  const Input x{.shape = {3, 4}, .fill = Fill::kDistinct}, t{.shape = {3, 4}};
  for (const std::string reduction : {"mean", "sum", "none"}) {
    const Attributes with{{"reduction", reduction}};
    const auto distance = [](double a, double b) { return std::abs(a - b); };
    cases.push_back(
        {.op = "mse_loss",
         .inputs = {x, t},
         .attributes = with,
         .reference = pairwise(reduction, [=](double a, double b) { return (a - b) * (a - b); }),
         .tolerance = 16});
    cases.push_back({.op = "l1_loss",
                     .inputs = {x, t},
                     .attributes = with,
                     .reference = pairwise(reduction, distance),
                     .tolerance = 16});
    for (const double bound : {1.0, 0.4}) {
      cases.push_back({.op = "smooth_l1_loss",
                       .inputs = {x, t},
                       .attributes = {{"beta", bound}, {"reduction", reduction}},
                       .reference = pairwise(reduction,
                                             [=](double a, double b) {
                                               const double d = distance(a, b);
                                               return d < bound ? d * d / (2 * bound)
                                                                : d - bound / 2;
                                             }),
                       .tolerance = 16});
      cases.push_back({.op = "huber_loss",
                       .inputs = {x, t},
                       .attributes = {{"delta", bound}, {"reduction", reduction}},
                       .reference = pairwise(reduction,
                                             [=](double a, double b) {
                                               const double d = distance(a, b);
                                               return d < bound ? d * d / 2
                                                                : bound * (d - bound / 2);
                                             }),
                       .tolerance = 16});
    }
    const auto bce = [](double p, double t) {
      return -(t * std::log(p) + (1 - t) * std::log1p(-p));
    };
    const Input unit{.shape = {3, 4}, .fill = Fill::kUnit};
    const Input positive{.shape = {3, 4}, .fill = Fill::kPositive};
    for (const bool weighted : {false, true})
      cases.push_back({.op = "binary_cross_entropy",
                       .inputs = {unit, unit, weighted ? std::optional(positive) : std::nullopt},
                       .attributes = with,
                       .reference = pairwise(reduction, bce),
                       .tolerance = 16});
    const auto logits = [](double x, double t) {
      return (1 - t) * x + std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0);
    };
    cases.push_back({.op = "binary_cross_entropy_with_logits",
                     .inputs = {t, unit, positive, std::nullopt},
                     .attributes = with,
                     .reference = pairwise(reduction, logits),
                     .tolerance = 16});
    cases.push_back(
        {.op = "kl_div",
         .inputs = {t, positive},
         .attributes = with,
         .reference = pairwise(reduction, [](double x, double t) { return t * (std::log(t) - x); }),
         .tolerance = 16});
    cases.push_back(
        {.op = "kl_div",
         .inputs = {t, t},
         .attributes = {{"log_target", true}, {"reduction", reduction}},
         .reference = pairwise(reduction, [](double x, double t) { return std::exp(t) * (t - x); }),
         .tolerance = 16});
  }
  cases.push_back({.op = "binary_cross_entropy_with_logits",
                   .inputs = {Input{.shape = {3, 4}}, Input{.shape = {3, 4}, .fill = Fill::kUnit},
                              std::nullopt, Input{.shape = {4}, .fill = Fill::kPositive}},
                   .attributes = {{"reduction", "sum"}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         double sum = 0;
                         for (int i = 0; i < 12; ++i) {
                           const double x = in[0].values[i], t = in[1].values[i];
                           sum += (1 - t) * x +
                                  (1 + (in[3].values[i % 4] - 1) * t) *
                                      (std::log1p(std::exp(-std::abs(x))) + std::max(-x, 0.0));
                         }
                         return Array{{}, {sum}};
                       },
                   .tolerance = 16});
}

/// Returns the class loss of x W^T + b, for inputs x, W, target, b and class weights.
Reference linear_class_loss(const ClassLoss& loss) {
  return [of_logits = class_loss(loss)](const std::vector<Array>& in) {
    const Array &x = in[0], &w = in[1];
    const int64_t features = w.shape[1], classes = w.shape[0];
    const int64_t rows = int64_t(x.values.size()) / features;
    Array z{{rows, classes}, {}};
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < classes; ++c) {
        double sum = in[3].values.empty() ? 0 : in[3].values[size_t(c)];
        for (int64_t i = 0; i < features; ++i)
          sum += x.values[size_t(r * features + i)] * w.values[size_t(c * features + i)];
        z.values.push_back(sum);
      }
    Array target = in[2];
    target.shape = {rows};
    Array losses = of_logits({z, target, in[4]});
    if (losses.shape.rank() > 0) losses.shape = in[2].shape;
    return losses;
  };
}

void linear_class_cases(OpCases& cases) {
  const Input weights{.shape = {5}, .fill = Fill::kPositive, .grad = false};
  for (const Shape& front : {Shape{4}, Shape{2, 3}, Shape{}})
    for (const std::string reduction : {"mean", "sum", "none"})
      for (const bool all : {false, true}) {
        Shape x = front;
        x.push_back(3);
        cases.push_back(
            {.op = "linear_cross_entropy",
             .inputs = {Input{x}, Input{{5, 3}}, ids(front, 5),
                        all ? std::optional(Input{{5}}) : std::nullopt,
                        all ? std::optional(weights) : std::nullopt},
             .attributes = {{"label_smoothing", all ? 0.2 : 0.0}, {"reduction", reduction}},
             .reference = linear_class_loss({.smoothing = all ? 0.2 : 0.0, .reduction = reduction}),
             .tolerance = 64});
      }
}

void class_cases(OpCases& cases) {
  const Input weight{.shape = {5}, .fill = Fill::kPositive, .grad = false};
  struct Shapes {
    Shape x, ids;
  };
  for (const Shapes& shapes : {Shapes{{4, 5}, {4}}, Shapes{{2, 5, 2, 3}, {2, 2, 3}},
                               Shapes{{5}, {}}, Shapes{{0, 5}, {0}}}) {
    for (const std::string reduction : {"mean", "sum", "none"}) {
      if (shapes.x[0] == 0 && reduction == "mean") continue;  // the result is NaN; see loss_test
      for (const bool weighted : {false, true})
        for (const double smoothing : {0.0, 0.2})
          for (const int64_t ignore : {int64_t(-100), int64_t(1)}) {
            if (shapes.x.rank() == 1 && ignore == 1) continue;  // the result may be NaN
            const std::optional<Input> w = weighted ? std::optional(weight) : std::nullopt;
            cases.push_back(
                {.op = "cross_entropy",
                 .inputs = {Input{.shape = shapes.x}, ids(shapes.ids, 5), w},
                 .attributes = {{"ignore_index", ignore},
                                {"label_smoothing", smoothing},
                                {"reduction", reduction}},
                 .reference = class_loss(
                     {.ignore_index = ignore, .smoothing = smoothing, .reduction = reduction}),
                 .tolerance = 16});
            if (smoothing > 0) continue;
            cases.push_back(
                {.op = "nll_loss",
                 .inputs = {Input{.shape = shapes.x}, ids(shapes.ids, 5), w},
                 .attributes = {{"ignore_index", ignore}, {"reduction", reduction}},
                 .reference = class_loss(
                     {.log_input = true, .ignore_index = ignore, .reduction = reduction}),
                 .tolerance = 16});
          }
    }
  }
  for (const Shape& shape : {Shape{4, 5}, Shape{2, 5, 3}})
    for (const double smoothing : {0.0, 0.2})
      cases.push_back(
          {.op = "cross_entropy",
           .inputs = {Input{.shape = shape}, Input{.shape = shape, .fill = Fill::kUnit}, weight},
           .attributes = {{"label_smoothing", smoothing}},
           .reference = class_loss({.soft = true, .smoothing = smoothing}),
           .tolerance = 16});
  // More classes than a vector register has lanes.
  for (const double smoothing : {0.0, 0.2})
    cases.push_back({.op = "cross_entropy",
                     .inputs = {Input{.shape = {3, 37}}, ids({3}, 37),
                                Input{.shape = {37}, .fill = Fill::kPositive, .grad = false}},
                     .attributes = {{"label_smoothing", smoothing}},
                     .reference = class_loss({.smoothing = smoothing}),
                     .tolerance = 16});
}

}  // namespace

void loss_cases(OpCases& cases) {
  pairwise_cases(cases);
  class_cases(cases);
  linear_class_cases(cases);
}

}  // namespace tapegrad::testing
