// A table of first guesses: what a user of another library types before looking at the headers.
//
//   GUESS("[6, 15]", x.sum(1));
//
// compares the text of the value with the given text.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "tapegrad.h"

namespace tapegrad::guesses {

inline std::string text(const Variable& x) { return to_string(x); }
inline std::string text(const ValuesIndices& x) { return text(x.values) + ", " + text(x.indices); }
inline std::string text(const std::vector<Variable>& list) {
  std::string all;
  for (const Variable& x : list) all += (all.empty() ? "" : ", ") + text(x);
  return all;
}
template <typename T>
std::string text(const T& value) {
  std::ostringstream out;
  out << std::boolalpha << value;
  return out.str();
}

/// Returns the text without spaces, line ends, and the points of whole numbers ("1.").
std::string plain(const std::string& s);

void expect_close(const Variable& x, const Variable& expected);

/// Returns the message of the error that f() throws.
std::string message_of(const std::function<void()>& f);

}  // namespace tapegrad::guesses

#define GUESS(expected, ...)                                                \
  EXPECT_EQ(tapegrad::guesses::plain(tapegrad::guesses::text(__VA_ARGS__)), \
            tapegrad::guesses::plain(expected))                             \
      << #__VA_ARGS__
