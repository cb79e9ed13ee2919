#include "optim/adafactor.h"

#include <algorithm>
#include <cmath>

#include "core/tape/internal/call_line.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/unary.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

constexpr int kRow = 0, kColumn = 1, kVariance = 2;

/// Returns the shape of a sum over one of the last two dimensions: -1 or -2.
template <int dim>
std::optional<Shape> sums(const Shape& param) {
  if (param.rank() < 2) return {};
  Shape shape = param;
  shape[param.rank() + dim] = 1;
  return shape;
}
std::optional<Shape> shape_of_variance(const Shape& param) {
  return param.rank() < 2 ? std::optional(param) : std::nullopt;
}

Variable root_mean_square(const Variable& x) { return sqrt(mean(square(x))); }

}  // namespace

Adafactor::Adafactor(Params params, AdafactorOptions o)
    : CustomOptimizer("Adafactor", std::move(params), o.lr, o.weight_decay,
                      {"row_var", "col_var", "variance"}),
      options_(o) {
  const ErrorLine line(made_at());
  check_range("Adafactor", "-beta2_decay", -o.beta2_decay, 0, kNoLimit);
  check_range("Adafactor", "eps[0]", o.eps.first.value_or(0), 0, kNoLimit);
  check_range("Adafactor", "eps[1]", o.eps.second, 0, kNoLimit);
  check_range("Adafactor", "d", o.d, 1, kNoLimit);
  set_maximize(o.maximize);
}

std::vector<Optimizer::StateInfo> Adafactor::state_info(const Group&) const {
  return {{.name = "row_var", .shape = sums<-1>},
          {.name = "col_var", .shape = sums<-2>},
          {.name = "variance", .shape = shape_of_variance}};
}

void Adafactor::update(Parameter& p) {
  if (p.value.numel() == 0) return;
  const bool is_factored = p.value.rank() > 1;
  const DType dtype = p.state[is_factored ? kRow : kVariance].dtype();
  const Variable value = p.value.to(dtype), gradient = p.grad.to(dtype), squares = square(gradient);
  const double eps = options_.eps.first.value_or(finfo(p.value.dtype()).eps);
  const double share = std::pow(double(p.step), options_.beta2_decay);
  const double relative_rate = std::min(p.lr, 1 / std::sqrt(double(p.step)));
  const auto follow = [&](int state, const Variable& target) {
    return p.state[state] = lerp(p.state[state], target, share);
  };

  Variable moments;
  if (is_factored) {
    const Variable row = follow(kRow, mean(squares, {-1}, /*keepdim=*/true));
    const Variable column = follow(kColumn, mean(squares, {-2}, /*keepdim=*/true));
    moments = matmul(row, column) / maximum(mean(row, {-2}, /*keepdim=*/true), eps);
  } else {
    moments = follow(kVariance, squares);
  }
  const Variable step = gradient * rsqrt(maximum(moments, eps * eps));
  const Variable rate = maximum(root_mean_square(value), options_.eps.second) * relative_rate;
  const Variable excess = maximum(root_mean_square(step) / options_.d, 1.0);
  p.value = value * (1 - p.lr * p.weight_decay) - rate / excess * step;
}

}  // namespace tapegrad::optim
