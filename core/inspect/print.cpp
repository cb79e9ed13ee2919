// Printing of Variables: NumPy's brackets, six significant digits, long axes abbreviated.
#include <algorithm>
#include <iomanip>
#include <ostream>

#include "core/base/error.h"
#include "core/base/internal/classic_text.h"
#include "core/base/output.h"

#include "core/tape/variable.h"

namespace tapegrad {

std::ostream& operator<<(std::ostream& out, const Number& number) {
  return number.kind_ == f64 ? out << number.real_ : out << number.whole_;
}
namespace {

PrintOptions print_options;

struct Printer {
  std::ostream& out;
  const Tensor& x;  // contiguous, on the CPU
  bool summarize;
  size_t width = 0;

  std::string text(int64_t at) const {
    return with_type(x.dtype(), [&]<typename T>(TypeTag<T>) {
      ClassicText stream;
      if constexpr (std::is_same_v<T, bool>)
        stream << (x.data<bool>()[at] ? "true" : "false");
      else if constexpr (std::is_integral_v<T>)
        stream << int64_t(x.data<T>()[at]);
      else {
        if (print_options.sci_mode)
          stream << std::scientific;
        else if (print_options.precision)
          stream << std::fixed;
        const auto value = Compute<T>(x.data<T>()[at]);
        if (value != value) return std::string("nan");  // without a sign
        stream << std::setprecision(print_options.precision.value_or(6)) << value;
        const std::string plain = stream.str();
        if (plain.find_first_not_of("-0123456789") == plain.npos) stream << '.';
      }
      return stream.str();
    });
  }

  /// Calls visit(i) for the indices of an axis that are shown, and gap() where indices are omitted.
  template <typename Visit, typename Gap>
  void for_shown(int64_t size, Visit visit, Gap gap) const {
    const int64_t edge = print_options.edgeitems;
    for (int64_t i = 0; i < size; ++i) {
      if (summarize && edge < size - edge && i == edge) {
        gap();
        i = size - edge;
        if (i == size) break;  // .edgeitems = 0
      }
      visit(i);
    }
  }

  template <typename Visit>
  void for_shown_elements(int dim, int64_t at, Visit visit) const {
    if (dim == x.rank()) return visit(at);
    for_shown(
        x.shape()[dim],
        [&](int64_t i) { for_shown_elements(dim + 1, at + i * x.strides()[dim], visit); }, [] {});
  }

  void print(int dim, int64_t at) {
    if (dim == x.rank()) {
      const std::string number = text(at);
      out << std::string(width - std::min(width, number.size()), ' ') << number;
      return;
    }
    // The innermost axis is printed in one line; entries of other axes are separated by line ends.
    const int below = x.rank() - 1 - dim;
    std::string between = ", ";
    if (below > 0) {
      between = ",";
      between.append(size_t(below), '\n').append(size_t(dim) + 1, ' ');
    }
    out << '[';
    bool first = true;
    for_shown(
        x.shape()[dim],
        [&](int64_t i) {
          out << (first ? "" : between);
          first = false;
          print(dim + 1, at + i * x.strides()[dim]);
        },
        [&] { out << between << "..."; });
    out << ']';
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Variable& x) {
  if (!x.defined()) return out << "(empty)";
  const Tensor here = x.value().on_host(x.dtype(), "printing");
  const Tensor dense =
      here.with_layout({here.shape(), contiguous_strides(here.shape()), here.layout().offset});
  Printer printer{out, dense, dense.numel() > print_options.threshold};
  printer.for_shown_elements(
      0, 0, [&](int64_t at) { printer.width = std::max(printer.width, printer.text(at).size()); });
  printer.print(0, 0);
  return out;
}

void set_printoptions(PrintOptions options) {
  if (options.precision.value_or(0) < 0 || options.threshold < 0 || options.edgeitems < 0)
    fail<ArgumentError>("set_printoptions: a negative number: precision ",
                        options.precision.value_or(0), ", threshold ", options.threshold,
                        ", edgeitems ", options.edgeitems);
  print_options = options;
}

void detail::print(const Variable& x) { standard_output() << x << std::endl; }

std::string to_string(const Variable& x) {
  ClassicText text;
  text << x;
  return text.str();
}

}  // namespace tapegrad
