// Sections: argument of split(), tensor_split() and their relatives, a number or a list of numbers.
// {2} is a list of one number.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace tapegrad {

class Sections {
 public:
  template <std::integral N>
  Sections(N number) : number_(int64_t(number)) {}
  Sections(std::initializer_list<int64_t> list) : is_list_(true), list_(list) {}
  template <typename List>
  requires(!std::integral<List> && std::convertible_to<const List&, std::vector<int64_t>>)
      Sections(const List& list)
      : is_list_(true), list_(list) {}

  bool is_list() const { return is_list_; }
  int64_t number() const { return number_; }
  const std::vector<int64_t>& list() const { return list_; }

 private:
  bool is_list_ = false;
  int64_t number_ = 0;
  std::vector<int64_t> list_;
};

}  // namespace tapegrad
