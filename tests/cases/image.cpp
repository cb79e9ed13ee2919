#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Returns an array of the shape whose elements are those of x at the indices that `from` returns.
Reference moved(const Shape& shape, Index (*from)(Index, int64_t), int64_t argument) {
  return [=](const std::vector<Array>& in) {
    Array y{shape, {}};
    for_each_index(shape, [&](int64_t, const Index& at) {
      y.values.push_back(in[0].values[flat_index(in[0].shape, from(at, argument))]);
    });
    return y;
  };
}

/// The last three indices are channel, row and column.
Index shuffled(Index at, int64_t r) {
  const size_t c = at.size() - 3;
  at[c] = at[c] * r * r + at[c + 1] % r * r + at[c + 2] % r;
  at[c + 1] /= r, at[c + 2] /= r;
  return at;
}
Index unshuffled(Index at, int64_t r) {
  const size_t c = at.size() - 3;
  at[c + 1] = at[c + 1] * r + at[c] / r % r;
  at[c + 2] = at[c + 2] * r + at[c] % r;
  at[c] /= r * r;
  return at;
}

int64_t source(int64_t i, int64_t size, const std::string& mode) {
  if (mode == "replicate") return i < 0 ? 0 : i >= size ? size - 1 : i;
  return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
}

Reference padded(const Index& amounts, const std::string& mode) {
  return [=](const std::vector<Array>& in) {
    const int rank = in[0].shape.rank(), dims = int(amounts.size() / 2);
    Array y{in[0].shape, {}};
    for (int i = 0; i < dims; ++i) y.shape[rank - 1 - i] += amounts[2 * i] + amounts[2 * i + 1];
    for_each_index(y.shape, [&](int64_t, Index at) {
      for (int i = 0; i < dims; ++i) {
        const int dim = rank - 1 - i;
        const int64_t size = in[0].shape[dim], before = amounts[2 * i], after = amounts[2 * i + 1];
        at[dim] -= before;
        if (mode == "circular") {  // crops, then wraps around what is left
          const int64_t first = before < 0 ? -before : 0;
          const int64_t kept = size - first + (after < 0 ? after : 0);
          at[dim] = first + (at[dim] - first + kept) % kept;
        } else {
          at[dim] = source(at[dim], size, mode);
        }
      }
      y.values.push_back(in[0].values[flat_index(in[0].shape, at)]);
    });
    return y;
  };
}

OpCase padding(const Shape& shape, const Index& amounts, const std::string& mode) {
  return {.op = "pad",
          .inputs = {Input{shape}},
          .attributes = {{"pad", amounts}, {"mode", mode}},
          .reference = padded(amounts, mode),
          .same_bits = true};
}

}  // namespace

void draw_image(OpCases& cases, Choices& choices) {
  const int dims = int(choices.between(1, 3));
  const std::string mode = choices.of({"reflect", "replicate", "circular"});
  Shape shape = draw_shape(choices, dims + int(choices.between(1, 2)), 6);
  Index amounts;
  for (int i = 0; i < dims; ++i) {
    const int64_t n = shape[shape.rank() - 1 - i];
    const int64_t most = mode == "reflect" ? n - 1 : mode == "circular" ? n : 4;
    for (int side = 0; side < 2; ++side) amounts.push_back(choices.between(0, most));
  }
  cases.push_back(padding(shape, amounts, mode));
}

void image_cases(OpCases& cases) {
  const auto add = [&](const char* op, Shape from, Shape to, const char* name, int64_t factor,
                       Index (*source)(Index, int64_t)) {
    cases.push_back({.op = op,
                     .inputs = {Input{from}},
                     .attributes = {{name, factor}},
                     .reference = moved(to, source, factor),
                     .same_bits = true});
  };
  add("pixel_shuffle", {2, 8, 2, 3}, {2, 2, 4, 6}, "upscale_factor", 2, shuffled);
  add("pixel_shuffle", {9, 1, 2}, {1, 3, 6}, "upscale_factor", 3, shuffled);
  add("pixel_unshuffle", {2, 2, 4, 6}, {2, 8, 2, 3}, "downscale_factor", 2, unshuffled);
  add("pixel_unshuffle", {1, 3, 6}, {9, 1, 2}, "downscale_factor", 3, unshuffled);
  const auto dealt = [](Index at, int64_t groups) {
    const int64_t size = 6 / groups;
    at[1] = at[1] % groups * size + at[1] / groups;
    return at;
  };
  add("channel_shuffle", {2, 6, 2}, {2, 6, 2}, "groups", 2, dealt);
  add("channel_shuffle", {1, 6, 2, 2}, {1, 6, 2, 2}, "groups", 3, dealt);

  for (const std::string mode : {"reflect", "replicate", "circular"})
    for (const auto& [shape, amounts] :
         std::vector<std::pair<Shape, Index>>{{{2, 3, 4}, {2, 1}},
                                              {{2, 3, 4}, {1, 3, 2, 0}},
                                              {{1, 2, 4, 3}, {2, 2, 1, 3}},
                                              {{3, 5}, {-1, 2}},
                                              {{2, 2, 3, 2}, {1, 0, 1, 1, 1, 1}}})
      cases.push_back(padding(shape, amounts, mode));
  OpCase images = padding({1, 32, 34, 34}, {2, 1, 3, -1}, "reflect");
  images.dtypes = {f32, bf16};
  images.before = images.after = packed_images;
  images.same_bits = false;
  cases.push_back(images);
}

}  // namespace tapegrad::testing
