// Statements that make and write values.
#include <cmath>

#include "core/base/error.h"
#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/fuzz/tape_program.h"

namespace tapegrad::fuzz {

Jet tanh_jet(const Jet& x) {
  const double y = std::tanh(x.value), d = 1 - y * y;
  return ref::chain(y, d, -2 * y * d, x);
}
const std::vector<Function> kFunctions = {
    {"tanh", [](const Variable& x) { return tanh(x); }, tanh_jet, Function::kOutput},
    {"sin", [](const Variable& x) { return sin(x); },
     [](const Jet& x) {
       return ref::chain(std::sin(x.value), std::cos(x.value), -std::sin(x.value), x);
     },
     Function::kInput},
    {"sigmoid", [](const Variable& x) { return sigmoid(x); },
     [](const Jet& x) {
       const double y = 1 / (1 + std::exp(-x.value)), d = y * (1 - y);
       return ref::chain(y, d, d * (1 - 2 * y), x);
     },
     Function::kOutput},
    {"neg", [](const Variable& x) { return -x; }, [](const Jet& x) { return -1 * x; },
     Function::kNothing},
    {"square", [](const Variable& x) { return square(x); }, [](const Jet& x) { return x * x; },
     Function::kInput},
    {"half", [](const Variable& x) { return 0.5 * x; }, [](const Jet& x) { return 0.5 * x; },
     Function::kNothing},
    {"clone", [](const Variable& x) { return clone(x); }, [](const Jet& x) { return x; },
     Function::kNothing},
};

Shape shape_of(const Sizes& sizes) {
  Shape shape;
  for (const int size : sizes) shape.push_back(size);
  return shape;
}

std::vector<int> broadcast_places(const Sizes& from, const Sizes& to) {
  const size_t missing = to.size() - from.size();
  if (from.size() > to.size()) return {};
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != to[missing + i]) return {};
  std::vector<int> all;
  for (int k = 0; k < ref::count(to); ++k) {
    int rest = k, place = 0, step = 1;
    for (size_t i = to.size(); i-- > 0; rest /= to[i])
      if (i >= missing && from[i - missing] != 1) {
        place += rest % to[i] * step;
        step *= from[i - missing];
      }
    all.push_back(place);
  }
  return all;
}

void Program::apply(const Function& f) {
  const Pair a = pick();
  Variable y;
  Ref model;
  if (both(
          std::string(f.name) + "(" + a.name + ")",
          [&] {
            Jets jets = ref::read(a.model, recording_);
            for (Jet& jet : jets) jet = f.jet(jet);
            model = ref::result(jets, a.model->shape, {&a.model, 1}, saved_by(f, a.model),
                                recording_, f.saves == Function::kOutput);
          },
          [&] { y = f.call(a.x); }))
    add(y, model);
}

std::vector<ref::Saved> Program::saved_by(const Function& f, const Ref& x) {
  if (f.saves != Function::kInput) return {};
  return {{x->storage, x->storage->version}};
}

std::vector<ref::Saved> Program::saved_by_product(const Ref& a, const Ref& b) {
  return {{a->storage, a->storage->version, 1}, {b->storage, b->storage->version, 0}};
}

void Program::binary() {
  const Pair a = pick(), b = pick();
  const size_t kind = choices_.below(4);
  if (kind == 3) return product(a, b);
  const Sizes& shape = a.model->shape;
  const std::vector<int> places = broadcast_places(b.model->shape, shape);
  if (places.empty()) return;
  Variable y;
  Ref model;
  const Ref inputs[] = {a.model, b.model};
  if (both(
          a.name + " " + "+-*"[kind] + " " + b.name,
          [&] {
            Jets jets = ref::read(a.model, recording_);
            const Jets others = taken(ref::read(b.model, recording_), places);
            for (size_t i = 0; i < jets.size(); ++i) jets[i] = combine(kind, jets[i], others[i]);
            model = ref::result(
                jets, shape, inputs,
                kind == 2 ? saved_by_product(a.model, b.model) : std::vector<ref::Saved>(),
                recording_);
          },
          [&] { y = kind == 0   ? a.x + b.x
                    : kind == 1 ? a.x - b.x
                                : a.x * b.x; }))
    add(y, model);
}

Jet Program::combine(size_t kind, const Jet& a, const Jet& b) {
  return kind == 0 ? a + b : kind == 1 ? a + -1 * b : a * b;
}

void Program::product(const Pair& a, const Pair& b) {
  const Sizes &m = a.model->shape, &n = b.model->shape;
  if (m.size() != 2 || n.size() != 2 || m[1] != n[0] || m[0] * n[1] > 6) return;
  Variable y;
  Ref model;
  const Ref inputs[] = {a.model, b.model};
  if (both(
          "matmul(" + a.name + ", " + b.name + ")",
          [&] {
            const Jets left = ref::read(a.model, recording_),
                       right = ref::read(b.model, recording_);
            Jets jets;
            for (int i = 0; i < m[0]; ++i)
              for (int j = 0; j < n[1]; ++j) {
                Jet sum;
                for (int k = 0; k < m[1]; ++k)
                  sum = sum + left[size_t(i * m[1] + k)] * right[size_t(k * n[1] + j)];
                jets.push_back(sum);
              }
            model = ref::result(jets, {m[0], n[1]}, inputs, saved_by_product(a.model, b.model),
                                recording_);
          },
          [&] { y = matmul(a.x, b.x); }))
    add(y, model);
}

void Program::joined() {
  const Pair a = pick(), b = pick();
  const size_t kind = choices_.below(3);
  const Sizes& shape = a.model->shape;
  const int rows = shape.empty() ? 0 : shape[0], size = a.model->size();
  if (rows == 0 || (kind < 2 && b.model->shape != shape) || (kind == 0 && 2 * size > 6)) return;
  Variable y;
  Ref model;
  const Values mask = [&] {
    Values mask;
    for (int i = 0; i < size; ++i) mask.push_back(double(choices_.below(2)));
    return mask;
  }();
  const Ref inputs[] = {a.model, b.model};
  if (both((kind == 0   ? "cat "
            : kind == 1 ? "where "
                        : "sum ") +
               a.name + ", " + b.name,
           [&] {
             const Jets left = ref::read(a.model, recording_);
             if (kind == 2) {
               Jets jets(left.begin(), left.begin() + size / rows);
               for (int i = size / rows; i < size; ++i)
                 jets[size_t(i % (size / rows))] =
                     jets[size_t(i % (size / rows))] + left[size_t(i)];
               model = ref::result(jets, Sizes(shape.begin() + 1, shape.end()), {inputs, 1}, {},
                                   recording_);
               return;
             }
             Jets jets = left, right = ref::read(b.model, recording_);
             Sizes to = shape;
             if (kind == 0) {
               jets.insert(jets.end(), right.begin(), right.end());
               to[0] *= 2;
             } else {
               for (size_t i = 0; i < jets.size(); ++i)
                 if (mask[i] == 0) jets[i] = right[i];
             }
             model = ref::result(jets, to, inputs, {}, recording_);
           },
           [&] {
             if (kind == 0) y = cat({a.x, b.x});
             if (kind == 1) y = where(make(mask, shape) > 0, a.x, b.x);
             if (kind == 2) y = sum(a.x, {0});
           }))
    add(y, model);
}

void Program::take_view() {
  const Pair a = pick();
  const Ref& x = a.model;
  const Sizes& shape = x->shape;
  const int rank = int(shape.size());
  Sizes to;
  std::vector<int> at;
  std::function<Variable()> call;
  std::string text;
  const int d = rank == 0 ? 0 : int(choices_.below(size_t(rank)));
  const size_t kind = choices_.below(6);
  // Elements start, start + step, ... along dimension d.
  const auto along = [&](int start, int length, int step) {
    int inner = 1;
    for (int i = d + 1; i < rank; ++i) inner *= shape[size_t(i)];
    to = shape;
    to[size_t(d)] = length;
    for (int o = 0; o < x->size() / (inner * shape[size_t(d)]); ++o)
      for (int k = 0; k < length; ++k)
        for (int i = 0; i < inner; ++i)
          at.push_back(x->at[size_t((o * shape[size_t(d)] + start + k * step) * inner + i)]);
  };
  if (kind == 0 && rank == 2) {
    to = {shape[1], shape[0]};
    for (int j = 0; j < shape[1]; ++j)
      for (int i = 0; i < shape[0]; ++i) at.push_back(x->at[size_t(i * shape[1] + j)]);
    call = [&] { return t(a.x); };
    text = "t";
  } else if (kind == 1 && rank > 0) {
    const int index = int(choices_.below(size_t(shape[size_t(d)])));
    along(index, 1, 1);
    to.erase(to.begin() + d);
    call = [=] { return select(a.x, d, index); };
    text = "select " + std::to_string(d) + " " + std::to_string(index) + " of";
  } else if (kind == 2 && rank > 0) {
    const int start = int(choices_.below(size_t(shape[size_t(d)])));
    const int length = 1 + int(choices_.below(size_t(shape[size_t(d)] - start)));
    along(start, length, 1);
    call = [=] { return narrow(a.x, d, start, length); };
    text = "narrow " + std::to_string(d) + " " + std::to_string(start) + " " +
           std::to_string(length) + " of";
  } else if (kind == 3 && rank > 0) {
    along(0, (shape[size_t(d)] + 1) / 2, 2);
    call = [=] { return slice(a.x, d, 0, kEnd, 2); };
    text = "every second of dimension " + std::to_string(d) + " of";
  } else if (kind == 4 && x->size() <= 3 && rank < 3) {
    to = shape;
    to.insert(to.begin(), 2);
    at = taken(x->at, broadcast_places(shape, to));
    call = [=] { return expand(a.x, shape_of(to)); };
    text = "expand to [2, ...]";
  } else if (kind == 5 && ref::is_contiguous(x)) {
    to = {x->size()};
    at = x->at;
    call = [=] { return view(a.x, shape_of(to)); };
    text = "flat";
  } else {
    return;
  }
  Variable y;
  Ref model;
  if (both(
          text + " " + a.name, [&] { model = ref::view(x, to, at, recording_); },
          [&] { y = call(); }))
    add(y, model);
}

void Program::write_unary() {
  Pair a = pick();
  const size_t kind = choices_.below(3);
  both(
      a.name + (kind == 0   ? ".tanh_"
                : kind == 1 ? ".neg_"
                            : ".sigmoid_"),
      [&] {
        const Function& f = kFunctions[kind == 0 ? 0 : kind == 1 ? 3 : 2];
        Jets jets = ref::read(a.model, recording_);
        for (Jet& jet : jets) jet = f.jet(jet);
        ref::write(a.model, jets, {}, {}, recording_,
                   {.saves_output = f.saves == Function::kOutput});
      },
      [&] {
        if (kind == 0) tanh_(a.x);
        if (kind == 1) neg_(a.x);
        if (kind == 2) sigmoid_(a.x);
      });
}

void Program::write_number() {
  Pair a = pick();
  const double by = number();
  const size_t kind = choices_.below(4);
  constexpr const char* kNames[] = {"+=", "*=", "= fill", "masked_fill"};
  Values mask;
  for (int i = 0; i < a.model->size(); ++i) mask.push_back(double(choices_.below(2)));
  both(
      a.name + " " + kNames[kind] + " " + std::to_string(by),
      [&] {
        Jets jets = ref::read(a.model, recording_);
        Jet constant;
        constant.value = by;
        for (size_t i = 0; i < jets.size(); ++i) {
          if (kind == 0) jets[i] = jets[i] + constant;
          if (kind == 1) jets[i] = by * jets[i];
          if (kind == 2 || (kind == 3 && mask[i] > 0)) jets[i] = constant;
        }
        ref::write(a.model, jets, {}, {}, recording_, {.sends_first = kind != 2});
      },
      [&] {
        if (kind == 0) a.x += by;
        if (kind == 1) a.x *= by;
        if (kind == 2) fill_(a.x, by);
        if (kind == 3) masked_fill_(a.x, make(mask, a.model->shape) > 0, by);
      });
}

void Program::write_other() {
  Pair a = pick();
  const Pair b = pick();
  const size_t kind = choices_.below(4);
  const std::vector<int> places = broadcast_places(b.model->shape, a.model->shape);
  if (places.empty()) return;
  constexpr const char* kNames[] = {" += ", " -= ", " *= ", " = copy of "};
  both(
      a.name + kNames[kind] + b.name,
      [&] {
        Jets jets = ref::read(a.model, recording_);
        const Jets others = taken(ref::read(b.model, recording_), places);
        for (size_t i = 0; i < jets.size(); ++i)
          jets[i] = kind == 3 ? others[i] : combine(kind, jets[i], others[i]);
        ref::write(a.model, jets, {&b.model, 1},
                   kind == 2 ? saved_by_product(a.model, b.model) : std::vector<ref::Saved>(),
                   recording_, {.sends_first = kind != 3});
      },
      [&] {
        if (kind == 0) a.x += b.x;
        if (kind == 1) a.x -= b.x;
        if (kind == 2) a.x *= b.x;
        if (kind == 3) copy_(a.x, b.x);
      });
}

void Program::wrong_write() {
  Pair a = pick();
  say(a.name + " += seven elements");
  try {
    a.x += make(Values(7, 1.0), {7});
  } catch (const Error&) {
    return;
  }
  finding("a write of another shape was accepted");
}

void Program::detach() {
  const Pair a = pick();
  say("detach " + a.name);
  add(a.x.detach(), ref::detach(a.model));
}

void Program::require_gradient() {
  Pair& a = pick();
  if (a.model->node || a.model->base || ref::overlaps_itself(a.model) ||
      directions_ + a.model->size() > ref::kDirections)
    return;
  say(a.name + ".requires_grad_()");
  a.x.requires_grad_();
  owners_.push_back(a.x);
  ref::make_leaf(a.model, directions_);
  directions_ += a.model->size();
}

void Program::rebind() {
  const Pair a = pick();
  const Sizes shape = choices_.of({Sizes{2, 3}, Sizes{3}});
  if (directions_ + ref::count(shape) > ref::kDirections) return;
  const Values values = numbers(ref::count(shape));
  std::vector<Ref> all;
  for (const Pair& pair : pool_) all.push_back(pair.model);
  if (both(
          "rebind " + a.name,
          [&] { ref::rebind(a.model, ref::constant(shape, values), directions_, all); },
          [&] { a.x.rebind(make(values, shape).value()); }) &&
      is_leaf(a))
    directions_ += ref::count(shape);
}

void Program::switch_recording() {
  recording_ = !recording_;
  say(recording_ ? "record" : "no recording");
}

}  // namespace tapegrad::fuzz
