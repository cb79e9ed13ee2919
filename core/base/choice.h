// Choice: the value of an option, given as an enumerator or by PyTorch's name.
//
//   interpolate(x, {.scale_factor = 2.0, .mode = SampleMode::kLinear});
//   interpolate(x, {.scale_factor = 2.0, .mode = "bilinear"});
//
// An enumeration that can be chosen by name has a function beside it, which the compiler finds by
// the type of its argument:
//
//   constexpr auto choice_names(Gelu) {
//     return std::to_array<ChoiceName<Gelu>>({{"none", Gelu::kErf}, {"tanh", Gelu::kTanh}});
//   }
#pragma once

#include <array>
#include <concepts>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace tapegrad {

template <typename E>
struct ChoiceName {
  std::string_view name;
  E value;
};

template <typename E>
class Choice {
 public:
  constexpr Choice(E value) : value_(value) {}
  /// Throws ArgumentError for an unknown name; the error lists the known names.
  template <std::convertible_to<std::string_view> Name>
  Choice(const Name& name, Where where = Where::current()) : value_(parse(name, where)) {}
  constexpr operator E() const { return value_; }

 private:
  static E parse(std::string_view name, Where where) {
    std::string known;
    for (const auto& choice : choice_names(E())) {
      if (choice.name == name) return choice.value;
      known.append(known.empty() ? "" : ", ").append(choice.name);
    }
    fail_at<ArgumentError>(where, "no option is called \"", name, "\"; there are ", known);
  }

  E value_;
};

}  // namespace tapegrad
