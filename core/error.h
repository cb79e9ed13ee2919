// The exceptions of the library. One root, so that `catch (const Error&)` catches all.
// Grammar of a message: op, rule, facts. `matmul: inner sizes differ: [64, 784] x [512, 10]`.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tapegrad {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
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

/// Throws E with the parts streamed one after another. Cold and never inlined: a caller pays one
/// predicted branch.
template <typename E, typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw E(text.str());
}

}  // namespace tapegrad
