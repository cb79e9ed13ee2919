// Random numbers with the same bits as on the CPU. Nothing here may be contracted (-fmad=false).
#include "ops/dropout.h"
#include "ops/random.h"

#include "backends/cuda/device/draw_base.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/find.cuh"
#include "backends/cuda/device/packs.cuh"
#include "backends/cuda/device/segments.h"
#include "backends/cuda/register.h"
#include "backends/formulas_random.h"
#include "core/base/error.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
inline constexpr int kPer = std::is_same_v<T, double> ? 2 : 1;  // words per element
template <typename T>
using Drawn = Pack<T, 4 / kPer<T>>;  // elements of a counter

/// Counter `i` of a draw: four words, which give 4 / per elements.
template <int per, typename Make>
struct FromWords {
  DrawState state;
  int64_t count;  // number of elements
  Make make;
  __device__ void operator()(int64_t i) const {
    constexpr int kElements = 4 / per;
    const RandomState now = state.now();
    const std::array<uint32_t, 4> words = philox(now.seed, now.offset + uint64_t(i));
    const int64_t first = i * kElements;
    make(words.data(), first, int(count - first < kElements ? count - first : kElements));
  }
};

template <int per, typename Make>
void draw(int64_t count, const Tensor& y, RandomState state, const Make& make) {
  constexpr int64_t kElements = 4 / per;
  for_each((count + kElements - 1) / kElements, y,
           FromWords<per, Make>{DrawState(state), count, make});
}

/// Number i of the four words, in [0, 1).
template <typename R>
__device__ R unit(const uint32_t* words, int i) {
  if constexpr (std::is_same_v<R, double>)
    return uniform_double(words[2 * i], words[2 * i + 1]);
  else
    return uniform_float(words[i]);
}

template <typename T, typename R = Compute<T>>
struct Uniform {
  T* y;
  R start, range, limit;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    Drawn<T> values;
    for (int i = 0; i < 4 / kPer<T>; ++i) {
      const R value = std::fma(unit<R>(words, i), range, start);
      values.v[i] = narrow<T>(limit < value ? limit : value);
    }
    store_pack(y + first, values, count);
  }
};

template <typename T, typename R = Compute<T>>
struct Normal {
  T* y;
  R mean, std;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    Drawn<T> values;
    for (int i = 0; i < 4 / kPer<T>; i += 2) {
      R u, v;
      if constexpr (kPer<T> == 1) {
        u = formulas::positive_float(words[i]);
        v = uniform_float(words[i + 1]);
      } else {
        u = formulas::positive_double(words[0], words[1]);
        v = uniform_double(words[2], words[3]);
      }
      const formulas::CosSin<R> pair = formulas::box_muller(u, v);
      values.v[i] = narrow<T>(std::fma(pair.cos, std, mean));
      values.v[i + 1] = narrow<T>(std::fma(pair.sin, std, mean));
    }
    store_pack(y + first, values, count);
  }
};

__device__ inline uint64_t wide_word(const uint32_t* words, int i) {
  return uint64_t(words[2 * i]) << 32 | words[2 * i + 1];
}

template <typename T>
struct Integers {
  T* y;
  int64_t low;
  uint64_t range;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    Pack<T, 2> values;
    for (int i = 0; i < 2; ++i) {
      const int64_t value = formulas::integer_in(wide_word(words, i), low, range);
      values.v[i] = narrow<T>(convert<Compute<T>>(value));
    }
    store_pack(y + first, values, count);
  }
};

template <typename T, typename R = Compute<T>>
struct Bernoulli {
  const T* p;
  T* y;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    constexpr int kElements = 4 / kPer<T>;
    const Drawn<T> chances = load_pack<kElements>(p + first, count);
    Drawn<T> values;
    for (int i = 0; i < kElements; ++i)
      values.v[i] = narrow<T>(unit<R>(words, i) < widen(chances.v[i]) ? R(1) : R(0));
    store_pack(y + first, values, count);
  }
};

template <typename T, bool add, typename R = Compute<T>>
struct Dropout {
  const T* x;
  const T* residual;  // null if nothing is added
  T* y;
  R scale;
  uint32_t threshold;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    Pack<T, 4> values = load_pack<4>(x + first, count);
    for (int i = 0; i < 4; ++i)
      values.v[i] = narrow<T>(words[i] >= threshold ? widen(values.v[i]) * scale : R(0));
    if constexpr (add) {
      const Pack<T, 4> others = load_pack<4>(residual + first, count);
      for (int i = 0; i < 4; ++i) values.v[i] = narrow<T>(widen(others.v[i]) + widen(values.v[i]));
    }
    store_pack(y + first, values, count);
  }
};

struct Keys {
  int64_t* keys;
  __device__ void operator()(const uint32_t* words, int64_t first, int count) const {
    Pack<int64_t, 2> values;
    for (int i = 0; i < 2; ++i) values.v[i] = int64_t(wide_word(words, i));
    store_pack(keys + first, values, count);
  }
};

struct NotUnit {
  template <typename V>
  __device__ bool operator()(V p) const {
    return !(p >= V(0) && p <= V(1));
  }
};

template <typename T>
void uniform(Tensor& y, double low, double high, RandomState state) {
  using R = Compute<T>;
  const R limit = R(low < high ? formulas::below<T>(high) : T(R(low)));
  draw<kPer<T>>(y.numel(), y, state, Uniform<T>{y.data<T>(), R(low), R(high - low), limit});
}

template <typename T>
void normal(Tensor& y, double mean, double std, RandomState state) {
  using R = Compute<T>;
  draw<kPer<T>>(y.numel(), y, state, Normal<T>{y.data<T>(), R(mean), R(std)});
}

template <typename T>
void bernoulli(const Tensor& p, Tensor& y, RandomState state) {
  const auto bad = find_first<T>(p, NotUnit{});
  if (bad.index >= 0)
    fail<ArgumentError>("bernoulli: p must be in [0, 1]: element ", bad.index, " is ", bad.value);
  draw<kPer<T>>(y.numel(), y, state, Bernoulli<T>{p.data<T>(), y.data<T>()});
}

template <typename T>
void dropout(const Tensor& x, double p, RandomState state, Tensor& y) {
  using R = Compute<T>;
  draw<1>(y.numel(), y, state,
          Dropout<T, false>{x.data<T>(), nullptr, y.data<T>(), R(1.0 / (1.0 - p)),
                            formulas::drop_below(p)});
}

template <typename T>
void dropout_add(const Tensor& x, const Tensor& residual, double p, RandomState state, Tensor& y) {
  using R = Compute<T>;
  draw<1>(y.numel(), y, state,
          Dropout<T, true>{x.data<T>(), residual.data<T>(), y.data<T>(), R(1.0 / (1.0 - p)),
                           formulas::drop_below(p)});
}

void permutation(Tensor& y, RandomState state) {
  const Tensor keys = y.empty_like();
  draw<2>(y.numel(), y, state, Keys{keys.data<int64_t>()});
  const Sorted sorted = sort_keys(keys, 64);
  if (y.numel() > 0)
    TG_CUDA(cudaMemcpyAsync(y.data<int64_t>(), sorted.order.data<int64_t>(),
                            size_t(y.numel()) * sizeof(int64_t), cudaMemcpyDeviceToDevice,
                            stream_of(y)));
}

}  // namespace

void register_random() {
  set<kernels::uniform>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { uniform<T>(a...); });
  set<kernels::normal>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { normal<T>(a...); });
  set<kernels::random_integers>(kAllTypes, []<typename T>(TypeTag<T>, Tensor& y, int64_t low,
                                                          uint64_t range, RandomState state) {
    draw<2>(y.numel(), y, state, Integers<T>{y.data<T>(), low, range});
  });
  set<kernels::bernoulli>(kFloatTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { bernoulli<T>(a...); });
  set<kernels::dropout>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { dropout<T>(a...); });
  set<kernels::dropout_add>(kFloatTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { dropout_add<T>(a...); });
  set<kernels::permutation>(TypeList<int64_t>{}, [](auto, auto&... a) { permutation(a...); });
}

}  // namespace tapegrad::backends::cuda
