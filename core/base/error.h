// The exceptions of the library; all derive from Error. A message consists of op, rule and facts:
// `matmul: inner sizes differ: [64, 784] x [512, 10]`.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/where.h"

namespace tapegrad {

/// Root of all exceptions of the library. The first line of what() is the message. Further lines
/// may draw the mismatched shapes, and the next one gives the location: `at model.cpp:12, in
/// Net.fc1`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  const char* what() const noexcept override {
    return located_ ? located_->c_str() : std::runtime_error::what();
  }
  /// Returns what() without the line that gives the location.
  const char* message() const noexcept { return std::runtime_error::what(); }

  /// Appends the location line. Only the first call has an effect, so the innermost location is
  /// kept.
  void locate(std::string_view place);
  /// Appends a line of context, such as `item 7 of the data set`.
  void note(std::string_view line);

 private:
  std::shared_ptr<const std::string> located_;  // shared, because copying an exception must not
                                                // throw
};
/// An invalid argument.
struct ArgumentError : Error {
  using Error::Error;
};
/// Shapes that an op does not accept, or that do not match.
struct ShapeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// An index or a dimension out of range.
struct IndexError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// A dtype that an op does not accept, or an unknown name of a dtype.
struct DTypeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// Operands on different devices, or a device that does not exist.
struct DeviceError : Error {
  using Error::Error;
};
/// Invalid use of the tape: a graph that was freed, a saved tensor that was modified, or a write
/// that would create an alias.
struct AutogradError : Error {
  using Error::Error;
};
/// No kernel is registered for the device and dtype.
struct KernelError : Error {
  using Error::Error;
};
/// The memory of a device, or its limit (core/base/allocator.h), is exhausted.
struct OutOfMemory : Error {
  using Error::Error;
};
/// The content of a file violates its format.
struct FormatError : Error {
  using Error::Error;
};
/// A file could not be read or written.
struct IoError : Error {
  using Error::Error;
};

namespace detail {

/// Builds the text of an error like a stream, but without <sstream>, which would cost every user of
/// the library compile time. The functions that append are not inline, because a caller is a check
/// that almost never fails.
class ErrorText {
 public:
  void add(std::string_view part);
  void add(char part);
  void add(double part);
  void add(long long part);
  void add(unsigned long long part);
  void add(std::signed_integral auto part) { add(static_cast<long long>(part)); }
  void add(std::unsigned_integral auto part) { add(static_cast<unsigned long long>(part)); }
  /// Appends a value of any other type that can be written to a stream.
  template <typename T>
  requires(!std::convertible_to<const T&, std::string_view> &&
           !std::is_arithmetic_v<T>) void add(const T& part) {
    add_streamed([](std::ostream& out, const void* value) { out << *static_cast<const T*>(value); },
                 &part);
  }
  const std::string& text() const { return text_; }

 private:
  void add_streamed(void (*write)(std::ostream&, const void*), const void* value);

  std::string text_;
};

/// Adds the location of the running rule or composed op, if there is one. Defined by the tape, in
/// core/tape/internal/call_line.cpp.
void locate_call(Error& error);
/// Adds the user's source line, unless `where` is empty, and the name of the running module.
[[gnu::cold]] void locate(Error& error, Where where);

/// Throws E with the location of the running rule or composed op.
template <typename E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_in_call(const std::string& text) {
  E error(text);
  locate_call(error);
  throw error;
}

/// Throws E with the location `where`.
template <typename E>
[[noreturn, gnu::cold, gnu::noinline]] void throw_at(Where where, const std::string& text) {
  E error(text);
  locate(error, where);
  throw error;
}

}  // namespace detail

/// Throws E with a message made of the concatenated parts. The function is cold and never inlined,
/// so that a check costs the caller one predicted branch.
template <typename E, typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  detail::ErrorText text;
  (text.add(parts), ...);
  detail::throw_in_call<E>(text.text());
}

/// Returns work(). Adds the user's line to an error that has no location.
template <typename Work>
decltype(auto) at_line(Where where, Work&& work) {
  try {
    return work();
  } catch (Error& error) {
    detail::locate(error, where);
    throw;
  }
}

/// Throws E like fail(), for a check before an op runs. `where` is the user's line.
template <typename E, typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail_at(Where where, const Parts&... parts) {
  detail::ErrorText text;
  (text.add(parts), ...);
  detail::throw_at<E>(where, text.text());
}

}  // namespace tapegrad
