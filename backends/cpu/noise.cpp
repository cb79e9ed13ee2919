#include "ops/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/formulas_poisson.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallel = 4096;  // draws that justify a second thread

/// Random word i of a draw.
uint32_t word(RandomState state, uint64_t i) {
  return philox(state.seed, state.offset + i / 4)[i % 4];
}
double uniform(RandomState state, uint64_t i) {
  return uniform_double(word(state, 2 * i), word(state, 2 * i + 1));
}

template <typename T>
void exponential(Tensor& y, double lambd, RandomState state) {
  using R = Compute<T>;
  T* out = y.data<T>();
  const R rate = R(lambd);
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t i = 0; i < y.numel(); ++i) {
    R u;
    if constexpr (std::is_same_v<R, double>)
      u = formulas::positive_double(word(state, 2 * uint64_t(i)), word(state, 2 * uint64_t(i) + 1));
    else
      u = formulas::positive_float(word(state, uint64_t(i)));
    // For u = 1 the logarithm is 0; half of the smallest step below 1 is used instead.
    const R e = std::max(-formulas::random_log(u), std::numeric_limits<R>::epsilon() / 4);
    out[i] = T(e / rate);
  }
}

template <typename T>
void poisson(const Tensor& rate, RandomState state, Tensor& y) {
  using R = Compute<T>;
  const T* in = rate.data<T>();
  T* out = y.data<T>();
  for (int64_t i = 0; i < rate.numel(); ++i)
    if (const double value = double(R(in[i])); !(value >= 0 && std::isfinite(value)))
      fail<ArgumentError>("poisson: a rate must be finite and not negative: element ", i, " is ",
                          value);
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t i = 0; i < y.numel(); ++i)
    out[i] = T(R(formulas::poisson(double(R(in[i])), formulas::ElementStream(state, i))));
}

/// The sums of weights over a binary tree. Picks and removes a class in logarithmic time.
class WeightTree {
 public:
  explicit WeightTree(int64_t classes) : leaves_(1) {
    while (leaves_ < size_t(classes)) leaves_ *= 2;
    sums_.resize(2 * leaves_);
  }
  /// Replaces all weights.
  void set(const std::vector<double>& weights) {
    std::copy(weights.begin(), weights.end(), sums_.begin() + ptrdiff_t(leaves_));
    for (size_t i = leaves_ - 1; i > 0; --i) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
  }
  double total() const { return sums_[1]; }
  /// The class whose part of the cumulative weights contains the target; never one of weight 0.
  int64_t pick(double target) const {
    size_t i = 1;
    while (i < leaves_) {
      i *= 2;
      if (sums_[i] > 0 && (target < sums_[i] || sums_[i + 1] == 0)) continue;
      target -= sums_[i++];
    }
    return int64_t(i - leaves_);
  }
  void remove(int64_t id) {
    size_t i = leaves_ + size_t(id);
    for (sums_[i] = 0; i > 1; i /= 2) sums_[i / 2] = sums_[i] + sums_[i ^ 1];
  }

 private:
  size_t leaves_;
  std::vector<double> sums_;  // node i has children 2 i and 2 i + 1; the root is 1
};

/// The class whose part of the cumulative weights contains the target: the first whose running sum
/// exceeds the target.
int64_t pick(const std::vector<double>& sums, double target) {
  auto found = std::upper_bound(sums.begin(), sums.end(), target);
  // Rounding may move the target beyond the end: the last class with a weight.
  if (found == sums.end()) found = std::lower_bound(sums.begin(), sums.end(), sums.back());
  return found - sums.begin();
}

template <typename T>
void multinomial(const Tensor& weights, bool replacement, RandomState state, Tensor& y) {
  using R = Compute<T>;
  const int64_t rows = weights.shape()[0], classes = weights.shape()[1], samples = y.shape()[1];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t positive = 0;
    double total = 0;
    for (int64_t i = 0; i < classes; ++i) {
      const double w = double(R(weights.data<T>()[row * classes + i]));
      if (!(w >= 0 && std::isfinite(w)))
        fail<ArgumentError>("multinomial: a weight must be finite and not negative: [", row, ", ",
                            i, "] is ", w);
      positive += w > 0;
      total += w;
    }
    if (!std::isfinite(total))
      fail<ArgumentError>("multinomial: the weights of row ", row, " sum to infinity");
    if (positive < (replacement ? 1 : samples))
      fail<ArgumentError>("multinomial: row ", row, " has ", positive, " positive weights for ",
                          samples, " samples");
  }
  std::vector<double> all(static_cast<size_t>(classes));
  WeightTree tree(replacement ? 0 : classes);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < classes; ++i)
      all[size_t(i)] = double(R(weights.data<T>()[row * classes + i]));
    if (replacement)
      std::partial_sum(all.begin(), all.end(), all.begin());
    else
      tree.set(all);
    for (int64_t k = 0; k < samples; ++k) {
      const double share = uniform(state, uint64_t(row * samples + k));
      const int64_t id =
          replacement ? pick(all, share * all.back()) : tree.pick(share * tree.total());
      y.data<int64_t>()[row * samples + k] = id;
      if (!replacement) tree.remove(id);
    }
  }
}

}  // namespace

void register_noise() {
  set<kernels::exponential>(kFloatTypes,
                            []<typename T>(Type<T>, auto&... a) { exponential<T>(a...); });
  set<kernels::poisson>(kFloatTypes, []<typename T>(Type<T>, auto&... a) { poisson<T>(a...); });
  set<kernels::multinomial>(kFloatTypes,
                            []<typename T>(Type<T>, auto&... a) { multinomial<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
