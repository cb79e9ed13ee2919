// Statements that give variables away, whose memory the result may take, and statements that read
// and write by subscripts.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/linear.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/fuzz/tape_program.h"

namespace tapegrad::fuzz {
namespace {

Jet sigmoid_jet(const Jet& x) {
  const double y = 1 / (1 + std::exp(-x.value)), d = y * (1 - y);
  return ref::chain(y, d, d * (1 - 2 * y), x);
}
Jet exp_jet(const Jet& x) {
  const double y = std::exp(x.value);
  return ref::chain(y, y, y, x);
}
/// Returns a function with a corner at 0, where rounding errors would decide about the derivative.
Jet bent_jet(const Jet& x, double below, double above) {
  const double slope = x.value > 0 ? above : below;
  return ref::chain(slope * x.value, slope, 0, x);
}

/// A function of a variable that the caller no longer needs.
struct LastUse {
  const char* name;
  Variable (*call)(Variable&&);
  Jet (*jet)(const Jet&);
  decltype(Function::saves) saves;
  bool has_corner = false;
};
const std::vector<LastUse> kLastUses = {
    {"(moved).tanh", [](Variable&& x) { return std::move(x).tanh(); }, tanh_jet, Function::kOutput},
    {"tanh(moved)", [](Variable&& x) { return tanh(std::move(x)); }, tanh_jet, Function::kOutput},
    {"(moved).sigmoid", [](Variable&& x) { return std::move(x).sigmoid(); }, sigmoid_jet,
     Function::kOutput},
    {"(moved).neg", [](Variable&& x) { return std::move(x).neg(); },
     [](const Jet& x) { return -1 * x; }, Function::kNothing},
    {"-moved", [](Variable&& x) { return -std::move(x); }, [](const Jet& x) { return -1 * x; },
     Function::kNothing},
    {"(moved).square", [](Variable&& x) { return std::move(x).square(); },
     [](const Jet& x) { return x * x; }, Function::kInput},
    {"(moved).exp", [](Variable&& x) { return std::move(x).exp(); }, exp_jet, Function::kOutput},
    {"0.5 * moved - 1", [](Variable&& x) { return 0.5 * std::move(x) - 1.0; },
     [](const Jet& x) {
       Jet y = 0.5 * x;
       y.value -= 1;
       return y;
     },
     Function::kNothing},
    {"(moved).mul(2)", [](Variable&& x) { return std::move(x).mul(2.0); },
     [](const Jet& x) { return 2 * x; }, Function::kNothing},
    {"(moved).relu", [](Variable&& x) { return std::move(x).relu(); },
     [](const Jet& x) { return bent_jet(x, 0, 1); }, Function::kOutput, true},
    {"relu(moved)", [](Variable&& x) { return relu(std::move(x)); },
     [](const Jet& x) { return bent_jet(x, 0, 1); }, Function::kOutput, true},
    {"(moved).abs", [](Variable&& x) { return std::move(x).abs(); },
     [](const Jet& x) { return bent_jet(x, -1, 1); }, Function::kInput, true},
    {"leaky_relu(moved)", [](Variable&& x) { return leaky_relu(std::move(x), 0.25); },
     [](const Jet& x) { return bent_jet(x, 0.25, 1); }, Function::kInput, true},
};

Sizes broadcast_sizes(const Sizes& a, const Sizes& b) {
  Sizes to(std::max(a.size(), b.size()), 1);
  for (const Sizes* sizes : {&a, &b})
    for (size_t i = 0; i < sizes->size(); ++i) {
      int& size = to[to.size() - sizes->size() + i];
      if (size != 1 && (*sizes)[i] != 1 && size != (*sizes)[i]) return {};
      size = std::max(size, (*sizes)[i]);
    }
  return to;
}

}  // namespace

bool Program::chain_unary(Variable& x, Ref& model, bool& saves_output) {
  const LastUse& f = choices_.of(kLastUses);
  for (const int at : model->at)
    if (f.has_corner && std::abs(model->storage->values[size_t(at)]) < 1e-6) return true;
  saves_output = f.saves == Function::kOutput;
  const Ref before = model;
  return both(
      f.name,
      [&] {
        Jets jets = ref::read(before, recording_);
        for (Jet& jet : jets) jet = f.jet(jet);
        std::vector<ref::Saved> saved;
        if (f.saves == Function::kInput)
          saved.push_back({before->storage, before->storage->version});
        model = ref::result(jets, before->shape, {&before, 1}, saved, recording_, saves_output);
      },
      [&] { x = f.call(std::move(x)); });
}

bool Program::chain_binary(Variable& x, Ref& model) {
  // With another variable, with itself, or with a product that nobody names.
  const bool with_itself = choices_.below(4) == 0;
  Pair other;
  if (!with_itself) {
    if (pool_.empty()) return true;
    other = pick();
  }
  const Ref left = model, right = with_itself ? model : other.model;
  const Sizes to = broadcast_sizes(left->shape, right->shape);
  if (ref::count(to) > 6 || (to.empty() && left->shape.size() + right->shape.size() > 0))
    return true;
  const size_t kind = choices_.below(3), form = choices_.below(4);
  constexpr const char* kForms[] = {"moved on the left", "moved on the right", "both moved",
                                    "a member of moved"};
  return both(
      std::string(1, "+-*"[kind]) + " with " + (with_itself ? "itself" : other.name) + ", " +
          kForms[form],
      [&] {
        Jets jets = taken(ref::read(left, recording_), broadcast_places(left->shape, to));
        const Jets others = taken(ref::read(right, recording_), broadcast_places(right->shape, to));
        const bool swapped = form == 1;
        for (size_t i = 0; i < jets.size(); ++i)
          jets[i] = swapped ? combine(kind, others[i], jets[i]) : combine(kind, jets[i], others[i]);
        const Ref inputs[] = {swapped ? right : left, swapped ? left : right};
        model = ref::result(
            jets, to, inputs,
            kind == 2 ? saved_by_product(inputs[0], inputs[1]) : std::vector<ref::Saved>(),
            recording_);
      },
      [&] {
        const auto call = [&](Operand a, Operand b) {
          return kind == 0   ? std::move(a) + std::move(b)
                 : kind == 1 ? std::move(a) - std::move(b)
                             : std::move(a) * std::move(b);
        };
        const Variable& z = with_itself ? x : other.x;
        if (form == 0)
          x = call(std::move(x), z);
        else if (form == 1)
          x = call(z, std::move(x));
        else if (form == 2 && with_itself)
          x = call(std::move(x), std::move(x));
        else if (form == 2)
          x = call(std::move(x), Variable(z));
        else if (kind == 0)
          x = std::move(x).add(z);
        else if (kind == 1)
          x = std::move(x).sub(z);
        else
          x = std::move(x).mul(z);
      });
}

void Program::chain() {
  // The chain's variable, which the pool loses or shares with it.
  const size_t at = choices_.below(pool_.size());
  Variable x = pool_[at].x;
  Ref model = pool_[at].model;
  const Ref first = model;
  const bool is_shared = choices_.flag();
  say(std::string("chain from ") + pool_[at].name + (is_shared ? "" : ", which is given away"));
  if (!is_shared) pool_.erase(pool_.begin() + std::ptrdiff_t(at));
  bool saves_output = true;
  for (int left = 1 + int(choices_.below(5)); left > 0 && !ended_; --left) {
    const size_t kind = choices_.below(10);
    if (kind < 5) {
      if (!chain_unary(x, model, saves_output)) return;
    } else if (kind < 8) {
      const Ref before = model;
      if (!chain_binary(x, model)) return;
      if (model != before) saves_output = false;
    } else if (kind == 8 && pool_.size() < 12) {  // somebody else keeps the value
      const size_t how = choices_.below(3);
      if (how == 0 && !(model->node && model->node->is_leaf)) {
        say("  kept as " + add(x, model).name);
      } else if (how == 1) {
        say("  detached as " + add(x.detach(), ref::detach(model)).name);
      } else if (ref::is_contiguous(model)) {
        Variable y;
        Ref part;
        if (!both(
                "  a flat view",
                [&] { part = ref::view(model, {model->size()}, model->at, recording_); },
                [&] { y = view(x, {x.numel()}); }))
          return;
        add(y, part);
      }
    } else if (kind == 9 && !saves_output && recording_ && model->node && !model->base &&
               model->node->inputs.size() > 0) {
      const double scale = hook_scale(x);
      for (Jet& jet : model->history) jet = scale * jet;
    }
    for (const int place : model->at)
      ended_ |= !(std::abs(model->storage->values[size_t(place)]) < 20);
  }
  if (!is_shared || model != first) add(std::move(x), model);
}

void Program::linear_chain() {
  const Pair a = pick(), b = pick();
  const Sizes &m = a.model->shape, &n = b.model->shape;
  if (m.size() != 2 || n.size() != 2 || m[1] != n[1] || m[0] * n[0] > 6) return;
  const bool with_relu = choices_.flag();
  Variable y;
  Ref model;
  const Ref inputs[] = {a.model, b.model};
  bool is_near_corner = false;
  const auto product = [&] {
    const Jets left = ref::read(a.model, recording_), right = ref::read(b.model, recording_);
    Jets jets;
    for (int i = 0; i < m[0]; ++i)
      for (int j = 0; j < n[0]; ++j) {
        Jet sum;
        for (int k = 0; k < m[1]; ++k)
          sum = sum + left[size_t(i * m[1] + k)] * right[size_t(j * m[1] + k)];
        jets.push_back(sum);
        is_near_corner |= std::abs(sum.value) < 1e-6;
      }
    return jets;
  };
  if (!both(
          "linear(" + a.name + ", " + b.name + ")",
          [&] {
            model = ref::result(product(), {m[0], n[0]}, inputs, saved_by_product(a.model, b.model),
                                recording_);
          },
          [&] { y = linear(a.x, b.x); }))
    return;
  if (with_relu && !is_near_corner) {
    say("  and a ReLU over its memory");
    const Ref before = model;
    Jets jets = ref::read(before, recording_);
    for (Jet& jet : jets) jet = bent_jet(jet, 0, 1);
    model = ref::result(jets, before->shape, {&before, 1}, {}, recording_, true);
    const Recording mode(recording_);
    y = std::move(y).relu();
  }
  add(std::move(y), model);
}

void Program::subscripted() {
  const Pair a = pick();
  const Sizes& shape = a.model->shape;
  if (shape.empty()) return;
  const int rows = shape[0], row = a.model->size() / rows;
  const size_t kind = choices_.below(3);
  std::vector<int> places;
  std::vector<int64_t> ids;
  Values mask;
  Sizes to = shape;
  if (kind == 0) {  // a mask
    for (int i = 0; i < a.model->size(); ++i) {
      mask.push_back(double(choices_.below(2)));
      if (mask.back() > 0) places.push_back(i);
    }
    to = {int(places.size())};
    if (places.empty()) return;
  } else {  // rows by number
    to[0] = 1 + int(choices_.below(3));
    if (to[0] * row > 6) return;
    for (int i = 0; i < to[0]; ++i) {
      const int id = int(choices_.below(size_t(rows)));
      ids.push_back(kind == 1 && choices_.flag() ? id - rows : id);
      for (int k = 0; k < row; ++k) places.push_back(id * row + k);
    }
    if (kind == 2 && shape.size() != 2) return;
  }
  const bool is_sparse = choices_.flag();
  Variable y;
  Ref model;
  if (both(
          std::string(kind == 0   ? "mask of "
                      : kind == 1 ? "rows of "
                                  : "embedding of ") +
              a.name,
          [&] {
            model = ref::result(taken(ref::read(a.model, recording_), places), to, {&a.model, 1},
                                {}, recording_);
          },
          [&] {
            if (kind == 0) {
              y = a.x[make(mask, shape) > 0];
              return;
            }
            const Variable index(Tensor::from<int64_t>(ids, {to[0]}));
            y = kind == 1 ? a.x[index] : embedding(index, a.x, std::nullopt, is_sparse);
          }))
    add(y, model);
}

void Program::assign() {
  Pair a = pick();
  const Pair b = pick();
  const Sizes shape = a.model->shape;
  if (shape.empty()) return;
  const int rows = shape[0], row = a.model->size() / rows;
  const Sizes rest(shape.begin() + 1, shape.end());
  const size_t kind = choices_.below(4);
  const bool has_number = choices_.flag();
  const double by = number();
  const int index = int(choices_.below(size_t(rows)));
  std::vector<int> at(a.model->at.begin() + index * row, a.model->at.begin() + (index + 1) * row);
  const std::vector<int> spread = broadcast_places(b.model->shape, rest);
  Jet constant;
  constant.value = by;
  if (kind < 3) {  // x[i] = y, x[i] += y, x[i] *= y
    if (!has_number && spread.empty()) return;
    constexpr const char* kNames[] = {"] = ", "] += ", "] *= "};
    Ref part;
    const bool sends_first = kind > 0;
    both(
        a.name + "[" + std::to_string(index) + kNames[kind] +
            (has_number ? std::to_string(by) : b.name),
        [&] {
          part = ref::view(a.model, rest, at, recording_);
          Jets jets = ref::read(part, recording_);
          const Jets others = has_number ? Jets(jets.size(), constant)
                                         : taken(ref::read(b.model, recording_), spread);
          for (size_t i = 0; i < jets.size(); ++i)
            jets[i] = kind == 0 ? others[i] : combine(kind == 1 ? 0 : 2, jets[i], others[i]);
          std::vector<ref::Saved> saved;
          if (kind == 2 && !has_number) saved = saved_by_product(part, b.model);
          const std::span<const Ref> inputs(&b.model, has_number ? 0 : 1);
          ref::write(part, jets, inputs, saved, recording_, {.sends_first = sends_first});
        },
        [&] {
          const Operand y = has_number ? Operand(by) : Operand(b.x);
          if (kind == 0) a.x[index] = y;
          if (kind == 1) a.x[index] += y;
          if (kind == 2) a.x[index] *= y;
        });
    return;
  }
  // Rows by number, some of them twice, or by a mask.
  constexpr const char* kForms[] = {
      "index_put_", "index_put_ that adds", "[index] =", "[index] +=", "[mask] =", "[mask] +="};
  const size_t form = choices_.below(6);
  const bool by_mask = form > 3;
  std::vector<int64_t> ids;
  Values mask(size_t(rows), 0.0);
  for (int left = 1 + int(choices_.below(3)); left > 0; --left) {
    const size_t id = choices_.below(size_t(rows));
    if (by_mask && mask[id] > 0) continue;
    ids.push_back(int64_t(id));
    mask[id] = 1;
  }
  if (!has_number && spread.empty()) return;
  both(
      a.name + kForms[form] + " " + (has_number ? std::to_string(by) : b.name),
      [&] {
        Jets jets = ref::read(a.model, recording_);
        const Jets before = jets;
        const Jets others = has_number ? Jets(size_t(row), constant)
                                       : taken(ref::read(b.model, recording_), spread);
        for (const int64_t id : ids)
          for (int k = 0; k < row; ++k) {
            const size_t place = size_t(id) * size_t(row) + size_t(k);
            const Jet& other = others[size_t(k)];
            jets[place] = form == 1                ? jets[place] + other
                          : form == 3 || form == 5 ? before[place] + other
                                                   : other;
          }
        const std::span<const Ref> inputs(&b.model, has_number ? 0 : 1);
        ref::write(a.model, jets, inputs, {}, recording_, {});
      },
      [&] {
        const Variable which = by_mask
                                   ? make(mask, {rows}) > 0
                                   : Variable(Tensor::from<int64_t>(ids, {int64_t(ids.size())}));
        const Operand y = has_number ? Operand(by) : Operand(b.x);
        if (form < 2)
          index_put_(a.x, {which}, y, form == 1);
        else if (form == 2 || form == 4)
          a.x[which] = y;
        else
          a.x[which] += y;
      });
}

}  // namespace tapegrad::fuzz
