// Calls public functions with hostile arguments: empty, of rank 0, without elements, huge,
// expanded, overlapping, of other dtypes and devices, not finite, the largest and the smallest. The
// process must live, an error must be a tapegrad::Error, and operands must be unchanged: those of
// type T& after an error, those of type const T& always. Those of type T are not compared.
//
//   table.add("Variable::size", [](const Variable& x, int dim) { x.size(dim); });
//
// Each parameter takes each value of Hostile<its type> while the others are ordinary; a few calls
// draw all of them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/tape/variable.h"
#include "io/safetensors.h"

namespace tapegrad::testing {

/// Variables of other shapes than the ordinary one of [2, 3].
struct Image {
  Variable x;
  operator const Variable&() const { return x; }
};
struct Sequence {
  Variable x;
  operator const Variable&() const { return x; }
};
/// The classes or indices of two rows.
struct Labels {
  Variable x;
  operator const Variable&() const { return x; }
};
using Variables = std::vector<Variable>;

size_t hostile_count();
Variable hostile_variable(size_t kind, const Shape& shape, DType dtype = f32);

/// Returns the values of a parameter; the first is ordinary.
template <typename T>
const std::vector<T>& hostile_values();

template <typename T>
struct Hostile {
  static size_t count() { return hostile_values<T>().size(); }
  static T make(size_t k) { return hostile_values<T>()[k]; }
};
template <>
struct Hostile<Variable> {
  static size_t count() { return hostile_count(); }
  static Variable make(size_t k) { return hostile_variable(k, {2, 3}); }
};
template <>
struct Hostile<Image> {
  static size_t count() { return hostile_count(); }
  static Image make(size_t k) { return {hostile_variable(k, {1, 3, 5, 5})}; }
};
template <>
struct Hostile<Sequence> {
  static size_t count() { return hostile_count(); }
  static Sequence make(size_t k) { return {hostile_variable(k, {2, 3, 4})}; }
};
template <>
struct Hostile<Labels> {
  static size_t count() { return hostile_count(); }
  static Labels make(size_t k) { return {hostile_variable(k, {2}, i64)}; }
};
template <>
struct Hostile<Tensor> {
  static size_t count() { return hostile_count(); }
  static Tensor make(size_t k) {
    const Variable x = hostile_variable(k, {2, 3});
    return x.defined() ? x.value() : Tensor();
  }
};
template <>
struct Hostile<Variables> {
  static size_t count() { return hostile_count() + 3; }
  static Variables make(size_t k);
};
template <>
struct Hostile<TensorMap> {
  static size_t count() { return hostile_count() + 1; }
  static TensorMap make(size_t k);
};

/// Digest of the values, so that a write is noticed.
uint64_t fingerprint(const Tensor& x);
uint64_t fingerprint(const Variable& x);
uint64_t fingerprint(const Variables& xs);
uint64_t fingerprint(const TensorMap& xs);
inline uint64_t fingerprint(const Image& x) { return fingerprint(x.x); }
inline uint64_t fingerprint(const Sequence& x) { return fingerprint(x.x); }
inline uint64_t fingerprint(const Labels& x) { return fingerprint(x.x); }
template <typename T>
uint64_t fingerprint(const T&) {
  return 0;
}

class Table {
 public:
  /// Adds a row that calls `call` with hostile arguments of the types of its parameters.
  template <typename F>
  void add(const std::string& names, F call) {
    add_call(names, call, &F::operator());
  }
  /// Names that need no row, with the reason.
  void leave_out(const std::string& reason, const std::string& names);

  struct Row {
    std::string names;
    std::function<void()> run;
  };
  const std::vector<Row>& rows() const { return rows_; }
  /// All names, of rows and of those left out.
  const std::map<std::string, std::string>& names() const { return names_; }

 private:
  using Picks = std::vector<size_t>;
  void add_row(const std::string& names, std::function<void()> run);

  /// Functions without captures become pointers, so that the code below is compiled once for the
  /// functions with equal parameters.
  template <typename F, typename... Args>
  void add_call(const std::string& names, const F& call, void (F::*)(Args...) const) {
    using Pointer = void (*)(Args...);
    add_row_of<std::conditional_t<std::is_convertible_v<F, Pointer>, Pointer, F>, Args...>(names,
                                                                                           call);
  }
  template <typename F, typename... Args>
  void add_row_of(const std::string& names, F call) {
    add_row(names, [names, call] {
      for (const Picks& picks : all_picks({Hostile<std::decay_t<Args>>::count()...}))
        run_once<F, Args...>(names, call, picks, std::index_sequence_for<Args...>());
    });
  }
  template <typename F, typename... Args, size_t... I>
  static void run_once(const std::string& names, const F& call, const Picks& picks,
                       std::index_sequence<I...>) {
    std::tuple<std::decay_t<Args>...> arguments{Hostile<std::decay_t<Args>>::make(picks[I])...};
    const std::vector<uint64_t> before = {fingerprint(std::get<I>(arguments))...};
    const bool failed = try_call(names, picks, [&] { call(std::get<I>(arguments)...); });
    const std::vector<uint64_t> after = {fingerprint(std::get<I>(arguments))...};
    constexpr bool kIsCompared[] = {std::is_lvalue_reference_v<Args>..., false};
    constexpr bool kIsConst[] = {std::is_const_v<std::remove_reference_t<Args>>..., false};
    for (size_t i = 0; i < before.size(); ++i)
      if (before[i] != after[i] && kIsCompared[i] && (failed || kIsConst[i]))
        fail_changed(names, picks, i);
  }

  static std::vector<Picks> all_picks(const std::vector<size_t>& counts);
  /// Returns whether an Error was thrown. Another exception, or one of five seconds, is a failure.
  static bool try_call(const std::string& names, const Picks& picks,
                       const std::function<void()>& call);
  static void fail_changed(const std::string& names, const Picks& picks, size_t argument);

  std::vector<Row> rows_;
  std::map<std::string, std::string> names_;
};

/// Returns whether x is small enough for ops that take more time or memory than its size.
inline bool is_small(const Variable& x) { return !x.defined() || x.numel() < 1000; }

/// Calls each function and ignores errors of the library.
template <typename... F>
void attempt(const F&... calls) {
  const auto each = [](const auto& call) {
    try {
      call();
    } catch (const Error&) {
    }
  };
  (each(calls), ...);
}

void add_core_rows(Table& table);
void add_nn_rows(Table& table);
void add_train_rows(Table& table);
void add_fit_rows(Table& table);
void add_sequence_rows(Table& table);
void add_further_rows(Table& table);
void add_names_rows(Table& table);
void add_torch_options_rows(Table& table);
void add_spellings_rows(Table& table);
void add_module_name_rows(Table& table);
void add_derived_rows(Table& table);
void add_distributions_rows(Table& table);

}  // namespace tapegrad::testing
