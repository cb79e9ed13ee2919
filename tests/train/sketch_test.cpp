// Sketches of a RunLedger detect changes and estimate their sizes.
#include "ops/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>
#include <string_view>
#include <utility>

#include "ops/binary.h"
#include "ops/internal/sketch_signs.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "ops/view.h"
#include "train/internal/ledger.h"

namespace tapegrad {
namespace {

/// The comparison of two results by compare_runs().
struct Found {
  bool equal;
  double error;
};
Found compare(const Tensor& a, const Tensor& b) {
  const ResultSketch x = sketch_of(a), y = sketch_of(b);
  std::ostringstream type;
  type << a.dtype() << ' ' << a.shape();
  return {x.hash == y.hash, error_of(x, y, type.str())};
}

/// Returns x with changed values.
template <typename T>
Tensor changed(const Tensor& x, const std::function<void(T*, int64_t)>& change) {
  Tensor y = x.clone();
  change(y.data<T>(), y.numel());
  return y;
}

double relative_error(const Tensor& a, const Tensor& b) {
  const auto x = Variable(a).to_vector<double>(), y = Variable(b).to_vector<double>();
  double difference = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    norm += x[i] * x[i];
  }
  return std::sqrt(difference / norm);
}

bool is_estimated(double error, double estimate) {
  return estimate > error / 30 && estimate < error * 30;
}

/// Changes of floats. The last argument is a random number.
using Change = void (*)(float* x, int64_t n, uint64_t random);
constexpr std::pair<const char*, Change> kChanges[] = {
    {"last bit of one element",
     [](float* x, int64_t n, uint64_t random) {
       float& value = x[random % uint64_t(n)];
       value = std::nextafter(value, INFINITY);
     }},
    {"last bits of one element",
     [](float* x, int64_t n, uint64_t random) { x[random % uint64_t(n)] *= 1 + 2e-6f; }},
    {"a hundredth of one element",
     [](float* x, int64_t n, uint64_t random) { x[random % uint64_t(n)] *= 1.01f; }},
    {"a tenth of one element",
     [](float* x, int64_t n, uint64_t random) { x[random % uint64_t(n)] *= 1.1f; }},
    {"sign of one element",
     [](float* x, int64_t n, uint64_t random) {
       float& value = x[random % uint64_t(n)];
       value = -value;
     }},
    {"two elements exchanged",
     [](float* x, int64_t n, uint64_t random) {
       std::swap(x[random % uint64_t(n)],
                 x[(random % uint64_t(n) + 1 + random / 7 % 6) % size_t(n)]);
     }},
    {"some elements",
     [](float* x, int64_t n, uint64_t random) {
       for (int64_t i = 0; i < n; ++i)
         if (mix_bits(random + uint64_t(i)) % 16 == 0) x[i] *= 1 + 1e-4f;
     }},
    {"last bits of all elements",
     [](float* x, int64_t n, uint64_t random) {
       for (int64_t i = 0; i < n; ++i)
         x[i] =
             std::nextafter(x[i], mix_bits(random + uint64_t(i)) % 2 == 0 ? INFINITY : -INFINITY);
     }},
    {"sign of all elements",
     [](float* x, int64_t n, uint64_t) {
       for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
     }},
    {"all elements by one term",
     [](float* x, int64_t n, uint64_t random) {
       for (int64_t i = 0; i < n; ++i) x[i] += std::ldexp(1.0f, -int(random % 20));
     }},
    {"all elements by one factor",
     [](float* x, int64_t n, uint64_t random) {
       const auto factor = float(1 + std::pow(10.0, -7 + 6 * double(random % 64) / 63));
       for (int64_t i = 0; i < n; ++i) x[i] *= factor;
     }},
};

TEST(Sketch, EstimatesChanges) {
  manual_seed(1);
  std::mt19937_64 random(1);
  for (const auto& named : kChanges) {
    const auto name = named.first;
    const auto change = named.second;
    int estimated = 0, all = 0;
    for (const int64_t n : {7, 64, 65, 100, 1000, 5000, 30'000})
      for (int trial = 0; trial < 20; ++trial) {
        Tensor x = randn({n}).value();
        if (trial % 2 == 1)  // values of a ReLU
          x = changed<float>(x, [](float* values, int64_t size) {
            for (int64_t i = 0; i < size; ++i) values[i] = std::max(values[i], 0.0f);
          });
        const uint64_t drawn = random();
        const Tensor y =
            changed<float>(x, [&](float* values, int64_t size) { change(values, size, drawn); });
        const double error = relative_error(x, y);
        if (!(error > 1e-12)) continue;  // a change of zeros
        const Found found = compare(x, y);
        EXPECT_FALSE(found.equal) << name << ", " << n << " elements";
        estimated += is_estimated(error, found.error);
        ++all;
      }
    std::cout << name << ": " << estimated << " of " << all << " errors were estimated\n";
    // Half of the exchanged elements have equal signs in one of the sums, and a quarter in both.
    const bool is_exchange = std::string_view(name).starts_with("two");
    EXPECT_GE(estimated, all * (is_exchange ? 70 : 98) / 100) << name;
  }
}

template <typename T>
void expect_changes_found(DType dtype) {
  const Tensor x = [&] {
    Tensor values = zeros({5000}).value();
    for (int64_t i = 0; i < 5000; ++i) values.data<float>()[i] = float(i * 37 % 100 + 1);
    return values.to(dtype);
  }();
  for (const int64_t i : {0, 1, 63, 64, 2047, 2048, 4999}) {
    const Tensor y = changed<T>(x, [&](T* values, int64_t) {
      auto* bits = reinterpret_cast<uint8_t*>(values + i);
      bits[0] = uint8_t(bits[0] ^ 1);
    });
    const Found found = compare(x, y);
    EXPECT_FALSE(found.equal) << dtype << ", element " << i;
    EXPECT_TRUE(is_estimated(relative_error(x, y), found.error))
        << dtype << ", element " << i << ": " << found.error;
    const Tensor z =
        changed<T>(x, [&](T* values, int64_t n) { std::swap(values[i], values[(i + 2049) % n]); });
    EXPECT_FALSE(compare(x, z).equal) << dtype << ", elements " << i << " and " << i + 2049;
  }
}

TEST(Sketch, FindsChangesOfEveryType) {
  expect_changes_found<float>(f32);
  expect_changes_found<double>(f64);
  expect_changes_found<float16>(f16);
  expect_changes_found<bfloat16>(bf16);
  expect_changes_found<int64_t>(i64);
  expect_changes_found<int32_t>(i32);
  expect_changes_found<int16_t>(i16);
  expect_changes_found<uint8_t>(u8);
}

TEST(Sketch, NotFinite) {
  const Tensor x = randn({5000}).value();
  for (const float bad : {float(INFINITY), -float(INFINITY), float(NAN)}) {
    const auto with_bad = [&](float first) {
      return changed<float>(x, [&](float* values, int64_t) {
        values[0] = first;
        values[3000] = bad;
      });
    };
    EXPECT_EQ(compare(x, with_bad(0)).error, INFINITY);
    EXPECT_TRUE(compare(with_bad(0), with_bad(0)).equal);
    EXPECT_FALSE(compare(with_bad(0), with_bad(1)).equal);
  }
  // A change of the sign of a zero changes no sum.
  const auto zeros = [](float first) {
    return changed<float>(zeros_like(randn({100})).value(),
                          [&](float* values, int64_t) { values[0] = first, values[70] = 1; });
  };
  EXPECT_FALSE(compare(zeros(0.0f), zeros(-0.0f)).equal);
  EXPECT_EQ(compare(zeros(0.0f), zeros(-0.0f)).error, 0);
}

TEST(Sketch, FindsExchangedRows) {
  // Values with few bits, such as those of a dropout mask, in every distance.
  const int64_t n = 100 * 64;
  const Tensor x = changed<float>(randn({n}).value(), [](float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values[i] = values[i] > 0 ? 2 : 0;
  });
  const ResultSketch sketch = sketch_of(x);
  for (int64_t distance = 1; distance < 100; ++distance)
    for (const int64_t width : {1, 16, 64}) {
      const Tensor y = changed<float>(x, [&](float* values, int64_t) {
        std::swap_ranges(values, values + width, values + distance * 64);
      });
      if (relative_error(x, y) == 0) continue;
      EXPECT_NE(sketch_of(y).hash, sketch.hash) << width << " elements over " << distance;
    }
}

/// Returns n rows of 64 values, all 0 but for two rows of 16 values that are repeated.
Tensor rows_of_repeated_values(int64_t n, int64_t first, int64_t second) {
  Tensor x = zeros({n, 64}).value();
  for (int64_t i = 0; i < 64; ++i) {
    x.data<float>()[first * 64 + i] = float(1 + i % 16);
    x.data<float>()[second * 64 + i] = float(2 + i % 16);
  }
  return x;
}

TEST(Sketch, FindsExchangedRowsOfRepeatedValues) {
  for (const int64_t distance : {1, 2, 31, 32, 33, 64, 256, 480})
    EXPECT_NE(sketch_of(rows_of_repeated_values(500, 3, 3 + distance)).hash,
              sketch_of(rows_of_repeated_values(500, 3 + distance, 3)).hash)
        << distance;
}

TEST(Sketch, EstimatesNorms) {
  manual_seed(2);
  for (const int64_t n : {1, 10, 64, 200, 2048, 2100, 10'000, 200'000}) {
    const Variable values = randn({n}), ones = zeros({n}) + 1.0;
    for (const Variable& x : {values, ones}) {
      const double ratio = sketch_of(x.value()).norm / std::sqrt(sum(x * x).item<double>());
      EXPECT_GT(ratio, n <= 64 ? 0.9999 : 0.5) << n;
      EXPECT_LT(ratio, n <= 64 ? 1.0001 : 2.0) << n;
    }
  }
}

TEST(Sketch, CoversShapeAndType) {
  const Variable x = randn({1000, 100});
  EXPECT_EQ(sketch_of(x.value()), sketch_of(x.value().clone()));
  EXPECT_NE(sketch_of(x.value()).hash, sketch_of(reshape(x, {100, 1000}).value()).hash);
  const Tensor zero = zeros({4}).value();
  EXPECT_NE(sketch_of(zero).hash, sketch_of(zero.to(i32)).hash);
  EXPECT_NE(sketch_of(zero).hash, sketch_of(zeros({5}).value()).hash);
}

TEST(Sketch, SameForThreadsAndLayouts) {
  const int64_t threads = get_num_threads();
  const Variable x = randn({3, 300, 1000});
  const ResultSketch sketch = sketch_of(x.value());
  for (const int count : {1, 2, 3, 4}) {
    set_num_threads(count);
    EXPECT_EQ(sketch_of(x.value()), sketch);
    for (const Variable& view :
         {transpose(x, 0, 1), transpose(x, 1, 2), narrow(x, 2, 3, 77), narrow(x, 1, 2, 200),
          expand(narrow(x, 2, 5, 1), {3, 300, 50}), flip(x, {2})})
      for (const DType dtype : {f32, f64, f16, i32}) {
        const Tensor converted = view.to(dtype).value();
        EXPECT_EQ(sketch_of(converted), sketch_of(converted.contiguous()));
      }
  }
  set_num_threads(threads);
}

}  // namespace
}  // namespace tapegrad
