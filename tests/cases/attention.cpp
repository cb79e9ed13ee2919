#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

enum class Mask { kNone, kCausal, kBool, kAdded };

/// query [b, l, e], key [b, s, e], value [b, s, v], mask [l, s].
Reference attention(Mask mask, double scale) {
  return [=](const std::vector<Array>& in) {
    const Shape &q = in[0].shape, &v = in[2].shape;
    const int64_t keys = v[1], e = q[2];
    Array y{{q[0], q[1], v[2]}, {}};
    for (int64_t row = 0; row < q[0] * q[1]; ++row) {
      const int64_t batch = row / q[1], i = row % q[1];
      std::vector<double> share(keys);
      double total = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t k = 0; k < e; ++k)
          score += in[0].values[row * e + k] * in[1].values[(batch * keys + j) * e + k];
        score *= scale;
        if (mask == Mask::kAdded) score += in[3].values[i * keys + j];
        const bool seen = mask == Mask::kCausal ? j <= i
                          : mask == Mask::kBool ? in[3].values[i * keys + j] != 0
                                                : true;
        total += share[j] = seen ? std::exp(score) : 0;
      }
      for (int64_t k = 0; k < v[2]; ++k) {
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j)
          sum += share[j] * in[2].values[(batch * keys + j) * v[2] + k];
        y.values.push_back(total == 0 ? 0 : sum / total);
      }
    }
    return y;
  };
}

/// Bags of `size` indices each; or, with offsets, all indices in the last bag.
Reference bags(const std::string& mode, int64_t padding) {
  return [=](const std::vector<Array>& in) {
    const bool one = in[0].shape.rank() == 1;
    const int64_t count = one ? in[2].shape[0] : in[0].shape[0], width = in[1].shape[1];
    Array y{{count, width}, {}};
    for (int64_t bag = 0; bag < count; ++bag)
      for (int64_t column = 0; column < width; ++column) {
        const int64_t size = one ? in[0].shape[0] : in[0].shape[1];
        const int64_t first = one ? 0 : bag * size,
                      last = one && bag + 1 < count ? 0 : first + size;
        double sum = 0, most = -INFINITY, kept = 0;
        for (int64_t i = first; i < last; ++i) {
          const int64_t id = int64_t(in[0].values[i]);
          if (id == padding) continue;
          double value = in[1].values[id * width + column];
          if (in.size() > 3 && !in[3].values.empty()) value *= in[3].values[i];
          sum += value, most = std::fmax(most, value), ++kept;
        }
        if (mode == "mean") sum /= std::fmax(kept, 1);
        y.values.push_back(mode != "max" ? sum : kept > 0 ? most : 0);
      }
    return y;
  };
}

struct Sizes {
  int64_t batch, queries, keys, features, width;
};

OpCase attention_case(const Sizes& s, Mask mask, std::optional<double> scale) {
  OpCase row{
      .op = "scaled_dot_product_attention",
      .inputs = {Input{{s.batch, s.queries, s.features}}, Input{{s.batch, s.keys, s.features}},
                 Input{{s.batch, s.keys, s.width}}, std::nullopt},
      .attributes = {{"is_causal", mask == Mask::kCausal}},
      .reference = attention(mask, scale.value_or(1 / std::sqrt(double(s.features)))),
      .tolerance = 64};
  if (mask == Mask::kBool) row.inputs[3] = Input{{s.queries, s.keys}, Fill::kBool};
  if (mask == Mask::kAdded) row.inputs[3] = Input{{s.queries, s.keys}};
  if (scale) row.attributes.emplace("scale", *scale);
  return row;
}

}  // namespace

void draw_attention(OpCases& cases, Choices& choices) {
  const auto size = [&](int64_t most) { return choices.between(1, most); };
  const Sizes sizes{size(3), size(9), size(9), size(6), size(6)};
  const Mask mask = choices.of({Mask::kNone, Mask::kCausal, Mask::kBool, Mask::kAdded});
  cases.push_back(attention_case(sizes, mask, choices.flag() ? std::optional(0.3) : std::nullopt));
}

void attention_cases(OpCases& cases) {
  constexpr Sizes kSizes{2, 3, 5, 4, 2};
  cases.push_back(attention_case(kSizes, Mask::kNone, {}));
  cases.push_back(attention_case(kSizes, Mask::kCausal, {}));
  cases.push_back(attention_case(kSizes, Mask::kBool, {}));
  cases.push_back(attention_case(kSizes, Mask::kAdded, 0.3));

  for (const std::string mode : {"sum", "mean", "max"}) {
    for (const auto& [padding, width] : {std::pair(-1, 1), std::pair(2, 2), std::pair(-1, 4)})
      cases.push_back(
          {.op = "embedding_bag",
           .inputs = {Input{{3, 4}, Fill::kIndices, 5}, Input{{5, width}, Fill::kDistinct}},
           .attributes = {{"mode", mode}, {"padding_idx", int64_t(padding)}},
           .reference = bags(mode, padding),
           .tolerance = 16});
    cases.push_back({.op = "embedding_bag",  // offsets of 0: all bags but the last are empty
                     .inputs = {Input{{6}, Fill::kIndices, 5}, Input{{5, 3}, Fill::kDistinct},
                                Input{{3}, Fill::kIndices, 1}},
                     .attributes = {{"mode", mode}},
                     .reference = bags(mode, -1),
                     .tolerance = 16});
  }
  cases.push_back(
      {.op = "embedding_bag",
       .inputs = {Input{{3, 4}, Fill::kIndices, 5}, Input{{5, 2}}, std::nullopt, Input{{3, 4}}},
       .attributes = {{"mode", std::string("sum")}},
       .reference = bags("sum", -1),
       .tolerance = 16});
}

}  // namespace tapegrad::testing
