// Rows of the case table that nobody wrote down: their shapes and attributes are drawn, their
// references are those of the written rows, beside which each family draws. tests/fuzz/drawn.cpp
// runs them.
//
// Linear ops draw whole numbers, of which any order of additions makes the same sum: their
// tolerance is 0. Inputs whose op has corners in their way are drawn with grad = false.
#pragma once

#include "tests/fuzz/fuzz.h"
#include "tests/op_case.h"

namespace tapegrad::testing {

using fuzz::Choices;

/// Sizes of 1 to `most`.
Shape draw_shape(Choices& choices, int rank, int64_t most);
/// The dimension, counted from the front or from the back.
int64_t draw_sign(Choices& choices, int dim, int rank);
/// Every size of the shape, or 1, without some of those in front.
Shape draw_broadcast(Choices& choices, const Shape& shape);

// Each adds a row, or several of the same numbers.
void draw_elementwise(OpCases& cases, Choices& choices);
void draw_reduce(OpCases& cases, Choices& choices);
void draw_softmax(OpCases& cases, Choices& choices);
void draw_scan(OpCases& cases, Choices& choices);
void draw_sort(OpCases& cases, Choices& choices);
void draw_matmul(OpCases& cases, Choices& choices);
void draw_einsum(OpCases& cases, Choices& choices);
void draw_conv(OpCases& cases, Choices& choices);
void draw_pool(OpCases& cases, Choices& choices);
void draw_norm(OpCases& cases, Choices& choices);
void draw_index(OpCases& cases, Choices& choices);
void draw_scatter(OpCases& cases, Choices& choices);
void draw_view(OpCases& cases, Choices& choices);
void draw_image(OpCases& cases, Choices& choices);
void draw_sample(OpCases& cases, Choices& choices);
void draw_attention(OpCases& cases, Choices& choices);
void draw_recurrent(OpCases& cases, Choices& choices);
void draw_fft(OpCases& cases, Choices& choices);
void draw_solving(OpCases& cases, Choices& choices);
void draw_factors(OpCases& cases, Choices& choices);
void draw_functions(OpCases& cases, Choices& choices);

/// Of any of them.
OpCases draw_cases(Choices& choices);

}  // namespace tapegrad::testing
