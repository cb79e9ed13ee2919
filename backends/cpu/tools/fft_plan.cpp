#include "backends/cpu/tools/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <list>
#include <numbers>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/transpose.h"
#include "core/base/internal/mutex.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int kMaxRadix = 31;

/// Computes the outputs of one butterfly from its inputs, in place. V is T or a vector of T.
template <int R, typename T>
struct Butterfly;

template <typename T>
struct Butterfly<2, T> {
  template <typename V>
  static void run(V* re, V* im) {
    const V r = re[0] - re[1], i = im[0] - im[1];
    re[0] += re[1], im[0] += im[1];
    re[1] = r, im[1] = i;
  }
};

template <typename T>
struct Butterfly<3, T> {
  template <typename V>
  static void run(V* re, V* im) {
    constexpr T half = T(0.5), sine = T(std::numbers::sqrt3_v<double> / 2);
    const V sum_r = re[1] + re[2], sum_i = im[1] + im[2];
    const V turn_r = sine * (im[1] - im[2]), turn_i = sine * (re[2] - re[1]);
    const V mid_r = re[0] - half * sum_r, mid_i = im[0] - half * sum_i;
    re[0] += sum_r, im[0] += sum_i;
    re[1] = mid_r + turn_r, im[1] = mid_i + turn_i;
    re[2] = mid_r - turn_r, im[2] = mid_i - turn_i;
  }
};

template <typename T>
struct Butterfly<4, T> {
  template <typename V>
  static void run(V* re, V* im) {
    const V even_r = re[0] + re[2], even_i = im[0] + im[2];
    const V odd_r = re[1] + re[3], odd_i = im[1] + im[3];
    const V left_r = re[0] - re[2], left_i = im[0] - im[2];
    const V right_r = im[1] - im[3], right_i = re[3] - re[1];  // times -i
    re[0] = even_r + odd_r, im[0] = even_i + odd_i;
    re[1] = left_r + right_r, im[1] = left_i + right_i;
    re[2] = even_r - odd_r, im[2] = even_i - odd_i;
    re[3] = left_r - right_r, im[3] = left_i - right_i;
  }
};

/// Two transforms of length 4, of the even and of the odd inputs.
template <typename T>
struct Butterfly<8, T> {
  template <typename V>
  static void run(V* re, V* im) {
    constexpr T c = T(std::numbers::sqrt2_v<double> / 2);
    V a_r[4] = {re[0], re[2], re[4], re[6]}, a_i[4] = {im[0], im[2], im[4], im[6]};
    V b_r[4] = {re[1], re[3], re[5], re[7]}, b_i[4] = {im[1], im[3], im[5], im[7]};
    Butterfly<4, T>::run(a_r, a_i);
    Butterfly<4, T>::run(b_r, b_i);
    // The odd part k is multiplied by exp(-pi i k / 4).
    const V w_r[4] = {b_r[0], c * (b_r[1] + b_i[1]), b_i[2], c * (b_i[3] - b_r[3])};
    const V w_i[4] = {b_i[0], c * (b_i[1] - b_r[1]), -b_r[2], -c * (b_r[3] + b_i[3])};
    for (int k = 0; k < 4; ++k) {
      re[k] = a_r[k] + w_r[k], im[k] = a_i[k] + w_i[k];
      re[k + 4] = a_r[k] - w_r[k], im[k + 4] = a_i[k] - w_i[k];
    }
  }
};

template <typename T>
struct Butterfly<5, T> {
  template <typename V>
  static void run(V* re, V* im) {
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);
    constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);
    const V a_r = re[1] + re[4], a_i = im[1] + im[4], b_r = re[2] + re[3], b_i = im[2] + im[3];
    const V c_r = im[1] - im[4], c_i = re[4] - re[1];  // times -i
    const V d_r = im[2] - im[3], d_i = re[3] - re[2];
    const V p_r = re[0] + c1 * a_r + c2 * b_r, p_i = im[0] + c1 * a_i + c2 * b_i;
    const V q_r = re[0] + c2 * a_r + c1 * b_r, q_i = im[0] + c2 * a_i + c1 * b_i;
    const V u_r = s1 * c_r + s2 * d_r, u_i = s1 * c_i + s2 * d_i;
    const V v_r = s2 * c_r - s1 * d_r, v_i = s2 * c_i - s1 * d_i;
    re[0] += a_r + b_r, im[0] += a_i + b_i;
    re[1] = p_r + u_r, im[1] = p_i + u_i;
    re[4] = p_r - u_r, im[4] = p_i - u_i;
    re[2] = q_r + v_r, im[2] = q_i + v_i;
    re[3] = q_r - v_r, im[3] = q_i - v_i;
  }
};

/// A vector of kCount elements of T.
template <typename T, int64_t kCount>
struct VectorOf {
  using Type [[gnu::vector_size(kCount * int64_t(sizeof(T)))]] = T;
};

/// Runs one stage: `count` = lines * step elements are adjacent.
template <int R, typename T>
void run_stage(int64_t parts, int64_t count, const T* twiddle, Signals<T> x, Signals<T> y) {
  for (int64_t p = 0; p < parts; ++p, twiddle += 2 * (R - 1)) {
    // The factors of part 0, the only one of the last stage, are 1.
    const auto run = [&]<typename V, bool kTurns>(int64_t q, V, std::bool_constant<kTurns>) {
      const T *from_r = x.re + p * count + q, *from_i = x.im + p * count + q;
      T *to_r = y.re + p * R * count + q, *to_i = y.im + p * R * count + q;
      V re[R], im[R];
      unrolled<R>([&](auto j) {
        std::memcpy(&re[j()], from_r + j() * parts * count, sizeof(V));
        std::memcpy(&im[j()], from_i + j() * parts * count, sizeof(V));
      });
      Butterfly<R, T>::run(re, im);
      std::memcpy(to_r, &re[0], sizeof(V));
      std::memcpy(to_i, &im[0], sizeof(V));
      unrolled<R - 1>([&](auto k) {
        V a = re[k() + 1], b = im[k() + 1];
        if constexpr (kTurns) {
          const T w_r = twiddle[2 * k()], w_i = twiddle[2 * k() + 1];
          const V turned_r = a * w_r - b * w_i;
          b = a * w_i + b * w_r;
          a = turned_r;
        }
        std::memcpy(to_r + (k() + 1) * count, &a, sizeof(V));
        std::memcpy(to_i + (k() + 1) * count, &b, sizeof(V));
      });
    };
    const auto run_all = [&](auto turns) {
      constexpr int64_t kWhole = kLanes<T>;
      int64_t q = 0;
      for (; q + kWhole <= count; q += kWhole) run(q, typename VectorOf<T, kWhole>::Type{}, turns);
      for (; q + kWhole / 2 <= count; q += kWhole / 2)
        run(q, typename VectorOf<T, kWhole / 2>::Type{}, turns);
      for (; q < count; ++q) run(q, T{}, turns);
    };
    p == 0 ? run_all(std::false_type()) : run_all(std::true_type());
  }
}

/// Runs the first stage of a single line for radix 8. Lanes are parts, because a part has only one
/// element; the results of a part are adjacent, so that each square of results is transposed.
template <typename T>
void run_first_stage(int64_t parts, const T* turns, Signals<T> x, Signals<T> y) {
  constexpr int kCount = int(kLanes<T>), kSide = std::min(kCount, 8);
  using V = typename VectorOf<T, kCount>::Type;
  const auto load = [](const T* from) {
    V v;
    std::memcpy(&v, from, sizeof v);
    return v;
  };
  for (int64_t begin = 0; begin < parts; begin += kCount) {
    const int64_t p = std::min(begin, parts - kCount);  // the last vectors may overlap
    V values[16];
    V *re = values, *im = values + 8;
    unrolled<8>([&](auto j) {
      re[j()] = load(x.re + p + j() * parts);
      im[j()] = load(x.im + p + j() * parts);
    });
    Butterfly<8, T>::run(re, im);
    unrolled<7>([&](auto k) {
      const V w_r = load(turns + 2 * k() * parts + p),
              w_i = load(turns + (2 * k() + 1) * parts + p);
      const V a = re[k() + 1], b = im[k() + 1];
      re[k() + 1] = a * w_r - b * w_i;
      im[k() + 1] = a * w_i + b * w_r;
    });
    if constexpr (kCount == 16) {  // a row holds the real and the imaginary parts
      transpose_square<16>(values);
      unrolled<16>([&](auto l) {
        std::memcpy(y.re + (p + l()) * 8, &values[l()], sizeof(V) / 2);
        std::memcpy(y.im + (p + l()) * 8, reinterpret_cast<const T*>(&values[l()]) + 8,
                    sizeof(V) / 2);
      });
    } else {
      for (int k = 0; k < 8; k += kSide) {
        transpose_square<kSide>(re + k);
        transpose_square<kSide>(im + k);
        unrolled<kSide>([&](auto l) {
          std::memcpy(y.re + (p + l()) * 8 + k, &re[k + l()], sizeof(V));
          std::memcpy(y.im + (p + l()) * 8 + k, &im[k + l()], sizeof(V));
        });
      }
    }
  }
}

/// Runs one stage of any radix by the definition of the transform.
template <typename T>
void run_any_stage(int radix, int64_t parts, int64_t count, const T* twiddle, const T* roots,
                   Signals<T> x, Signals<T> y) {
  for (int64_t p = 0; p < parts; ++p, twiddle += 2 * (radix - 1))
    for (int k = 0; k < radix; ++k) {
      T* __restrict to_r = y.re + (p * radix + k) * count;
      T* __restrict to_i = y.im + (p * radix + k) * count;
      std::copy_n(x.re + p * count, count, to_r);
      std::copy_n(x.im + p * count, count, to_i);
      for (int j = 1; j < radix; ++j) {
        const T* __restrict from_r = x.re + (p + j * parts) * count;
        const T* __restrict from_i = x.im + (p + j * parts) * count;
        const T c = roots[2 * (j * k % radix)], s = roots[2 * (j * k % radix) + 1];
        for (int64_t q = 0; q < count; ++q) {
          to_r[q] += from_r[q] * c - from_i[q] * s;
          to_i[q] += from_r[q] * s + from_i[q] * c;
        }
      }
      if (k == 0) continue;
      const T w_r = twiddle[2 * (k - 1)], w_i = twiddle[2 * (k - 1) + 1];
      for (int64_t q = 0; q < count; ++q) {
        const T r = to_r[q] * w_r - to_i[q] * w_i;
        to_i[q] = to_r[q] * w_i + to_i[q] * w_r;
        to_r[q] = r;
      }
    }
}

/// Returns the smallest radix for a stage, where 8 and 4 precede 2; 0 if all factors are too large.
int next_radix(int64_t n) {
  if (n % 8 == 0 && n % 16 != 0) return 8;
  if (n % 64 == 0) return 8;
  if (n % 4 == 0) return 4;
  for (int radix = 2; radix <= kMaxRadix; ++radix)
    if (n % radix == 0) return radix;
  return 0;
}

bool is_smooth(int64_t n, int largest) {
  for (int factor = 2; factor <= largest; ++factor)
    while (n % factor == 0) n /= factor;
  return n == 1;
}

}  // namespace

UnitRoots::UnitRoots(int64_t n) : low_(int64_t(std::sqrt(double(n))) + 1) {
  const auto root = [n](int64_t k) {
    // Computed from an angle of at most an eighth of the circle: 8 k = octant n + rest.
    const int64_t octant = 8 * k / n, rest = 8 * k % n;
    const long double eighth = std::numbers::pi_v<long double> / 4;
    const bool mirrored = octant % 2 != 0;
    const long double angle = eighth * (long double)(mirrored ? n - rest : rest) / (long double)n;
    long double c = std::cos(angle), s = std::sin(angle);
    if (mirrored) std::swap(c, s);  // mirror within the quarter
    switch (octant / 2) {
      case 0:
        return Fine(c, -s);
      case 1:
        return Fine(-s, -c);
      case 2:
        return Fine(-c, s);
      default:
        return Fine(s, c);
    }
  };
  for (int64_t k = 0; k < low_ && k < n; ++k) lows_.push_back(root(k));
  for (int64_t k = 0; k < n; k += low_) highs_.push_back(root(k));
}

std::complex<double> UnitRoots::operator[](int64_t k) const {
  const Fine &a = highs_[size_t(k / low_)], &b = lows_[size_t(k % low_)];
  return {double(a.real() * b.real() - a.imag() * b.imag()),
          double(a.real() * b.imag() + a.imag() * b.real())};
}

template <typename T>
FftPlan<T>::FftPlan(int64_t n) : n_(n) {
  if (is_smooth(n, kMaxRadix))
    make_stages();
  else
    make_chirp();
}

template <typename T>
void FftPlan<T>::make_stages() {
  const UnitRoots roots(n_);
  int64_t step = 1;
  for (int64_t rest = n_; rest > 1;) {
    const int radix = next_radix(rest);
    Stage stage{radix, rest / radix, step, {}, {}};
    for (int64_t p = 0; p < stage.parts; ++p)
      for (int64_t k = 1; k < radix; ++k) {
        const std::complex<double> w = roots[p * k * step];  // the index is below n, because p k <
                                                             // rest
        stage.twiddle.push_back(T(w.real()));
        stage.twiddle.push_back(T(w.imag()));
      }
    if (radix > 5 && radix != 8)
      for (int64_t k = 0; k < radix; ++k) {
        const std::complex<double> w = roots[k * (n_ / radix)];
        stage.roots.push_back(T(w.real()));
        stage.roots.push_back(T(w.imag()));
      }
    step *= radix;
    rest /= radix;
    stages_.push_back(std::move(stage));
  }
  if (stages_.empty() || stages_[0].radix != 8 || stages_[0].parts < kLanes<T>) return;
  const Stage& first = stages_[0];
  for (int64_t column = 0; column < 14; ++column)
    for (int64_t p = 0; p < first.parts; ++p)
      first_turns_.push_back(first.twiddle[size_t(14 * p + column)]);
}

// Because j k = (j^2 + k^2 - (k - j)^2) / 2, the sum is a convolution with the conjugate of the
// chirp.
template <typename T>
void FftPlan<T>::make_chirp() {
  const UnitRoots roots(2 * n_);
  uint64_t square = 0;  // j^2 mod 2 n
  for (int64_t j = 0; j < n_; ++j) {
    chirp_.emplace_back(roots[int64_t(square)]);
    square = (square + 2 * uint64_t(j) + 1) % uint64_t(2 * n_);
  }
  int64_t m = 2 * n_ - 1;
  while (!is_smooth(m, 5)) ++m;
  convolution_ = of(m);
  std::vector<T> parts(size_t(2 * m)), work(size_t(convolution_->workspace()));
  const Signals<T> x{parts.data(), parts.data() + m};
  for (int64_t j = 0; j < n_; ++j)
    for (int64_t at : {j, (m - j) % m}) {
      x.re[at] = chirp_[size_t(j)].real();
      x.im[at] = -chirp_[size_t(j)].imag();
    }
  const Signals<T> y = convolution_->run(x, 1, work.data());
  for (int64_t k = 0; k < m; ++k) spectrum_.emplace_back(y.re[k] / T(m), y.im[k] / T(m));
}

template <typename T>
std::shared_ptr<const FftPlan<T>> FftPlan<T>::of(int64_t n) {
  constexpr size_t kKept = 16;
  static Mutex mutex;
  // The plan used last is the first.
  static std::list<std::shared_ptr<const FftPlan>> plans ABSL_GUARDED_BY(mutex);
  {
    const MutexLock lock(mutex);
    for (auto plan = plans.begin(); plan != plans.end(); ++plan)
      if ((*plan)->length() == n) {
        plans.splice(plans.begin(), plans, plan);
        return plans.front();
      }
  }
  const auto plan = std::make_shared<const FftPlan>(n);
  const MutexLock lock(mutex);
  plans.push_front(plan);
  if (plans.size() > kKept) plans.pop_back();
  return plan;
}

template <typename T>
const std::vector<std::complex<T>>& FftPlan<T>::half_steps() const {
  std::call_once(has_half_steps_, [this] {
    const UnitRoots roots(2 * n_);
    for (int64_t k = 0; k <= n_; ++k) half_steps_.emplace_back(roots[k]);
  });
  return half_steps_;
}

template <typename T>
int64_t FftPlan<T>::workspace() const {
  return convolution_ ? 2 * convolution_->length() + convolution_->workspace() : 2 * n_;
}

template <typename T>
Signals<T> FftPlan<T>::run(Signals<T> x, int64_t lines, T* workspace) const {
  if (convolution_) return run_chirp(x, lines, workspace);
  Signals<T> y{workspace, workspace + n_ * lines};
  for (const Stage& stage : stages_) {
    const int64_t count = lines * stage.step;
    const T* twiddle = stage.twiddle.data();
    if (count == 1 && takes_single()) {
      run_first_stage(stage.parts, first_turns_.data(), x, y);
      std::swap(x, y);
      continue;
    }
    switch (stage.radix) {
      case 2:
        run_stage<2>(stage.parts, count, twiddle, x, y);
        break;
      case 3:
        run_stage<3>(stage.parts, count, twiddle, x, y);
        break;
      case 4:
        run_stage<4>(stage.parts, count, twiddle, x, y);
        break;
      case 5:
        run_stage<5>(stage.parts, count, twiddle, x, y);
        break;
      case 8:
        run_stage<8>(stage.parts, count, twiddle, x, y);
        break;
      default:
        run_any_stage(stage.radix, stage.parts, count, twiddle, stage.roots.data(), x, y);
    }
    std::swap(x, y);
  }
  return x;
}

template <typename T>
Signals<T> FftPlan<T>::run_chirp(Signals<T> x, int64_t lines, T* workspace) const {
  const int64_t m = convolution_->length();
  const Signals<T> padded{workspace, workspace + m * lines};
  T* rest = workspace + 2 * m * lines;
  const auto multiply = [lines](Signals<T> from, int64_t j, std::complex<T> w, Signals<T> to) {
    for (int64_t q = j * lines; q < (j + 1) * lines; ++q) {
      const T re = from.re[q], im = from.im[q];
      to.re[q] = re * w.real() - im * w.imag();
      to.im[q] = re * w.imag() + im * w.real();
    }
  };
  for (int64_t j = 0; j < n_; ++j) multiply(x, j, chirp_[size_t(j)], padded);
  std::fill(padded.re + n_ * lines, padded.re + m * lines, T(0));
  std::fill(padded.im + n_ * lines, padded.im + m * lines, T(0));
  const Signals<T> y = convolution_->run(padded, lines, rest);
  for (int64_t k = 0; k < m; ++k) multiply(y, k, spectrum_[size_t(k)], y);
  // The inverse transform exchanges real and imaginary parts. The buffer that is not y is free.
  T* free = y.re == padded.re ? rest : workspace;
  const Signals<T> z = convolution_->run({y.im, y.re}, lines, free);
  for (int64_t k = 0; k < n_; ++k) multiply({z.im, z.re}, k, chirp_[size_t(k)], x);
  return x;
}

template class FftPlan<float>;
template class FftPlan<double>;

}  // namespace tapegrad::backends::cpu
