// The lines of a ShapeError below its first: the shapes, with the sizes that clash marked.
//
//   fail<ShapeError>("matmul", ": inner sizes differ: ", a, " x ", b,
//                    draw_clash({{"input", a, 1}, {"other", b, 0}}));
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
  std::string_view name;  // without names, shapes are aligned at the right, as broadcasting does
  const Shape& shape;
  int dim;  // the one that clashes; -1 for none
};

/// Begins with a line end.
std::string draw_clash(std::initializer_list<MarkedShape> shapes);
/// The first dimension in which they differ.
int clash_of(const Shape& a, const Shape& b);
/// Two that should be equal, marked where they first differ.
std::string draw_difference(std::string_view a_name, const Shape& a, std::string_view b_name,
                            const Shape& b);

}  // namespace tapegrad
