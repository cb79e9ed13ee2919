#include "core/dispatch/recorded_call.h"

#include "core/base/internal/call_recorder.h"

namespace tapegrad::detail {
namespace {

class RecordedCheck final : public RecordedCall {
 public:
  RecordedCheck(const Tensor& x, std::function<void(const Tensor&)> check)
      : x_(x), check_(std::move(check)) {}

  void run() override { check_(x_); }
  void run_part() override { run(); }
  void visit(ArgumentVisitor& visitor) override { visitor.on_tensor(x_, false); }
  bool absorb(const KernelTable&, const Tensor&) override { return false; }
  std::unique_ptr<RecordedCall> copy() const override { return nullptr; }
  bool has_numbers_of(const RecordedCall&) const override { return true; }
  std::string_view name() const override { return "check"; }
  const KernelTable* kernel() const override { return nullptr; }
  Device device() const override { return x_.device(); }
  Parts parts() const override { return Parts::kWhole; }
  bool returns_to_host() const override { return false; }

 private:
  Tensor x_;
  std::function<void(const Tensor&)> check_;
};

}  // namespace

bool record_call(std::unique_ptr<RecordedCall> call) {
  return context.recorder->on_call(std::move(call));
}

RecordedCall* call_to_update(const KernelTable& kernel) {
  return context.recorder->call_to_update(kernel);
}

bool record_check(const Tensor& x, std::function<void(const Tensor&)> check) {
  return record_call(std::make_unique<RecordedCheck>(x, std::move(check)));
}

}  // namespace tapegrad::detail
