#include <cmath>
#include <numbers>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

Array reduced(const Shape& shape, const Values& losses, const std::string& reduction) {
  if (reduction == "none") return {shape, losses};
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return {{}, {reduction == "sum" ? sum : sum / double(losses.size())}};
}

/// Returns a loss of each element and the corresponding elements of the other inputs.
template <typename F>
Reference each(const std::string& reduction, F f) {
  return [=](const std::vector<Array>& in) {
    Values losses;
    for (size_t i = 0; i < in[0].values.size(); ++i) {
      Values at;
      for (const Array& x : in) at.push_back(x.values[i]);
      losses.push_back(f(at));
    }
    return reduced(in[0].shape, losses, reduction);
  };
}

/// Returns a loss of each row of `size` elements: f(inputs, start of the row, index of the row).
template <typename F>
Reference rows(const std::string& reduction, F f) {
  return [=](const std::vector<Array>& in) {
    const Shape& shape = in[0].shape;
    const int64_t size = shape[shape.rank() - 1];
    Shape outer;
    for (int i = 0; i + 1 < shape.rank(); ++i) outer.push_back(shape[i]);
    Values losses;
    for (int64_t row = 0; row < numel(outer); ++row) losses.push_back(f(in, row * size, row, size));
    return reduced(outer, losses, reduction);
  };
}

double positive_part(double x) { return std::fmax(x, 0.0); }
double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double distance(const Array& a, const Array& b, int64_t from, int64_t size, double p) {
  double sum = 0;
  for (int64_t i = from; i < from + size; ++i)
    sum += std::pow(std::abs(a.values[i] - b.values[i] + 1e-6), p);
  return std::pow(sum, 1 / p);
}

void triplet_cases(OpCases& cases, const std::string& reduction) {
  for (const bool swap : {false, true})
    for (const double p : {2.0, 3.0})
      cases.push_back(
          {.op = "triplet_margin_loss",
           .inputs = {Input{{3, 4}}, Input{{3, 4}}, Input{{3, 4}}},
           .attributes = {{"margin", 1.5}, {"p", p}, {"swap", swap}, {"reduction", reduction}},
           .reference = rows(reduction,
                             [=](const std::vector<Array>& in, int64_t from, int64_t, int64_t n) {
                               double far = distance(in[0], in[2], from, n, p);
                               if (swap) far = std::fmin(far, distance(in[1], in[2], from, n, p));
                               return positive_part(1.5 + distance(in[0], in[1], from, n, p) - far);
                             }),
           .tolerance = 32});
}

void class_cases(OpCases& cases, const std::string& reduction) {
  for (const int64_t p : {1, 2})
    for (const bool weighted : {false, true}) {
      OpCase row{.op = "multi_margin_loss",
                 .inputs = {Input{{3, 4}, Fill::kDistinct}, Input{{3}, Fill::kIndices, 4}},
                 .attributes = {{"p", p}, {"margin", 0.75}, {"reduction", reduction}},
                 .tolerance = 32};
      if (weighted) row.inputs.push_back(Input{{4}, Fill::kPositive, 0, /*grad=*/false});
      row.reference = rows(
          reduction, [=](const std::vector<Array>& in, int64_t from, int64_t number, int64_t n) {
            const int64_t target = int64_t(in[1].values[number]);
            double loss = 0;
            for (int64_t i = 0; i < n; ++i) {
              if (i == target) continue;
              const double term =
                  positive_part(0.75 - in[0].values[from + target] + in[0].values[from + i]);
              loss += std::pow(term, double(p)) * (weighted ? in[2].values[target] : 1);
            }
            return loss / double(n);
          });
      cases.push_back(row);
    }
  cases.push_back(
      {.op = "multilabel_margin_loss",
       .inputs = {Input{{3, 4}, Fill::kDistinct}, Input{{3, 4}, Fill::kIndices, 4}},
       .attributes = {{"reduction", reduction}},
       .reference = rows(reduction,
                         [](const std::vector<Array>& in, int64_t from, int64_t, int64_t n) {
                           double loss = 0;
                           for (int64_t k = from; k < from + n; ++k)
                             for (int64_t i = 0; i < n; ++i) {
                               bool named = false;
                               for (int64_t j = from; j < from + n; ++j)
                                 named |= int64_t(in[1].values[j]) == i;
                               const double own = in[0].values[from + int64_t(in[1].values[k])];
                               if (!named)
                                 loss += positive_part(1 - (own - in[0].values[from + i]));
                             }
                           return loss / double(n);
                         }),
       .tolerance = 32});
  for (const bool weighted : {false, true}) {
    OpCase row{.op = "multilabel_soft_margin_loss",
               .inputs = {Input{{3, 4}}, Input{{3, 4}, Fill::kUnit}},
               .attributes = {{"reduction", reduction}},
               .tolerance = 32};
    if (weighted) row.inputs.push_back(Input{{4}, Fill::kPositive});
    row.reference =
        rows(reduction, [=](const std::vector<Array>& in, int64_t from, int64_t, int64_t n) {
          double loss = 0;
          for (int64_t i = 0; i < n; ++i) {
            const double x = in[0].values[from + i], t = in[1].values[from + i];
            loss += (t * softplus(-x) + (1 - t) * softplus(x)) * (weighted ? in[2].values[i] : 1);
          }
          return loss / double(n);
        });
    cases.push_back(row);
  }
}

void likelihood_cases(OpCases& cases, const std::string& reduction) {
  for (const bool log_input : {true, false})
    for (const bool full : {false, true}) {
      const Fill fill = log_input ? Fill::kNormal : Fill::kPositive;
      cases.push_back({.op = "poisson_nll_loss",
                       .inputs = {Input{{3, 4}, fill}, Input{{3, 4}, Fill::kPositive}},
                       .attributes = {{"log_input", log_input},
                                      {"full", full},
                                      {"eps", 1e-3},
                                      {"reduction", reduction}},
                       .reference = each(reduction,
                                         [=](const Values& at) {
                                           const double x = at[0], t = at[1];
                                           double loss = log_input ? std::exp(x) - t * x
                                                                   : x - t * std::log(x + 1e-3);
                                           if (full && t > 1)
                                             loss += t * std::log(t) - t +
                                                     0.5 * std::log(2 * std::numbers::pi * t);
                                           return loss;
                                         }),
                       .tolerance = 32});
    }
  for (const bool full : {false, true})
    cases.push_back({.op = "gaussian_nll_loss",
                     .inputs = {Input{{3, 4}}, Input{{3, 4}}, Input{{3, 4}, Fill::kPositive}},
                     .attributes = {{"full", full}, {"reduction", reduction}},
                     .reference = each(reduction,
                                       [=](const Values& at) {
                                         const double d = at[0] - at[1];
                                         return 0.5 * (std::log(at[2]) + d * d / at[2]) +
                                                (full ? 0.5 * std::log(2 * std::numbers::pi) : 0);
                                       }),
                     .tolerance = 32});
}

}  // namespace

void margin_loss_cases(OpCases& cases) {
  // Targets are meant to be 1 or -1. The rows use arbitrary numbers, and the references define the
  // result for other targets.
  for (const std::string reduction : {"mean", "sum", "none"}) {
    const Attributes with{{"margin", 0.5}, {"reduction", reduction}};
    triplet_cases(cases, reduction);
    cases.push_back({.op = "margin_ranking_loss",
                     .inputs = {Input{{3, 4}}, Input{{3, 4}}, Input{{3, 4}}},
                     .attributes = with,
                     .reference = each(reduction,
                                       [](const Values& at) {
                                         return positive_part(0.5 - at[2] * (at[0] - at[1]));
                                       }),
                     .tolerance = 32});
    cases.push_back(
        {.op = "soft_margin_loss",
         .inputs = {Input{{3, 4}}, Input{{3, 4}}},
         .attributes = {{"reduction", reduction}},
         .reference = each(reduction, [](const Values& at) { return softplus(-at[0] * at[1]); }),
         .tolerance = 32});
    cases.push_back({.op = "hinge_embedding_loss",
                     .inputs = {Input{{3, 4}}, Input{{3, 4}, Fill::kIntegers, 0, /*grad=*/false}},
                     .attributes = with,
                     .reference = each(reduction,
                                       [](const Values& at) {
                                         return (at[1] != 1 ? positive_part(0.5 - at[0]) : 0) +
                                                (at[1] != -1 ? at[0] : 0);
                                       }),
                     .tolerance = 32});
    cases.push_back(
        {.op = "cosine_embedding_loss",
         .inputs = {Input{{6, 4}}, Input{{6, 4}}, Input{{6}, Fill::kIntegers, 0, /*grad=*/false}},
         .attributes = {{"margin", 0.1}, {"reduction", reduction}},
         .reference = rows(
             reduction,
             [](const std::vector<Array>& in, int64_t from, int64_t number, int64_t n) {
               double ab = 0, aa = 1e-12, bb = 1e-12;
               for (int64_t i = from; i < from + n; ++i) {
                 const double a = in[0].values[i], b = in[1].values[i];
                 ab += a * b, aa += a * a, bb += b * b;
               }
               const double cosine = ab / std::sqrt(aa * bb), target = in[2].values[number];
               return target == 1 ? 1 - cosine : target == -1 ? positive_part(cosine - 0.1) : 0.0;
             }),
         .tolerance = 32});
    class_cases(cases, reduction);
    likelihood_cases(cases, reduction);
  }
}

}  // namespace tapegrad::testing
