// Entries of a RunLedger. Not part of the public interface.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/autograd/internal/result_observer.h"
#include "train/run_ledger.h"

namespace tapegrad {

enum class LedgerPass : uint8_t { kForward, kBackward, kValue, kModule };
inline constexpr const char* kLedgerPasses[] = {"forward", "backward", "value", "module"};

/// Sketch of an entry without one: a large view, whose values an earlier op has made.
inline constexpr ResultSketch kNoSketch{.norm = -1};
inline bool has_sketch(const ResultSketch& sketch) { return !(sketch.norm < 0); }

/// Estimates the relative error of b. The expected square of the difference of a sum is the square
/// of the norm of the difference of all elements. Smaller errors than those of float32 additions
/// are estimated from the sums of words. `type` is the type of both results ("float32 [2, 3]"), or
/// empty. Returns 0 if the difference shows in no sum, or if one of both has no sketch.
double error_of(const ResultSketch& a, const ResultSketch& b, const std::string& type,
                double least_norm = 1e-300);

struct LedgerEntry {
  ResultSketch sketch;
  int32_t step = 0;
  LedgerPass pass = LedgerPass::kForward;
  int32_t op = 0, module = 0, line = 0, type = 0;  // indices of strings
};

struct Ledger {
  std::deque<LedgerEntry> entries;  // a vector would copy the entries of a long run as it grows
  std::vector<std::string> strings;

  void save(const std::string& path) const;
  static Ledger load(const std::string& path);
};

struct RunLedger::Impl final : ResultObserver {
  void on_result(std::string_view op, Where where, const Tensor& y) override;
  void on_gradient(const TapeNode& node, const Tensor& gradient) override;
  void add(LedgerPass pass, std::string_view op, const std::string* module, Where where,
           const Tensor& value);
  int32_t string(const std::string& text);

  /// Numbers of the strings of an entry.
  struct Place {
    int32_t op, module, line, type;
  };
  Ledger ledger;
  std::unordered_map<std::string, int32_t> numbers;  // of strings
  std::unordered_map<uint64_t, Place> places;        // by hashes of the parts of the strings
  int32_t step = 1;
  int64_t every = 1;
  bool is_stopped = false;
  /// For tests: called before each entry, with its number, and may change the value.
  std::function<void(int64_t, const Tensor&)> before_entry;
  std::optional<ObserveResults> observe;
};

}  // namespace tapegrad
