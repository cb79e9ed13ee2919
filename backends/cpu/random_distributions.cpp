// Random numbers of the exponential, Poisson and multinomial distributions.
#include "ops/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/formulas_multinomial.h"
#include "backends/formulas_poisson.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallelDraws = 4096;  // draws that justify a second thread

/// Random word i of a draw.
uint32_t word(RandomState state, uint64_t i) {
  return philox(state.seed, state.offset + i / 4)[i % 4];
}
double draw_uniform(RandomState state, uint64_t i) {
  return uniform_double(word(state, 2 * i), word(state, 2 * i + 1));
}

template <typename T>
void exponential(Tensor& y, double lambd, RandomState state) {
  using R = Compute<T>;
  T* out = y.data<T>();
  const R rate = R(lambd);
#pragma omp parallel for if (y.numel() > kParallelDraws)
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
#pragma omp parallel for if (y.numel() > kParallelDraws)
  for (int64_t i = 0; i < y.numel(); ++i)
    out[i] = T(R(formulas::poisson(double(R(in[i])), formulas::ElementStream(state, i))));
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
  const int64_t leaves = formulas::WeightTree::leaves_for(classes);
  std::vector<double> sums(size_t(2 * leaves));
  const formulas::WeightTree tree{sums.data(), leaves};
  for (int64_t row = 0; row < rows; ++row) {
    const T* of_row = weights.data<T>() + row * classes;
    std::transform(of_row, of_row + classes, sums.begin() + leaves,
                   [](T weight) { return double(R(weight)); });
    for (int64_t node = leaves - 1; node > 0; --node) tree.add(node);
    for (int64_t k = 0; k < samples; ++k) {
      const int64_t id = tree.pick(draw_uniform(state, uint64_t(row * samples + k)));
      y.data<int64_t>()[row * samples + k] = id;
      if (!replacement) tree.remove(id);
    }
  }
}

}  // namespace

void register_random_distributions() {
  set<kernels::exponential>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { exponential<T>(a...); });
  set<kernels::poisson>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { poisson<T>(a...); });
  set<kernels::multinomial>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { multinomial<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
