// Elementwise parts of recurrent steps.
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/layout/operands.h"
#include "backends/cuda/register.h"
#include "backends/formulas_recurrent.h"
#include "ops/internal/recurrent_sequence.h"

namespace tapegrad::backends::cuda {
namespace {

template <typename T>
const T* or_null(const Tensor& x) {
  return x ? x.data<const T>() : nullptr;
}
template <typename T>
__device__ Compute<T> or_zero(const T* x, int64_t at) {
  return x != nullptr ? widen(x[at]) : Compute<T>(0);
}

// Cells process element `at` of a state with n columns; the gates of an element have stride n.

template <typename T>
struct LstmCell {
  using V = Compute<T>;
  const T *x, *product, *c_before;
  T *gates, *c, *h;
  int64_t n;

  __device__ V sum(int64_t gate, int k) const {
    return widen(x[gate + k * n]) + widen(product[gate + k * n]);
  }
  __device__ void operator()(int64_t at) const {
    const int64_t gate = at / n * 4 * n + at % n;
    const auto open = formulas::activated(
        formulas::LstmGates<V>{sum(gate, 0), sum(gate, 1), sum(gate, 2), sum(gate, 3)});
    const auto after = formulas::lstm_step(open, widen(c_before[at]));
    gates[gate] = narrow<T>(open.i);
    gates[gate + n] = narrow<T>(open.f);
    gates[gate + 2 * n] = narrow<T>(open.g);
    gates[gate + 3 * n] = narrow<T>(open.o);
    c[at] = narrow<T>(after.c);
    h[at] = narrow<T>(after.h);
  }
};

template <typename T>
struct LstmCellBackward {
  using V = Compute<T>;
  const T *gates, *c_before, *c, *dy, *dh, *dc;  // the last three may be null
  T *dgates, *dc_before;
  int64_t n;

  __device__ void operator()(int64_t at) const {
    const int64_t gate = at / n * 4 * n + at % n;
    const formulas::LstmGates<V> open{widen(gates[gate]), widen(gates[gate + n]),
                                      widen(gates[gate + 2 * n]), widen(gates[gate + 3 * n])};
    V d = or_zero(dc, at);
    const auto gradient = formulas::lstm_step_backward(open, widen(c_before[at]), widen(c[at]),
                                                       or_zero(dy, at) + or_zero(dh, at), d);
    dgates[gate] = narrow<T>(gradient.i);
    dgates[gate + n] = narrow<T>(gradient.f);
    dgates[gate + 2 * n] = narrow<T>(gradient.g);
    dgates[gate + 3 * n] = narrow<T>(gradient.o);
    dc_before[at] = narrow<T>(d);
  }
};

template <typename T>
struct GruCell {
  using V = Compute<T>;
  const T *x, *product, *h_before;
  T *gates, *h;
  int64_t n;

  __device__ formulas::GruShares<V> shares(const T* from) const {
    return {widen(from[0]), widen(from[n]), widen(from[2 * n])};
  }
  __device__ void operator()(int64_t at) const {
    const int64_t row = at / n, j = at % n, share = row * 3 * n + j, gate = row * 4 * n + j;
    const auto open = formulas::activated(shares(x + share), shares(product + share));
    gates[gate] = narrow<T>(open.r);
    gates[gate + n] = narrow<T>(open.z);
    gates[gate + 2 * n] = narrow<T>(open.n);
    gates[gate + 3 * n] = narrow<T>(open.share);
    h[at] = narrow<T>(formulas::gru_step(open, widen(h_before[at])));
  }
};

template <typename T>
struct GruCellBackward {
  using V = Compute<T>;
  const T *gates, *h_before, *dy, *dh, *direct;  // the last three may be null
  T *dx, *dproduct, *direct_before;
  int64_t n;

  __device__ void operator()(int64_t at) const {
    const int64_t row = at / n, j = at % n, share = row * 3 * n + j, gate = row * 4 * n + j;
    const formulas::GruGates<V> open{widen(gates[gate]), widen(gates[gate + n]),
                                     widen(gates[gate + 2 * n]), widen(gates[gate + 3 * n])};
    V d = or_zero(dy, at) + or_zero(dh, at) + or_zero(direct, at);
    const auto gradient = formulas::gru_step_backward(open, widen(h_before[at]), d);
    for (T* to : {dx, dproduct}) {
      to[share] = narrow<T>(gradient.r);
      to[share + n] = narrow<T>(gradient.z);
    }
    dx[share + 2 * n] = narrow<T>(gradient.n);
    dproduct[share + 2 * n] = narrow<T>(gradient.share);
    direct_before[at] = narrow<T>(d);
  }
};

template <typename T>
void lstm_cell_backward(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                        const Tensor& dy, const Tensor& dh, const Tensor& dc, Tensor& dgates,
                        Tensor& dc_before) {
  for_each(c.numel(), c,
           LstmCellBackward<T>{gates.data<T>(), c_before.data<T>(), c.data<T>(), or_null<T>(dy),
                               or_null<T>(dh), or_null<T>(dc), dgates.data<T>(),
                               dc_before.data<T>(), c.shape()[1]});
}

template <typename T>
void gru_cell_backward(const Tensor& gates, const Tensor& h_before, const Tensor& dy,
                       const Tensor& dh, const Tensor& direct, Tensor& dx, Tensor& dproduct,
                       Tensor& direct_before) {
  for_each(h_before.numel(), h_before,
           GruCellBackward<T>{gates.data<T>(), h_before.data<T>(), or_null<T>(dy), or_null<T>(dh),
                              or_null<T>(direct), dx.data<T>(), dproduct.data<T>(),
                              direct_before.data<T>(), h_before.shape()[1]});
}

}  // namespace

void register_recurrent() {
  set<kernels::lstm_cell>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& product,
                                  const Tensor& c_before, Tensor& gates, Tensor& c, Tensor& h) {
        for_each(c.numel(), c,
                 LstmCell<T>{x.data<T>(), product.data<T>(), c_before.data<T>(), gates.data<T>(),
                             c.data<T>(), h.data<T>(), c.shape()[1]});
      });
  set<kernels::lstm_cell_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { lstm_cell_backward<T>(a...); });
  set<kernels::gru_cell>(kFloatTypes,
                         []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& product,
                                        const Tensor& h_before, Tensor& gates, Tensor& h) {
                           for_each(h.numel(), h,
                                    GruCell<T>{x.data<T>(), product.data<T>(), h_before.data<T>(),
                                               gates.data<T>(), h.data<T>(), h.shape()[1]});
                         });
  set<kernels::gru_cell_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { gru_cell_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
