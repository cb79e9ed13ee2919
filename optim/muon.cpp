#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "core/tape/internal/call_line.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/linalg.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

double rate_of(MuonRate rate, const Shape& shape) {
  const double rows = double(shape[0]), columns = double(shape[1]);
  switch (rate) {
    case MuonRate::kOriginal:
      return std::sqrt(std::max(1.0, rows / columns));
    case MuonRate::kMatchRmsAdamW:
      return 0.2 * std::sqrt(std::max(rows, columns));
    default:
      return std::sqrt(rows / columns);
  }
}

}  // namespace

Muon::Muon(Params params, MuonOptions o)
    : CustomOptimizer("Muon", std::move(params), o.lr, o.weight_decay, {"momentum_buffer"},
                      {"momentum", "nesterov"}),
      options_(o) {
  const ErrorLine line(made_at());
  check_range("Muon", "eps", o.eps, 0, kNoLimit);
  check_range("Muon", "ns_steps", o.ns_steps, 1, 99);
  check_groups();
}

void Muon::check_group(const Group& group) const {
  check_range("Muon", "momentum", group.own.momentum.value_or(options_.momentum), 0, 1);
  for (const Slot& slot : group.slots)
    if (slot.param.rank() != 2)
      fail<ArgumentError>("Muon: a parameter of shape ", slot.param.shape(),
                          " is no matrix; give it to AdamW");
}

Variable Muon::orthogonal(const Variable& x) const {
  const auto& [a, b, c] = options_.ns_coefficients;
  const bool is_tall = x.size(0) > x.size(1);
  Variable o = is_tall ? t(x) : x;
  o = o / maximum(norm(o), options_.eps);
  for (int i = 0; i < options_.ns_steps; ++i) {
    const Variable gram = matmul(o, t(o));
    o = a * o + matmul(b * gram + c * matmul(gram, gram), o);
  }
  return is_tall ? t(o) : o;
}

void Muon::update(Parameter& p) {
  Variable& mean = p.state[0];
  const double momentum = p.options.momentum.value_or(options_.momentum);
  const Variable gradient = p.grad.to(mean.dtype());
  mean = momentum * mean + (1 - momentum) * gradient;
  const bool nesterov = p.options.nesterov.value_or(options_.nesterov);
  const Variable step = nesterov ? momentum * mean + (1 - momentum) * gradient : mean;
  p.value = p.value.to(mean.dtype()) * (1 - p.lr * p.weight_decay) -
            p.lr * rate_of(options_.adjust_lr_fn, p.value.shape()) * orthogonal(step);
}

}  // namespace tapegrad::optim
