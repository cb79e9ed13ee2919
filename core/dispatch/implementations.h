// Several implementations of one kernel, tried in order: fast paths for some operands first, then
// the fallback, which accepts all operands.
//
//   struct SmallConv {
//     static constexpr std::string_view kName = "small";
//     static constexpr bool kTakesPacked = true;                 // optional, default: false
//     static bool accepts(const Tensor& x, const Tensor& weight, ...);
//     static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, ...);
//   };
//   set_implementations<kernels::conv2d, SmallConv, ConvByDnnl, ConvByColumns>(
//       DeviceType::kCpu, kFloatTypes);
//
// - accepts() receives the kernel's arguments and returns whether run() can compute them. It writes
//   no result. Instead of a bool it may return a plan: a std::optional or a pointer, empty if the
//   arguments are not accepted. run() then receives *plan before the arguments.
// - run() may return a bool: false if a library refuses the arguments only when it is called, for
//   example for lack of memory. It has written no result then, and the next implementation is
//   tried.
// - An implementation is used for the dtypes whose TypeTag<T> its run() takes. For each dtype the
//   last implementation is the fallback: it has no accepts(). If there is none, the op asks
//   Kernel::accepts() before it calls the kernel, and composes other kernels if nothing accepts.
//   A fallback that needs accepts(), because it does not take all operands either, has
//   `static constexpr bool kIsFallback = true`.
// - accepts() may receive packed operands. The dispatcher unpacks operands before run(), unless
//   kTakesPacked is true.
//
// An implementation that accepts nothing on some machines has `static bool is_available()`, or
// `is_available(DType)` if this depends on the dtype; implementations() leaves it out there.
//
// If a dtype has the fallback only, a call costs the same as after set_kernel(). If the
// environment sets TAPEGRAD_FAST_PATHS=0, only fallbacks run. DispatchLog and Profiler name the
// implementation that ran.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// Parameter type of a run() that takes several TypeTag<T> without being a template.
template <typename... Ts>
struct OneOf {
  template <typename T>
  requires(std::is_same_v<T, Ts> || ...) constexpr OneOf(TypeTag<T>) {}
};

/// Returns the implementations of all kernels that have several, in the order in which they are
/// tried: "cpu/float32/conv2d:small". Only loaded backends are listed.
std::vector<std::string> implementations();

/// Returns whether the environment sets TAPEGRAD_FAST_PATHS=0, or a test chose the fallbacks of all
/// kernels.
bool only_fallbacks();

namespace detail {

/// Restricts one kernel, or all kernels if `kernel` is empty, to an implementation and the
/// fallback.
struct OnlyOne {
  std::string kernel, implementation;
};
extern constinit std::atomic<const OnlyOne*> only_one;  // null: no restriction
extern constinit std::atomic<int> dispatch_watchers;    // number of live logs and profilers
/// Name of an implementation that copies its operands to the CPU and computes there.
inline constexpr std::string_view kByCpu = "by_cpu";

inline bool is_tried(const KernelTable& kernel, std::string_view implementation) {
  const OnlyOne* only = only_one.load(std::memory_order_acquire);
  return only == nullptr || only->implementation == implementation ||
         (!only->kernel.empty() && only->kernel != kernel.name());
}

/// Reports the implementation that runs to all logs and to this thread's profiler.
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
  /// Returns whether I::run() takes TypeTag<T>, with or without a plan.
  template <typename I, typename T>
  static constexpr bool serves() {
    if constexpr (requires(Arguments... arguments) { I::run(TypeTag<T>{}, arguments...); })
      return true;
    else
      return requires(Arguments... arguments) {
        I::run(TypeTag<T>{}, *I::accepts(arguments...), arguments...);
      };
  }
  /// Returns whether each implementation takes one of the types.
  template <typename... Ts>
  static constexpr bool all_serve() {
    return (serves_one<Implementations, Ts...>() && ...);
  }

  template <typename T>
  void operator()(TypeTag<T> type, Arguments... arguments) const {
    const bool ran = (attempt<Implementations>(type, arguments...) || ...);
    if constexpr (!kHasFallback<T>)
      if (!ran) [[unlikely]]
        fail_unaccepted(kKernel, device_of(arguments...), kDTypeOf<T>);
  }

  template <typename T>
  static SlotTraits traits() {
    static_assert(kFallbacks<T> <= 1, "all implementations but the last need accepts()");
    SlotTraits traits{.takes_packed = kIsList<T>};  // unpack_for() unpacks
    const auto add = [&](bool serves, std::string_view name, bool takes_packed) {
      if (!serves) return;
      if (kIsList<T>) traits.implementations.push_back(name);
      traits.takes_packed |= takes_packed;
    };
    (add(serves<Implementations, T>() && is_available<Implementations>(kDTypeOf<T>),
         Implementations::kName, takes_packed<Implementations>()),
     ...);
    if constexpr (!kHasFallback<T>) {
      bool (*const accepts)(Arguments...) = &any_accepts<T>;
      traits.accepts = reinterpret_cast<void (*)()>(accepts);
    }
    return traits;
  }

 private:
  template <typename I, typename... Ts>
  static constexpr bool serves_one() {
    return (serves<I, Ts>() || ...);
  }
  template <typename I>
  static constexpr bool kAsks = requires(Arguments... arguments) {
    I::accepts(arguments...);
  };
  // These functions use the values of the members, because nvcc warns about unused ones.
  template <typename I>
  static constexpr bool takes_packed() {
    if constexpr (requires { I::kTakesPacked; }) return I::kTakesPacked;
    return false;
  }
  template <typename I>
  static constexpr bool is_fallback() {
    if constexpr (requires { I::kIsFallback; }) return I::kIsFallback;
    return !kAsks<I>;
  }
  template <typename I>
  static bool is_available(DType dtype) {
    if constexpr (requires { I::is_available(dtype); }) return I::is_available(dtype);
    if constexpr (requires { I::is_available(); }) return I::is_available();
    return true;
  }
  template <typename I>
  static bool is_tried() {
    return is_fallback<I>() || detail::is_tried(kKernel, I::kName);
  }
  template <typename T>
  static constexpr int kFallbacks = (0 + ... +
                                     int(serves<Implementations, T>() && !kAsks<Implementations>));
  template <typename T>
  static constexpr bool kHasFallback = kFallbacks<T> == 1;
  /// Whether T has more than one implementation.
  template <typename T>
  static constexpr bool kIsList = (0 + ... + int(serves<Implementations, T>())) > kFallbacks<T>;
  static DeviceType device_of(const Tensor& first, const auto&...) { return first.device().type; }

  template <typename T>
  static bool any_accepts(Arguments... arguments) {
    return (accepts<Implementations, T>(arguments...) || ...);
  }
  template <typename I, typename T>
  static bool accepts(Arguments... arguments) {
    if constexpr (serves<I, T>()) return is_tried<I>() && bool(I::accepts(arguments...));
    return false;
  }

  template <typename I, typename T>
  static bool attempt(TypeTag<T> type, Arguments... arguments) {
    if constexpr (!serves<I, T>()) {
      return false;
    } else if constexpr (!kAsks<I>) {
      if constexpr (kIsList<T>) unpack_for<I>(arguments...);
      note<I, T>(arguments...);
      I::run(type, arguments...);
      return true;
    } else {
      if (!is_tried<I>()) return false;
      auto plan = I::accepts(arguments...);
      if (!plan) return false;
      unpack_for<I>(arguments...);
      const auto run = [&] {
        if constexpr (std::is_same_v<decltype(plan), bool>)
          return I::run(type, arguments...);
        else
          return I::run(type, *plan, arguments...);
      };
      if constexpr (std::is_same_v<decltype(run()), bool>) {
        if (!run()) return false;
        note<I, T>(arguments...);
      } else {
        note<I, T>(arguments...);
        run();
      }
      return true;
    }
  }

  template <typename I>
  static void unpack_for(Arguments... arguments) {
    if constexpr (!takes_packed<I>())
      if ((KernelTable::is_packed(arguments) || ...)) [[unlikely]]
        KernelTable::unpack(arguments...);
  }
  template <typename I, typename T>
  static void note(Arguments... arguments) {
    if constexpr (kIsList<T>)
      if (dispatch_watchers.load(std::memory_order_relaxed) != 0) [[unlikely]]
        note_implementation(kKernel, device_of(arguments...), kDTypeOf<T>, I::kName);
  }
};

}  // namespace detail

/// Until the object is destroyed, calls of a kernel on any thread try only the implementation with
/// this name, then the fallback. An empty kernel means all kernels; an empty name means the
/// fallback only. For tests.
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

/// Kernel function that tries implementations in order, with its traits<T>().
template <auto& kKernel, typename... Implementations>
using ImplementationList =
    detail::InOrder<kKernel, std::remove_reference_t<decltype(kKernel)>, Implementations...>;

/// Registers implementations of a kernel, in this order, for the dtypes in the list.
template <auto& kKernel, typename... Implementations, typename... Ts>
void set_implementations(DeviceType device, TypeList<Ts...>) {
  using List = ImplementationList<kKernel, Implementations...>;
  static_assert(List::template all_serve<Ts...>(), "an implementation takes none of the dtypes");
  (kKernel.template set_for<Ts>(device, List{}, List::template traits<Ts>()), ...);
}

}  // namespace tapegrad
