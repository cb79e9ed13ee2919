// Where: the source location of the user's call. Ops take it as a defaulted last argument.
#pragma once

#include <cstdint>
#include <source_location>

namespace tapegrad {

#ifdef __cpp_lib_source_location
using Where = std::source_location;
#else
// clang before version 16 lacks the builtin that <source_location> needs. This class lets such a
// compiler, and clangd, parse the headers. A program must be linked with the compiler that built
// the library.
class Where {
 public:
  static constexpr Where current(const char* file = __builtin_FILE(),
                                 uint32_t line = __builtin_LINE(),
                                 const char* function = __builtin_FUNCTION()) {
    Where where;
    where.file_ = file, where.function_ = function, where.line_ = line;
    return where;
  }
  constexpr uint32_t line() const { return line_; }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }

 private:
  const char *file_ = "", *function_ = "";
  uint32_t line_ = 0;
};
#endif

namespace detail {
/// Returns whether there is no line, or a line of a source of the library. Sources are compiled
/// with names that begin with "tapegrad:" (-fmacro-prefix-map).
bool is_of_library(Where where);
/// Returns whether a line belongs to the user's program: neither to the library or its public
/// headers, nor to a header of the standard library, which calls a module through std::function and
/// makes an object in std::make_unique.
bool is_of_user(Where where);
}  // namespace detail

}  // namespace tapegrad
