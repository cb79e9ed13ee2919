// Moves several objects at once to a device, if the device is available (core/base/device.h):
//
//   auto [x, y, model] = std::tuple(inputs, targets, Net()) | gpu;
#pragma once

#include <tuple>
#include <utility>

#include "core/tape/variable.h"

namespace tapegrad {

/// Applies `| device` to each element: to variables, models, examples and further tuples.
template <typename... Ts>
std::tuple<Ts...> operator|(std::tuple<Ts...> things, Device device) {
  return std::apply(
      [device](Ts&... each) { return std::tuple<Ts...>(std::move(each) | device...); }, things);
}
template <typename A, typename B>
std::pair<A, B> operator|(std::pair<A, B> things, Device device) {
  return {std::move(things.first) | device, std::move(things.second) | device};
}

}  // namespace tapegrad
