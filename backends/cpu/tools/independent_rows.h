// Kernels whose function computes each row of its operands independently of the other rows. A
// captured step may call the function for one block of rows after another.
#pragma once

#include "backends/cpu/tools/reduce_plan.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends::cpu {

template <auto& kKernel, typename T, unsigned kDivided, auto kRows,
          typename Signature = std::remove_reference_t<decltype(kKernel)>>
struct IndependentRows;

template <auto& kKernel, typename T, unsigned kDivided, auto kRows, typename... Arguments>
struct IndependentRows<kKernel, T, kDivided, kRows, Kernel<void(Arguments...)>> {
  static constexpr RowFunctions<Arguments...> kFunctions{
      .divided = kDivided,
      .sums = 0,
      .divide = [](Arguments... arguments) -> RowDivision { return {.rows = kRows(arguments...)}; },
      .run =
          [](const RowBlock&, Arguments... arguments) {
            kKernel.at(DeviceType::kCpu, kDTypeOf<T>)(arguments...);
          },
      .finish = nullptr,
  };
};

/// Registers that the tensors of the arguments `kDivided` have kRows(arguments) independent rows; 0
/// if they have none.
template <auto& kKernel, unsigned kDivided, auto kRows, typename... Ts>
void set_independent_rows(TypeList<Ts...>) {
  (kKernel.set_rows(DeviceType::kCpu, kDTypeOf<Ts>,
                    IndependentRows<kKernel, Ts, kDivided, kRows>::kFunctions),
   ...);
}

/// Returns the rows of x [rows, n, 1].
inline int64_t rows_along(const Tensor& x) {
  const bool has_rows = x.rank() == 3 && x.shape()[2] == 1 && x.shape()[1] >= kFewestColumns;
  return has_rows ? x.shape()[0] : 0;
}

}  // namespace tapegrad::backends::cpu
