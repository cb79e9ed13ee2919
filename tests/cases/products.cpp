#include <map>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Sums the product over all letters in nested loops. The equation must be explicit and without
/// dots.
Reference summed(const std::string& equation, size_t first_operand = 0, double scale = 1) {
  return [=](const std::vector<Array>& in) {
    const std::string left = equation.substr(0, equation.find("->"));
    const std::string result = equation.substr(equation.find("->") + 2);
    std::vector<std::string> terms(1);
    for (char c : left)
      if (c == ',')
        terms.emplace_back();
      else
        terms.back() += c;
    std::map<char, int64_t> sizes;
    for (size_t k = 0; k < terms.size(); ++k)
      for (size_t i = 0; i < terms[k].size(); ++i)
        sizes[terms[k][i]] = std::max(sizes[terms[k][i]], in[first_operand + k].shape[int(i)]);
    Shape all, to;
    std::string letters;
    for (const auto& [letter, size] : sizes) {
      letters += letter;
      all.push_back(size);
    }
    for (char c : result) to.push_back(sizes[c]);
    Array y{to, std::vector<double>(size_t(numel(to)), 0.0)};
    for_each_index(all, [&](int64_t, const Index& index) {
      const auto pick = [&](const std::string& term, const Shape& shape) {
        Index at;
        for (size_t i = 0; i < term.size(); ++i)
          at.push_back(shape[int(i)] == 1 ? 0 : index[letters.find(term[i])]);
        return size_t(flat_index(shape, at));
      };
      double product = scale;
      for (size_t k = 0; k < terms.size(); ++k) {
        const Array& x = in[first_operand + k];
        product *= x.values[pick(terms[k], x.shape)];
      }
      y.values[pick(result, to)] += product;
    });
    return y;
  };
}

/// beta x + alpha times the product of the other inputs.
Reference added(const std::string& equation, double beta, double alpha) {
  return [=](const std::vector<Array>& in) {
    Array y = summed(equation, 1, alpha)(in);
    for_each_index(y.shape, [&](int64_t flat, const Index& index) {
      Index own(index.end() - in[0].shape.rank(), index.end());
      for (int i = 0; i < in[0].shape.rank(); ++i)
        if (in[0].shape[i] == 1) own[size_t(i)] = 0;
      y.values[size_t(flat)] += beta * in[0].values[size_t(flat_index(in[0].shape, own))];
    });
    return y;
  };
}

/// Cross product along dim of arrays of equal shape.
Reference crossed(int dim) {
  return [dim](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(y.shape, [&](int64_t flat, Index index) {
      const int64_t here = index[size_t(dim)];
      const auto at = [&](const Array& x, int64_t turn) {
        index[size_t(dim)] = (here + turn) % 3;
        return x.values[size_t(flat_index(x.shape, index))];
      };
      y.values[size_t(flat)] = at(in[0], 1) * at(in[1], 2) - at(in[0], 2) * at(in[1], 1);
    });
    return y;
  };
}

Array reference_kron(const std::vector<Array>& in) {
  const int64_t p = in[1].shape[0], q = in[1].shape[1];
  Array y{{in[0].shape[0] * p, in[0].shape[1] * q}, {}};
  for_each_index(y.shape, [&](int64_t, const Index& i) {
    y.values.push_back(in[0].values[size_t(flat_index(in[0].shape, {i[0] / p, i[1] / q}))] *
                       in[1].values[size_t(flat_index(in[1].shape, {i[0] % p, i[1] % q}))]);
  });
  return y;
}

OpCase einsum(const std::string& equation, const std::vector<Shape>& shapes,
              const std::string& spelled_out) {
  OpCase row{.op = "einsum",
             .attributes = {{"equation", equation}},
             .reference = summed(spelled_out),
             .tolerance = 32};
  for (const Shape& shape : shapes) row.list.push_back(Input{shape});
  return row;
}

}  // namespace

void draw_einsum(OpCases& cases, Choices& choices) {
  const std::string letters = "abcde";
  const Shape sizes{choices.between(1, 4), choices.between(1, 4), choices.between(1, 4),
                    choices.between(1, 4), choices.between(1, 4)};
  std::string equation, seen;
  std::vector<Shape> shapes;
  for (int64_t left = choices.between(1, 4); left > 0; --left) {
    if (!shapes.empty()) equation += ',';
    shapes.emplace_back();
    for (int64_t rank = choices.between(1, 3); rank > 0; --rank) {
      const size_t which = choices.below(letters.size());
      equation += letters[which];
      shapes.back().push_back(sizes[int(which)]);
      if (seen.find(letters[which]) == seen.npos) seen += letters[which];
    }
  }
  equation += "->";
  for (char letter : seen)  // some of the letters, in another order
    if (choices.flag())
      equation.insert(equation.size() - choices.below(equation.size() - equation.find('>')), 1,
                      letter);
  cases.push_back(einsum(equation, shapes, equation));
  OpCase& row = cases.back();
  for (Input& input : row.list) input.fill = Fill::kIntegers;
  row.tolerance = 0;
  row.dtypes = {f64, f32};
}

void products_cases(OpCases& cases) {
  const auto add = [&](const char* op, const std::vector<Shape>& shapes,
                       const Attributes& attributes, const Reference& reference) {
    OpCase row{.op = op, .attributes = attributes, .reference = reference, .tolerance = 16};
    for (const Shape& shape : shapes) row.inputs.push_back(Input{shape});
    cases.push_back(row);
  };
  add("cross", {{4, 3}, {4, 3}}, {}, crossed(1));
  add("cross", {{3, 4}, {3, 4}}, {{"dim", int64_t(0)}}, crossed(0));
  add("kron", {{2, 3}, {3, 2}}, {}, reference_kron);
  add("tensordot", {{2, 3, 4}, {3, 4, 5}}, {}, summed("abc,bcd->ad"));
  add("tensordot", {{2, 3}, {4, 5}}, {{"dims", int64_t(0)}}, summed("ab,cd->abcd"));
  add("tensordot", {{2, 3, 4}, {4, 5, 2}},
      {{"dims_a", std::vector<int64_t>{0, -1}}, {"dims_b", std::vector<int64_t>{2, 0}}},
      summed("abc,cda->bd"));
  const Attributes scales{{"beta", 0.5}, {"alpha", 2.0}};
  add("addmm", {{3, 5}, {3, 4}, {4, 5}}, scales, added("ij,jk->ik", 0.5, 2));
  add("addmm", {{5}, {3, 4}, {4, 5}}, {}, added("ij,jk->ik", 1, 1));
  add("addmv", {{3}, {3, 4}, {4}}, scales, added("ij,j->i", 0.5, 2));
  add("addr", {{3, 1}, {3}, {4}}, scales, added("i,j->ij", 0.5, 2));
  add("baddbmm", {{2, 3, 5}, {2, 3, 4}, {2, 4, 5}}, scales, added("bij,bjk->bik", 0.5, 2));
  add("addbmm", {{3, 5}, {2, 3, 4}, {2, 4, 5}}, scales, added("bij,bjk->ik", 0.5, 2));
  add("mv", {{3, 4}, {4}}, {}, summed("ij,j->i"));
  add("inner", {{2, 3, 4}, {5, 4}}, {}, summed("abd,cd->abc"));

  const auto sums = [&](const std::string& equation, const std::vector<Shape>& shapes,
                        const std::string& spelled_out = "") {
    cases.push_back(einsum(equation, shapes, spelled_out.empty() ? equation : spelled_out));
  };
  sums("ij,jk->ik", {{3, 4}, {4, 5}});
  sums("ij,jk", {{3, 4}, {4, 5}}, "ij,jk->ik");
  sums("ba", {{2, 3}}, "ba->ab");
  sums("ii->i", {{4, 4}});
  sums("ii", {{4, 4}}, "ii->");
  sums("iji,j->j", {{3, 2, 3}, {2}});
  sums("ij->j", {{3, 4}});
  sums("bij,bjk->bki", {{2, 3, 4}, {2, 4, 5}});
  sums("...ij, ...jk", {{2, 3, 4}, {4, 5}}, "aij,jk->aik");
  sums("i...,i...->...", {{3, 4}, {3, 4}}, "ia,ia->a");
  sums("ij,jk->ik", {{3, 1}, {4, 5}});
  sums("i,j,k->kij", {{2}, {3}, {4}});
  sums("ab,bc,cd,de->ae", {{2, 3}, {3, 4}, {4, 2}, {2, 5}});
}

}  // namespace tapegrad::testing
