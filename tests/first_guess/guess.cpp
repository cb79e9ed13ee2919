#include "tests/first_guess/guess.h"

#include <cctype>

namespace tapegrad::guesses {

std::string plain(const std::string& s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const bool ends = i + 1 == s.size() || !std::isdigit(static_cast<unsigned char>(s[i + 1]));
    if (s[i] != '\n' && s[i] != ' ' && !(s[i] == '.' && ends)) out += s[i];
  }
  return out;
}

void expect_close(const Variable& x, const Variable& expected) {
  ASSERT_EQ(x.shape(), expected.shape());
  EXPECT_TRUE(allclose(x.to(f64), expected.to(f64), 1e-5, 1e-6)) << x << " instead of " << expected;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tapegrad::guesses
