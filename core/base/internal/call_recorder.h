// CallRecorder: interface that receives the kernel calls of a step on the CPU, instead of the
// kernels, and runs the calls later and repeatedly. core/autograd/internal/recorded_step.h is the
// only implementation. The dispatcher, spans and storages report to this interface, so that they do
// not depend on the implementation.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/context.h"
#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/base/where.h"

namespace tapegrad {

class KernelTable;
class RecordedCall;
class Tensor;
class TensorStorage;
enum class Pass;

/// The op whose kernels are called.
struct CalledOp {
  std::string_view name;
  Pass pass{};
  const std::string* part = nullptr;  // the module; null outside of modules
  Where where{};
};

class CallRecorder {
 public:
  /// Returns whether calls are captured at present. If not, storages are made as usual.
  virtual bool is_capturing() const = 0;
  /// Returns false if the kernel has to run as usual.
  virtual bool on_call(std::unique_ptr<RecordedCall> call) = 0;
  /// Returns the recorded call that takes over the numbers of the next call of the kernel. Returns
  /// null if there is none; the call is then passed to on_call().
  virtual RecordedCall* call_to_update(const KernelTable& kernel) = 0;
  /// Called before the host reads or writes a deferred storage.
  virtual void on_access(const TensorStorage& storage) = 0;
  /// Returns the values of x, for a decision of an op, in memory that is no part of the recording.
  /// The recording is then repeated only while the values are equal. Returns an empty tensor if the
  /// recording has ended, which it does if it cannot be left at this point.
  virtual Tensor read(const Tensor& x) = 0;
  /// Called before values of the host are copied to a new tensor on the CPU. Returns the tensor, or
  /// an empty one if the values are to be copied as usual.
  virtual Tensor copy_from_host(std::span<const std::byte> bytes, const Shape& shape,
                                DType dtype) = 0;
  /// Returns the number of calls so far.
  virtual size_t position() const = 0;
  /// Keeps the first `position` calls and forgets the others, whose results nobody uses.
  virtual void forget(size_t position) = 0;
  virtual void begin_op(const CalledOp& op) = 0;
  virtual void end_op() = 0;

 protected:
  ~CallRecorder() = default;
};

namespace detail {

/// Updates Context::is_observed. Call after `profile` or `recorder` of the context has changed.
inline void update_observed() {
  context.is_observed = context.profile != nullptr || context.recorder != nullptr;
}

/// Makes a recorder, or null, current for this thread for the lifetime of the object.
class [[nodiscard]] UseRecorder {
 public:
  explicit UseRecorder(CallRecorder* recorder)
      : before_(std::exchange(context.recorder, recorder)) {
    update_observed();
  }
  ~UseRecorder() {
    context.recorder = before_;
    update_observed();
  }
  UseRecorder(const UseRecorder&) = delete;
  UseRecorder& operator=(const UseRecorder&) = delete;

 private:
  CallRecorder* before_;
};

}  // namespace detail
}  // namespace tapegrad
