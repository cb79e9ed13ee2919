// Recurrent steps: their elementwise parts, and products with one factor in every step.
#include "backends/cpu/dnnl/matmul_dnnl.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "backends/formulas_recurrent.h"
#include "ops/internal/recurrent_sequence.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallelState = 2048;  // elements of the state that justify a second thread

/// Processes [rows, n] memory in batches: run(row, column, load, store), where load(x) reads the
/// valid lanes and store(y, values) writes them.
template <typename T, typename Run>
void for_each_state(int64_t rows, int64_t n, const Run& run) {
  for_each_block(rows, std::max<int64_t>(1, kParallelState / std::max<int64_t>(n, 1)),
                 [&](int64_t first, int64_t last) {
                   for (int64_t row = first; row < last; ++row) {
                     int64_t j = 0;
                     for (; j + kLanes<T> <= n; j += kLanes<T>)
                       run(
                           row, j, [](const T* x) { return load_batch(x); },
                           [](T* y, Batch<T> values) { store_batch<T>(y, values); });
                     if (j == n) continue;
                     run(
                         row, j, [&](const T* x) { return load_some(x, n - j); },
                         [&](T* y, Batch<T> values) { store_some<T>(y, n - j, values); });
                   }
                 });
}

template <typename T>
const T* or_null(const Tensor& x) {
  return x ? x.data<const T>() : nullptr;
}

template <typename T>
void lstm_cell(const Tensor& x, const Tensor& product, const Tensor& c_before, Tensor& gates,
               Tensor& c, Tensor& h) {
  const int64_t n = c.shape()[1];
  const T *xs = x.data<T>(), *products = product.data<T>(), *cs = c_before.data<T>();
  T *to_gates = gates.data<T>(), *to_c = c.data<T>(), *to_h = h.data<T>();
  for_each_state<T>(c.shape()[0], n, [&](int64_t row, int64_t j, auto load, auto store) {
    const int64_t at = row * n + j, gate = 4 * row * n + j;
    const auto sum = [&](int k) { return load(xs + gate + k * n) + load(products + gate + k * n); };
    const auto open =
        formulas::activated(formulas::LstmGates<Batch<T>>{sum(0), sum(1), sum(2), sum(3)});
    const auto after = formulas::lstm_step(open, load(cs + at));
    store(to_gates + gate, open.i);
    store(to_gates + gate + n, open.f);
    store(to_gates + gate + 2 * n, open.g);
    store(to_gates + gate + 3 * n, open.o);
    store(to_c + at, after.c);
    store(to_h + at, after.h);
  });
}

template <typename T>
void lstm_cell_backward(const Tensor& gates, const Tensor& c_before, const Tensor& c,
                        const Tensor& dy, const Tensor& dh, const Tensor& dc, Tensor& dgates,
                        Tensor& dc_before) {
  const int64_t n = c.shape()[1];
  const T *from_gates = gates.data<T>(), *cs_before = c_before.data<T>(), *cs = c.data<T>();
  const T *dys = or_null<T>(dy), *dhs = or_null<T>(dh), *dcs = or_null<T>(dc);
  T *to_gates = dgates.data<T>(), *to_c = dc_before.data<T>();
  for_each_state<T>(c.shape()[0], n, [&](int64_t row, int64_t j, auto load, auto store) {
    const int64_t at = row * n + j, gate = 4 * row * n + j;
    const auto or_zero = [&](const T* x) {
      return x != nullptr ? load(x + at) : Batch<T>(Compute<T>(0));
    };
    const formulas::LstmGates<Batch<T>> open{load(from_gates + gate), load(from_gates + gate + n),
                                             load(from_gates + gate + 2 * n),
                                             load(from_gates + gate + 3 * n)};
    Batch<T> d = or_zero(dcs);
    const auto gradient = formulas::lstm_step_backward(open, load(cs_before + at), load(cs + at),
                                                       or_zero(dys) + or_zero(dhs), d);
    store(to_gates + gate, gradient.i);
    store(to_gates + gate + n, gradient.f);
    store(to_gates + gate + 2 * n, gradient.g);
    store(to_gates + gate + 3 * n, gradient.o);
    store(to_c + at, d);
  });
}

template <typename T>
void gru_cell(const Tensor& x, const Tensor& product, const Tensor& h_before, Tensor& gates,
              Tensor& h) {
  const int64_t n = h.shape()[1];
  const T *xs = x.data<T>(), *products = product.data<T>(), *hs = h_before.data<T>();
  T *to_gates = gates.data<T>(), *to_h = h.data<T>();
  for_each_state<T>(h.shape()[0], n, [&](int64_t row, int64_t j, auto load, auto store) {
    const int64_t at = row * n + j, gate = 4 * row * n + j;
    const auto shares = [&](const T* from) {
      from += 3 * row * n + j;
      return formulas::GruShares<Batch<T>>{load(from), load(from + n), load(from + 2 * n)};
    };
    const auto open = formulas::activated(shares(xs), shares(products));
    store(to_gates + gate, open.r);
    store(to_gates + gate + n, open.z);
    store(to_gates + gate + 2 * n, open.n);
    store(to_gates + gate + 3 * n, open.share);
    store(to_h + at, formulas::gru_step(open, load(hs + at)));
  });
}

template <typename T>
void gru_cell_backward(const Tensor& gates, const Tensor& h_before, const Tensor& dy,
                       const Tensor& dh, const Tensor& direct, Tensor& dx, Tensor& dproduct,
                       Tensor& direct_before) {
  const int64_t n = h_before.shape()[1];
  const T *from_gates = gates.data<T>(), *hs_before = h_before.data<T>();
  const T *dys = or_null<T>(dy), *dhs = or_null<T>(dh), *directs = or_null<T>(direct);
  T *to_x = dx.data<T>(), *to_product = dproduct.data<T>(), *to_h = direct_before.data<T>();
  for_each_state<T>(h_before.shape()[0], n, [&](int64_t row, int64_t j, auto load, auto store) {
    const int64_t at = row * n + j, share = 3 * row * n + j, gate = 4 * row * n + j;
    const auto or_zero = [&](const T* x) {
      return x != nullptr ? load(x + at) : Batch<T>(Compute<T>(0));
    };
    const formulas::GruGates<Batch<T>> open{load(from_gates + gate), load(from_gates + gate + n),
                                            load(from_gates + gate + 2 * n),
                                            load(from_gates + gate + 3 * n)};
    Batch<T> d = or_zero(dys) + or_zero(dhs) + or_zero(directs);
    const auto gradient = formulas::gru_step_backward(open, load(hs_before + at), d);
    for (T* to : {to_x, to_product}) {
      store(to + share, gradient.r);
      store(to + share + n, gradient.z);
    }
    store(to_x + share + 2 * n, gradient.n);
    store(to_product + share + 2 * n, gradient.share);
    store(to_h + at, d);
  });
}

void pack_factor(const Tensor& b, const Tensor& bias, int64_t rows, Tensor& packed) {
  const int64_t k = b.shape()[0], n = b.shape()[1];
  if (!is_plain(k, n, b.strides()[0], b.strides()[1]))
    return pack_factor(b.contiguous(), bias, rows, packed);
  pack_dnnl(rows, n, k, {b.data<float>(), b.strides()[0], b.strides()[1]}, bool(bias),
            packed.data<float>(), packed.numel());
}

void multiply_by_packed(const Tensor& a, const Tensor& packed, const Tensor& bias, Tensor& y) {
  multiply_packed(a.shape()[0], y.shape()[1], a.shape()[1], a.data<float>(), packed.data<float>(),
                  packed.numel(), or_null<float>(bias), y.data<float>());
}

}  // namespace

void register_recurrent() {
  if (has_dnnl_blocks()) {
    set<kernels::pack_factor>(TypeList<float>(), [](auto, auto&... a) { pack_factor(a...); });
    set<kernels::multiply_by_packed>(TypeList<float>(),
                                     [](auto, auto&... a) { multiply_by_packed(a...); });
  }
  set<kernels::lstm_cell>(kFloatTypes,
                          []<typename T>(TypeTag<T>, auto&... a) { lstm_cell<T>(a...); });
  set<kernels::lstm_cell_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { lstm_cell_backward<T>(a...); });
  set<kernels::gru_cell>(kFloatTypes,
                         []<typename T>(TypeTag<T>, auto&... a) { gru_cell<T>(a...); });
  set<kernels::gru_cell_backward>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { gru_cell_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
