// Drawings of mismatched shapes, shown below the first line of a ShapeError.
//
//   fail<ShapeError>("matmul", ": inner sizes differ: ", a, " x ", b,
//                    draw_mismatch({{"input", a, 1}, {"other", b, 0}}));
//
//     input [64, 784]
//                ^^^
//     other [512, 10]
//            ^^^
#pragma once

#include <string>
#include <string_view>

#include "core/base/shape.h"

namespace tapegrad {

struct MarkedShape {
  std::string_view name;  // if all names are empty, shapes are aligned at the right, as in
                          // broadcasting
  const Shape& shape;
  int dim;  // the dimension to mark; -1 for none
};

/// Returns the drawing, which starts with a newline.
std::string draw_mismatch(std::initializer_list<MarkedShape> shapes);
/// Returns the first dimension in which the shapes differ.
int mismatched_dim(const Shape& a, const Shape& b);
/// Draws two shapes that should be equal, with the first difference marked.
std::string draw_difference(std::string_view a_name, const Shape& a, std::string_view b_name,
                            const Shape& b);

}  // namespace tapegrad
