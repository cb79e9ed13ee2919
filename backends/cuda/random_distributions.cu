// Random numbers of the exponential, Poisson and multinomial distributions, with the same bits as
// on the CPU.
#include "ops/random.h"

#include "backends/cuda/device/draw_base.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/register.h"
#include "backends/formulas_multinomial.h"
#include "backends/formulas_poisson.h"
#include "core/base/error.h"

namespace tapegrad::backends::cuda {
namespace {

/// Draws the same bits as the CPU: must not be contracted (-fmad=false).
template <typename T, typename R = Compute<T>>
struct Exponential {
  T* y;
  R rate;
  DrawState state;

  __device__ uint32_t word(uint64_t i) const {
    const RandomState now = state.now();
    return philox(now.seed, now.offset + i / 4)[i % 4];
  }
  __device__ void operator()(int64_t i) const {
    R u;
    if constexpr (std::is_same_v<R, double>)
      u = formulas::positive_double(word(2 * uint64_t(i)), word(2 * uint64_t(i) + 1));
    else
      u = formulas::positive_float(word(uint64_t(i)));
    // For u = 1 the logarithm is 0; half of the smallest step below 1 is used instead.
    constexpr R kLeast = std::numeric_limits<R>::epsilon() / 4;
    const R e = -formulas::random_log(u);
    y[i] = narrow<T>((e < kLeast ? kLeast : e) / rate);
  }
};

struct NotARate {
  template <typename V>
  __device__ bool operator()(V rate) const {
    return !(rate >= V(0) && rate - rate == V(0));
  }
};

template <typename T>
struct Poisson {
  const T* rate;
  T* y;
  DrawState state;
  __device__ void operator()(int64_t i) const {
    const formulas::ElementStream stream(state.now(), i);
    y[i] = narrow<T>(Compute<T>(formulas::poisson(double(widen(rate[i])), stream)));
  }
};

template <typename T>
void poisson(const Tensor& rate, RandomState state, Tensor& y) {
  const auto bad = find_first<T>(rate, NotARate{});
  if (bad.index >= 0)
    fail<ArgumentError>("poisson: a rate must be finite and not negative: element ", bad.index,
                        " is ", bad.value);
  for_each(y.numel(), y, Poisson<T>{rate.data<T>(), y.data<T>(), DrawState(state)});
}

struct IsSet {
  __device__ bool operator()(int64_t verdict) const { return verdict != 0; }
};
struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Smaller {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

/// Verdict on the weights of a row, with a number: the class of a weight that is negative or not
/// finite, or the number of positive weights.
enum Fault : int64_t { kNone, kWeight, kSum, kTooFew };
__device__ inline int64_t verdict_of(Fault fault, int64_t number) { return number * 4 + fault; }

/// Computes the tree of sums and the verdict of each row, with a block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_weights(const T* weights, int64_t rows, int64_t classes, int64_t leaves, int64_t least,
                double* sums, int64_t* verdicts) {
  for (int64_t row = BlockTeam::first(); row < rows; row += BlockTeam::step()) {
    const formulas::WeightTree tree{sums + row * 2 * leaves, leaves};
    int64_t bad = leaves, positive = 0;
    for (int64_t i = BlockTeam::rank(); i < leaves; i += BlockTeam::kSize) {
      const double w = i < classes ? double(widen(weights[row * classes + i])) : 0;
      if (!(w >= 0 && w - w == 0) && i < bad) bad = i;
      positive += w > 0;
      tree.sums[leaves + i] = w;
    }
    bad = BlockTeam::reduce(bad, Smaller{});
    positive = BlockTeam::reduce(positive, Plus{});
    for (int64_t level = leaves / 2; level > 0; level /= 2) {
      for (int64_t i = BlockTeam::rank(); i < level; i += BlockTeam::kSize) tree.add(level + i);
      __syncthreads();
    }
    if (BlockTeam::rank() != 0) continue;
    verdicts[row] = bad < leaves                          ? verdict_of(kWeight, bad)
                    : !(tree.total() - tree.total() == 0) ? verdict_of(kSum, 0)
                    : positive < least                    ? verdict_of(kTooFew, positive)
                                                          : 0;
  }
}

/// Draws a run of samples of one row of weights. Samples without replacement depend on those before
/// them, so a run is all samples of a row; otherwise it is a single sample.
struct Picks {
  double* sums;
  int64_t* y;
  int64_t leaves, classes;
  int64_t first;                  // number of the first sample of y
  int64_t runs_per_row, per_run;  // runs for a row of weights, samples in a run
  bool replacement;
  DrawState state;

  __device__ void operator()(int64_t run) const {
    const formulas::WeightTree tree{sums + run / runs_per_row * 2 * leaves, leaves};
    const RandomState now = state.now();
    for (int64_t i = run * per_run; i < (run + 1) * per_run; ++i) {
      const uint64_t number = 2 * uint64_t(first + i);  // of the first of two random words
      const std::array<uint32_t, 4> words = philox(now.seed, now.offset + number / 4);
      const bool second = number % 4 != 0;  // pair of words
      const int64_t id = tree.pick(second ? uniform_double(words[2], words[3])
                                          : uniform_double(words[0], words[1]));
      y[i] = id < classes ? id : 0;  // invalid weights may lead to any leaf
      if (!replacement) tree.remove(id);
    }
  }
};

/// Throws the error of a row's verdict.
template <typename T>
[[noreturn]] void refuse(const Tensor& weights, int64_t samples, int64_t row, int64_t verdict) {
  const int64_t number = verdict / 4, at = row * weights.shape()[1] + number;
  switch (Fault(verdict % 4)) {
    case kWeight: {
      const Tensor weight =
          weights.with_layout({{1}, {1}, weights.layout().offset + at}).to(tapegrad::cpu);
      fail<ArgumentError>("multinomial: a weight must be finite and not negative: [", row, ", ",
                          number, "] is ", double(Compute<T>(weight.data<T>()[0])));
    }
    case kSum:
      fail<ArgumentError>("multinomial: the weights of row ", row, " sum to infinity");
    default:
      fail<ArgumentError>("multinomial: row ", row, " has ", number, " positive weights for ",
                          samples, " samples");
  }
}

template <typename T>
void multinomial(const Tensor& weights, bool replacement, RandomState state, Tensor& y) {
  constexpr int64_t kMost = int64_t(1) << 23;  // sums at a time: 64 MiB
  const int64_t rows = weights.shape()[0], classes = weights.shape()[1], samples = y.shape()[1];
  if (rows == 0) return;
  const int64_t leaves = formulas::WeightTree::leaves_for(classes);
  const int64_t most = std::clamp<int64_t>(kMost / (2 * leaves), 1, rows);
  const Tensor sums = Tensor::empty({most, 2 * leaves}, f64, weights.device());
  const Tensor verdicts = Tensor::empty({rows}, i64, weights.device());
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t count = std::min(most, rows - row);
    launch(teams_for<BlockTeam>(count, weights), &sum_weights<T>, weights.data<T>() + row * classes,
           count, classes, leaves, replacement ? 1 : samples, sums.data<double>(),
           verdicts.data<int64_t>() + row);
    const int64_t per_run = replacement ? 1 : samples;
    for_each(count * samples / per_run, y,
             Picks{sums.data<double>(), y.data<int64_t>() + row * samples, leaves, classes,
                   row * samples, samples / per_run, per_run, replacement, DrawState(state)});
  }
  const auto bad = find_first<int64_t>(verdicts, IsSet{});
  if (bad.index >= 0) refuse<T>(weights, samples, bad.index, bad.value);
}

}  // namespace

void register_random_distributions() {
  set<kernels::exponential>(
      kFloatTypes, []<typename T>(TypeTag<T>, Tensor& y, double lambd, RandomState state) {
        for_each(y.numel(), y, Exponential<T>{y.data<T>(), Compute<T>(lambd), DrawState(state)});
      });
  set<kernels::poisson>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { poisson<T>(a...); });
  set<kernels::multinomial>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { multinomial<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
