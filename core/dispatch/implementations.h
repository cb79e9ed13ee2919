// Several implementations of one kernel, tried in order: fast paths for some operands first, then
// the fallback, which accepts all operands.
//
//   struct SmallConv {
//     static constexpr std::string_view kName = "small";
//     static constexpr bool kTakesPacked = true;                 // optional, default: false
//     static bool accepts(const Tensor& x, const Tensor& weight, ...);
//     static void run(Type<float>, const Tensor& x, const Tensor& weight, ...);
//   };
//   set_implementations<kernels::conv2d, SmallConv, ConvByDnnl, ConvByColumns>(
//       DeviceType::kCpu, kFloatTypes);
//
// - accepts() receives the kernel's arguments and returns whether run() can compute them. It writes
//   no result. Instead of a bool it may return a plan: a std::optional or a pointer, empty if the
//   arguments are not accepted. run() then receives *plan before the arguments.
// - An implementation is used for the dtypes whose Type<T> its run() takes. For each dtype the last
//   implementation is the fallback: it has no accepts(). If there is none, the op asks
//   Kernel::accepts() before it calls the kernel, and composes other kernels if nothing accepts.
// - accepts() may receive packed operands. The dispatcher unpacks operands before run(), unless
//   kTakesPacked is true.
//
// If a dtype has the fallback only, a call costs the same as after set_kernel(). If the
// environment sets TAPEGRAD_FAST_PATHS=0, only fallbacks run. DispatchLog and Profiler name the
// implementation that ran.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// Parameter of a run() that takes several Type<T> without being a template.
template <typename... Ts>
struct OneOf {
  template <typename T>
  requires(std::is_same_v<T, Ts> || ...) constexpr OneOf(Type<T>) {}
};

/// Returns the implementations of all kernels that have several, in the order in which they are
/// tried: "cpu/float32/conv2d:small". Only loaded backends are listed.
std::vector<std::string> implementations();

namespace detail {

/// Restricts one kernel, or all kernels if `kernel` is empty, to an implementation and the
/// fallback.
struct OnlyOne {
  std::string kernel, implementation;
};
extern constinit std::atomic<const OnlyOne*> only_one;  // null: no restriction
extern constinit std::atomic<int> dispatch_watchers;    // number of live logs and profilers

inline bool is_tried(const KernelTable& kernel, std::string_view implementation) {
  const OnlyOne* only = only_one.load(std::memory_order_acquire);
  return only == nullptr || only->implementation == implementation ||
         (!only->kernel.empty() && only->kernel != kernel.name());
}

/// Tells all logs and this thread's profiler which implementation runs.
[[gnu::cold]] void note_implementation(const KernelTable& kernel, DeviceType device, DType dtype,
                                       std::string_view name);

template <auto& kKernel, typename Signature, typename... Implementations>
class InOrder;

[[noreturn, gnu::cold]] void fail_unaccepted(const KernelTable& kernel, DeviceType device,
                                             DType dtype);

/// Kernel function that tries the implementations in order.
template <auto& kKernel, typename... Arguments, typename... Implementations>
class InOrder<kKernel, Kernel<void(Arguments...)>, Implementations...> {
 public:
  /// Whether I::run() takes Type<T>, with or without a plan.
  template <typename I, typename T>
  static constexpr bool serves() {
    if constexpr (requires(Arguments... arguments) { I::run(Type<T>{}, arguments...); })
      return true;
    else
      return requires(Arguments... arguments, PlanOf<I> & plan) {
        I::run(Type<T>{}, *plan, arguments...);
      };
  }

  template <typename T>
  void operator()(Type<T> type, Arguments... arguments) const {
    const bool ran = (attempt<Implementations>(type, arguments...) || ...);
    if constexpr (!kHasFallback<T>)
      if (!ran) [[unlikely]]
        fail_unaccepted(kKernel, device_of(arguments...), kDTypeOf<T>);
  }

  template <typename T>
  static SlotTraits traits() {
    static_assert(kFallbacks<T> <= 1, "all implementations but the last need accepts()");
    SlotTraits traits{.takes_packed = kIsList<T>};  // begin() unpacks
    const auto add = [&](bool serves, std::string_view name, bool takes_packed) {
      if (!serves) return;
      if (kIsList<T>) traits.implementations.push_back(name);
      traits.takes_packed |= takes_packed;
    };
    (add(serves<Implementations, T>(), Implementations::kName, kTakesPacked<Implementations>), ...);
    if constexpr (!kHasFallback<T>) {
      bool (*const accepts)(Arguments...) = &any_accepts<T>;
      traits.accepts = reinterpret_cast<void (*)()>(accepts);
    }
    return traits;
  }

 private:
  template <typename I>
  static constexpr bool kAsks = requires(Arguments... arguments) {
    I::accepts(arguments...);
  };
  template <typename I>
  static constexpr bool kTakesPacked = requires {
    requires I::kTakesPacked;
  };
  template <typename T>
  static constexpr int kFallbacks = (0 + ... +
                                     int(serves<Implementations, T>() && !kAsks<Implementations>));
  template <typename T>
  static constexpr bool kHasFallback = kFallbacks<T> == 1;
  /// Whether there is a choice.
  template <typename T>
  static constexpr bool kIsList = (0 + ... + int(serves<Implementations, T>())) > kFallbacks<T>;
  template <typename I>
  using PlanOf = decltype(I::accepts(std::declval<Arguments>()...));

  static DeviceType device_of(const Tensor& first, const auto&...) { return first.device().type; }

  template <typename T>
  static bool any_accepts(Arguments... arguments) {
    return (accepts<Implementations, T>(arguments...) || ...);
  }
  template <typename I, typename T>
  static bool accepts(Arguments... arguments) {
    if constexpr (serves<I, T>())
      return is_tried(kKernel, I::kName) && bool(I::accepts(arguments...));
    return false;
  }

  template <typename I, typename T>
  static bool attempt(Type<T> type, Arguments... arguments) {
    if constexpr (!serves<I, T>()) {
      return false;
    } else if constexpr (!kAsks<I>) {
      begin<I, T>(arguments...);
      I::run(type, arguments...);
      return true;
    } else {
      if (!is_tried(kKernel, I::kName)) return false;
      auto plan = I::accepts(arguments...);
      if (!plan) return false;
      begin<I, T>(arguments...);
      if constexpr (std::is_same_v<decltype(plan), bool>)
        I::run(type, arguments...);
      else
        I::run(type, *plan, arguments...);
      return true;
    }
  }

  template <typename I, typename T>
  static void begin(Arguments... arguments) {
    if constexpr (kIsList<T>) {
      if constexpr (!kTakesPacked<I>)
        if ((KernelTable::is_packed(arguments) || ...)) [[unlikely]]
          KernelTable::unpack(arguments...);
      if (dispatch_watchers.load(std::memory_order_relaxed) != 0) [[unlikely]]
        note_implementation(kKernel, device_of(arguments...), kDTypeOf<T>, I::kName);
    }
  }
};

template <typename List, typename I, typename... Ts>
constexpr bool serves_any() {
  return (List::template serves<I, Ts>() || ...);
}

}  // namespace detail

/// For tests: until the object is destroyed, calls of a kernel on any thread try only the
/// implementation with this name, then the fallback. An empty kernel means all kernels; an empty
/// name means the fallback only.
class [[nodiscard]] OnlyImplementation {
 public:
  OnlyImplementation(std::string_view kernel, std::string_view name);
  ~OnlyImplementation();
  OnlyImplementation(const OnlyImplementation&) = delete;
  OnlyImplementation& operator=(const OnlyImplementation&) = delete;

 private:
  const detail::OnlyOne only_;
  const detail::OnlyOne* before_;
};

/// Registers implementations of a kernel, in this order, for the dtypes in the list.
template <auto& kKernel, typename... Implementations, typename... Ts>
void set_implementations(DeviceType device, TypeList<Ts...>) {
  using List =
      detail::InOrder<kKernel, std::remove_reference_t<decltype(kKernel)>, Implementations...>;
  static_assert((detail::serves_any<List, Implementations, Ts...>() && ...),
                "an implementation takes none of the dtypes");
  (kKernel.template set_for<Ts>(device, List{}, List::template traits<Ts>()), ...);
}

}  // namespace tapegrad
