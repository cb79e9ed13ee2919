#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <ostream>
#include <set>

#include "absl/strings/str_format.h"

#include "core/base/error.h"
#include "ops/internal/sketch_signs.h"
#include "train/internal/ledger.h"
#include "train/run_ledger.h"

namespace tapegrad {
namespace {

/// Rounding of the sums of a result, relative to its norm.
struct Resolution {
  double sums = 0;     // differences up to this one may be rounding errors of the sums
  double element = 0;  // change of the result if a typical element changes by its last bit
};

Resolution resolution_of(const std::string& type) {
  const size_t space = std::min(type.find(' '), type.size());
  double count = 1;
  for (size_t i = space; i < type.size(); ++i)
    if (const bool begins = std::isdigit(static_cast<unsigned char>(type[i])); begins) {
      count *= double(std::strtoll(&type[i], nullptr, 10));
      i = std::min(type.find_first_of(",]", i), type.size());
    }
  const std::string dtype = type.substr(0, space);
  // The sums begin with the rows of a tile. Those of one row are exact.
  const bool has_short_sums = dtype == "float32" || dtype == "float16" || dtype == "bfloat16";
  const double rows = std::min(std::ceil(count / kSketchLanes), double(kSketchRows));
  Resolution resolution;
  if (rows > 1) resolution.sums = std::ldexp(std::sqrt(rows / count), has_short_sums ? -22 : -51);
  // In most results, more elements are smaller than the root of their mean square than larger.
  const int digits = dtype == "float32"    ? 24
                     : dtype == "float16"  ? 11
                     : dtype == "bfloat16" ? 8
                                           : 53;
  resolution.element = std::ldexp(0.35, -digits) / std::sqrt(std::max(count, 1.0));
  return resolution;
}

int32_t wrapped_difference(int32_t a, int32_t b) {
  return std::bit_cast<int32_t>(uint32_t(a) - uint32_t(b));
}

/// Returns the size of the change if one element of a float32 result changed by a few units in the
/// last place: the difference of `products` is then that of `words` times the upper half of the
/// element. Returns 0 if more has changed.
double change_of_one(const ResultSketch& a, const ResultSketch& b) {
  const int64_t units = wrapped_difference(a.words, b.words);
  const int64_t products = wrapped_difference(a.products, b.products);
  if (units == 0 || std::abs(units) > 1 << 12 || products % units != 0) return 0;
  const int64_t upper = products / units;
  if (upper < INT16_MIN || upper > INT16_MAX) return 0;
  const int exponent = std::max(int(upper >> 7 & 0xFF), 1);  // that of the smallest normal number
  return std::ldexp(double(std::abs(units)), exponent - 127 - 23);
}

}  // namespace

double error_of(const ResultSketch& a, const ResultSketch& b, const std::string& type,
                double least_norm) {
  if (!has_sketch(a) || !has_sketch(b)) return 0;
  const double first = a.sums[0] - b.sums[0], second = a.sums[1] - b.sums[1];
  const double least = std::abs(a.norm - b.norm);  // the norm of the difference is not smaller
  const double norm = std::max({a.norm, b.norm, least_norm});
  const double error = std::max(std::sqrt((first * first + second * second) / 2), least) / norm;
  if (std::isnan(error)) {
    // Two results with NaN or infinities cannot be told apart by sums.
    const auto is_finite = [](const ResultSketch& each) {
      return std::isfinite(each.sums[0]) && std::isfinite(each.sums[1]);
    };
    return is_finite(a) == is_finite(b) ? 0 : INFINITY;
  }
  if (a.hash == b.hash || a.hash == 0 || b.hash == 0 || type.empty()) return error;
  const Resolution resolution = resolution_of(type);
  const double scale = std::max(a.norm, b.norm) / norm;
  const int32_t words = wrapped_difference(a.words, b.words);
  const bool shows_nothing = error == 0 && (words == 0 || words == INT32_MIN);
  if (error > resolution.sums * scale || shows_nothing) return error;
  if (const double change = type.starts_with("float32") ? change_of_one(a, b) : 0; change > 0)
    return std::min(change / norm, resolution.sums * scale);
  const double of_words = resolution.element * std::max(std::abs(double(words)), 1.0) * scale;
  return std::max(std::min(resolution.sums * scale, of_words), error / 8);
}

namespace {

using Place = RunDifference::Place;

/// An entry with its strings.
struct Item {
  const Ledger* ledger;
  size_t index;

  const LedgerEntry& entry() const { return ledger->entries[index]; }
  const std::string& op() const { return ledger->strings[size_t(entry().op)]; }
  const std::string& module() const { return ledger->strings[size_t(entry().module)]; }
  const std::string& line() const { return ledger->strings[size_t(entry().line)]; }
  const std::string& type() const { return ledger->strings[size_t(entry().type)]; }
  std::string shape() const { return type().substr(std::min(type().find('['), type().size())); }

  Place place() const {
    return {int64_t(index), entry().step, kLedgerPasses[size_t(entry().pass)], op(), module(),
            line(),         type()};
  }
};

double error_of(const Item& a, const Item& b) {
  return error_of(a.entry().sketch, b.entry().sketch, a.type() == b.type() ? a.type() : "");
}

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool agree(const Item& one, const Item& two, double tolerance, double least_norm) {
  const ResultSketch &a = one.entry().sketch, &b = two.entry().sketch;
  if (!has_sketch(a) || !has_sketch(b)) return true;
  if (tolerance > 0) return error_of(a, b, "", least_norm) <= tolerance;
  return a.hash == b.hash && a.words == b.words && is_same(a.sums[0], b.sums[0]) &&
         is_same(a.sums[1], b.sums[1]);
}

/// Returns a hundredth of the largest norm of the results of the same call. A result that cancels
/// out, such as the gradient of a bias in front of a batch norm, is noise of this size or less.
double noise_norm(const std::vector<Item>& items, size_t index) {
  const LedgerEntry& entry = items[index].entry();
  const auto is_same_call = [&](size_t i) {
    const LedgerEntry& other = items[i].entry();
    return other.pass == entry.pass && other.op == entry.op && other.line == entry.line &&
           other.module == entry.module && other.step == entry.step;
  };
  double largest = 0;
  for (size_t i = index; i < items.size() && is_same_call(i); ++i)
    largest = std::max<double>(largest, items[i].entry().sketch.norm);
  for (size_t i = index; i-- > 0 && is_same_call(i);)
    largest = std::max<double>(largest, items[i].entry().sketch.norm);
  return std::max(0.01 * largest, 1e-300);
}

/// Ops that change no value, which may be needed on only one of two devices or dtypes.
bool is_conversion(const std::string& op) {
  return std::set<std::string>{"to", "cast", "clone", "contiguous"}.contains(op);
}

std::vector<Item> items_of(const Ledger& ledger, double tolerance) {
  std::vector<Item> items;
  for (size_t i = 0; i < ledger.entries.size(); ++i)
    if (const Item item{&ledger, i}; tolerance == 0 || !is_conversion(item.op()))
      items.push_back(item);
  return items;
}

bool has_modules(const Ledger& ledger) {
  return std::ranges::any_of(
      ledger.entries, [](const LedgerEntry& entry) { return entry.pass == LedgerPass::kModule; });
}

/// Returns whether `inner` is the module `outer`, named without the root, or a part of it.
bool is_within(const std::string& inner, const std::string& outer) {
  const size_t root = inner.find('.');
  if (root == std::string::npos) return false;
  const std::string_view path = std::string_view(inner).substr(root + 1);
  return path.starts_with(outer) && (path.size() == outer.size() || path[outer.size()] == '.');
}

/// Matches the output of each module call in `modules` with the last op of the call in `ops` that
/// has a result of the same shape.
void pair_modules(const Ledger& ops, const Ledger& modules, std::vector<Item>& a,
                  std::vector<Item>& b) {
  std::map<std::string, size_t> next;  // where to look for the next call, by module
  for (size_t i = 0; i < modules.entries.size(); ++i) {
    const Item call{&modules, i};
    if (call.entry().pass != LedgerPass::kModule) continue;
    size_t& at = next[call.module()];
    const auto is_part = [&](size_t k) {
      return ops.entries[k].pass == LedgerPass::kForward &&
             is_within(Item{&ops, k}.module(), call.module());
    };
    while (at < ops.entries.size() && !is_part(at)) ++at;
    if (at == ops.entries.size()) continue;
    const size_t begin = at;
    while (at < ops.entries.size() && is_part(at)) ++at;
    // Behind the op that computes the output, a module may update its statistics.
    size_t last = at - 1;
    while (last > begin && Item{&ops, last}.shape() != call.shape()) --last;
    a.push_back({&ops, last});
    b.push_back(call);
  }
}

}  // namespace

RunDifference compare_runs(const std::string& path_a, const std::string& path_b,
                           CompareOptions options) {
  if (!(options.tolerance >= 0))
    fail<ArgumentError>("compare_runs: tolerance is ", options.tolerance, ", not >= 0");
  const Ledger ledger_a = Ledger::load(path_a), ledger_b = Ledger::load(path_b);
  std::vector<Item> a, b;
  if (has_modules(ledger_b) && !has_modules(ledger_a)) {
    pair_modules(ledger_a, ledger_b, a, b);
  } else if (has_modules(ledger_a) && !has_modules(ledger_b)) {
    pair_modules(ledger_b, ledger_a, b, a);
  } else {
    a = items_of(ledger_a, options.tolerance);
    b = items_of(ledger_b, options.tolerance);
  }
  const bool by_modules = has_modules(ledger_a) != has_modules(ledger_b);
  RunDifference found;
  for (; found.compared < int64_t(std::min(a.size(), b.size())); ++found.compared) {
    const Item& one = a[size_t(found.compared)];
    const Item& two = b[size_t(found.compared)];
    const Place place = (by_modules && has_modules(ledger_a) ? two : one).place();
    const bool is_same_op =
        by_modules || (one.op() == two.op() && one.entry().pass == two.entry().pass);
    const bool is_same_type =
        options.tolerance > 0 ? one.shape() == two.shape() : one.type() == two.type();
    if (!is_same_op || !is_same_type)
      found.reason = absl::StrFormat("one run has %s %s %s, the other %s %s %s", one.place().pass,
                                     one.op(), one.type(), two.place().pass, two.op(), two.type());
    else if (agree(one, two, options.tolerance, noise_norm(a, size_t(found.compared)))) {
      found.before = place;
      found.before.error = error_of(one, two);
      continue;
    }
    found.equal = false;
    found.at = place;
    found.at.error = found.reason.empty() ? error_of(one, two) : 0;
    return found;
  }
  if (a.size() != b.size()) {
    const std::vector<Item>& longer = a.size() > b.size() ? a : b;
    found.equal = false;
    found.at = longer[size_t(found.compared)].place();
    found.reason = "one run ends here";
  }
  return found;
}

namespace {

void print_place(std::ostream& out, const Place& place) {
  out << place.pass << " of " << place.op;
  if (!place.module.empty()) out << ", in " << place.module;
  if (!place.line.empty()) out << ", at " << place.line;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const RunDifference& difference) {
  if (difference.equal) return out << "the runs agree in " << difference.compared << " entries\n";
  out << "the runs part at entry " << difference.at.entry << ", in step " << difference.at.step
      << ":\n  ";
  print_place(out, difference.at);
  out << ", " << difference.at.type << '\n';
  if (!difference.reason.empty())
    out << "  " << difference.reason << '\n';
  else if (difference.at.error == 0)
    out << "  only in bits that no sum shows\n";
  else
    out << absl::StreamFormat("  relative error %.1e\n", difference.at.error);
  if (difference.before.op.empty()) return out;
  out << "before it: ";
  print_place(out, difference.before);
  return out << absl::StreamFormat(": relative error %.1e\n", difference.before.error);
}

}  // namespace tapegrad
