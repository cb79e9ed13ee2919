#include "optim/lbfgs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/autograd/internal/capture.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/update.h"
#include "ops/view.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

double inner(const Variable& a, const Variable& b) { return sum(a * b).item(); }
double largest(const Variable& x) { return max(abs(x)).item(); }

}  // namespace

/// A point of a line search.
struct LBFGS::Point {
  double t, loss;
  Variable gradient;
  double slope;  // d loss / d t
};

namespace {

/// Returns the minimum of the cubic through two points with their slopes, within bounds.
template <typename Point>
double cubic_minimum(const Point& a, const Point& b, double low, double high) {
  const auto& [left, right] = a.t <= b.t ? std::tie(a, b) : std::tie(b, a);
  const double d = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d * d - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double at = right.t - (right.t - left.t) * ((right.slope + root - d) /
                                                    (right.slope - left.slope + 2 * root));
  return std::min(std::max(at, low), high);
}

}  // namespace

LBFGS::LBFGS(Params params, LBFGSOptions options)
    : Optimizer("LBFGS", std::move(params), options.lr, 0.0), options_(std::move(options)) {
  const ErrorLine line(made_at());
  if (group_count() != 1)
    fail<ArgumentError>("LBFGS: all parameters are in one group, not in ", group_count());
  for (const Variable& p : parameters())
    if (p.dtype() != parameters()[0].dtype() || p.device() != parameters()[0].device())
      fail<ArgumentError>("LBFGS: parameters of ", parameters()[0].dtype(), " on ",
                          parameters()[0].device(), " and of ", p.dtype(), " on ", p.device());
  const auto at_least = [](const char* name, int64_t value, int64_t low) {
    if (value < low) fail<ArgumentError>("LBFGS: ", name, " is ", value, ", not at least ", low);
  };
  at_least("max_iter", options_.max_iter, 1);
  at_least("max_eval", options_.max_eval.value_or(1), 1);
  at_least("history_size", options_.history_size, 1);
  check_range("LBFGS", "tolerance_grad", options_.tolerance_grad, 0, kNoLimit);
  check_range("LBFGS", "tolerance_change", options_.tolerance_change, 0, kNoLimit);
  if (!options_.line_search_fn.empty() && options_.line_search_fn != "strong_wolfe")
    fail<ArgumentError>("LBFGS: line_search_fn is \"", options_.line_search_fn,
                        "\", not \"\" or \"strong_wolfe\"");
}
LBFGS::~LBFGS() = default;
LBFGS::LBFGS(LBFGS&&) noexcept = default;
LBFGS& LBFGS::operator=(LBFGS&&) noexcept = default;

void LBFGS::update(const Group&, const ParamUpdates&, const StepGuard&) {
  fail<ArgumentError>(
      "LBFGS: step() computes the loss several times; write opt.step([&] { opt.zero_grad(); "
      "Variable loss = ...; loss.backward(); return loss; })");
}

Variable LBFGS::gradient() const {
  std::vector<Variable> parts;
  for (const Variable& p : parameters())
    parts.push_back(p.grad().defined() ? reshape(p.grad().detach(), -1)
                                       : zeros({p.numel()}, {p.dtype(), p.device()}));
  return cat(parts);
}
Variable LBFGS::values() const {
  std::vector<Variable> parts;
  for (const Variable& p : parameters()) parts.push_back(reshape(p.detach(), -1));
  return cat(parts);
}
void LBFGS::set_values(const Variable& values) const {
  int64_t begin = 0;
  for (Variable& p : parameters()) {
    copy_(p, reshape(narrow(values, 0, begin, p.numel()), p.shape()));
    begin += p.numel();
  }
}
void LBFGS::move(double t, const Variable& direction) const {
  set_values(values() + t * direction);
}

void LBFGS::note_pair(const Variable& gradient) {
  const Variable y = gradient - last_gradient_, s = t_ * direction_;
  const double product = inner(y, s);
  if (!(product > 1e-10)) return;
  if (int64_t(steps_.size()) == options_.history_size) {
    steps_.erase(steps_.begin());
    gradient_changes_.erase(gradient_changes_.begin());
  }
  gradient_changes_.push_back(y);
  steps_.push_back(s);
  scale_ = product / inner(y, y);
}

Variable LBFGS::direction(const Variable& gradient) const {
  Variable d = -gradient;
  std::vector<double> weights(steps_.size()), inverse(steps_.size());
  for (size_t i = steps_.size(); i-- > 0;) {
    inverse[i] = 1 / inner(gradient_changes_[i], steps_[i]);
    weights[i] = inner(steps_[i], d) * inverse[i];
    d = d - weights[i] * gradient_changes_[i];
  }
  d = d * scale_;
  for (size_t i = 0; i < steps_.size(); ++i)
    d = d + (weights[i] - inner(gradient_changes_[i], d) * inverse[i]) * steps_[i];
  return d;
}

LBFGS::Point LBFGS::evaluate(const std::function<Variable()>& closure, const Variable& start,
                             double t) const {
  set_values(start + t * direction_);
  Variable loss;
  {
    const Recording recording(true);
    loss = closure();
  }
  const Variable g = gradient();
  return {t, loss.item(), g, inner(g, direction_)};
}

LBFGS::Point LBFGS::search(const std::function<Variable()>& closure, const Point& from, double t,
                           int64_t most) const {
  constexpr double kDecrease = 1e-4, kCurvature = 0.9;  // c1 and c2
  const Variable start = values();
  const auto is_high = [&](const Point& p) {
    return p.loss > from.loss + kDecrease * p.t * from.slope;
  };
  const auto is_flat = [&](const Point& p) {
    return std::abs(p.slope) <= -kCurvature * from.slope;
  };

  // Move on until a minimum lies between two points.
  std::array<Point, 2> ends{from, evaluate(closure, start, t)};
  int64_t count = 0;
  for (; count < most; ++count) {
    auto& [before, now] = ends;
    if (is_high(now) || (count > 1 && now.loss >= before.loss)) break;
    if (is_flat(now)) return now;
    if (now.slope >= 0) break;
    const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), 10 * now.t);
    before = std::move(now);
    now = evaluate(closure, start, next);
  }
  if (count == most) ends[0] = from;

  // Shrink the interval. The better end is low.
  int low = ends[0].loss <= ends[1].loss ? 0 : 1;
  const double length = largest(direction_);
  for (bool stalled = false; count < most; ++count) {
    const double first = std::min(ends[0].t, ends[1].t), last = std::max(ends[0].t, ends[1].t);
    if ((last - first) * length < options_.tolerance_change) break;
    double at = cubic_minimum(ends[0], ends[1], first, last);
    // A point close to an end is tried once; after that, one at a tenth of the interval.
    const double margin = 0.1 * (last - first);
    const bool is_close = std::min(last - at, at - first) < margin;
    if (is_close && (stalled || at >= last || at <= first)) {
      at = std::abs(at - last) < std::abs(at - first) ? last - margin : first + margin;
      stalled = false;
    } else {
      stalled = is_close;
    }
    Point now = evaluate(closure, start, at);
    if (is_high(now) || now.loss >= ends[low].loss) {
      ends[1 - low] = std::move(now);
      low = ends[0].loss <= ends[1].loss ? 0 : 1;
      continue;
    }
    const bool done = is_flat(now);
    if (!done && now.slope * (ends[1 - low].t - ends[low].t) >= 0)
      ends[1 - low] = std::move(ends[low]);
    ends[low] = std::move(now);
    if (done) break;
  }
  set_values(start + ends[low].t * direction_);
  return ends[low];
}

Variable LBFGS::step(LossClosure closure) {
  if (Capture* capture = Capture::current())
    capture->give_up("LBFGS reads the loss to decide how far it goes");
  if (!closure) fail<ArgumentError>("LBFGS: step: the closure is empty");
  const NoGrad no_grad;
  int64_t calls = 0;
  const std::function<Variable()> counted = [&] {
    ++calls;
    Variable loss = closure();
    if (!loss.defined() || loss.numel() != 1)
      fail<ArgumentError>("LBFGS: the closure returns the loss, one element");
    return loss;
  };
  Variable first;
  {
    const Recording recording(true);
    first = counted();
  }
  Point now{0, first.item(), gradient(), 0};
  if (largest(now.gradient) <= options_.tolerance_grad) return first;

  const int64_t most_calls = options_.max_eval.value_or(options_.max_iter * 5 / 4);
  for (int64_t i = 1; i <= options_.max_iter; ++i) {
    if (iterations_++ == 0)
      direction_ = -now.gradient;
    else {
      note_pair(now.gradient);
      direction_ = direction(now.gradient);
    }
    last_gradient_ = now.gradient;
    const double last_loss = now.loss;
    t_ = lr() * (iterations_ == 1 ? std::min(1.0, 1 / sum(abs(now.gradient)).item()) : 1.0);
    now.t = 0;
    now.slope = inner(now.gradient, direction_);
    if (now.slope > -options_.tolerance_change) break;

    if (!options_.line_search_fn.empty()) {
      now = search(counted, now, t_, most_calls - calls);
      t_ = now.t;
    } else if (i == options_.max_iter) {
      move(t_, direction_);
    } else {
      now = evaluate(counted, values(), t_);
    }
    if (i == options_.max_iter || calls >= most_calls ||
        largest(now.gradient) <= options_.tolerance_grad ||
        largest(t_ * direction_) <= options_.tolerance_change ||
        std::abs(now.loss - last_loss) < options_.tolerance_change)
      break;
  }
  return first;
}

TensorMap LBFGS::state_dict() const {
  TensorMap all = Optimizer::state_dict();
  if (iterations_ == 0) return all;
  all["lbfgs.iterations"] = Tensor::full({}, iterations_, i64);
  all["lbfgs.t"] = Tensor::full({}, t_, f64);
  all["lbfgs.scale"] = Tensor::full({}, scale_, f64);
  all["lbfgs.direction"] = direction_.value().clone();
  all["lbfgs.gradient"] = last_gradient_.value().clone();
  for (size_t i = 0; i < steps_.size(); ++i) {
    all["lbfgs.steps." + std::to_string(i)] = steps_[i].value().clone();
    all["lbfgs.changes." + std::to_string(i)] = gradient_changes_[i].value().clone();
  }
  return all;
}

void LBFGS::load_state_dict(const TensorMap& state) {
  TensorMap rest;
  std::map<std::string, Tensor> own;
  for (const auto& [name, value] : state)
    if (name.starts_with("lbfgs."))
      own[name.substr(6)] = value;
    else
      rest[name] = value;
  const Variable like = values();
  const auto vector = [&](const std::string& name) {
    const auto found = own.find(name);
    if (found == own.end() || !found->second || found->second.shape() != like.shape() ||
        found->second.dtype() != like.dtype())
      fail<ArgumentError>("LBFGS: load_state_dict: \"lbfgs.", name, "\" is not a ", like.dtype(),
                          " of ", like.shape());
    return Variable(found->second.clone().to(like.device()));
  };
  const auto number = [&](const std::string& name, double low) {
    const auto found = own.find(name);
    if (found == own.end() || !found->second || found->second.numel() != 1)
      fail<ArgumentError>("LBFGS: load_state_dict: \"lbfgs.", name, "\" is not one number");
    check_range("LBFGS: load_state_dict", name, found->second.item(), low, kNoLimit);
    return found->second.item();
  };
  if (own.empty()) {
    Optimizer::load_state_dict(rest);
    iterations_ = 0, t_ = 0, scale_ = 1;
    direction_ = last_gradient_ = {};
    steps_.clear(), gradient_changes_.clear();
    return;
  }
  const int64_t iterations = int64_t(number("iterations", 1));
  const double t = number("t", -kNoLimit), scale = number("scale", 0);
  Variable direction = vector("direction"), gradient = vector("gradient");
  std::vector<Variable> steps, changes;
  for (size_t i = 0; own.contains("steps." + std::to_string(i)); ++i) {
    steps.push_back(vector("steps." + std::to_string(i)));
    changes.push_back(vector("changes." + std::to_string(i)));
  }
  if (own.size() != 5 + 2 * steps.size() || int64_t(steps.size()) > options_.history_size)
    fail<ArgumentError>("LBFGS: load_state_dict: ", own.size(), " entries \"lbfgs.\", of which ",
                        steps.size(), " are steps");
  Optimizer::load_state_dict(rest);
  iterations_ = iterations, t_ = t, scale_ = scale;
  direction_ = std::move(direction), last_gradient_ = std::move(gradient);
  steps_ = std::move(steps), gradient_changes_ = std::move(changes);
}

std::vector<Optimizer::StateInfo> LBFGS::state_info(const Group&) const { return {}; }
}  // namespace tapegrad::optim
