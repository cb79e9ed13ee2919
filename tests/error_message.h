// Messages of the errors that tests expect.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace tapegrad::testing {

/// Returns the message of the E that the action throws. Fails if the action throws nothing or
/// another type.
template <typename E = Error, typename Action>
std::string message_of(Action&& action) {
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
void expect_error(Action&& action, std::initializer_list<std::string_view> parts) {
  const std::string message = message_of<E>(action);
  for (std::string_view part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << '"' << part << "\" in: " << message;
}

/// Expects the action to throw an E whose message contains the part.
template <typename E, typename Action>
void expect_error(std::string_view part, Action&& action) {
  expect_error<E>(action, {part});
}

}  // namespace tapegrad::testing
