// Reads tables of numbers in text: CSV files, and NumPy's savetxt().
//
//   Variable table = loadtxt("iris.csv", {.delimiter = ",", .skiprows = 1});   // [150, 5]
//   Variable x = table.index({Slice(), Slice(0, 4)}), y = table.index({Slice(), 4}).to(i64);
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Options in the order of the parameters of numpy.loadtxt.
struct LoadTextOptions {
  DType dtype = f32;
  std::string comments = "#";         // begins a comment, which is ignored; empty: no comments
  std::string delimiter = {};         // separates two numbers; empty: spaces and tabs
  int64_t skiprows = 0;               // lines at the start, such as the names of the columns
  std::vector<int64_t> usecols = {};  // columns to read; empty: all
};

/// Reads a table of numbers, [rows, columns], as numpy.loadtxt does: empty lines are skipped, and a
/// single row or column gives one dimension. Spaces and quotes around a number are ignored. Throws
/// IoError if the file cannot be read. Throws FormatError, which names the line and the text, for a
/// field that is not a number (or not a whole number if the dtype is an integer dtype), for rows of
/// different lengths and for a file without numbers. Throws ArgumentError for a column that does
/// not exist.
Variable loadtxt(const std::string& path, const LoadTextOptions& options = {},
                 Where where = Where::current());

/// Rejects calls of read_csv(), because pandas.read_csv() makes columns of different types.
template <typename... Options>
Variable read_csv(const std::string&, const Options&...) {
  static_assert(
      sizeof...(Options) > 1000,
      "read_csv: type loadtxt(path, {.delimiter = \",\", .skiprows = 1}), which returns a "
      "Variable [rows, columns]");
  return {};
}

}  // namespace tapegrad
