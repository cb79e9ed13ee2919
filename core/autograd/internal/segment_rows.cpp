#include "core/autograd/internal/segment_rows.h"

#include <algorithm>
#include <numeric>

namespace tapegrad {
namespace {

constexpr int64_t kFewestTogether = 1024;  // elements of a group of rows

bool broadcasts(const Tensor& x, const Shape& to) {
  if (x.rank() > to.rank()) return false;
  for (int i = 1; i <= x.rank(); ++i) {
    const int64_t size = x.shape()[x.rank() - i];
    if (size != 1 && size != to[to.rank() - i]) return false;
  }
  return true;
}

/// Returns an operand of a flat elementwise call.
RowOperand flat_operand(const Tensor& x, const Shape& result) {
  const int64_t count = numel(result);
  if (x.is_contiguous() && x.numel() == count)
    return {.kind = OperandKind::kFull, .base = x.layout().offset, .span = count};
  const Strides strides = broadcast_strides(x.layout(), result);
  int dim = 0;  // the first dimension that is not repeated
  while (dim < result.rank() && (strides[dim] == 0 || result[dim] == 1)) ++dim;
  if (dim == result.rank()) return {.kind = OperandKind::kSingle};
  int64_t row = 1;
  for (int i = result.rank() - 1; i >= dim; --i) {
    if (result[i] != 1 && strides[i] != row) return {};
    row *= result[i];
  }
  return {.kind = OperandKind::kPeriod, .period = row};
}

/// An operand of an elementwise call.
struct Element {
  Tensor x;
  bool is_written;
};

/// Any operand is contiguous, or repeated as a contiguous row.
CallRows flat_rows(const std::vector<Element>& elements, const Tensor& result) {
  CallRows rows{.is_flat = true};
  int64_t period = 1;
  bool is_flat = result.is_contiguous();
  for (const auto& [x, is_written] : elements) {
    const RowOperand operand = flat_operand(x, result.shape());
    if (operand.kind == OperandKind::kPeriod) period = std::lcm(period, operand.period);
    is_flat &= operand.kind != OperandKind::kOther;
    is_flat &= !is_written || operand.kind == OperandKind::kFull;
    rows.operands.push_back(operand);
  }
  if (is_flat && period <= kLongestRow) rows.rows = result.numel() / period;
  return rows;
}

/// Divides an elementwise call between two dimensions of its result: the leading dimensions number
/// the rows.
class Division {
 public:
  Division(const std::vector<Element>& elements, const Tensor& result) {
    for (const int64_t size : result.shape())
      if (size != 1) sizes_.push_back(size);
    for (const auto& [x, is_written] : elements) {
      const Strides all = broadcast_strides(x.layout(), result.shape());
      Operand operand{&x, is_written, {}};
      for (int i = 0; i < result.rank(); ++i) {
        if (result.shape()[i] == 1) continue;
        operand.strides.push_back(all[i]);
        is_possible_ &= all[i] >= 0;
      }
      operands_.push_back(operand);
    }
  }

  /// Returns the division in which the most operands are full; of several such divisions, the one
  /// with the largest groups, then with the most rows.
  CallRows best() const {
    CallRows best;
    int64_t most_full = 0, largest = 0;
    for (int leading = 1; is_possible_ && leading <= sizes_.rank(); ++leading) {
      CallRows rows = divide(leading);
      if (rows.rows == 0) continue;
      const int64_t row = numel(rows.operands[0].row);
      const int64_t together = (rows.group > 0 ? rows.group : rows.rows) * row;
      const int64_t full = std::ranges::count(rows.operands, OperandKind::kFull, &RowOperand::kind);
      if (row > kLongestRow || together < kFewestTogether) continue;
      if (full < most_full || (full == most_full && together < largest)) continue;
      most_full = full, largest = together, best = std::move(rows);
    }
    return best;
  }

 private:
  struct Operand {
    const Tensor* x;
    bool is_written;
    Strides strides;
  };

  int64_t product(int first, int last) const {
    int64_t product = 1;
    for (; first < last; ++first) product *= sizes_[first];
    return product;
  }

  /// Returns whether adjacent elements of a row of the operand lie in different cache lines, so
  /// many that a line has left the cache before its other elements are read. A copy of such an
  /// operand is divided into squares instead.
  static constexpr int64_t kLine = 64, kMostLines = 256;
  bool is_transposed(const Operand& operand) const {
    const Strides& strides = operand.strides;
    const int64_t size = size_of(operand.x->dtype());
    int inner = sizes_.rank() - 1;
    while (inner > 0 && strides[inner] == 0) --inner;
    const int64_t step = strides[inner];
    int64_t count = sizes_[inner];
    for (; inner > 0 && strides[inner - 1] == strides[inner] * sizes_[inner]; --inner)
      count *= sizes_[inner - 1];
    bool returns = false;
    for (int i = 0; i < inner; ++i) returns |= strides[i] > 0 && strides[i] * size < kLine;
    return returns && step * size >= kLine && count > kMostLines;
  }

  /// Returns no rows if the operands do not permit the division.
  CallRows divide(int leading) const {
    CallRows rows;
    const int64_t count = product(0, leading);
    int outer = 0;  // dimensions outside of the groups
    for (const Operand& operand : operands_) {
      const Tensor& x = *operand.x;
      const Strides& strides = operand.strides;
      RowOperand row{.pitch = strides[leading - 1]};
      int64_t extent = 1;
      for (int i = leading; i < sizes_.rank(); ++i) {
        row.row.push_back(sizes_[i]);
        row.strides.push_back(strides[i]);
        extent += (sizes_[i] - 1) * strides[i];
        if (operand.is_written && strides[i] == 0) return {};
      }
      int group = leading - 1;
      while (group > 0 && strides[group - 1] == strides[group] * sizes_[group]) --group;
      const int64_t span = row.pitch * count;
      const bool may_be_full = group == 0 && row.pitch > 0 && row.pitch <= kLongestRow;
      if (x.numel() == 1 && !operand.is_written) {
        row.kind = OperandKind::kSingle;
      } else if (row.pitch > 0 && extent > row.pitch) {
        return {};
      } else if (may_be_full && x.is_contiguous() && x.numel() == span) {
        row.kind = OperandKind::kFull, row.base = x.layout().offset, row.span = span;
      } else if (may_be_full && x.layout().offset + extent <= row.pitch &&
                 size_t(span * size_of(x.dtype())) == x.storage().bytes()) {
        row.kind = OperandKind::kFull, row.span = span;
      } else if (!operand.is_written && is_transposed(operand)) {
        return {};
      } else if (operand.is_written || (row.pitch == 0 && row.strides.rank() > 0 &&
                                        row.strides[row.strides.rank() - 1] > 1)) {
        return {};
      } else {
        row.kind = OperandKind::kWhole;
        outer = std::max(outer, group);
      }
      rows.operands.push_back(row);
    }
    if (outer > 0) rows.group = product(outer, leading);
    for (int i = 0; i < outer; ++i) rows.outer.push_back(sizes_[i]);
    for (size_t k = 0; k < operands_.size(); ++k)
      for (int i = 0; i < outer; ++i) rows.operands[k].outer.push_back(operands_[k].strides[i]);
    rows.rows = count;
    return rows;
  }

  Shape sizes_;  // of the result, without those of 1
  std::vector<Operand> operands_;
  bool is_possible_ = true;
};

CallRows rows_of_elements(const StepCall& step) {
  RecordedCall& call = *step.call;
  const Tensor result = result_of(call);
  if (!result || result.numel() == 0) return {};
  bool is_possible = true;
  std::vector<Element> elements;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    is_possible &= broadcasts(x, result.shape());
    elements.push_back({x, is_written});
  });
  if (!is_possible) return {};
  CallRows rows = flat_rows(elements, result);
  if (rows.rows == 0 && !has_draws(call)) rows = Division(elements, result).best();
  return rows;
}

}  // namespace

Tensor result_of(RecordedCall& call) {
  Tensor result;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    if (is_written) result = x;
  });
  return result;
}

bool has_draws(RecordedCall& call) {
  struct Draws final : ArgumentVisitor {
    void on_tensor(Tensor&, bool) override {}
    void on_draw(RandomState&) override { found = true; }
    bool found = false;
  } draws;
  call.visit(draws);
  return draws.found;
}

CallRows rows_of(const StepCall& step) {
  RecordedCall& call = *step.call;
  if (call.parts() == Parts::kElements) return rows_of_elements(step);
  const RowDivision division = call.divide_rows();
  if (division.rows == 0) return {};
  CallRows rows{.rows = division.rows,
                .is_flat = division.is_flat,
                .is_fixed = !division.is_flat && (division.unit > 1 || division.sum_bytes > 0)};
  bool is_possible = true;
  each_argument(call, [&](Tensor& x, bool, int argument) {
    // An argument that may be either is a sum if the call has sums.
    const bool is_sum = call.sum_arguments() >> argument & 1 && division.sum_bytes > 0;
    RowOperand operand{.kind = is_sum ? OperandKind::kSum : OperandKind::kWhole};
    if (!is_sum && call.divided_arguments() >> argument & 1) {
      operand = {.kind = OperandKind::kFull,
                 .base = x.layout().offset,
                 .span = x.numel(),
                 .pitch = x.numel() / division.rows};
      is_possible &=
          x.is_contiguous() && x.numel() % division.rows == 0 && operand.pitch <= kLongestRow;
      int64_t leading = 1;
      for (const int64_t size : x.shape())
        if (leading == division.rows)
          operand.row.push_back(size);
        else
          leading *= size;
      operand.strides = contiguous_strides(operand.row);
    }
    rows.operands.push_back(std::move(operand));
  });
  if (!is_possible) rows.rows = 0;
  return rows;
}

}  // namespace tapegrad
