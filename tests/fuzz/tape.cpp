// Programs over variables of two to six elements, run by the library and by the reference model
// (tests/fuzz/reference.h): ops, views, writes in place, detach, rebind, hooks, retained gradients,
// checkpoints, NoGrad, other threads, and backward passes of first and second order with and
// without retain_graph. After each statement:
//
//   the library threw AutogradError if and only if the model refused the statement
//   all values equal those of the model, also after an error
//   gradients of leaves equal those of the model
#include "tests/fuzz/tape_program.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <sstream>
#include <thread>

#include "core/autograd/sparse_gradient.h"
#include "core/base/error.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"

namespace tapegrad::fuzz {

void Program::run() {
  for (int leaves = 1 + int(choices_.below(2)); leaves > 0; --leaves) add_leaf();
  add_constant();
  for (int left = 4 + int(choices_.below(28)); left > 0 && !ended_; --left) {
    statement();
    follow_probes();
    compare_values();
    if (pool_.size() > 12) drop();
  }
}

void Program::finding(const std::string& what) const { fuzz::finding(what + ", after:\n" + log_); }

Values Program::numbers(int count) {
  Values all;
  for (int i = 0; i < count; ++i) all.push_back((double(choices_.below(37)) - 18) / 16);
  return all;
}

Variable Program::make(const Values& values, const Sizes& shape) {
  return Variable(Tensor::from<double>(values, shape_of(shape)));
}

Pair& Program::add(Variable x, Ref model) {
  pool_.push_back({std::move(x), std::move(model), "v" + std::to_string(named_++)});
  return pool_.back();
}

void Program::on_this_or_another_thread(const std::function<void()>& action) {
  if (choices_.below(8) != 0) {
    const Recording mode(recording_);
    const Autocast amp(bf16, choices_.below(8) == 0);  // casts no float64
    return action();
  }
  std::exception_ptr error;
  std::thread([&] {
    try {
      const Recording mode(recording_);
      action();
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
}

bool Program::both(const std::string& text, const std::function<void()>& model,
                   const std::function<void()>& library) {
  say(text);
  std::string refusal, error;
  try {
    model();
  } catch (const ref::Refusal& refused) {
    refusal = refused.what();
  } catch (const ref::Undecided&) {
    ended_ = true;
    return false;
  }
  try {
    on_this_or_another_thread(library);
  } catch (const AutogradError& thrown) {
    error = thrown.what();
  } catch (const std::exception& thrown) {
    finding(std::string("an error of another type: ") + thrown.what());
  }
  if (refusal.empty() && !error.empty()) finding("an error that the model does not have: " + error);
  if (!refusal.empty() && error.empty()) finding("no error, but by the model: " + refusal);
  if (!error.empty()) log_ += "    refused: " + refusal + "\n";
  return error.empty();
}

void Program::compare(const std::string& what, const Values& got, const Values& expected) {
  double largest = 1;
  for (const double value : expected)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  bool same = got.size() == expected.size();
  for (size_t i = 0; same && i < got.size(); ++i)
    same = std::abs(got[i] - expected[i]) <= 1e-8 * largest || got[i] == expected[i] ||
           (std::isnan(got[i]) && std::isnan(expected[i]));
  if (same) return;
  std::ostringstream text;
  text << what << " is";
  for (const double value : got) text << ' ' << value;
  text << ", by the model";
  for (const double value : expected) text << ' ' << value;
  finding(text.str());
}

void Program::compare_values() {
  for (const Pair& pair : pool_) {
    const Values expected = taken(pair.model->storage->values, pair.model->at);
    compare("the value of " + pair.name, pair.x.to_vector<double>(), expected);
    for (const double value : expected) ended_ |= !(std::abs(value) <= 20);
  }
}

void Program::compare_leaves() {
  for (const Pair& pair : pool_) {
    if (!is_leaf(pair) && !pair.is_probe) continue;
    Variable gradient;
    if (const RowGradientPtr rows = row_gradient(pair.x); rows && choices_.flag())
      gradient = Variable(rows->dense());  // the leaf keeps its rows
    else
      gradient = pair.x.grad();
    const Values got =
        gradient.defined() ? gradient.to_vector<double>() : Values(size_t(pair.model->size()));
    Values expected = pair.model->total;
    expected.resize(size_t(pair.model->size()));
    compare("the gradient of " + pair.name, got, expected);
  }
}

void Program::statement() {
  using Statement = void (Program::*)();
  constexpr Statement kStatements[] = {&Program::unary,        &Program::unary,
                                       &Program::binary,       &Program::binary,
                                       &Program::take_view,    &Program::take_view,
                                       &Program::take_view,    &Program::write_number,
                                       &Program::write_other,  &Program::write_other,
                                       &Program::write_other,  &Program::write_unary,
                                       &Program::detach,       &Program::require_gradient,
                                       &Program::rebind,       &Program::switch_recording,
                                       &Program::backward,     &Program::backward,
                                       &Program::gradient,     &Program::second_order,
                                       &Program::checkpointed, &Program::zero,
                                       &Program::hook,         &Program::probe,
                                       &Program::threads,      &Program::throwing_hook,
                                       &Program::joined,       &Program::wrong_write,
                                       &Program::chain,        &Program::chain,
                                       &Program::linear_chain, &Program::subscripted,
                                       &Program::assign,       &Program::assign,
                                       &Program::functional,   &Program::captured,
                                       &Program::autocasted};
  (this->*choices_.of(kStatements))();
}

void Program::add_leaf() {
  const Sizes shape = choices_.of({Sizes{2, 3}, Sizes{3}, Sizes{2, 2}});
  const int size = ref::count(shape);
  if (directions_ + size > ref::kDirections) return;
  const Values values = numbers(size);
  Pair& leaf = add(make(values, shape).requires_grad_(), ref::constant(shape, values));
  owners_.push_back(leaf.x);
  say(leaf.name + " = a leaf");
  const double scale = hook_scale(leaf.x);
  ref::make_leaf(leaf.model, directions_, scale);
  directions_ += size;
}

void Program::add_constant() {
  const Sizes shape = choices_.of({Sizes{2, 3}, Sizes{3}, Sizes{2, 2}});
  const Values values = numbers(ref::count(shape));
  say(add(make(values, shape), ref::constant(shape, values)).name + " = a constant");
}

void Program::drop() {
  const size_t at = choices_.below(pool_.size());
  say("drop " + pool_[at].name);
  pool_.erase(pool_.begin() + std::ptrdiff_t(at));
}

}  // namespace tapegrad::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tapegrad::fuzz::Choices choices(data, size);
  tapegrad::fuzz::Program(choices).run();
  return 0;
}
