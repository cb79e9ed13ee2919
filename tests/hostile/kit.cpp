#include "tests/hostile/kit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>
#include <sstream>

#include "core/base/allocator.h"
#include "core/tape/recording.h"
#include "ops/create.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::testing {
namespace {

/// Returns a tensor that views the first elements of its storage through these strides.
Variable strided_view(const Variable& x, const Shape& shape, const Strides& strides) {
  return Variable(x.value().with_layout({shape, strides, 0}));
}

Variable ramp(const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(shape); ++i) values.push_back(double(i % 5) / 2);
  return Variable(Tensor::from<double>(values, shape).to(dtype));
}

Shape with_last(Shape shape, int64_t size) {
  for (int i = shape.rank() - 1; i >= 0 && i >= shape.rank() - 2; --i) shape[i] = size;
  return shape;
}

/// Returns the name of a call, as in "Table: clone(): arguments 3, 0".
std::string describe(const std::string& names, const std::vector<size_t>& picks) {
  std::ostringstream text;
  text << names << ", arguments";
  for (const size_t pick : picks) text << ' ' << pick;
  return text.str();
}

std::string running;

void say_which(int signal) {
  std::fprintf(stderr, "in %s\n", running.c_str());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

size_t hostile_count() { return 23; }

Variable hostile_variable(size_t kind, const Shape& shape, DType dtype) {
  const auto number = [&](double value) {
    return Variable(Tensor::full(shape, value, f64).to(dtype));
  };
  const double largest = dtype == i64 ? 0x1p62 : std::numeric_limits<float>::max();
  switch (kind) {
    case 0:
      return ramp(shape, dtype);
    case 1:
      return {};
    case 2:
      return ramp({}, dtype);
    case 3:
      return ramp(Shape::filled(shape.rank(), 0), dtype);
    case 4:  // 2^24 elements, of which the memory has one
      return strided_view(ramp({1}, dtype), with_last(shape, shape.rank() > 1 ? 4096 : 1 << 24),
                          Shape::filled(shape.rank(), 0));
    case 5:
      return strided_view(ramp({1}, dtype), shape, Shape::filled(shape.rank(), 0));
    case 6:  // windows that overlap
      return strided_view(ramp({200}, dtype), shape, Shape::filled(shape.rank(), 1));
    case 7:
      return ramp(shape, f64);
    case 8:
      return ramp(shape, f16);
    case 9:
      return ramp(shape, dtype == i64 ? f32 : i64);
    case 10:
      return ramp(shape, boolean);
    case 11:
      return ramp(shape, u8);
    case 12: {  // the host's memory under another device's name
      static double memory[512];
      return Variable(Tensor::wrap(memory, shape, dtype, {DeviceType::kPrivate1, 0}));
    }
    case 13:
      return number(dtype == i64 ? -1 : std::nan(""));
    case 14:
      return number(largest);
    case 15:
      return number(-largest);
    case 16:
      return number(dtype == i64 ? 2 : INFINITY);
    case 17:
      return is_float(dtype) ? ramp(shape, dtype).requires_grad_() : ramp(shape, i32);
    case 18:
      return is_float(dtype) ? exp(ramp(shape, dtype).requires_grad_()) : ramp(shape, i16);
    case 19: {
      const InferenceMode inference;
      return ramp(shape, dtype);
    }
    case 20:
      return ramp(Shape::filled(8, 1), dtype);
    case 21: {
      Strides strides = Shape::filled(shape.rank(), 1);
      for (int i = 1; i < shape.rank(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
      return strided_view(ramp(shape, dtype), shape, strides);
    }
    default: {  // a view of a leaf
      Variable leaf = ramp(shape, is_float(dtype) ? dtype : f32).requires_grad_();
      return narrow(leaf, 0, 0, shape[0]);
    }
  }
}

Variables Hostile<Variables>::make(size_t k) {
  const auto leaf = [] { return hostile_variable(17, {2, 3}); };
  if (k == 0) return {leaf(), leaf()};
  if (k == 1) return {};
  if (k == 2) return Variables(100, leaf());
  return {leaf(), hostile_variable(k - 3, {2, 3})};
}

TensorMap Hostile<TensorMap>::make(size_t k) {
  if (k == 0) return {};
  const Variable x = hostile_variable(k - 1, {2, 3});
  return {{"weight", x.defined() ? x.value() : Tensor()},
          {"lr", Tensor::full({}, std::nan(""), f64)}};
}

template <>
const std::vector<bool>& hostile_values() {
  static const std::vector<bool> values = {false, true};
  return values;
}
template <>
const std::vector<int>& hostile_values() {
  static const std::vector<int> values = {1, 0, -1, 2, 3, 1000, INT_MAX, INT_MIN};
  return values;
}
template <>
const std::vector<int64_t>& hostile_values() {
  static const std::vector<int64_t> values = {
      3, 0, -1, 1, 2, 1 << 20, int64_t(1) << 31, int64_t(1) << 62, INT64_MAX, INT64_MIN};
  return values;
}
template <>
const std::vector<uint64_t>& hostile_values() {
  static const std::vector<uint64_t> values = {1, 0, uint64_t(1) << 63, UINT64_MAX};
  return values;
}
template <>
const std::vector<double>& hostile_values() {
  static const std::vector<double> values = {0.5,      0,         -1,    1,      NAN,
                                             INFINITY, -INFINITY, 1e308, 5e-324, 70000};
  return values;
}
template <>
const std::vector<std::string>& hostile_values() {
  static const std::vector<std::string> values = {"x",
                                                  "",
                                                  "/proc/nowhere/x",
                                                  "cpu:3",
                                                  "cuda:999999999999",
                                                  "%s%n",
                                                  std::string(5000, 'a'),
                                                  std::string("a\0b", 3),
                                                  "\xff\xfe",
                                                  "/dev/null/x"};
  return values;
}
template <>
const std::vector<DType>& hostile_values() {
  static const std::vector<DType> values = {f32, f64, f16, bf16, i8, i16, i32, i64, u8, boolean};
  return values;
}
template <>
const std::vector<Device>& hostile_values() {
  static const std::vector<Device> values = {cpu,
                                             {DeviceType::kCpu, 3},
                                             {DeviceType::kCpu, -1},
                                             {DeviceType::kCuda, 99},
                                             {DeviceType::kCuda, -1},
                                             {DeviceType::kPrivate1, 0}};
  return values;
}
template <>
const std::vector<Shape>& hostile_values() {
  static const std::vector<Shape> values = {{2, 3},
                                            {},
                                            {0},
                                            {-1},
                                            {0, int64_t(1) << 62},
                                            {int64_t(1) << 40, int64_t(1) << 40},
                                            {int64_t(1) << 40},
                                            {INT64_MAX},
                                            {INT64_MIN, 2},
                                            {1, 1, 1, 1, 1, 1, 1, 1}};
  return values;
}
template <>
const std::vector<Number>& hostile_values() {
  static const std::vector<Number> values = {1,    0.5,       NAN,       INFINITY,         -1e308,
                                             true, INT64_MAX, INT64_MIN, int64_t(1) << 40, -1};
  return values;
}
template <>
const std::vector<std::vector<int64_t>>& hostile_values() {
  static const std::vector<std::vector<int64_t>> values = {
      {1, 2}, {}, {0}, {-1}, {INT64_MAX, INT64_MAX}, {INT64_MIN}, std::vector<int64_t>(9, 1)};
  return values;
}
template <>
const std::vector<std::vector<double>>& hostile_values() {
  static const std::vector<std::vector<double>> values = {
      {1, 2}, {}, {NAN, 1}, {INFINITY, -INFINITY}, {0, 0}, {1e308, -1e308}};
  return values;
}

uint64_t fingerprint(const Tensor& x) {
  if (!x) return 0;
  // A tensor of another device, or a huge one, has few bytes of memory of its own.
  const size_t bytes = std::min<size_t>(x.storage().bytes(), 4096);
  uint64_t sum = 14695981039346656037u;
  const auto* data = reinterpret_cast<const unsigned char*>(x.storage().data());
  for (size_t i = 0; i < bytes; ++i) sum = (sum ^ data[i]) * 1099511628211u;
  return sum ^ uint64_t(x.numel()) ^ uint64_t(x.dtype());
}
uint64_t fingerprint(const Variable& x) { return x.defined() ? fingerprint(x.value()) : 0; }
uint64_t fingerprint(const Variables& xs) {
  uint64_t sum = xs.size();
  for (const Variable& x : xs) sum = sum * 31 + fingerprint(x);
  return sum;
}
uint64_t fingerprint(const TensorMap& xs) {
  uint64_t sum = xs.size();
  for (const auto& [name, x] : xs) sum = sum * 31 + fingerprint(x);
  return sum;
}

void Table::add_row(const std::string& names, std::function<void()> run) {
  rows_.push_back({names, std::move(run)});
  leave_out("has a row", names);
}

void Table::leave_out(const std::string& reason, const std::string& names) {
  std::istringstream words(names);
  for (std::string name; words >> name;) names_.emplace(name, reason);
}

std::vector<Table::Picks> Table::all_picks(const std::vector<size_t>& counts) {
  const Picks ordinary(counts.size(), 0);
  std::vector<Picks> all = {ordinary};
  for (size_t i = 0; i < counts.size(); ++i)
    for (size_t k = 1; k < counts[i]; ++k) {
      all.push_back(ordinary);
      all.back()[i] = k;
    }
  std::mt19937 random(1);
  for (int n = 0; n < 12 && counts.size() > 1; ++n) {
    Picks picks;
    for (const size_t count : counts) picks.push_back(random() % count);
    all.push_back(picks);
  }
  return all;
}

bool Table::try_call(const std::string& names, const Picks& picks,
                     const std::function<void()>& call) {
  static const bool handled = [] {
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS, SIGTERM})
      std::signal(signal, say_which);
    return true;
  }();
  static_cast<void>(handled);
  running = describe(names, picks);
  set_memory_limit(memory_stats().in_use + (32 << 20));
  const auto start = std::chrono::steady_clock::now();
  bool failed = false;
  try {
    call();
  } catch (const Error&) {
    failed = true;
  } catch (const std::exception& error) {
    ADD_FAILURE() << running << ": not an error of the library: " << error.what();
    failed = true;
  }
  set_memory_limit(-1);
  EXPECT_TRUE(is_recording() && !is_inference_mode()) << running;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 5) << running;
  return failed;
}

void Table::fail_changed(const std::string& names, const Picks& picks, size_t argument) {
  ADD_FAILURE() << describe(names, picks) << ": argument " << argument << " was changed";
}

}  // namespace tapegrad::testing
