// group_norm of x [n, channels, size]. The channels of a group are neighbours, so the group of an
// example is one row of memory.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/fast/norm_packed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/row_moments.h"
#include "core/dispatch/implementations.h"
#include "ops/internal/kernels/group_norm.h"

namespace tapegrad::backends::cpu {
namespace {

struct Groups {
  int64_t examples, channels, size;  // of x
  int64_t rows, together;            // groups of all examples, and channels of a group

  Groups(const Shape& x, int64_t rows)
      : examples(x[0]), channels(x[1]), size(x[2]), rows(rows), together(x[0] * x[1] / rows) {}
  /// Returns the first channel of a row.
  int64_t first(int64_t row) const { return row * together % channels; }

  /// Calls use(row, sum of the parts of its channels).
  template <typename Use>
  void add_up(const std::vector<double>& parts, const Use& use) const {
    for (int64_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int64_t i = row * together; i < (row + 1) * together; ++i) sum += parts[size_t(i)];
      use(row, sum);
    }
  }
  /// Computes y[channel] = the sum of the channel's parts of all examples.
  template <typename T>
  [[gnu::noinline]] void add_examples(const double* parts, T* y) const {
    const std::vector<double> sums = sums_of_examples(parts);
    for (int64_t c = 0; c < channels; ++c) y[c] = convert<T>(sums[size_t(c)]);
  }

 private:
  [[gnu::noinline]] std::vector<double> sums_of_examples(const double* parts) const {
    std::vector<double> sums(static_cast<size_t>(channels));
    for (int64_t n = 0; n < examples; ++n)
      for (int64_t c = 0; c < channels; ++c) sums[size_t(c)] += parts[n * channels + c];
    return sums;
  }
};

constexpr int64_t kShort = 32;  // channels of fewer elements are processed together

/// A number of each channel, once for each of its elements if the channels are short.
template <typename V>
class ChannelNumbers {
 public:
  ChannelNumbers(const std::vector<V>& numbers, int64_t size) : numbers_(numbers) {
    if (size == 1 || size >= kShort) return;
    numbers_.resize(numbers.size() * size_t(size));
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = numbers[i / size_t(size)];
  }
  V of_channel(int64_t c) const { return numbers_[size_t(c)]; }
  const V* of_elements(int64_t first) const { return &numbers_[size_t(first)]; }

 private:
  std::vector<V> numbers_;
};

/// Calls run(offset in the row, elements, numbers...) for the blocks of a row whose first channel
/// is `first`. A block has several short channels, and pointers to the numbers of its elements, or
/// is part of one channel, whose numbers are values.
template <typename Run, typename... Numbers>
void for_each_block_of(const Groups& g, int64_t first, const Run& run,
                       const ChannelNumbers<Numbers>&... numbers) {
  const int64_t all = g.together * g.size;
  if (all == 0) return;
  const bool is_short = g.size < kShort;
  const int64_t most = is_short ? kBlock / g.size * g.size : kBlock;
  if constexpr (sizeof...(numbers) == 0) {
    int64_t end = is_short ? all : g.size;
    for (int64_t i = 0, count; i < all; i += count) {
      count = std::min(most, end - i);
      run(i, count);
      if (i + count == end) end += g.size;
    }
  } else if (is_short) {
    for (int64_t i = 0; i < all; i += most)
      run(i, std::min(most, all - i), numbers.of_elements(first * g.size + i)...);
  } else {
    for (int64_t c = 0; c < g.together; ++c)
      for (int64_t i = 0; i < g.size; i += kBlock)
        run(c * g.size + i, std::min(kBlock, g.size - i), numbers.of_channel(first + c)...);
  }
}
template <typename V>
V number_at(V number, int64_t) {
  return number;
}
template <typename V>
V number_at(const V* numbers, int64_t i) {
  return numbers[i];
}

template <typename T>
void group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& means, Tensor& invstds) {
  using V = Compute<T>;
  const Groups g(x.shape(), means.numel());
  const ChannelNumbers<V> scale(numbers_of<T>(weight, g.channels, 1), g.size),
      shift(numbers_of<T>(bias, g.channels, 0), g.size);
  const T* xs = x.data<T>();
  T* ys = y.data<T>();
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t start = row * g.together * g.size;
    const Moments moments = moments_of(xs + start, g.together * g.size);
    const V mean = V(moments.mean), invstd = V(1 / std::sqrt(moments.var + eps));
    means.data<V>()[row] = mean;
    invstds.data<V>()[row] = invstd;
    alignas(64) V buffer[kBlock], results[kBlock];
    const auto normalize = [&](int64_t i, int64_t count, auto factor, auto offset) {
      const V* from = load_values(xs + start + i, 1, count, buffer);
      V* to = place_values(ys + start + i, results);
      for (int64_t j = 0; j < count; ++j)
        to[j] = (from[j] - mean) * invstd * number_at(factor, j) + number_at(offset, j);
      store_values(to, count, ys + start + i);
    };
    for_each_block_of(g, g.first(row), normalize, scale, shift);
  }
}

/// Adds the values and terms of a block, channels of `size` elements or a part of one, to sums and
/// products.
template <typename V>
[[gnu::noinline]] void add_channels(const V* values, const V* terms, int64_t count, int64_t size,
                                    double* sums, double* products) {
  for (int64_t j = 0; j < count; j += size) {
    *sums++ += reduce_block(SumOf<V>{}, values + j, std::min(size, count - j));
    *products++ += reduce_block(SumOf<V>{}, terms + j, std::min(size, count - j));
  }
}

/// Returns the sums of n factors times sums and products.
template <typename V>
[[gnu::noinline]] std::pair<double, double> weighted(const V* factors, const double* sums,
                                                     const double* products, int64_t n) {
  double sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t c = 0; c < n; ++c) {
    sum += double(factors[c]) * sums[c];
    product += double(factors[c]) * products[c];
  }
  return {sum, product};
}

/// Computes dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)) with g = dy * weight, by the sums
/// of dy and of dy * x_hat over each channel of each example.
template <typename T>
void group_norm_backward(const Tensor& x, const Tensor& dy, const Tensor& means,
                         const Tensor& invstds, const Tensor& weight, Tensor& dx, Tensor& dweight,
                         Tensor& dbias) {
  using V = Compute<T>;
  const Groups g(x.shape(), means.numel());
  const std::vector<V> weights = numbers_of<T>(weight, g.channels, 1);
  const ChannelNumbers<V> scale(weights, g.size);
  const T *xs = x.data<T>(), *dys = dy.data<T>();
  T* dxs = dx ? dx.data<T>() : nullptr;
  const Tensor parts = Tensor::empty({2, g.examples * g.channels}, f64);
  double *sums = parts.data<double>(), *products = sums + g.examples * g.channels;
#pragma omp parallel for if (x.numel() > kParallel)
  for (int64_t row = 0; row < g.rows; ++row) {
    const int64_t first = row * g.together;  // channel of all examples
    const int64_t start = first * g.size;
    const V mean = means.data<V>()[row], invstd = invstds.data<V>()[row];
    alignas(64) V x_buffer[kBlock], dy_buffer[kBlock], terms[kBlock];
    std::fill_n(sums + first, g.together, 0.0);
    std::fill_n(products + first, g.together, 0.0);
    for_each_block_of(g, g.first(row), [&](int64_t i, int64_t count) {
      const V* xv = load_values(xs + start + i, 1, count, x_buffer);
      const V* dyv = load_values(dys + start + i, 1, count, dy_buffer);
      for (int64_t j = 0; j < count; ++j) terms[j] = dyv[j] * ((xv[j] - mean) * invstd);
      const int64_t channel = first + i / g.size;
      if (g.size != 1)
        return add_channels<V>(dyv, terms, count, g.size, sums + channel, products + channel);
      std::copy_n(dyv, count, sums + channel);  // vectorises
      std::copy_n(terms, count, products + channel);
    });
    if (dxs == nullptr) continue;
    const V* factors = &weights[size_t(g.first(row))];
    const auto [sum, product] = weighted(factors, sums + first, products + first, g.together);
    const double elements = double(g.together * g.size);
    const V shift = V(sum / elements), slope = V(product / elements);
    const auto send = [&](int64_t i, int64_t count, auto factor) {
      const V* xv = load_values(xs + start + i, 1, count, x_buffer);
      const V* dyv = load_values(dys + start + i, 1, count, dy_buffer);
      V* to = place_values(dxs + start + i, terms);
      for (int64_t j = 0; j < count; ++j)
        to[j] = invstd * (dyv[j] * number_at(factor, j) - shift - (xv[j] - mean) * invstd * slope);
      store_values(to, count, dxs + start + i);
    };
    for_each_block_of(g, g.first(row), send, scale);
  }
  if (dweight) g.add_examples(products, dweight.data<T>());
  if (dbias) g.add_examples(sums, dbias.data<T>());
}

/// Tensors of float or bfloat16 with a packed layout (fast/packed.h).
struct GroupNormPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }
  static std::optional<PackedValues> accepts(const Tensor& x, const Tensor&, const Tensor&, double,
                                             const Tensor& y, const Tensor&, const Tensor&) {
    auto values = is_packable(x.dtype()) ? packed_values(x) : std::nullopt;
    if (values && !can_be_packed(y, values->packing.block)) values.reset();
    return values;
  }
  template <Packable T>
  static void run(TypeTag<T>, const PackedValues& values, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, double eps, Tensor& y, Tensor& means, Tensor& invstds) {
    const Groups g(x.shape(), means.numel());
    const double count = double(g.together * g.size);
    std::vector<double> parts(size_t(g.examples * g.channels)), centres(parts.size());
    image_sums_packed<T>(values, parts.data());
    g.add_up(parts, [&](int64_t row, double sum) {
      std::fill_n(&centres[size_t(row * g.together)], g.together, sum / count);
      means.data<float>()[row] = float(sum / count);
    });
    image_squares_packed<T>(values, centres.data(), parts.data());
    const std::vector<float> factor = numbers_of<T>(weight, g.channels, 1),
                             offset = numbers_of<T>(bias, g.channels, 0);
    std::vector<float> mean(parts.size()), scale(parts.size()), shift(parts.size());
    g.add_up(parts, [&](int64_t row, double sum) {
      const float invstd = float(1 / std::sqrt(sum / count + eps));
      invstds.data<float>()[row] = invstd;
      for (int64_t i = row * g.together; i < (row + 1) * g.together; ++i) {
        mean[size_t(i)] = means.data<float>()[row];
        scale[size_t(i)] = invstd * factor[size_t(i % g.channels)];
        shift[size_t(i)] = offset[size_t(i % g.channels)];
      }
    });
    normalize_packed(as_one_image(values), mean.data(), scale.data(), shift.data(), y.data<T>());
    y.storage().set_packed(values.packing);
  }
};

struct GroupNormBackwardPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }

  struct Operands {
    PackedValues x, dy;
  };
  /// Packs x or dy if only the other one is packed.
  static std::optional<Operands> accepts(const Tensor& x, const Tensor& dy, const Tensor&,
                                         const Tensor&, const Tensor&, const Tensor& dx,
                                         const Tensor&, const Tensor&) {
    if (!is_packable(x.dtype())) return {};
    const auto packed_x = packed_values(x), packed_dy = packed_values(dy);
    const auto& known = packed_x ? packed_x : packed_dy;
    if (!known || (dx && !can_be_packed(dx, known->packing.block))) return {};
    if (packed_x && packed_dy && packed_x->packing != packed_dy->packing) return {};
    return Operands{packed_x ? *packed_x : pack(x, known->packing),
                    packed_dy ? *packed_dy : pack(dy, known->packing)};
  }
  template <Packable T>
  static void run(TypeTag<T>, const Operands& o, const Tensor& x, const Tensor&,
                  const Tensor& means, const Tensor& invstds, const Tensor& weight, Tensor& dx,
                  Tensor& dweight, Tensor& dbias) {
    const Groups g(x.shape(), means.numel());
    const double count = double(g.together * g.size);
    const PackedValues xs = as_one_image(o.x), dys = as_one_image(o.dy);
    std::vector<double> sums(size_t(g.examples * g.channels)), products(sums.size());
    std::vector<float> mean(sums.size()), scale(sums.size()), shift(sums.size()),
        slope(sums.size());
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] = means.data<float>()[int64_t(i) / g.together];
      scale[i] = invstds.data<float>()[int64_t(i) / g.together];
    }
    channel_sums_packed<T>(xs, dys, mean.data(), scale.data(), sums.data(), products.data());
    if (dweight) g.add_examples(products.data(), dweight.data<T>());
    if (dbias) g.add_examples(sums.data(), dbias.data<T>());
    if (!dx) return;
    const std::vector<float> factor = numbers_of<T>(weight, g.channels, 1);
    for (size_t i = 0; i < sums.size(); ++i) {
      const float f = factor[i % size_t(g.channels)];
      sums[i] *= double(f), products[i] *= double(f), scale[i] *= f;
    }
    g.add_up(sums, [&](int64_t row, double sum) {
      std::fill_n(&shift[size_t(row * g.together)], g.together,
                  float(sum / count) * invstds.data<float>()[row]);
    });
    g.add_up(products, [&](int64_t row, double sum) {
      const float invstd = invstds.data<float>()[row];
      std::fill_n(&slope[size_t(row * g.together)], g.together,
                  invstd * float(sum / count) * invstd);
    });
    group_gradient_packed(xs, dys, mean.data(), scale.data(), shift.data(), slope.data(),
                          dx.data<T>());
    dx.storage().set_packed(o.x.packing);
  }
};

struct GroupNorm {
  static constexpr std::string_view kName = "rows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  Tensor& y, Tensor& means, Tensor& invstds) {
    group_norm<T>(x, weight, bias, eps, y, means, invstds);
  }
};

struct GroupNormBackward {
  static constexpr std::string_view kName = "rows";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, const Tensor& dy, const Tensor& means,
                  const Tensor& invstds, const Tensor& weight, Tensor& dx, Tensor& dweight,
                  Tensor& dbias) {
    group_norm_backward<T>(x, dy, means, invstds, weight, dx, dweight, dbias);
  }
};

}  // namespace

void register_group_norm() {
  set_implementations<kernels::group_norm, GroupNormPacked, GroupNorm>(DeviceType::kCpu,
                                                                       kFloatTypes);
  set_implementations<kernels::group_norm_backward, GroupNormBackwardPacked, GroupNormBackward>(
      DeviceType::kCpu, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
