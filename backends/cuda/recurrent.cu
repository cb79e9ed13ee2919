// The elementwise part of recurrent steps.
#include "backends/cuda/each.cuh"
#include "backends/cuda/numeric.cuh"
#include "backends/cuda/operands.h"
#include "backends/cuda/register.h"
#include "backends/formulas_recurrent.h"
#include "ops/lstm_sequence.h"

namespace tapegrad::backends::cuda {
namespace {

/// Element `at` of a state of n columns; its gates are n apart.
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

  __device__ static V or_zero(const T* x, int64_t at) { return x != nullptr ? widen(x[at]) : V(0); }
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

}  // namespace

void register_recurrent() {
  set<kernels::lstm_cell>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& x, const Tensor& product,
                                  const Tensor& c_before, Tensor& gates, Tensor& c, Tensor& h) {
        for_each(c.numel(), c,
                 LstmCell<T>{x.data<T>(), product.data<T>(), c_before.data<T>(), gates.data<T>(),
                             c.data<T>(), h.data<T>(), c.shape()[1]});
      });
  set<kernels::lstm_cell_backward>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& gates, const Tensor& c_before,
                                  const Tensor& c, const Tensor& dy, const Tensor& dh,
                                  const Tensor& dc, Tensor& dgates, Tensor& dc_before) {
        const auto data = [](const Tensor& t) { return t ? t.data<const T>() : nullptr; };
        for_each(
            c.numel(), c,
            LstmCellBackward<T>{data(gates), data(c_before), data(c), data(dy), data(dh), data(dc),
                                dgates.data<T>(), dc_before.data<T>(), c.shape()[1]});
      });
}

}  // namespace tapegrad::backends::cuda
