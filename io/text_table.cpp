#include "io/text_table.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>

#include "core/base/error.h"
#include "ops/create.h"

namespace tapegrad {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

class TableReader {
 public:
  TableReader(const std::string& path, const LoadTextOptions& options)
      : path_(path), options_(options) {}

  Variable read() {
    std::ifstream file(path_);
    if (!file) fail<IoError>("loadtxt: cannot open ", path_, ": ", std::strerror(errno));
    std::string line;
    while (std::getline(file, line))
      if (++line_ > options_.skiprows) add(line);
    if (file.bad()) fail<IoError>("loadtxt: cannot read ", path_);
    if (rows_ == 0) fail<FormatError>(path_, ": no numbers");
    const int64_t columns = int64_t(values_.size()) / rows_;
    Variable table = tensor(values_, {.dtype = f64}).reshape({rows_, columns}).to(options_.dtype);
    if (columns == 1) table = table.reshape({rows_});
    if (rows_ == 1) table = table.reshape({columns});
    return table;
  }

 private:
  void add(std::string_view line) {
    if (!options_.comments.empty()) line = line.substr(0, line.find(options_.comments));
    line = trimmed(line);
    if (line.empty()) return;
    fields_.clear();
    split(line);
    if (rows_++ == 0) count_ = fields_.size();
    if (fields_.size() != count_)
      fail<FormatError>(path_, ", line ", line_, ": ", fields_.size(),
                        " numbers; the first row has ", count_);
    if (options_.usecols.empty())
      for (const std::string_view field : fields_) values_.push_back(number(field));
    for (const int64_t column : options_.usecols) {
      const int64_t place = column < 0 ? column + int64_t(count_) : column;
      if (place < 0 || place >= int64_t(count_))
        fail<ArgumentError>("loadtxt: usecols: ", column, " is outside of the ", count_,
                            " columns of ", path_);
      values_.push_back(number(fields_[size_t(place)]));
    }
  }
  void split(std::string_view line) {
    if (options_.delimiter.empty()) {
      while (!line.empty()) {
        const size_t end = std::min(line.find_first_of(" \t"), line.size());
        fields_.push_back(line.substr(0, end));
        line = trimmed(line.substr(end));
      }
      return;
    }
    for (size_t end; (end = line.find(options_.delimiter)) != std::string_view::npos;) {
      fields_.push_back(line.substr(0, end));
      line.remove_prefix(end + options_.delimiter.size());
    }
    fields_.push_back(line);
  }
  double number(std::string_view field) const {
    std::string_view text = trimmed(field);
    if (text.size() > 1 && text.front() == '"' && text.back() == '"')
      text = trimmed(text.substr(1, text.size() - 2));
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      fail<FormatError>(path_, ", line ", line_, ": not a number: \"", field, "\"",
                        hint(field, line_));
    constexpr double kMost = 9007199254740992.0;  // 2^53
    if (!is_float(options_.dtype) && !(value == std::trunc(value) && std::abs(value) < kMost))
      fail<FormatError>(path_, ", line ", line_, ": for ", options_.dtype,
                        ", whole numbers below 2^53 are wanted, not \"", field, '"');
    return value;
  }
  std::string hint(std::string_view field, int64_t line) const {
    if (options_.delimiter.empty() && field.find(',') != std::string_view::npos)
      return "; write {.delimiter = \",\"}";
    return line == 1 ? "; {.skiprows = 1} leaves out the names of the columns" : "";
  }

  const std::string& path_;
  const LoadTextOptions& options_;
  int64_t line_ = 0, rows_ = 0;
  size_t count_ = 0;                      // of the fields of a row
  std::vector<std::string_view> fields_;  // of the line
  std::vector<double> values_;
};

}  // namespace

Variable loadtxt(const std::string& path, const LoadTextOptions& options, Where where) {
  return at_line(where, [&] { return TableReader(path, options).read(); });
}

}  // namespace tapegrad
