#include "ops/bitwise.h"

#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"

namespace tapegrad {

namespace kernels {

constinit Binary bitwise_and{"bitwise_and"}, bitwise_or{"bitwise_or"}, bitwise_xor{"bitwise_xor"},
    bitwise_left_shift{"bitwise_left_shift"}, bitwise_right_shift{"bitwise_right_shift"},
    gcd{"gcd"}, lcm{"lcm"};

}  // namespace kernels

using namespace detail;

namespace {

/// An op of integers and masks.
template <const kernels::Binary& kernel, Literal name>
struct OfBits : BinaryOp<kernel> {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kDifferentiable = false;
};

using BitwiseAnd = OfBits<kernels::bitwise_and, "bitwise_and">;
using BitwiseOr = OfBits<kernels::bitwise_or, "bitwise_or">;
using BitwiseXor = OfBits<kernels::bitwise_xor, "bitwise_xor">;
using LeftShift = OfBits<kernels::bitwise_left_shift, "bitwise_left_shift">;
using RightShift = OfBits<kernels::bitwise_right_shift, "bitwise_right_shift">;
using Gcd = OfBits<kernels::gcd, "gcd">;
using Lcm = OfBits<kernels::lcm, "lcm">;

}  // namespace

Variable bitwise_and(Operand a, Operand b) { return run<BitwiseAnd>(a, b); }
Variable bitwise_or(Operand a, Operand b) { return run<BitwiseOr>(a, b); }
Variable bitwise_xor(Operand a, Operand b) { return run<BitwiseXor>(a, b); }
Variable bitwise_not(Variable x, Where where) {
  if (x.dtype() == boolean) return logical_not(x, where);
  // XOR with all ones flips every bit, for unsigned integers, too.
  const Variable ones(Tensor::full({}, x.dtype() == u8 ? 255 : -1, x.dtype(), x.device()));
  return apply_over(BitwiseXor{}, where, {std::move(x), ones});
}

Variable bitwise_left_shift(Operand a, Operand b) { return run<LeftShift>(a, b); }
Variable bitwise_right_shift(Operand a, Operand b) { return run<RightShift>(a, b); }
Variable gcd(Operand a, Operand b) { return run<Gcd>(a, b); }
Variable lcm(const Operand& a, const Operand& b) { return run<Lcm>(a, b); }

void catalog_bitwise(Catalog& catalog) {
  using A = const Arguments&;
  const OpTraits flat{.max_order = 0};
  const auto call = []<auto op>() {
    return [](A a) { return op(a[0], a[1]); };
  };
  catalog.add("bitwise_and(input, other)", "the bits of both", call.operator()<bitwise_and>(),
              flat);
  catalog.add("bitwise_or(input, other)", "the bits of either", call.operator()<bitwise_or>(),
              flat);
  catalog.add("bitwise_xor(input, other)", "the bits of just one", call.operator()<bitwise_xor>(),
              flat);
  catalog.add(
      "bitwise_not(input)", "the bits it has not", [](A a) { return bitwise_not(a[0]); }, flat);
  catalog.add("bitwise_left_shift(input, other)", "input 2^other",
              call.operator()<bitwise_left_shift>(), flat);
  catalog.add("bitwise_right_shift(input, other)", "floor(input / 2^other)",
              call.operator()<bitwise_right_shift>(), flat);
  catalog.add("gcd(input, other)", "the greatest common divisor", call.operator()<gcd>(), flat);
  catalog.add("lcm(input, other)", "the least common multiple", call.operator()<lcm>(), flat);
}

}  // namespace tapegrad
