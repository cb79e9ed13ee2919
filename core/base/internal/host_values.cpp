#include "core/base/internal/host_values.h"

#include "core/base/context.h"
#include "core/base/internal/call_recorder.h"

namespace tapegrad::detail {
namespace {

/// Ends observation by a captured step for the lifetime of the object.
struct Unobserved {
  UseRecorder recorder{nullptr};
  Set<&Context::step_observer> observer{nullptr};
};

}  // namespace

Tensor host_values(const Tensor& x) {
  if (CallRecorder* recorder = context.recorder) [[unlikely]]
    if (Tensor values = recorder->read(x)) return values;
  const UseRecorder off(nullptr);  // a copy is no call of the step
  return x.to(cpu).contiguous();
}

Number host_number(const Tensor& x) {
  const Tensor values = host_values(x);
  const Unobserved unobserved;
  return values.number();
}

std::vector<int64_t> host_integers(const Tensor& x) {
  Tensor values = host_values(x);
  const Unobserved unobserved;
  values = values.to(i64);
  return {values.data<int64_t>(), values.data<int64_t>() + values.numel()};
}

}  // namespace tapegrad::detail
