// Reducers, and the reduction of one block of contiguous values.
//
// A reducer of elements T has the types Value (Compute<T>), Part and Total, the neutral Part
// kFirst, and
//   add(Part, Value), merge(Part, Part), join(Total, Total), and
//   repeat(Total, n), the total of n equal ones.
// A reducer that declares kCentred receives, with every element, a number of its output:
//   add(Part, Value, double centre).
// A reducer of doubles whose merge() adds may add vectors of them, add(Doubles, Doubles).
// A reducer may have block(values, n), a faster way to the total of n contiguous values, and
// add_rows(parts, rows, first, last), a faster way to add elements first ... last - 1 of several
// rows to as many Parts.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/wide_sum.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kBlock = 1024;  // most elements of a block

/// Reducer that receives a number of its output, the centre, with every element.
template <typename R>
concept Centred = requires {
  requires R::kCentred;
};

/// Returns `part` with the value added. Both may be vectors. Only Centred reducers use the centre.
template <typename R, typename Part, typename Value>
Part add_value(const R& r, Part part, Value value, [[maybe_unused]] double centre) {
  if constexpr (Centred<R>)
    return r.add(part, value, centre);
  else
    return r.add(part, value);
}

/// Reducer of doubles that can add vectors of them.
template <typename R>
concept AddsDoubles = std::is_same_v<typename R::Value, double> &&
    std::is_same_v<typename R::Part, double> &&(
        requires(const R& r, Doubles x) { r.add(x, x); } ||
        requires(const R& r, Doubles x, double centre) { r.add(x, x, centre); });

/// Returns the total of reduce_block() in vectors, which stay in registers, unlike an array of
/// lanes. Without prefetches, which make loops this short slower.
template <int kWidth, AddsDoubles R>
double total_of_doubles(const R& r, const double* values, int64_t n, double centre) {
  constexpr int kParts = kWidth / kDoubles;
  Doubles parts[kParts];
  unrolled<kParts>([&](auto k) { parts[k()] = Doubles{} + R::kFirst; });
  const auto sum = [&](Doubles part, int64_t at) {
    Doubles x;
    std::memcpy(&x, values + at, sizeof(x));
    return add_value(r, part, x, centre);
  };
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    unrolled<kParts>([&](auto k) { parts[k()] = sum(parts[k()], i + k() * kDoubles); });
  }
  const int64_t whole = (n - i) / kDoubles, rest = (n - i) % kDoubles;
  unrolled<kParts>([&](auto k) {
    if (k() < whole) {
      parts[k()] = sum(parts[k()], i + k() * kDoubles);
    } else if (k() == whole) {
      double lanes[kDoubles];
      std::memcpy(lanes, &parts[k()], sizeof(lanes));
      for (int64_t j = 0; j < rest; ++j)
        lanes[j] = add_value(r, lanes[j], values[n - rest + j], centre);
      std::memcpy(&parts[k()], lanes, sizeof(lanes));
    }
  });
  for (int width = kParts / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) parts[k] += parts[k + width];
  double lanes[kDoubles];
  std::memcpy(lanes, &parts[0], sizeof(lanes));
  for (int width = kDoubles / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lanes[j] = r.merge(lanes[j], lanes[j + width]);
  return lanes[0];
}

/// Returns the total of n contiguous values, n <= kBlock.
template <typename R>
typename R::Total reduce_block(const R& r, const typename R::Value* values, int64_t n,
                               double centre = 0) {
  using Part = typename R::Part;
  using Total = typename R::Total;
  constexpr int kWidth = 64;
  if constexpr (requires { r.block(values, n); }) return r.block(values, n);
  if (n < kWidth / 2) {
    Part part = R::kFirst;
    for (int64_t i = 0; i < n; ++i) part = add_value(r, part, values[i], centre);
    return Total(part);
  }
  if constexpr (AddsDoubles<R>) return total_of_doubles<kWidth>(r, values, n, centre);
  Part lanes[kWidth];
  std::fill_n(lanes, kWidth, R::kFirst);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (int j = 0; j < kWidth; ++j) lanes[j] = add_value(r, lanes[j], values[i + j], centre);
  }
  for (int j = 0; j < n - i; ++j) lanes[j] = add_value(r, lanes[j], values[i + j], centre);
  for (int width = kWidth / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lanes[j] = r.merge(lanes[j], lanes[j + width]);
  return Total(lanes[0]);
}

}  // namespace tapegrad::backends::cpu
