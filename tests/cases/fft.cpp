#include <cmath>
#include <numbers>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

const std::vector<DType> kTypes{f64, f32};

/// A complex array: shape without the last dimension of 2.
struct Complex {
  Shape shape;
  std::vector<double> re, im;
};

Complex from_real(const Array& x) {
  return {x.shape, x.values, std::vector<double>(x.values.size())};
}
Complex from_pairs(const Array& x) {
  Complex y;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) y.shape.push_back(x.shape[i]);
  for (size_t i = 0; i < x.values.size(); i += 2) {
    y.re.push_back(x.values[i]);
    y.im.push_back(x.values[i + 1]);
  }
  return y;
}
Array to_pairs(const Complex& x) {
  Array y{x.shape, {}};
  y.shape.push_back(2);
  for (size_t i = 0; i < x.re.size(); ++i) y.values.insert(y.values.end(), {x.re[i], x.im[i]});
  return y;
}
Array to_real(const Complex& x) { return {x.shape, x.re}; }

/// Arguments of one transform.
struct Ask {
  int64_t n;  // length of the transform
  int dim;
  std::string norm;

  double scale(bool inverse) const {
    if (norm == "ortho") return 1 / std::sqrt(double(n));
    return (norm == "backward") == inverse ? 1 / double(n) : 1;
  }
};

/// The defining sums over the first n entries along dim (fewer if there are fewer); returns the
/// first `kept`.
Complex transformed(const Complex& x, const Ask& ask, bool inverse, int64_t kept) {
  Complex y;
  y.shape = x.shape;
  y.shape[ask.dim] = kept;
  const int64_t given = std::min(ask.n, x.shape[ask.dim]);
  for_each_index(y.shape, [&](int64_t, std::vector<int64_t> index) {
    const int64_t k = index[size_t(ask.dim)];
    long double re = 0, im = 0;
    for (int64_t j = 0; j < given; ++j) {
      index[size_t(ask.dim)] = j;
      const auto at = size_t(flat_index(x.shape, index));
      const long double angle = (inverse ? 2 : -2) * std::numbers::pi_v<long double> *
                                (long double)(j * k % ask.n) / (long double)ask.n;
      re += x.re[at] * std::cos(angle) - x.im[at] * std::sin(angle);
      im += x.re[at] * std::sin(angle) + x.im[at] * std::cos(angle);
    }
    y.re.push_back(double(re * ask.scale(inverse)));
    y.im.push_back(double(im * ask.scale(inverse)));
  });
  return y;
}

/// Appends the other half of the frequencies, which are the conjugates.
Complex extended(const Complex& x, const Ask& ask) {
  Complex y;
  y.shape = x.shape;
  y.shape[ask.dim] = ask.n;
  for_each_index(y.shape, [&](int64_t, std::vector<int64_t> index) {
    int64_t& k = index[size_t(ask.dim)];
    const bool conjugate = k > ask.n - k, single = k == 0 || 2 * k == ask.n;
    k = std::min(k, ask.n - k);
    const bool given = k < x.shape[ask.dim];
    const size_t at = given ? size_t(flat_index(x.shape, index)) : 0;
    y.re.push_back(given ? x.re[at] : 0);
    y.im.push_back(given && !single ? (conjugate ? -x.im[at] : x.im[at]) : 0);
  });
  return y;
}

Complex rfft_of(const Array& x, const Ask& ask) {
  return transformed(from_real(x), ask, false, ask.n / 2 + 1);
}
Complex irfft_of(const Complex& x, const Ask& ask) {
  return transformed(extended(x, ask), ask, true, ask.n);
}

/// Adds one case of each op along dim of a complex (or real) array of the given shape.
void add_lines(OpCases& cases, Shape shape, int dim, std::optional<int64_t> n, std::string norm) {
  Attributes attributes{{"dim", int64_t(dim)}, {"norm", norm}};
  if (n) attributes["n"] = *n;
  Shape pairs = shape;
  pairs.push_back(2);
  const int at = dim < 0 ? dim + shape.rank() : dim;
  const Ask ask{n.value_or(shape[at]), at, norm};
  const auto add = [&](const char* op, const Shape& input, Reference reference) {
    cases.push_back({.op = op,
                     .inputs = {Input{input}},
                     .attributes = attributes,
                     .reference = std::move(reference),
                     .tolerance = 8,
                     .dtypes = kTypes});
  };
  for (bool inverse : {false, true})
    add(inverse ? "fft.ifft" : "fft.fft", pairs, [=](const std::vector<Array>& in) {
      return to_pairs(transformed(from_pairs(in[0]), ask, inverse, ask.n));
    });
  add("fft.rfft", shape,
      [=](const std::vector<Array>& in) { return to_pairs(rfft_of(in[0], ask)); });
  const Ask back{n.value_or(2 * (shape[at] - 1)), at, norm};
  if (back.n > 0)
    add("fft.irfft", pairs,
        [=](const std::vector<Array>& in) { return to_real(irfft_of(from_pairs(in[0]), back)); });
}

void add_planes(OpCases& cases, Shape shape, Dims dim, std::vector<int64_t> s, std::string norm) {
  Attributes attributes{{"dim", std::vector<int64_t>(dim.begin(), dim.end())}, {"norm", norm}};
  if (!s.empty()) attributes["s"] = s;
  Shape pairs = shape;
  pairs.push_back(2);
  const auto ask = [=](size_t i) {
    const int at = int(dim[int(i)]) + (dim[int(i)] < 0 ? shape.rank() : 0);
    return Ask{s.empty() ? shape[at] : s[i], at, norm};
  };
  const auto add = [&](const char* op, const Shape& input, Reference reference) {
    cases.push_back({.op = op,
                     .inputs = {Input{input}},
                     .attributes = attributes,
                     .reference = std::move(reference),
                     .tolerance = 8,
                     .dtypes = kTypes});
  };
  for (bool inverse : {false, true})
    add(inverse ? "fft.ifft2" : "fft.fft2", pairs, [=](const std::vector<Array>& in) {
      const Complex x = transformed(from_pairs(in[0]), ask(0), inverse, ask(0).n);
      return to_pairs(transformed(x, ask(1), inverse, ask(1).n));
    });
  add("fft.rfft2", shape, [=](const std::vector<Array>& in) {
    return to_pairs(transformed(rfft_of(in[0], ask(1)), ask(0), false, ask(0).n));
  });
  add("fft.irfft2", pairs, [=](const std::vector<Array>& in) {
    Ask last = ask(1);
    if (s.empty()) last.n = 2 * (last.n - 1);
    return to_real(irfft_of(transformed(from_pairs(in[0]), ask(0), true, ask(0).n), last));
  });
}

void add_shift(OpCases& cases, Shape shape, std::vector<int64_t> dims, bool inverse) {
  const auto reference = [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(shape, [&](int64_t flat, std::vector<int64_t> index) {
      for (int i = 0; i < shape.rank(); ++i) {
        if (!dims.empty() && std::find(dims.begin(), dims.end(), i) == dims.end()) continue;
        const int64_t by = (shape[i] + (inverse ? 1 : 0)) / 2;
        index[size_t(i)] = (index[size_t(i)] + by) % shape[i];
      }
      y.values[size_t(flat_index(shape, index))] = in[0].values[size_t(flat)];
    });
    return y;
  };
  Attributes attributes;
  if (!dims.empty()) attributes["dim"] = dims;
  cases.push_back({.op = inverse ? "fft.ifftshift" : "fft.fftshift",
                   .inputs = {Input{shape}},
                   .attributes = attributes,
                   .reference = reference,
                   .same_bits = true});
}

}  // namespace

void draw_fft(OpCases& cases, Choices& choices) {
  const std::string norm = choices.of({"backward", "ortho", "forward"});
  const int64_t most = choices.of({4, 12, 40});
  const size_t kind = choices.below(4);
  const Shape shape = draw_shape(choices, int(choices.between(kind == 2 ? 2 : 1, 3)), most);
  const int rank = shape.rank();
  if (kind == 2) {
    const int64_t first = int64_t(choices.below(size_t(rank)));
    const int64_t second = (first + 1 + int64_t(choices.below(size_t(rank - 1)))) % rank;
    std::vector<int64_t> s;
    if (choices.flag()) s = {choices.between(1, 12), choices.between(1, 12)};
    if (s.empty() && shape[int(second)] < 2) return;  // irfft2 would have an empty result
    return add_planes(cases, shape, {first, second}, s, norm);
  }
  if (kind == 3) {
    std::vector<int64_t> dims;
    for (int i = 0; i < rank; ++i)
      if (choices.flag()) dims.push_back(i);
    return add_shift(cases, shape, dims, choices.flag());
  }
  const int dim = int(choices.below(size_t(rank)));
  std::optional<int64_t> n;
  if (choices.flag()) n = choices.between(1, rank == 1 ? most : 12);
  add_lines(cases, shape, int(draw_sign(choices, dim, rank)), n, norm);
}

void fft_cases(OpCases& cases) {
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 12, 15}) add_lines(cases, {n}, -1, {}, "backward");
  for (const char* norm : {"backward", "ortho", "forward"}) {
    add_lines(cases, {2, 6}, -1, {}, norm);
    add_lines(cases, {5, 2}, 0, {}, norm);
    add_lines(cases, {2, 3, 2}, 1, {}, norm);
    add_planes(cases, {3, 4}, {-2, -1}, {}, norm);
  }
  add_lines(cases, {2, 5}, 1, 4, "backward");   // truncated
  add_lines(cases, {2, 3}, -1, 7, "backward");  // padded with zeros
  add_lines(cases, {2, 37}, -1, {}, "backward");
  add_planes(cases, {2, 3, 2}, {0, 1}, {}, "backward");
  add_planes(cases, {3, 3}, {1, 0}, {2, 5}, "ortho");
  for (bool inverse : {false, true}) {
    add_shift(cases, {5}, {}, inverse);
    add_shift(cases, {3, 4}, {}, inverse);
    add_shift(cases, {3, 2, 5}, {0, 2}, inverse);
  }
}

}  // namespace tapegrad::testing
