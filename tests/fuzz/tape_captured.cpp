// Statements that compare two ways to the same bits: a captured step and its function, autocast and
// casts by hand. Variables of the statement itself are compared with each other. Leaves of the pool
// take part as well, so that the model checks the writes of the statements.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>

#include "core/autograd/checkpoint.h"
#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "core/tape/view.h"
#include "nn/function_transforms.h"
#include "nn/functional_call.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/extremes.h"
#include "ops/linear.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/softmax.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/fuzz/tape_program.h"
#include "train/graphed_step.h"

namespace tapegrad::fuzz {
namespace {

struct Stop {};  // thrown by a step midway

/// A training step of drawn ops over three registers: a leaf, a constant and the input.
struct DrawnStep {
  struct Line {
    size_t op, a, b;
    double by;
  };
  std::vector<Line> lines;
  Variable rows;  // numbers of rows of the leaf
  Values weights;

  static DrawnStep draw(Choices& choices, const Sizes& shape) {
    DrawnStep step;
    const size_t count = 1 + choices.below(8);
    for (size_t i = 0; i < count; ++i)
      step.lines.push_back({choices.below(22), choices.below(3 + i), choices.below(3 + i),
                            choices.of({0.5, -1.5, 0.25, 1.0})});
    std::vector<int64_t> ids;
    for (int i = 0; i < shape[0]; ++i) ids.push_back(int64_t(choices.below(size_t(shape[0]))));
    step.rows = Variable(Tensor::from<int64_t>(ids, {int64_t(ids.size())}));
    return step;
  }

  std::string text() const {
    std::string text;
    for (const Line& line : lines)
      text += " " + std::to_string(line.op) + "(" + std::to_string(line.a) + "," +
              std::to_string(line.b) + "," + std::to_string(line.by).substr(0, 4) + ")";
    return text;
  }

  static Variable run_line(const Line& line, std::vector<Variable>& r, const Variable& ids) {
    Variable& a = r[line.a];
    const Variable& b = r[line.b];
    const double by = line.by;
    switch (line.op) {
      case 0:
        return tanh(a);
      case 1:
        return sigmoid(a) * b;
      case 2:
        return a + b;
      case 3:
        return a * b;
      case 4:
        return relu(a - b);
      case 5:
        return (a * by).tanh() + b;
      case 6: {
        Variable y = a + by;
        y += b;
        return y;
      }
      case 7: {
        Variable y = a * by;
        y[0] = by;
        return y;
      }
      case 8: {
        Variable y = a + b;
        Variable part = y.select(0, -1);
        part *= by;
        return y * part;
      }
      case 9:
        return checkpoint([](const Variable& x, const Variable& z) { return tanh(x * z) + x; }, a,
                          b);
      case 10:
        return dropout(a + by, 0.5);
      case 11:
        return a[ids] * b;
      case 12:
        return sum(a, {0}, true) * b;
      case 13:
        return a.rank() == 2 ? matmul(matmul(a, t(b)), b) : a * dot(a, b);
      case 14:
        return softmax(a, -1);
      case 15: {  // the register is given away
        Variable x = line.a < 3 ? a * 1.0 : std::move(a);
        Variable y = std::move(x).tanh();
        if (line.a >= 3) a = y;
        return y;
      }
      case 16:
        return where(a > by, a, b);
      case 17:
        return a.detach() * b + a;
      case 18:  // may overwrite a value that a rule needs
        if (line.a >= 3) a += by;
        return a * b;
      case 19:
        return cumsum(a, 0) + amax(b, {0});
      case 20: {
        Variable y = a * by;
        if (y.requires_grad()) y.register_hook([](const Variable& g) { return g * 2; });
        return y;
      }
      default: {  // a statistic of the step
        const NoGrad no_grad;
        r[1] *= 0.5;
        r[1] += 0.25;
        return r[1] * by;
      }
    }
  }

  Variable operator()(const Variable& w, const Variable& c, const Variable& input) const {
    std::vector<Variable> r = {w, c, input};
    r.reserve(r.size() + lines.size());
    for (const Line& line : lines) {
      Variable y = run_line(line, r, rows);
      r.push_back(y.shape() == w.shape() ? y : w + y);
    }
    return mean(r.back() * w);
  }
};

/// State of one of the two ways of making the steps.
struct Way {
  Variable w, c;
  std::unique_ptr<optim::Optimizer> optimizer;

  Way(Variable leaf, Variable constant, size_t kind) : w(std::move(leaf)), c(std::move(constant)) {
    if (kind == 1) optimizer = std::make_unique<optim::SGD>(optim::Params({w}), 0.25);
    if (kind == 2)
      optimizer = std::make_unique<optim::SGD>(optim::Params({w}),
                                               optim::SGDOptions{.lr = 0.25, .momentum = 0.5});
    if (kind == 3) optimizer = std::make_unique<optim::Adam>(optim::Params({w}), 0.25);
  }
  Values gradient() const { return w.grad().defined() ? w.grad().to_vector<double>() : Values{}; }
};

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// Runs a step. Returns its loss, or nothing after an error of the tape.
template <typename Step>
std::optional<Values> attempt(const Step& step) {
  try {
    return step().template to_vector<double>();
  } catch (const AutogradError&) {
  } catch (const Stop&) {
  }
  return {};
}

}  // namespace

void Program::captured() {
  std::vector<Pair> leaves, constants;
  for (const Pair& pair : pool_)
    if (is_leaf(pair) && !pair.model->base && !pair.model->shape.empty() &&
        ref::is_contiguous(pair.model))  // a sum of another layout may round differently
      leaves.push_back(pair);
  if (leaves.empty() || choices_.below(3) != 0) return;
  const Pair leaf = choices_.of(leaves);
  const Sizes& shape = leaf.model->shape;
  for (const Pair& pair : pool_)
    if (!pair.model->node && !pair.model->base && pair.model->shape == shape &&
        ref::is_contiguous(pair.model) && pair.model->storage != leaf.model->storage)
      constants.push_back(pair);
  const DrawnStep body = DrawnStep::draw(choices_, shape);
  const size_t kind = choices_.below(4);
  const bool clears = choices_.flag(), is_nested = choices_.below(8) == 0;
  GraphedStepOptions options;
  options.warmup = 1 + int64_t(choices_.below(3));
  options.save_memory = choices_.flag();
  if (!recording_) switch_recording();
  const Recording mode(true);

  Variable constant = make(numbers(leaf.model->size()), shape);
  if (!constants.empty()) constant = choices_.of(constants).x;
  const double scale =
      leaf.model->history[size_t(leaf.model->at[0])].first[size_t(leaf.model->direction)];
  Way real(leaf.x, constant, kind);
  Way plain(leaf.x.detach().clone().requires_grad_(), constant.clone(), kind);
  if (scale != 1) plain.w.register_hook([scale](const Variable& g) { return g * scale; });
  if (leaf.x.grad().defined())  // gives the other leaf the same gradient
    sum(plain.w * (leaf.x.grad().detach() * (1 / scale))).backward();
  if (!same_bits(plain.gradient(), real.gradient())) {  // -0.0 in place of 0.0
    plain.w.zero_grad();
    real.w.zero_grad();
    leaf.model->total.clear();
  }

  bool throws = false, writes = false;
  const auto step_of = [&](Way& way) {
    return [&, &way = way](const Variable& input) {
      if (clears) way.w.zero_grad();
      Variable loss = body(way.w, way.c, input);
      loss.backward();
      if (throws) throw Stop();
      if (way.optimizer) way.optimizer->step();
      return loss;
    };
  };
  const auto eager = step_of(plain);
  GraphedStep inner(step_of(real), {}, options);
  GraphedStep step =
      is_nested ? GraphedStep([&](const Variable& input) { return inner(input); }, {}, options)
                : GraphedStep(step_of(real), {}, options);
  say("captured step of " + leaf.name + ", optimizer " + std::to_string(kind) +
      (clears ? ", clears" : "") + (is_nested ? ", nested" : "") + ", warmup " +
      std::to_string(options.warmup) + ":" + body.text());

  const int stop_at = choices_.below(4) == 0 ? int(choices_.below(size_t(options.warmup) + 1)) : -1;
  for (int call = 0; call < 6; ++call) {
    const Variable input = make(numbers(leaf.model->size()), shape);
    throws = call == stop_at && !is_nested;
    const RandomState start = default_generator().state();
    const auto expected = attempt([&] { return eager(input); });
    const RandomState end = default_generator().state();
    default_generator().set_state(start);
    std::optional<Values> got;
    const auto run = [&] { got = attempt([&] { return step(input); }); };
    on_this_or_another_thread(run);
    const std::string where = " in call " + std::to_string(call) + " of the captured step";
    if (got.has_value() != expected.has_value())
      finding((got ? "no error" : "an error that the function does not have") + where);
    if (got && !same_bits(*got, *expected)) finding("another loss" + where);
    if (!(default_generator().state() == end)) finding("another number of random words" + where);
    const auto same = [&](const std::string& what, const Values& of_step,
                          const Values& of_function) {
      if (same_bits(of_step, of_function)) return;
      std::ostringstream text;
      text << "another " << what << where << ':';
      for (const double value : of_step) text << ' ' << value;
      text << ", by the function";
      for (const double value : of_function) text << ' ' << value;
      finding(text.str());
    };
    same("gradient", real.gradient(), plain.gradient());
    same("value of the leaf", real.w.to_vector<double>(), plain.w.to_vector<double>());
    same("value of the constant", real.c.to_vector<double>(), plain.c.to_vector<double>());
    if (!got && !throws) break;
    writes |= got && real.optimizer;
    for (Way* way : {&real, &plain}) {
      const size_t between = (body.lines.size() + size_t(call) * 5 + kind) % 6;
      if (between == 0) way->w.zero_grad();
      if (between == 1) way->w.zero_grad(/*set_to_none=*/false);
      if (between == 2 && way->optimizer) way->optimizer->set_lr(0.5 / (call + 1));
      if (between == 3) {
        const NoGrad no_grad;
        way->w *= 0.75;
        writes = true;
      }
    }
  }
  // Copies the written values to the model.
  const auto learn = [&](ref::State& model, const Values& now) {
    for (size_t i = 0; i < now.size(); ++i) {
      model.storage->values[size_t(model.at[i])] = now[i];
      ended_ |= !(std::abs(now[i]) < 20);
    }
    ++model.storage->version;
  };
  if (writes) learn(*leaf.model, real.w.to_vector<double>());
  const auto writes_constant = [](const DrawnStep::Line& line) { return line.op == 21; };
  if (std::any_of(body.lines.begin(), body.lines.end(), writes_constant))
    for (const Pair& pair : pool_)
      if (pair.x.is_same(real.c)) learn(*pair.model, real.c.to_vector<double>());
  const Values gradient = leaf.model->total = real.gradient();
  for (const double d : gradient) ended_ |= !(std::abs(d) < 1e4);
}

void Program::autocasted() {
  const Pair a = pick(), b = pick();
  const Sizes &m = a.model->shape, &n = b.model->shape;
  if (m.size() != 2 || n.size() != 2 || m[1] != n[1]) return;
  const DType low = choices_.flag() ? bf16 : f16;
  const bool rewrites = choices_.flag(), is_linear = choices_.flag();
  say("autocast of " + a.name + " and " + b.name);
  const Recording mode(true);
  const Variable x = a.x.detach().to(f32).clone().requires_grad_();
  const Variable w = b.x.detach().to(f32).clone().requires_grad_();
  const auto product = [&](const Variable& p, const Variable& q) {
    return is_linear ? linear(p, q) : matmul(p, t(q));
  };
  const auto change = [&] {
    if (!rewrites) return;
    const NoGrad no_grad;
    Variable(w) *= 2.0;
  };
  const Tensor before = w.value().clone();
  Variable y, z;
  {
    const Autocast amp(low);
    y = product(x, w);
    change();
    z = product(x, w);
  }
  const std::vector<Variable> g = grad(sum(z.to(f32)), std::vector<Variable>{x, w});
  {
    const NoGrad no_grad;
    copy_(const_cast<Variable&>(w), Variable(before));
  }
  const Variable y2 = product(x.to(low), w.to(low));
  change();
  const Variable z2 = product(x.to(low), w.to(low));
  const std::vector<Variable> g2 = grad(sum(z2.to(f32)), std::vector<Variable>{x, w});
  const auto same = [&](const std::string& what, const Variable& p, const Variable& q) {
    if (p.dtype() != q.dtype() || !same_bits(p.to_vector<double>(), q.to_vector<double>()))
      finding("autocast: another " + what);
  };
  same("value", y, y2);
  same("value after a write", z, z2);
  same("gradient by x", g[0], g2[0]);
  same("gradient by w", g[1], g2[1]);
}

void Program::functional() {
  const Pair a = pick(), b = pick();
  const Sizes &m = a.model->shape, &n = b.model->shape;
  if (m.size() == 2 && n.size() == 2 && m[1] == 3 && n == Sizes{2, 3} && m[0] <= 3) {
    Variable y;
    Ref model;
    const Ref inputs[] = {a.model, b.model};
    if (both(
            "functional_call(" + b.name + ", " + a.name + ")",
            [&] {
              const Jets left = ref::read(a.model, recording_),
                         right = ref::read(b.model, recording_);
              Jets jets;
              for (int i = 0; i < m[0]; ++i)
                for (int j = 0; j < 2; ++j) {
                  Jet sum;
                  for (int k = 0; k < 3; ++k)
                    sum = sum + left[size_t(i * 3 + k)] * right[size_t(j * 3 + k)];
                  jets.push_back(sum);
                }
              model = ref::result(jets, {m[0], 2}, inputs, saved_by_product(a.model, b.model),
                                  recording_);
            },
            [&] {
              nn::Linear layer(3, 2, {.bias = false});
              const Variable own = layer.weight;
              y = nn::functional_call(layer, {{"weight", b.x}}, a.x);
              if (!layer.weight.is_same(own)) finding("functional_call kept the weight");
            }))
      add(y, model);
    return;
  }
  if (m.empty() || m != n) return;
  Variable y;
  Ref model;
  const Ref inputs[] = {a.model, b.model};
  if (both(
          "vmap over " + a.name + ", " + b.name,
          [&] {
            Jets jets = ref::read(a.model, recording_);
            const Jets others = ref::read(b.model, recording_);
            for (size_t i = 0; i < jets.size(); ++i) jets[i] = tanh_jet(jets[i]) * others[i];
            std::vector<ref::Saved> saved = {{b.model->storage, b.model->storage->version, 0}};
            model = ref::result(jets, m, inputs, saved, recording_);
          },
          [&] {
            y = vmap([](const Variable& x, const Variable& z) { return tanh(x) * z; }, a.x, b.x);
          }))
    add(y, model);
}

}  // namespace tapegrad::fuzz
