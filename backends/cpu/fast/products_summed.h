// Sums of products of floats whose factors are broadcast or contiguous. The products stay in
// registers. The bits are those of the sum of a contiguous tensor of the products.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Loops of a sum of products, the outermost first.
struct ProductLoops {
  /// One loop: its number of iterations, and the steps between its elements.
  struct Loop {
    int64_t size, a, b, y;
  };
  struct Nest {
    int rank = 0;
    std::array<Loop, kMaxRank> loops;

    void push(const Loop& loop) { loops[size_t(rank++)] = loop; }
    Loop& inner() { return loops[size_t(rank - 1)]; }
    const Loop& inner() const { return loops[size_t(rank - 1)]; }
    int64_t count() const;
  };
  Nest kept;     // around the columns
  Nest reduced;  // none if rows are reduced
  Nest columns;  // kept loops within all others; if `by_rows`, one loop that is reduced
  bool by_rows = false;
  bool is_swapped = false;  // a is the second factor; b has no steps of 0 in the innermost loop
};

struct ProductsInRegisters {
  static constexpr std::string_view kName = "in_registers";
  static std::optional<ProductLoops> accepts(const Tensor& a, const Tensor& b, const Tensor& y);
  static void run(TypeTag<float>, const ProductLoops& loops, const Tensor& a, const Tensor& b,
                  Tensor& y);
};

}  // namespace tapegrad::backends::cpu
