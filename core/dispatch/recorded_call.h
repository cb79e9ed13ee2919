// RecordedCall: a kernel call with its arguments by value, which can be repeated. A captured step
// on the CPU is a list of them (core/autograd/internal/recorded_step.h).
//
// An argument of a kernel is a Tensor, a RandomState, or a value without tensors that is safe to
// copy. A struct that holds tensors has each_tensor(visit), which calls visit(tensor, is_written)
// for each. A type that refers to memory of the caller names an owning type, which converts to it,
// as its member type ByValue.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/base/generator.h"
#include "core/base/tensor.h"

namespace tapegrad {

class KernelTable;
template <typename Signature>
class Kernel;

/// How the operands of a kernel's function may be divided, so that calls for the parts give the
/// bits of one call.
enum class Parts : unsigned char {
  kWhole,     // not at all
  kElements,  // anywhere: an element of the result depends on the elements at its place
  kRows,      // between rows, which are vectors along the last dimension of the first operand
};

/// Receives the arguments of a call that a recording has to know.
class ArgumentVisitor {
 public:
  virtual void on_tensor(Tensor& x, bool is_written) = 0;
  virtual void on_draw(RandomState&) {}

 protected:
  ~ArgumentVisitor() = default;
};

/// A call whose arguments are copies.
class RecordedCall {
 public:
  virtual ~RecordedCall() = default;

  /// Calls the kernel.
  virtual void run() = 0;
  /// Calls the kernel's function without a dispatch, for a part of the operands.
  virtual void run_part() = 0;
  /// Shows all tensors that are not empty and all random states.
  virtual void visit(ArgumentVisitor& visitor) = 0;
  /// Copies numbers, but not tensors, from another call of the same kernel.
  virtual void take_numbers(const RecordedCall& other) = 0;
  /// Returns null if the call cannot be copied.
  virtual std::unique_ptr<RecordedCall> copy() const = 0;
  virtual std::string_view name() const = 0;
  /// Returns null for a check.
  virtual const KernelTable* kernel() const = 0;
  virtual Device device() const = 0;
  virtual Parts parts() const = 0;
  /// Whether the kernel returns a value to the host by reference.
  virtual bool returns_to_host() const = 0;
};

namespace detail {

/// Gives a call to the current recorder of this thread. Returns false if it does not take it.
bool record_call(std::unique_ptr<RecordedCall> call);
/// For a thread with a recorder: records a check of values, which every repetition of the step
/// makes. Returns false if the caller has to make the check itself. `check` throws an error for a
/// wrong value and refers to no local variables.
bool record_check(const Tensor& x, std::function<void(const Tensor& x)> check);

template <typename T>
struct ByValueOf {
  using Type = T;
};
template <>
struct ByValueOf<std::string_view> {
  using Type = std::string;
};
template <typename T>
requires requires { typename T::ByValue; }
struct ByValueOf<T> {
  using Type = typename T::ByValue;
};

template <typename Signature>
class RecordedCallOf;

template <typename First, typename... Rest>
class RecordedCallOf<void(First, Rest...)> final : public RecordedCall {
  template <typename Argument>
  using ByValue = typename ByValueOf<std::remove_cvref_t<Argument>>::Type;
  using Arguments = std::tuple<ByValue<First>, ByValue<Rest>...>;
  using TheKernel = Kernel<void(First, Rest...)>;

 public:
  RecordedCallOf(const TheKernel& kernel, First first, Rest... rest)
      : kernel_(&kernel), arguments_(first, rest...) {}

  void run() override {
    std::apply([this](auto&... arguments) { (*kernel_)(arguments...); }, arguments_);
  }

  void run_part() override {
    if (function_ == nullptr) function_ = kernel_->at(device().type, dtype());
    std::apply([this](auto&... arguments) { function_(arguments...); }, arguments_);
  }

  void visit(ArgumentVisitor& visitor) override {
    std::apply(
        [&](ByValue<First>& first, ByValue<Rest>&... rest) {
          show<First>(first, kernel_->overwrites_first(), visitor);
          (show<Rest>(rest, false, visitor), ...);
        },
        arguments_);
  }

  void take_numbers(const RecordedCall& other) override {
    take(static_cast<const RecordedCallOf&>(other).arguments_,
         std::index_sequence_for<First, Rest...>());
  }

  std::unique_ptr<RecordedCall> copy() const override {
    if constexpr (std::is_copy_constructible_v<Arguments>)
      return std::make_unique<RecordedCallOf>(*this);
    else
      return nullptr;
  }
  std::string_view name() const override { return kernel_->name(); }
  const KernelTable* kernel() const override { return kernel_; }
  Device device() const override { return first().device(); }
  Parts parts() const override { return kernel_->parts(device().type, dtype()); }
  bool returns_to_host() const override { return (is_result<First> || ... || is_result<Rest>); }

 private:
  template <typename Argument>
  static constexpr bool is_result =
      std::is_lvalue_reference_v<Argument> && !std::is_const_v<std::remove_reference_t<Argument>> &&
      !std::is_same_v<std::remove_cvref_t<Argument>, Tensor>;

  template <typename Argument, typename Stored>
  static void show(Stored& stored, bool is_overwritten, ArgumentVisitor& visitor) {
    if constexpr (std::is_same_v<Stored, Tensor>) {
      constexpr bool kIsConst = std::is_const_v<std::remove_reference_t<Argument>>;
      if (stored) visitor.on_tensor(stored, !kIsConst || is_overwritten);
    } else if constexpr (std::is_same_v<Stored, RandomState>) {
      visitor.on_draw(stored);
    } else {
      const auto visit = [&](Tensor& x, bool is_written) {
        if (x) visitor.on_tensor(x, is_written);
      };
      if constexpr (requires { stored.each_tensor(visit); }) stored.each_tensor(visit);
    }
  }

  template <typename Stored>
  static void take_one(const Stored& from, Stored& to) {
    if constexpr (requires { to.take_numbers(from); })
      to.take_numbers(from);
    else if constexpr (std::is_trivially_copyable_v<Stored>)
      to = from;
  }
  template <size_t... I>
  void take(const Arguments& from, std::index_sequence<I...>) {
    (take_one(std::get<I>(from), std::get<I>(arguments_)), ...);
  }

  const ByValue<First>& first() const { return std::get<0>(arguments_); }
  DType dtype() const { return first().dtype(); }

  const TheKernel* kernel_;
  typename TheKernel::Function function_ = nullptr;
  Arguments arguments_;
};

}  // namespace detail

}  // namespace tapegrad
