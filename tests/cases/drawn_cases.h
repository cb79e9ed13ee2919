// Rows of the case table with random shapes and attributes. Their references are those of the
// written rows, and each family draws its rows beside the written ones. tests/fuzz/drawn.cpp runs
// them.
//
// Linear ops draw whole numbers, for which any order of additions gives the same sum; their
// tolerance is 0. Inputs that may be near a point without a derivative have grad = false.
#pragma once

#include "tests/cases/op_case.h"
#include "tests/fuzz/fuzz.h"

namespace tapegrad::testing {

using fuzz::Choices;

/// Draws sizes of 1 to `most`.
Shape draw_shape(Choices& choices, int rank, int64_t most);
/// Returns the dimension, counted from the front or from the back.
int64_t draw_sign(Choices& choices, int dim, int rank);
/// Returns the shape with some sizes replaced by 1 and some leading dimensions removed.
Shape draw_broadcast(Choices& choices, const Shape& shape);

// Each function adds a row, or several rows with equal random numbers.
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

/// Draws from any of the families.
OpCases draw_cases(Choices& choices);

}  // namespace tapegrad::testing
