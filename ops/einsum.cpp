// Parses the equation, reduces every operand to distinct labels, and contracts operands in pairs.
#include "ops/einsum.h"

#include <algorithm>
#include <bit>
#include <cctype>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/diagonal.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

// A label is a number: A-Z, a-z, then the dimensions of ..., counted from the right.
using Label = int;
using Labels = std::vector<Label>;
using Set = uint64_t;
constexpr Label kEllipsis = 52;
constexpr int kLabels = kEllipsis + kMaxRank;
constexpr size_t kExhaustive = 6;  // maximum number of operands for which all orders are tried

Set set_of(const Labels& labels) {
  Set set = 0;
  for (Label label : labels) set |= Set(1) << label;
  return set;
}
bool contains(Set set, Label label) { return set >> label & 1; }

std::string text_of(Label label) {
  if (label >= kEllipsis) return "...";
  return std::string(1, label < 26 ? char('A' + label) : char('a' + label - 26));
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
  bool is_explicit;

  explicit Equation(std::string_view text) {
    std::string dense;
    for (char c : text)
      if (!std::isspace(static_cast<unsigned char>(c))) dense += c;
    const size_t arrow = dense.find("->");
    is_explicit = arrow != dense.npos;
    if (is_explicit) result = dense.substr(arrow + 2);
    std::string_view left = std::string_view(dense).substr(0, arrow);
    for (size_t comma = 0; comma != left.npos;) {
      comma = left.find(',');
      terms.emplace_back(left.substr(0, comma));
      if (comma != left.npos) left.remove_prefix(comma + 1);
    }
  }
};

/// Parses the labels of a term; ... stands for `dots` dimensions.
Labels parse(std::string_view term, int dots) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(term[i]);
    if (std::isupper(c) && c < 128) {
      labels.push_back(c - 'A');
    } else if (std::islower(c) && c < 128) {
      labels.push_back(26 + c - 'a');
    } else if (term.substr(i, 3) == "..." && !seen) {
      for (int k = dots; k-- > 0;) labels.push_back(kEllipsis + k);
      seen = true;
      i += 2;
    } else {
      fail<ArgumentError>("einsum: a letter or one ... is wanted at ", i, " of \"", term, '"');
    }
  }
  return labels;
}

/// An operand with a label for each dimension.
struct Term {
  Variable x;
  Labels labels;

  Set set() const { return set_of(labels); }
  int position(Label label) const {
    return int(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
};

class Contraction {
 public:
  Contraction(std::string_view equation, std::span<const Variable> operands, Where where)
      : equation_(equation), where_(where) {
    if (equation_.terms.size() != operands.size())
      fail<ArgumentError>("einsum: \"", equation, "\" names ", equation_.terms.size(),
                          " operands, given are ", operands.size());
    int most_dots = 0;
    std::array<int, kLabels> occurrences{};
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string& term = equation_.terms[i];
      const bool open = term.find("...") != term.npos;
      const int letters = int(term.size()) - (open ? 3 : 0);
      const int dots = open ? std::max(operands[i].rank() - letters, 0) : 0;
      if (letters + dots != operands[i].rank())
        fail<ShapeError>("einsum: \"", term, "\" does not fit a shape of ", operands[i].shape());
      most_dots = std::max(most_dots, dots);
      terms_.push_back({operands[i], parse(term, dots)});
      for (Label label : terms_.back().labels) ++occurrences[size_t(label)];
    }
    if (equation_.is_explicit) {
      result_ = parse(equation_.result, most_dots);
      for (Label label : result_) {
        if (std::count(result_.begin(), result_.end(), label) > 1)
          fail<ArgumentError>("einsum: ", text_of(label), " occurs twice in the result of \"",
                              equation, '"');
        if (occurrences[size_t(label)] == 0)
          fail<ArgumentError>("einsum: ", text_of(label), " of the result is in no operand of \"",
                              equation, '"');
      }
    } else {
      for (int k = most_dots; k-- > 0;) result_.push_back(kEllipsis + k);
      for (Label label = 0; label < kEllipsis; ++label)
        if (occurrences[size_t(label)] == 1) result_.push_back(label);
    }
    find_sizes();
    for (Term& term : terms_) take_diagonals(term);
    for (size_t i = 0; i < terms_.size(); ++i) reduce(terms_[i], outside({i, i}));
  }

  Variable run() {
    while (terms_.size() > kExhaustive) contract_cheapest();
    plan();
    Term y = contract((size_t(1) << terms_.size()) - 1);
    Dims order;
    for (Label label : result_) order.push_back(y.position(label));
    return permute(y.x, order, where_);
  }

 private:
  void find_sizes() {
    sizes_.fill(1);
    for (const Term& term : terms_)
      for (size_t i = 0; i < term.labels.size(); ++i) {
        int64_t& size = sizes_[size_t(term.labels[i])];
        const int64_t here = term.x.shape()[int(i)];
        if (size != 1 && here != 1 && here != size)
          fail<ShapeError>("einsum: ", text_of(term.labels[i]), " has size ", size, " and ", here);
        if (size == 1) size = here;
      }
  }

  /// Drops dimensions of size 1 whose label has a larger size, and merges dimensions with equal
  /// labels into a diagonal.
  void take_diagonals(Term& term) {
    for (size_t i = term.labels.size(); i-- > 0;)
      if (term.x.shape()[int(i)] != sizes_[size_t(term.labels[i])]) {
        term.x = select(term.x, int(i), 0, where_);
        term.labels.erase(term.labels.begin() + std::ptrdiff_t(i));
      }
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const Label label = term.labels[i];
      const auto again =
          std::find(term.labels.begin() + std::ptrdiff_t(i) + 1, term.labels.end(), label);
      if (again == term.labels.end()) continue;
      term.x = diagonal(term.x, 0, int(i), int(again - term.labels.begin()), where_);
      term.labels.erase(again);
      term.labels.erase(term.labels.begin() + std::ptrdiff_t(i));
      term.labels.push_back(label);
      --i;
    }
  }

  /// Sums over labels that are not in `wanted`.
  void reduce(Term& term, Set wanted) {
    Dims dims;
    Labels left;
    for (size_t i = 0; i < term.labels.size(); ++i)
      if (contains(wanted, term.labels[i]))
        left.push_back(term.labels[i]);
      else
        dims.push_back(int64_t(i));
    if (dims.rank() == 0) return;
    const DType dtype = term.x.dtype();
    term.x = sum(term.x, dims, false, where_).to(dtype, where_);
    term.labels = std::move(left);
  }

  /// Returns the labels of the result and of all terms except the two given.
  Set outside(std::pair<size_t, size_t> inside) const {
    Set set = set_of(result_);
    for (size_t i = 0; i < terms_.size(); ++i)
      if (i != inside.first && i != inside.second) set |= terms_[i].set();
    return set;
  }

  double volume(Set set) const {
    double product = 1;
    for (Label label = 0; label < kLabels; ++label)
      if (contains(set, label)) product *= double(sizes_[size_t(label)]);
    return product;
  }

  void contract_cheapest() {
    std::pair<size_t, size_t> best{0, 1};
    const auto cost = [&](std::pair<size_t, size_t> pair) {
      return volume(terms_[pair.first].set() | terms_[pair.second].set());
    };
    for (size_t i = 0; i < terms_.size(); ++i)
      for (size_t j = i + 1; j < terms_.size(); ++j)
        if (cost({i, j}) < cost(best)) best = {i, j};
    terms_[best.first] = contract(terms_[best.first], terms_[best.second], outside(best));
    terms_.erase(terms_.begin() + std::ptrdiff_t(best.second));
  }

  /// Finds the cheapest contraction of every subset of terms; half_ stores one half of its last
  /// step.
  void plan() {
    const size_t subsets = size_t(1) << terms_.size();
    half_.assign(subsets, 0);
    std::vector<double> cost(subsets, 0);
    for (size_t subset = 1; subset < subsets; ++subset) {
      if (std::has_single_bit(subset)) continue;
      for (size_t half = (subset - 1) & subset; half > 0; half = (half - 1) & subset) {
        const size_t rest = subset ^ half;
        const double total = cost[half] + cost[rest] + volume(labels_of(half) | labels_of(rest));
        if (half_[subset] == 0 || total < cost[subset]) {
          half_[subset] = half;
          cost[subset] = total;
        }
      }
    }
  }

  /// Returns the labels that remain after contracting a subset.
  Set labels_of(size_t subset) const {
    Set inside = 0, wanted = set_of(result_);
    for (size_t i = 0; i < terms_.size(); ++i)
      (subset >> i & 1 ? inside : wanted) |= terms_[i].set();
    return inside & wanted;
  }

  Term contract(size_t subset) {
    if (std::has_single_bit(subset)) return terms_[size_t(std::countr_zero(subset))];
    const size_t half = half_[subset];
    return contract(contract(half), contract(subset ^ half), labels_of(subset));
  }

  /// Contracts two terms by a batched matrix product. Common labels are batch dimensions if wanted
  /// elsewhere, and inner dimensions otherwise. Batch dimensions are merged only if this copies
  /// neither term: windows of a sequence (unfold) would be much larger than the sequence.
  Term contract(const Term& a, const Term& b, Set wanted) {
    Labels batch, inner, rows, columns;
    for (Label label : a.labels)
      (!contains(b.set(), label) ? rows : contains(wanted, label) ? batch : inner).push_back(label);
    for (Label label : b.labels)
      if (!contains(a.set(), label)) columns.push_back(label);
    // The rows come first in the result, so that the result needs no permutation.
    if (place_of(columns) < place_of(rows)) return contract(b, a, wanted);
    Labels labels = batch;
    labels.insert(labels.end(), rows.begin(), rows.end());
    labels.insert(labels.end(), columns.begin(), columns.end());
    if (inner.empty() && labels.size() <= size_t(kMaxRank)) return multiply(a, b, labels);
    const bool merges = int(batch.size()) + 2 > kMaxRank ||
                        (is_one_dimension(a, batch) && is_one_dimension(b, batch));
    const Variable x = arranged(a, batch, rows, inner, merges);
    const Variable y = arranged(b, batch, inner, columns, merges);
    Shape shape;
    for (Label label : labels) shape.push_back(sizes_[size_t(label)]);
    const Variable product = inner.empty() ? mul({x, where_}, {y, where_}) : matmul(x, y, where_);
    return {reshape(product, shape, where_), labels};
  }

  /// Returns the elementwise product of two terms that broadcast, with the labels in the result's
  /// order.
  Term multiply(const Term& a, const Term& b, Labels labels) {
    std::ranges::stable_sort(labels, {}, [this](Label label) {
      return std::ranges::find(result_, label) - result_.begin();
    });
    return {mul({spread(a, labels), where_}, {spread(b, labels), where_}), labels};
  }
  /// Returns a view of the term with a dimension for each label, of size 1 where the term has none.
  Variable spread(const Term& term, const Labels& labels) {
    Dims order;
    Shape shape;
    for (Label label : labels) {
      const bool is_own = contains(term.set(), label);
      if (is_own) order.push_back(term.position(label));
      shape.push_back(is_own ? sizes_[size_t(label)] : 1);
    }
    return reshape(permute(term.x, order, where_), shape, where_);
  }

  /// Returns the first place of one of these labels in the result.
  ptrdiff_t place_of(const Labels& labels) const {
    ptrdiff_t place = std::ssize(result_);
    for (Label label : labels)
      place = std::min(place, std::ranges::find(result_, label) - result_.begin());
    return place;
  }
  int64_t size_of(const Labels& labels) const {
    int64_t size = 1;
    for (Label label : labels) size *= sizes_[size_t(label)];
    return size;
  }

  /// Returns whether a view can merge the dimensions of these labels into one.
  static bool is_one_dimension(const Term& term, const Labels& labels) {
    const Strides& strides = term.x.strides();
    for (size_t i = 1; i < labels.size(); ++i) {
      const int outer = term.position(labels[i - 1]), inner = term.position(labels[i]);
      if (strides[outer] != strides[inner] * term.x.size(inner)) return false;
    }
    return true;
  }

  /// Permutes the term's dimensions to [batch, rows, columns] and merges the labels of the rows and
  /// of the columns, and those of the batch if wanted, into one dimension each.
  Variable arranged(const Term& term, const Labels& batch, const Labels& rows,
                    const Labels& columns, bool merges_batch) {
    Dims order;
    for (const Labels* group : {&batch, &rows, &columns})
      for (Label label : *group) order.push_back(term.position(label));
    Shape shape;
    if (merges_batch)
      shape.push_back(size_of(batch));
    else
      for (Label label : batch) shape.push_back(sizes_[size_t(label)]);
    shape.push_back(size_of(rows));
    shape.push_back(size_of(columns));
    return reshape(permute(term.x, order, where_), shape, where_);
  }

  Equation equation_;
  Where where_;
  std::vector<Term> terms_;
  Labels result_;
  std::array<int64_t, kLabels> sizes_;
  std::vector<size_t> half_;
};

}  // namespace

Variable einsum(std::string_view equation, VariableList operands, Where where) {
  const ErrorLine line(where);
  if (operands.empty()) fail<ArgumentError>("einsum: no operands for \"", equation, '"');
  DType dtype = operands[0].dtype();
  for (const Variable& x : operands) dtype = promote(dtype, x.dtype());
  std::vector<Variable> same;
  for (const Variable& x : operands) same.push_back(x.to(dtype, where));
  return Contraction(equation, same, where).run();
}

}  // namespace tapegrad
