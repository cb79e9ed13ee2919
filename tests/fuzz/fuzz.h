// Fuzz targets. Each .cpp file here has one LLVMFuzzerTestOneInput, which libFuzzer calls with
// bytes that it makes up (docs/robustness.md), and replay.cpp with the corpus and changes of it
// that are the same in every run.
//
// What is wrong is a crash, a report of a sanitizer, an exception that is none of the library's,
// or a finding().
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tapegrad::fuzz {

/// Says what is wrong and ends the program, as both drivers expect it.
[[noreturn]] inline void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

/// The fuzzer's bytes as a source of choices; zeros when they are used up.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  bool is_empty() const { return at_ >= size_; }
  uint8_t byte() { return is_empty() ? 0 : data_[at_++]; }
  /// In [0, count).
  size_t below(size_t count) {
    const size_t low = byte(), high = count > 256 ? byte() : 0;
    return (high << 8 | low) % count;
  }
  template <typename List>
  const auto& of(const List& list) {
    return *(std::begin(list) + below(std::size(list)));
  }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(list.size()));
  }
  bool flag() { return below(2) == 1; }
  int64_t between(int64_t first, int64_t last) {
    return first + int64_t(below(size_t(last - first + 1)));
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

}  // namespace tapegrad::fuzz
