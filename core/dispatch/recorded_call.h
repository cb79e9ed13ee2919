// RecordedCall: a kernel call with its arguments by value, which can be repeated. A captured step
// on the CPU is a list of recorded calls (core/autograd/internal/recorded_step.h).
//
// An argument of a kernel is a Tensor, a RandomState, or a value without tensors that is safe to
// copy. A struct that holds tensors has each_tensor(visit), which calls visit(tensor, is_written)
// for each. A type that refers to memory of the caller names an owning type, which converts to it,
// as its member type ByValue.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/base/generator.h"
#include "core/base/number.h"
#include "core/base/tensor.h"

namespace tapegrad {

class KernelTable;
template <typename Signature>
class Kernel;

/// Permitted divisions of the operands of a kernel's function. Calls for the parts give the same
/// bits as one call.
enum class Parts : unsigned char {
  kWhole,     // none, unless the kernel has RowFunctions
  kElements,  // at any element: element i of the result depends only on elements i of the operands
};

/// Permitted division of the rows of a call.
struct RowDivision {
  int64_t rows = 0;      // of each divided operand, along its leading dimensions; 0: not divisible
  int64_t unit = 1;      // a block begins at a multiple of this number of rows
  bool is_flat = false;  // the rows are single elements; blocks have one dimension
  // Sizes of the parts of RowBlock::sums, which follow one another:
  size_t sum_bytes = 0;              // for sums over rows; zero at first
  size_t work_bytes = 0;             // uninitialised
  size_t lane_bytes = 0;             // only if blocks have rows in lanes; zero at first
  std::vector<int64_t> starts = {};  // rows at which a thread may begin; empty: any
};

/// A block of the rows of a call.
struct RowBlock {
  int64_t first, count;
  int64_t all;      // rows of the whole call
  std::byte* sums;  // RowDivision::sum_bytes, work_bytes and lane_bytes for all blocks
};

/// Number of floats behind the rows of each divided operand that are readable, with arbitrary
/// values. Does not hold for the last block.
inline constexpr int64_t kRowSlack = 64;

/// Functions of a kernel that computes one block of rows after another. Operands that are not
/// divided are the same for all blocks. Each thread has the rows between two of
/// RowDivision::starts, in ascending order. The result has the same bits as that of one call.
template <typename... Arguments>
struct RowFunctions {
  unsigned divided;  // bit i: the tensors of argument i have rows
  unsigned sums;     // bit i: the tensor of argument i is written by finish() only
  RowDivision (*divide)(Arguments...);                  // of the whole call
  void (*run)(const RowBlock& block, Arguments...);     // with operands of the block
  void (*finish)(const std::byte* sums, Arguments...);  // of the whole call; null without sums
};

/// Interface that receives the tensors and random states of a recorded call.
class ArgumentVisitor {
 public:
  virtual void on_argument(int /*number*/) {}
  virtual void on_tensor(Tensor& x, bool is_written) = 0;
  virtual void on_draw(RandomState&) {}

 protected:
  ~ArgumentVisitor() = default;
};

/// A recorded call of a kernel with any signature.
class RecordedCall {
 public:
  virtual ~RecordedCall() = default;

  /// Calls the kernel.
  virtual void run() = 0;
  /// Calls the kernel's function without a dispatch, for a part of the operands.
  virtual void run_part() = 0;
  /// Passes all tensors that are not empty and all random states to the visitor.
  virtual void visit(ArgumentVisitor& visitor) = 0;
  /// Returns how the kernel computes blocks of rows, by the four functions below.
  virtual RowDivision divide_rows() { return {}; }
  virtual unsigned divided_arguments() const { return 0; }
  virtual unsigned sum_arguments() const { return 0; }
  virtual void run_rows(const RowBlock&) {}
  virtual void finish_rows(const std::byte* /*sums*/) {}
  /// Makes an activation the epilogue of this call, which then writes `result`. `behind` is the
  /// kernel of the activation, whose operand is the result of this call. Returns false without an
  /// effect if this call's kernel does not take the epilogue. A kernel takes an epilogue if its
  /// last arguments are an Epilogue (ops/epilogue.h) and the result.
  virtual bool absorb(const KernelTable& behind, const Tensor& result) = 0;
  /// Returns null if the call cannot be copied.
  virtual std::unique_ptr<RecordedCall> copy() const = 0;
  /// Returns whether another call has the same kernel and equal arguments. Tensors, random states,
  /// and arguments without operator== count as equal.
  virtual bool has_numbers_of(const RecordedCall& other) const = 0;
  virtual std::string_view name() const = 0;
  /// Returns the kernel; null if the call is a check.
  virtual const KernelTable* kernel() const = 0;
  virtual Device device() const = 0;
  virtual Parts parts() const = 0;
  /// Returns whether the kernel returns a value to the host by reference.
  virtual bool returns_to_host() const = 0;
};

namespace detail {

/// Passes a call to the current recorder of this thread. Returns false if the recorder does not
/// take it.
bool record_call(std::unique_ptr<RecordedCall> call);
/// Returns the recorded call that takes over the numbers of the next call of the kernel; null if
/// there is none.
RecordedCall* call_to_update(const KernelTable& kernel);
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

template <typename T>
concept ComparedArgument = requires(const T& a, const T& b) {
  { a == b } -> std::same_as<bool>;
};
/// Returns whether an argument and, if it is a container, its elements have operator==. A container
/// has operator== even if its elements cannot be compared.
template <typename T>
constexpr bool is_compared() {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, RandomState>)
    return false;
  else if constexpr (requires { typename T::value_type; })
    return ComparedArgument<typename T::value_type> && ComparedArgument<T>;
  else
    return ComparedArgument<T>;
}
template <typename T>
bool is_same_argument(const T& a, const T& b) {
  if constexpr (std::floating_point<T>)
    return a == b || (a != a && b != b);
  else if constexpr (std::is_same_v<T, Number>)
    return a.kind() == b.kind() &&
           (a.kind() == f64 ? is_same_argument(a.real(), b.real())
                            : a.template to<int64_t>() == b.template to<int64_t>());
  else if constexpr (is_compared<T>())
    return a == b;
  else
    return true;
}

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
          int number = 0;
          visitor.on_argument(number);
          show<First>(first, kernel_->overwrites_first(), visitor);
          ((visitor.on_argument(++number), show<Rest>(rest, false, visitor)), ...);
        },
        arguments_);
  }

  RowDivision divide_rows() override {
    const Rows* rows = functions();
    if (rows == nullptr) return {};
    return std::apply([&](auto&... arguments) { return rows->divide(arguments...); }, arguments_);
  }
  unsigned divided_arguments() const override {
    return functions() != nullptr ? functions()->divided : 0;
  }
  unsigned sum_arguments() const override { return functions() != nullptr ? functions()->sums : 0; }
  void run_rows(const RowBlock& block) override {
    std::apply([&](auto&... arguments) { functions()->run(block, arguments...); }, arguments_);
  }
  void finish_rows(const std::byte* sums) override {
    std::apply([&](auto&... arguments) { functions()->finish(sums, arguments...); }, arguments_);
  }

  /// Takes over the numbers, but not the tensors, of another call of the kernel.
  void take_numbers(First first, Rest... rest) {
    take(std::index_sequence_for<First, Rest...>(), first, rest...);
  }

  bool absorb(const KernelTable& behind, const Tensor& result) override {
    constexpr size_t kLast = sizeof...(Rest);
    if constexpr (kLast >= 2) {
      auto& epilogue = std::get<kLast - 1>(arguments_);
      if constexpr (requires { epilogue.absorb(behind); }) {
        if (!epilogue.absorb(behind)) return false;
        std::get<kLast>(arguments_) = result;
        return true;
      }
    }
    return false;
  }

  std::unique_ptr<RecordedCall> copy() const override {
    if constexpr (std::is_copy_constructible_v<Arguments>)
      return std::make_unique<RecordedCallOf>(*this);
    else
      return nullptr;
  }
  bool has_numbers_of(const RecordedCall& other) const override {
    if (other.kernel() != kernel_) return false;
    const Arguments& others = static_cast<const RecordedCallOf&>(other).arguments_;
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (is_same_argument(std::get<I>(arguments_), std::get<I>(others)) && ...);
    }
    (std::index_sequence_for<First, Rest...>());
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

  template <typename Given, typename Stored>
  static void take_one(const Given& from, Stored& to) {
    if constexpr (requires { to.take_numbers(from); })
      to.take_numbers(from);
    else if constexpr (std::is_trivially_copyable_v<Stored>)
      to = from;
  }
  template <size_t... I, typename... Given>
  void take(std::index_sequence<I...>, const Given&... from) {
    (take_one(from, std::get<I>(arguments_)), ...);
  }

  using Rows = RowFunctions<First, Rest...>;
  const Rows* functions() const { return kernel_->row_functions(device().type, dtype()); }

  const ByValue<First>& first() const { return std::get<0>(arguments_); }
  DType dtype() const { return first().dtype(); }

  const TheKernel* kernel_;
  typename TheKernel::Function function_ = nullptr;
  Arguments arguments_;
};

}  // namespace detail

}  // namespace tapegrad
