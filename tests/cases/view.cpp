#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;
const std::vector<DType> kViewed{f64, f32, bf16, f16, i64, u8, boolean};

/// y[index] = x[source(index)] for a result of the given shape.
Reference moved(const Shape& to, std::function<Index(Index)> source) {
  return [to, source](const std::vector<Array>& in) {
    Array y{to, std::vector<double>(size_t(numel(to)))};
    for_each_index(to, [&](int64_t flat, const Index& index) {
      y.values[size_t(flat)] = in[0].values[size_t(flat_index(in[0].shape, source(index)))];
    });
    return y;
  };
}

/// Equal elements in equal order.
/// Concatenates the list's arrays of rank 2 along dim.
Reference joined(int dim) {
  return [dim](const std::vector<Array>& in) {
    Array y{in[0].shape, {}};
    for (size_t i = 1; i < in.size(); ++i) y.shape[dim] += in[i].shape[dim];
    y.values.resize(size_t(numel(y.shape)));
    int64_t at = 0;
    for (const Array& x : in) {
      for_each_index(x.shape, [&](int64_t flat, Index index) {
        index[size_t(dim)] += at;
        y.values[size_t(flat_index(y.shape, index))] = x.values[size_t(flat)];
      });
      at += x.shape[dim];
    }
    return y;
  };
}

/// x surrounded by `value`: before[d] elements precede dimension d; a negative number crops.
Reference padded(const Shape& to, const Index& before, double value) {
  return [=](const std::vector<Array>& in) {
    Array y{to, std::vector<double>(size_t(numel(to)), value)};
    for_each_index(in[0].shape, [&](int64_t flat, Index index) {
      for (size_t i = 0; i < index.size(); ++i) {
        index[i] += before[i];
        if (index[i] < 0 || index[i] >= to[int(i)]) return;
      }
      y.values[size_t(flat_index(to, index))] = in[0].values[size_t(flat)];
    });
    return y;
  };
}

Reference filled(double value) {
  return [value](const std::vector<Array>& in) {
    return Array{in[0].shape, std::vector<double>(in[0].values.size(), value)};
  };
}

/// The elements that a view or a copy of x shows along one dimension.
struct Line {
  int64_t size;                             // of the result
  std::function<int64_t(int64_t)> element;  // element at a position
};

}  // namespace

void draw_view(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), 7);
  const int rank = shape.rank(), dim = int(choices.below(size_t(rank)));
  const int64_t n = shape[dim], named = draw_sign(choices, dim, rank);
  OpCase row{
      .op = {}, .inputs = {Input{shape}}, .tolerance = 0, .same_bits = true, .dtypes = kViewed};
  const auto along = [&](const Line& line) {
    Shape to = shape;
    to[dim] = line.size;
    row.reference = moved(to, [=](Index index) {
      index[size_t(dim)] = line.element(index[size_t(dim)]);
      return index;
    });
  };
  switch (choices.below(6)) {
    case 0: {
      const int64_t start = choices.between(0, n), step = choices.between(1, 3);
      const int64_t end = choices.between(start, n + 2), size = std::min(end, n) - start;
      row.op = "slice";
      row.attributes = {{"dim", named},
                        {"start", choices.flag() && start < n ? start - n : start},
                        {"end", end},
                        {"step", step}};
      along({(size + step - 1) / step, [=](int64_t i) { return start + step * i; }});
      break;
    }
    case 1:
      row.op = "flip";
      row.attributes = {{"dims", Index{named}}};
      along({n, [=](int64_t i) { return n - 1 - i; }});
      break;
    case 2: {
      const int64_t shift = choices.between(-9, 9);
      row.op = "roll";
      row.attributes = {{"shifts", Index{shift}}, {"dims", Index{named}}};
      along({n, [=](int64_t i) { return ((i - shift) % n + n) % n; }});
      break;
    }
    case 3: {
      const int64_t repeats = choices.between(1, 4);
      row.op = "repeat_interleave";
      row.attributes = {{"repeats", repeats}, {"dim", named}};
      along({n * repeats, [=](int64_t i) { return i / repeats; }});
      break;
    }
    case 4: {
      Index order, dims;
      for (int i = 0; i < rank; ++i)
        order.insert(order.begin() + std::ptrdiff_t(choices.below(order.size() + 1)), i);
      Shape to = shape;
      for (int i = 0; i < rank; ++i) {
        to[i] = shape[int(order[size_t(i)])];
        dims.push_back(draw_sign(choices, int(order[size_t(i)]), rank));
      }
      row.op = "permute";
      row.attributes = {{"dims", dims}};
      row.reference = moved(to, [=](const Index& index) {
        Index from(index.size());
        for (size_t i = 0; i < index.size(); ++i) from[size_t(order[i])] = index[i];
        return from;
      });
      break;
    }
    case 5: {
      const int64_t size = choices.between(1, n), step = choices.between(1, 3);
      Shape to = shape;
      to[dim] = (n - size) / step + 1;
      to.push_back(size);
      row.op = "tensor.unfold";
      row.attributes = {{"dimension", named}, {"size", size}, {"step", step}};
      row.reference = moved(to, [=](Index index) {
        index[size_t(dim)] = index[size_t(dim)] * step + index.back();
        index.pop_back();
        return index;
      });
      break;
    }
  }
  cases.push_back(row);
}

void view_cases(OpCases& cases) {
  for (int64_t k : {1, 2, -1, 4})
    cases.push_back(
        {.op = "rot90",
         .inputs = {Input{{3, 4}}},
         .attributes = {{"k", k}},
         .reference =
             [k](const std::vector<Array>& in) {
               Array y{k % 2 == 0 ? Shape{3, 4} : Shape{4, 3}, {}};
               for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& i) {
                 const int64_t row = k == 1 ? i[1] : k == 2 ? 2 - i[0] : k == 4 ? i[0] : 2 - i[1];
                 const int64_t column = k == 1   ? 3 - i[0]
                                        : k == 2 ? 3 - i[1]
                                        : k == 4 ? i[1]
                                                 : i[0];
                 y.values.push_back(in[0].values[size_t(row * 4 + column)]);
               });
               return y;
             },
         .tolerance = 0,
         .same_bits = true});
  for (const char* indexing : {"ij", "xy"})
    cases.push_back({.op = "meshgrid",
                     .list = {Input{{3}}, Input{{4}}},
                     .attributes = {{"indexing", std::string(indexing)}},
                     .reference =
                         [turned = indexing[0] == 'x'](const std::vector<Array>& in) {
                           Array y{turned ? Shape{4, 3} : Shape{3, 4}, {}};
                           for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& i) {
                             y.values.push_back(in[0].values[size_t(turned ? i[1] : i[0])]);
                           });
                           return y;
                         },
                     .tolerance = 0,
                     .same_bits = true});
  const auto add = [&](const char* op, const Shape& from, const Attributes& attributes,
                       const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = {Input{from}},
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 0,
                     .same_bits = true,
                     .dtypes = kViewed});
  };
  add("reshape", {2, 6}, {{"shape", Index{3, -1}}}, reshaped({3, 4}));
  add("reshape", {2, 3, 2}, {{"shape", Index{2, 6}}}, reshaped({2, 6}));
  add("flatten", {2, 3, 2}, {}, reshaped({12}));
  add("flatten", {2, 3, 2}, {{"start_dim", int64_t(1)}}, reshaped({2, 6}));
  add("squeeze", {1, 3, 1, 2}, {}, reshaped({3, 2}));
  add("squeeze", {1, 3, 1, 2}, {{"dim", int64_t(2)}}, reshaped({1, 3, 2}));
  add("unsqueeze", {2, 3}, {{"dim", int64_t(-1)}}, reshaped({2, 3, 1}));
  add("clone", {2, 3}, {}, reshaped({2, 3}));
  add("permute", {2, 3, 4}, {{"dims", Index{2, 0, -2}}}, moved({4, 2, 3}, [](const Index& i) {
        return Index{i[1], i[2], i[0]};
      }));
  add("transpose", {2, 3, 4}, {{"dim0", int64_t(0)}, {"dim1", int64_t(-1)}},
      moved({4, 3, 2}, [](const Index& i) {
        return Index{i[2], i[1], i[0]};
      }));
  add("t", {2, 3}, {}, moved({3, 2}, [](const Index& i) { return Index{i[1], i[0]}; }));
  add("slice", {3, 7},
      {{"dim", int64_t(1)}, {"start", int64_t(-6)}, {"end", int64_t(6)}, {"step", int64_t(2)}},
      moved({3, 3}, [](const Index& i) {
        return Index{i[0], 1 + 2 * i[1]};
      }));
  add("narrow", {5, 2}, {{"dim", int64_t(0)}, {"start", int64_t(2)}, {"length", int64_t(2)}},
      moved({2, 2}, [](const Index& i) {
        return Index{i[0] + 2, i[1]};
      }));
  add("select", {2, 3, 2}, {{"dim", int64_t(1)}, {"index", int64_t(-1)}},
      moved({2, 2}, [](const Index& i) {
        return Index{i[0], 2, i[1]};
      }));
  add("expand", {2, 1, 3}, {{"size", Index{2, 2, 4, -1}}}, moved({2, 2, 4, 3}, [](const Index& i) {
        return Index{i[1], 0, i[3]};
      }));
  add("tensor.unfold", {7, 2},
      {{"dimension", int64_t(0)}, {"size", int64_t(3)}, {"step", int64_t(2)}},
      moved({3, 2, 3}, [](const Index& i) {
        return Index{2 * i[0] + i[2], i[1]};
      }));
  add("split", {5, 2}, {{"split_size_or_sections", int64_t(2)}},
      moved({2, 2}, [](const Index& i) { return i; }));
  add("split", {2, 5}, {{"split_size_or_sections", Index{3, 0, 2}}, {"dim", int64_t(1)}},
      moved({2, 3}, [](const Index& i) { return i; }));
  add("chunk", {2, 5}, {{"chunks", int64_t(2)}, {"dim", int64_t(-1)}},
      moved({2, 3}, [](const Index& i) { return i; }));
  add("flip", {2, 3, 2}, {{"dims", Index{0, -1}}}, moved({2, 3, 2}, [](const Index& i) {
        return Index{1 - i[0], i[1], 1 - i[2]};
      }));
  add("roll", {3, 4}, {{"shifts", Index{1, -6}}, {"dims", Index{0, 1}}},
      moved({3, 4}, [](const Index& i) {
        return Index{(i[0] + 2) % 3, (i[1] + 6) % 4};
      }));
  add("roll", {2, 3}, {{"shifts", int64_t(2)}}, moved({2, 3}, [](const Index& i) {
        const int64_t flat = (i[0] * 3 + i[1] + 4) % 6;
        return Index{flat / 3, flat % 3};
      }));
  add("repeat", {2, 3}, {{"repeats", Index{2, 3, 2}}}, moved({2, 6, 6}, [](const Index& i) {
        return Index{i[1] % 2, i[2] % 3};
      }));
  // Five repeated dimensions are more than one copy makes.
  add("repeat", {2, 1, 3, 1, 2}, {{"repeats", Index{2, 3, 2, 2, 2}}},
      moved({4, 3, 6, 2, 4}, [](const Index& i) {
        return Index{i[0] % 2, 0, i[2] % 3, 0, i[4] % 2};
      }));
  add("tile", {2, 1, 3}, {{"dims", Index{2, 2}}}, moved({2, 2, 6}, [](const Index& i) {
        return Index{i[0], 0, i[2] % 3};
      }));
  add("repeat_interleave", {2, 3}, {{"repeats", int64_t(3)}, {"dim", int64_t(1)}},
      moved({2, 9}, [](const Index& i) {
        return Index{i[0], i[1] / 3};
      }));
  add("pad", {2, 3}, {{"pad", Index{1, 2, 0, 1}}, {"value", 1.0}}, padded({3, 6}, {0, 1}, 1));
  add("pad", {3, 4}, {{"pad", Index{-1, 1}}}, padded({3, 4}, {0, -1}, 0));
  cases.push_back({.op = "pad",
                   .inputs = {Input{{1, 32, 34, 34}}},
                   .attributes = {{"pad", Index{1, 2, -1, 3}}, {"value", 1.0}},
                   .reference = padded({1, 32, 36, 37}, {0, 0, -1, 1}, 1),
                   .dtypes = {f32, bf16},
                   .before = packed_images});
  add("zero_", {2, 3}, {}, filled(0));
  add("fill_", {2, 3}, {{"value", int64_t(1)}}, filled(1));

  cases.push_back({.op = "view",  // other layouts are errors
                   .inputs = {Input{{4}}},
                   .attributes = {{"shape", Index{2, -1}}},
                   .reference = reshaped({2, 2}),
                   .tolerance = 0,
                   .same_bits = true,
                   .dtypes = kViewed});
  for (int dim : {0, 1}) {
    const Shape second = dim == 0 ? Shape{1, 3} : Shape{2, 4};
    cases.push_back({.op = "cat",
                     .list = {Input{{2, 3}}, Input{second}, Input{{2, 3}}},
                     .attributes = {{"dim", int64_t(dim - 2)}},
                     .reference = joined(dim),
                     .tolerance = 0,
                     .same_bits = true,
                     .dtypes = kViewed});
  }
  for (const int64_t width : {1, 2})  // many narrow blocks of columns
    cases.push_back({.op = "cat",
                     .list = std::vector<Input>(9, Input{{3, 3, width}}),
                     .attributes = {{"dim", int64_t(2)}},
                     .reference = joined(2),
                     .tolerance = 0,
                     .same_bits = true,
                     .dtypes = kViewed});
  cases.push_back({.op = "stack",
                   .list = {Input{{2, 3}}, Input{{2, 3}}},
                   .attributes = {{"dim", int64_t(1)}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         Array y = joined(1)(in);
                         y.shape = {2, 2, 3};
                         return y;
                       },
                   .tolerance = 0,
                   .same_bits = true,
                   .dtypes = kViewed});
  cases.push_back({.op = "to",
                   .inputs = {Input{{2, 3}, Fill::kIntegers}},
                   .attributes = {{"dtype", std::string("float64")}},
                   .reference = reshaped({2, 3}),
                   .tolerance = 0,
                   .same_bits = true,
                   .dtypes = {f64, f32, bf16, f16, i64}});
  cases.push_back({.op = "copy_",
                   .inputs = {Input{{2, 3}}, Input{{3}}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         Array y = in[0];
                         for (size_t i = 0; i < 6; ++i) y.values[i] = in[1].values[i % 3];
                         return y;
                       },
                   .tolerance = 0,
                   .same_bits = true,
                   .dtypes = kViewed});
}

}  // namespace tapegrad::testing
