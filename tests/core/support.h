// Short ways to make variables and to test errors, for tests of the engine.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/tape/variable.h"

namespace tapegrad::testing {

template <typename T = double>
Variable make(const std::vector<T>& values, const Shape& shape) {
  return Variable(Tensor::from<T>(values, shape));
}
template <typename T = double>
Variable make(const std::vector<T>& values) {
  return make<T>(values, {int64_t(values.size())});
}
template <typename T = double>
Variable leaf(const std::vector<T>& values) {
  return make<T>(values).requires_grad_();
}

using Values = std::vector<double>;
inline Values values(const Variable& x) { return x.to_vector<double>(); }

/// Returns the message of the E that the action throws. Fails if the action throws nothing or
/// another type.
template <typename E, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of exception: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// Expects the action to throw an E whose message contains every part.
template <typename E, typename Action>
void expect_error(Action action, std::initializer_list<std::string_view> parts) {
  const std::string message = message_of<E>(action);
  for (std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << '"' << part << "\" in: " << message;
}

}  // namespace tapegrad::testing
