#include "tests/cases/drawn_cases.h"

#include <set>

#include "tests/cases/op_families.h"

namespace tapegrad::testing {
namespace {

using Draw = void (*)(OpCases&, Choices&);
constexpr Draw kDraws[] = {
    draw_elementwise, draw_reduce,  draw_softmax,  draw_scan,      draw_sort,      draw_matmul,
    draw_einsum,      draw_conv,    draw_pool,     draw_norm,      draw_index,     draw_scatter,
    draw_view,        draw_image,   draw_sample,   draw_attention, draw_recurrent, draw_fft,
    draw_solving,     draw_factors, draw_functions};

/// Rows with one or two inputs whose reference is elementwise(), which accepts any shape.
const std::vector<const OpCase*>& elementwise_rows() {
  static const std::vector<const OpCase*> all = [] {
    const std::set<std::string> families{"unary", "activation", "special", "binary"};
    // Excluded: ops with a slow reference, and ops with a third input.
    const std::set<std::string> others{"polygamma", "erfinv", "digamma", "where"};
    std::vector<const OpCase*> rows;
    for (const CaseFamily& family : case_families())
      for (const OpCase& row : family.cases)
        if (families.contains(family.name) && row.same_bits && !others.contains(row.op) &&
            !catalog().find(row.op).traits.inplace)
          rows.push_back(&row);
    return rows;
  }();
  return all;
}

}  // namespace

Shape draw_shape(Choices& choices, int rank, int64_t most) {
  Shape shape;
  int64_t left = 1000;
  for (int i = 0; i < rank; ++i) {
    shape.push_back(choices.between(1, std::min(most, left)));
    left /= shape[i];
  }
  return shape;
}

int64_t draw_sign(Choices& choices, int dim, int rank) { return choices.flag() ? dim : dim - rank; }

Shape draw_broadcast(Choices& choices, const Shape& shape) {
  Shape own;
  for (int i = int(choices.below(size_t(shape.rank()) + 1)); i < shape.rank(); ++i)
    own.push_back(choices.flag() ? shape[i] : 1);
  return own;
}

void draw_elementwise(OpCases& cases, Choices& choices) {
  OpCase row = *choices.of(elementwise_rows());
  const Shape shape = draw_shape(choices, int(choices.below(5)), choices.of({4, 9, 70}));
  const std::set<std::string> smooth{"add", "sub", "mul", "div", "pow", "atan2"};
  row.inputs[0]->shape = shape;
  if (row.inputs.size() == 2) {
    row.inputs[1]->shape = choices.flag() ? draw_broadcast(choices, shape) : shape;
    if (choices.flag()) std::swap(row.inputs[0]->shape, row.inputs[1]->shape);
  }
  for (auto& input : row.inputs) input->grad = smooth.contains(row.op);
  cases.push_back(row);
}

OpCases draw_cases(Choices& choices) {
  OpCases cases;
  choices.of(kDraws)(cases, choices);
  return cases;
}

}  // namespace tapegrad::testing
