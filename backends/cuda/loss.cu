#include "ops/loss.h"

#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/map.cuh"
#include "backends/cuda/device/reducers.cuh"
#include "backends/cuda/register.h"
#include "backends/functions.h"
#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "ops/activation.h"

namespace tapegrad::backends::cuda {
namespace {

struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return holds_against<true>(a, b) ? a : b;
  }
};

/// Rows of logits and their target distributions q_c = w_c (hit [c = target] + share).
template <typename T>
struct Classes {
  using C = Compute<T>;
  const T* x;
  const int64_t* target;
  const C* weight;  // null: all 1
  int64_t rows, classes, ignore_index;
  C hit, share;  // share is label_smoothing / classes

  Classes(const Tensor& x, const Tensor& target, const Tensor& weight, const CrossEntropySpec& spec)
      : x(x.data<T>()),
        target(target.data<int64_t>()),
        weight(weight ? weight.data<C>() : nullptr),
        rows(target.numel()),
        classes(x.shape()[x.rank() - 1]),
        ignore_index(spec.ignore_index),
        hit(C(1 - spec.label_smoothing)),
        share(C(spec.label_smoothing / double(classes))) {}

  __device__ C weight_of(int64_t c) const { return weight != nullptr ? weight[c] : C(1); }
  /// True also for invalid ids, because a graph does not wait for the check of ids.
  __device__ bool ignores(int64_t id) const {
    return id == ignore_index || id < 0 || id >= classes;
  }
};

/// The loss of a row is the sum of q_c (log sum - (x_c - top)).
template <typename Team, typename T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(Classes<T> q, Compute<T>* losses, Compute<T>* tops, Compute<T>* logs) {
  using C = Compute<T>;
  for (int64_t r = Team::first(); r < q.rows; r += Team::step()) {
    const T* row = q.x + r * q.classes;
    C top = least_extreme<true, C>();
    for (int64_t c = Team::rank(); c < q.classes; c += Team::kSize)
      top = Larger{}(top, widen(row[c]));
    top = Team::reduce(top, Larger{});
    C sum = 0;
    for (int64_t c = Team::rank(); c < q.classes; c += Team::kSize)
      sum += std::exp(widen(row[c]) - top);
    const C log_sum = std::log(Team::reduce(sum, Plus{}));
    C loss = 0;
    if (q.share > C(0)) {
      for (int64_t c = Team::rank(); c < q.classes; c += Team::kSize)
        loss += q.share * q.weight_of(c) * (log_sum - (widen(row[c]) - top));
      loss = Team::reduce(loss, Plus{});
    }
    if (Team::rank() != 0) continue;
    tops[r] = top;
    logs[r] = log_sum;
    const int64_t id = q.target[r];
    losses[r] =
        q.ignores(id) ? C(0) : loss + q.hit * q.weight_of(id) * (log_sum - (widen(row[id]) - top));
  }
}

/// Computes dx_c = g (Q p_c - q_c), with p the softmax and Q the sum of q.
template <typename Team, typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(Classes<T> q, const Compute<T>* tops, const Compute<T>* logs, const T* dy,
                    int64_t dy_step, const Compute<T>* scale, T* dx) {
  using C = Compute<T>;
  for (int64_t r = Team::first(); r < q.rows; r += Team::step()) {
    const T* row = q.x + r * q.classes;
    C shares = 0;
    if (q.share > C(0)) {
      for (int64_t c = Team::rank(); c < q.classes; c += Team::kSize)
        shares += q.share * q.weight_of(c);
      shares = Team::reduce(shares, Plus{});
    }
    const int64_t id = q.target[r];
    const bool ignored = q.ignores(id);
    const C hit = ignored ? C(0) : q.hit * q.weight_of(id);
    const C g = widen(dy[r * dy_step]) * (scale != nullptr ? *scale : C(1));
    for (int64_t c = Team::rank(); c < q.classes; c += Team::kSize) {
      const C p = std::exp((widen(row[c]) - tops[r]) - logs[r]);
      const C part = q.share * q.weight_of(c) + (c == id ? hit : C(0));
      dx[r * q.classes + c] = narrow<T>(ignored ? C(0) : g * ((hit + shares) * p - part));
    }
  }
}

/// The sum of the losses, and the sum of the targets' weights.
template <typename T>
struct SumOfLosses {
  using C = Compute<T>;
  struct Part {
    C sum, weights;
  };
  const C* losses;
  const int64_t* target;
  const C* weight;
  int64_t classes;  // classes of the weight
  int64_t ignore_index;
  T* y;
  C* scale;  // null: compute the sum only

  __device__ static Part first() { return {0, 0}; }
  __device__ Part add(Part part, int64_t at, int64_t) const {
    const int64_t id = target[at];
    const bool ignored = id == ignore_index || (weight != nullptr && (id < 0 || id >= classes));
    const C counts = ignored ? C(0) : weight != nullptr ? weight[id] : C(1);
    return {part.sum + losses[at], part.weights + counts};
  }
  __device__ static Part merge(Part a, Part b) { return {a.sum + b.sum, a.weights + b.weights}; }
  __device__ void finish(int64_t, Part part) const {
    if (scale != nullptr) *scale = C(1) / part.weights;
    *y = narrow<T>(scale != nullptr ? part.sum / part.weights : part.sum);
  }
};

struct BinaryCrossEntropy {
  template <typename V>
  __device__ V operator()(V x, V t) const {
    const V hit = std::log(x), miss = std::log1p(-x), low = V(-100);
    return -(t * (hit < low ? low : hit) + (V(1) - t) * (miss < low ? low : miss));
  }
};

struct LogSigmoid {
  template <typename V>
  __device__ V operator()(V x) const {
    return (x > V(0) ? V(0) : x) - std::log1p(std::exp(-std::fabs(x)));
  }
};

struct NotAClass {
  int64_t classes, ignore_index;
  __device__ bool operator()(int64_t id) const {
    return id != ignore_index && (id < 0 || id >= classes);
  }
};
struct NotUnit {
  template <typename V>
  __device__ bool operator()(V x) const {
    return !(x >= V(0) && x <= V(1));
  }
};

void check_classes(const Tensor& target, std::string_view op, int64_t classes,
                   int64_t ignore_index) {
  const auto bad = find_first<int64_t>(target, NotAClass{classes, ignore_index});
  if (bad.index >= 0)
    fail<IndexError>(op, ": target ", bad.index, " is ", bad.value, ", not one of ", classes,
                     " classes");
}

template <typename T>
void check_unit(const Tensor& x, std::string_view op) {
  const auto bad = find_first<T>(x.contiguous(), NotUnit{});
  if (bad.index >= 0)
    fail<ArgumentError>(op, ": element ", bad.index, " is ", bad.value, ", not a probability");
}

template <typename T>
void cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight,
                   const CrossEntropySpec& spec, Tensor& losses, Tensor& statistics) {
  using C = Compute<T>;
  const Tensor rows = x.contiguous();
  const Classes<T> q(rows, target, weight, spec);
  if (q.rows == 0) return;
  C* tops = statistics.data<C>();
  with_team(q.classes, 1, [&]<typename Team>(Team) {
    launch(teams_for<Team>(q.rows, x), &forward_kernel<Team, T>, q, losses.data<C>(), tops,
           tops + q.rows);
  });
}

template <typename T>
void cross_entropy_backward(const Tensor& x, const Tensor& target, const Tensor& weight,
                            const CrossEntropySpec& spec, const Tensor& statistics,
                            const Tensor& dy, const Tensor& scale, Tensor& dx) {
  using C = Compute<T>;
  const Tensor rows = x.contiguous();
  const Classes<T> q(rows, target, weight, spec);
  if (q.rows == 0) return;
  const C* tops = statistics.data<C>();
  Tensor to = dx.is_contiguous() ? dx : Tensor::empty(dx.shape(), dx.dtype(), dx.device());
  with_team(q.classes, 1, [&]<typename Team>(Team) {
    launch(teams_for<Team>(q.rows, x), &backward_kernel<Team, T>, q, tops, tops + q.rows,
           dy.data<T>(), int64_t(scale || dy.rank() == 0 ? 0 : 1),
           scale ? scale.data<C>() : nullptr, to.data<T>());
  });
  if (!dx.is_contiguous()) kernels::copy(to, dx);
}

template <typename T>
void cross_entropy_reduce(Tensor& y, const Tensor& losses, const Tensor& target,
                          const Tensor& weight, int64_t ignore_index, Tensor& scale) {
  using C = Compute<T>;
  const Tensor line = losses.with_layout({{losses.numel()}, {1}, losses.layout().offset});
  reduce(SumOfLosses<T>{losses.data<C>(), target.data<int64_t>(),
                        weight ? weight.data<C>() : nullptr, weight ? weight.numel() : 0,
                        ignore_index, y.data<T>(), scale ? scale.data<C>() : nullptr},
         line, y.with_layout({{1}, {1}, y.layout().offset}));
}

}  // namespace

void register_loss() {
  set<kernels::check_classes>(TypeList<int64_t>{}, [](auto, auto&... a) { check_classes(a...); });
  set<kernels::check_unit>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { check_unit<T>(a...); });
  set<kernels::cross_entropy>(kFloatTypes,
                              []<typename T>(TypeTag<T>, auto&... a) { cross_entropy<T>(a...); });
  set<kernels::cross_entropy_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { cross_entropy_backward<T>(a...); });
  set<kernels::cross_entropy_reduce>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { cross_entropy_reduce<T>(a...); });
  set<kernels::binary_cross_entropy>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& target, Tensor& y) {
        map<T>(BinaryCrossEntropy{}, y, x, target);
      });
  set<kernels::log_sigmoid>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    map<T>(LogSigmoid{}, y, x);
  });
}

}  // namespace tapegrad::backends::cuda
