#include "core/tape/autocast.h"

#include <unordered_map>

#include "core/base/error.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/op.h"

namespace tapegrad {

/// The dtype of a scope and the casts of parameters so far.
class detail::AutocastScope {
 public:
  explicit AutocastScope(DType dtype) : dtype(dtype) {}

  Variable cast(const Variable& x, Where where) {
    // Not cached: a checkpoint must see the same casts again, and unrecorded casts have no history
    // to share.
    if (!x.is_leaf() || !x.requires_grad() || !is_recording() || context.saved_store != nullptr)
      return x.to(dtype, where);
    Cast& known = casts_[x.edge().node.get()];
    if (!known.is_valid_for(x))
      known = {x, x.value(), x.value().storage().version(), StepObserver::current_number(),
               x.to(dtype, where)};
    return known.result;
  }

  const DType dtype;

 private:
  struct Cast {
    Variable of;  // keeps the leaf, and with it the key, alive
    Tensor value;
    uint32_t version = 0;
    int64_t recorded = 0;  // a graph makes its own casts
    Variable result;

    bool is_valid_for(const Variable& x) const {
      return result.defined() && recorded == StepObserver::current_number() &&
             value.shares_storage(x.value()) && value.shape() == x.shape() &&
             version == x.value().storage().version() && !result.grad_fn()->is_freed();
    }
  };
  std::unordered_map<const TapeNode*, Cast> casts_;
};

static detail::AutocastScope* make_scope(DType dtype, bool on) {
  if (!on) return nullptr;
  if (dtype != bf16 && dtype != f16)
    fail<DTypeError>("Autocast: bfloat16 or float16 wanted, not ", dtype);
  return new detail::AutocastScope(dtype);
}

Autocast::Autocast(DType dtype, bool on) : own_(make_scope(dtype, on)), scope_(own_) {}
Autocast::Autocast(std::string_view device, DType dtype, bool on)
    : Autocast((static_cast<void>(Device(device)), dtype), on) {}
Autocast::~Autocast() { delete own_; }

DType autocast_dtype() { return is_autocast_enabled() ? detail::context.autocast->dtype : f32; }

namespace detail {

Variable low(const Variable& x, Where where) {
  AutocastScope* scope = context.autocast;
  if (!scope || !x.defined() || !is_float(x.dtype()) || x.dtype() == f64 ||
      x.dtype() == scope->dtype)
    return x;
  return scope->cast(x, where);
}

Variable wide(const Variable& x, Where where) {
  if (!is_autocast_enabled() || !x.defined() || (x.dtype() != f16 && x.dtype() != bf16)) return x;
  return x.to(f32, where);
}

std::vector<Variable> low(std::span<const Variable> xs, Where where) {
  std::vector<Variable> operands;
  for (const Variable& x : xs) operands.push_back(low(x, where));
  return operands;
}

std::vector<Variable> promoted(std::span<const Variable> xs, Where where) {
  std::vector<Variable> operands(xs.begin(), xs.end());
  if (operands.empty()) return operands;
  DType dtype = operands[0].dtype();
  for (const Variable& x : operands) dtype = promote(dtype, x.dtype());
  for (Variable& x : operands) x = x.to(dtype, where);
  return operands;
}

}  // namespace detail
}  // namespace tapegrad
