// Values that a captured step on the CPU reads on the host, or copies from the host.
#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"

#include "core/autograd/internal/recorded_step.h"
#include "core/dispatch/kernels.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"

namespace tapegrad {
namespace {

/// Compares the values of two tensors of one shape and dtype, of which b is contiguous.
bool has_same_bytes(const Tensor& a, const Tensor& b) {
  const Tensor whole = a.contiguous();
  const size_t bytes = size_t(b.numel() * size_of(b.dtype()));
  const auto start = [](const Tensor& x) {
    return x.storage().data() + x.layout().offset * size_of(x.dtype());
  };
  return bytes == 0 || std::memcmp(start(whole), start(b), bytes) == 0;
}

}  // namespace

bool RecordedStep::is_written(const Tensor& x) const {
  bool found = false;
  for (const StepCall& step : calls_)
    each_tensor(*step.call, [&](Tensor& operand, bool is_written) {
      found |= is_written && operand.shares_storage(x);
    });
  return found;
}

Tensor RecordedStep::read(const Tensor& x) {
  if (!is_capturing_ || x.device() != device()) return {};
  if (own_.contains(&x.storage()) || is_written(x)) return read_made(x);
  if (x.storage().is_deferred() && !x.storage().has_memory()) return {};
  const detail::UseRecorder off(nullptr);
  const Tensor values = x.clone();
  x.storage().lend(1);
  values_read_.push_back({x, values});
  on_operand(x);
  return values;
}

void RecordedStep::forget(size_t position) {
  for (; calls_.size() > position; calls_.pop_back())
    each_tensor(*calls_.back().call, [&](Tensor& x, bool) {
      x.storage().lend(-1);
      const bool is_used = std::ranges::any_of(calls_.begin(), calls_.end() - 1, [&](auto& step) {
        bool uses = false;
        each_tensor(*step.call, [&](Tensor& other, bool) { uses |= other.shares_storage(x); });
        return uses;
      });
      if (is_used) return;
      own_.erase(&x.storage());
      values_ahead_.erase(&x.storage());
    });
  ahead_ = std::min(ahead_, position);
}

/// Records a copy of the values, which a repetition of the step makes again, because the step may
/// write to the tensor.
Tensor RecordedStep::copy_from_host(std::span<const std::byte> bytes, const Shape& shape,
                                    DType dtype) {
  if (!is_capturing_ || bytes.empty()) return {};
  const Tensor values = ordinary_tensor(bytes, shape, dtype);
  copies_.push_back({{bytes.begin(), bytes.end()}, current_op()});
  on_constant(values);
  Tensor copy = values.empty_like();
  kernels::copy(values, copy);
  return copy;
}

std::string RecordedStep::difference(const StepTrace& other) const {
  const std::string what =
      other.difference(calls_, copies_, [this](const Tensor& x) { return is_known(x); });
  return what.empty() ? what : "the step " + what + " in every call";
}

bool RecordedStep::has_values_read() const {
  return std::ranges::all_of(
      values_read_, [](const ValuesRead& read) { return has_same_bytes(read.x, read.values); });
}

/// Reads the result of a recorded call.
Tensor RecordedStep::read_made(const Tensor& x) {
  const std::string what = "the host needs a value" + text_of(current_op());
  if (has_parts() || !save_revised()) {
    give_up(what);
    return {};
  }
  const Tensor values = run_ahead(x);
  detail::record_check(x, [this, values, what](const Tensor& now) {
    if (is_ready() && !has_same_bytes(now, values)) throw Changed{what};
  });
  calls_.back().is_read = true;
  return values;
}

void RecordedStep::Revised::save() {
  const std::byte* data = x.storage().data();
  before.assign(data, data + x.storage().bytes());
}
void RecordedStep::Revised::restore() const { std::ranges::copy(before, x.storage().data()); }

/// Saves the memory that exists before the step and to which the calls write that were not made
/// ahead yet. Returns false if it is too large to be saved in each run.
bool RecordedStep::save_revised() {
  constexpr size_t kMost = size_t(1) << 20;
  size_t bytes = 0;
  for (const Revised& revised : revised_) bytes += revised.before.size();
  for (size_t i = ahead_; i < calls_.size(); ++i) {
    if (!calls_[i].is_lasting) continue;
    each_tensor(*calls_[i].call, [&](Tensor& x, bool is_written) {
      const bool is_known = std::ranges::any_of(
          revised_, [&](const Revised& revised) { return revised.x.shares_storage(x); });
      if (!is_written || is_own(x) || is_known || bytes > kMost) return;
      bytes += x.storage().bytes();
      if (bytes > kMost) return;
      x.storage().lend(1);
      revised_.push_back({x});
      revised_.back().save();
    });
  }
  return bytes <= kMost;
}

/// Makes the calls recorded so far, except those already made, and returns the values of x.
Tensor RecordedStep::run_ahead(const Tensor& x) {
  const detail::UseRecorder off(nullptr);
  const detail::Set<&detail::Context::step_observer> unobserved(nullptr);
  const NoGrad no_grad;
  const detail::AutocastOff as_recorded;
  for (const auto& [storage, values] : values_ahead_) storage->place(values->data());
  const absl::Cleanup put = [this] { put_ahead(); };
  for (; ahead_ < calls_.size(); ++ahead_) {
    each_tensor(*calls_[ahead_].call, [&](Tensor& operand, bool) {
      if (own_.contains(&operand.storage())) operand.storage().give_memory();
    });
    run(calls_[ahead_]);
  }
  running_call_.reset();
  return x.clone();
}

/// Leaves the storages without memory, and keeps the values that the step may still use.
void RecordedStep::put_ahead() {
  for (const auto& [key, storage] : own_) {
    if (!storage->has_memory()) continue;
    if (storage->is_only_lent()) {
      storage->take_memory();
      values_ahead_.erase(storage);
    } else if (storage->data(); storage->is_placed()) {
      storage->take_memory();
    } else {
      values_ahead_[storage] = storage->hand_over();
    }
  }
}

}  // namespace tapegrad
