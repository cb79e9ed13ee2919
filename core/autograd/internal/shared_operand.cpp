#include "core/autograd/internal/shared_operand.h"

#include <map>

#include "core/base/internal/mutex.h"

namespace tapegrad {
namespace {

struct Operands {
  Mutex mutex;
  std::map<const TensorStorage*, std::weak_ptr<const Tensor>> all ABSL_GUARDED_BY(mutex);
};
/// Never destroyed, because captures may be destroyed after the objects of this file.
Operands& operands() {
  static auto* const operands = new Operands;
  return *operands;
}

void forget(const Tensor* x) {
  Operands& known = operands();
  {
    const MutexLock lock(known.mutex);
    const auto found = known.all.find(&x->storage());
    // Another thread may have shared the storage again.
    if (found != known.all.end() && found->second.expired()) known.all.erase(found);
  }
  delete x;
}

}  // namespace

SharedOperand share_operand(const Tensor& x) {
  Operands& known = operands();
  const MutexLock lock(known.mutex);
  std::weak_ptr<const Tensor>& entry = known.all[&x.storage()];
  SharedOperand operand = entry.lock();
  if (!operand) entry = operand = SharedOperand(new Tensor(x), forget);
  return operand;
}

}  // namespace tapegrad
