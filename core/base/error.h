// The exceptions of the library. One root, so that `catch (const Error&)` catches all.
// Grammar of a message: op, rule, facts. `matmul: inner sizes differ: [64, 784] x [512, 10]`.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tapegrad {

/// The first line of what() keeps the grammar. Lines below it may draw the shapes that clash, and
/// the last one says where: `at model.cpp:12, in Net.fc1`.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
  const char* what() const noexcept override {
    return located_ ? located_->c_str() : std::runtime_error::what();
  }
  /// what() without the line that says where.
  const char* message() const noexcept { return std::runtime_error::what(); }

  /// Adds a last line, once: who knows the place first has the innermost.
  void locate(std::string_view place);

 private:
  std::shared_ptr<const std::string> located_;  // shared: exceptions are copied, and must not throw
};
/// What was passed cannot be meant.
struct ArgumentError : Error {
  using Error::Error;
};
struct ShapeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
struct IndexError : ArgumentError {
  using ArgumentError::ArgumentError;
};
struct DTypeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// Operands on different devices, or a device that is not there.
struct DeviceError : Error {
  using Error::Error;
};
/// A graph that was freed, a saved value that was changed, a write that would alias.
struct AutogradError : Error {
  using Error::Error;
};
/// No kernel is registered for this device and dtype.
struct KernelError : Error {
  using Error::Error;
};
struct OutOfMemory : Error {
  using Error::Error;
};
/// A file whose content is not what its format says.
struct FormatError : Error {
  using Error::Error;
};
/// The system could not read or write a file.
struct IoError : Error {
  using Error::Error;
};

namespace detail {

/// Collects the text of an error as a stream would, but without <sstream>, which every user of the
/// library would compile.
class ErrorText {
 public:
  void add(std::string_view part) { text_ += part; }
  void add(char part) { text_ += part; }
  void add(double part);
  void add(std::integral auto part) { text_ += std::to_string(part); }
  /// Anything else that can be written to a stream.
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

/// Adds the place of the rule or of the composed op that runs, if any. Defined by the tape, in
/// core/tape/internal/call_line.cpp.
void locate_call(Error& error);
/// Adds the user's line, unless `where` is empty, and the part of the model that runs.
[[gnu::cold]] void locate(Error& error, std::source_location where);

}  // namespace detail

/// Throws E with the parts one after another. Cold and never inlined: a caller pays one predicted
/// branch.
template <typename E, typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  detail::ErrorText text;
  (text.add(parts), ...);
  E error(text.text());
  detail::locate_call(error);
  throw error;
}

}  // namespace tapegrad
