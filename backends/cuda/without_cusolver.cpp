// Definitions for a build without cuSOLVER's header.
#include "backends/cuda/cusolver/factors.h"

namespace tapegrad::backends::cuda::cusolver {

template <typename T>
bool lu_factor(Tensor&, Tensor&, Tensor&) {
  return false;
}
template <typename T>
bool lu_solve(const Tensor&, const Tensor&, bool, Tensor&) {
  return false;
}
template <typename T>
bool cholesky(Tensor&, Tensor&) {
  return false;
}
template <typename T>
bool qr_factor(Tensor&, Tensor&) {
  return false;
}
template <typename T>
bool qr_form(Tensor&, const Tensor&) {
  return false;
}
template <typename T>
bool svd(Tensor&, Tensor&, Tensor&, Tensor&, Tensor&) {
  return false;
}
template <typename T>
bool eigh(Tensor&, bool, Tensor&, Tensor&) {
  return false;
}

#define INSTANTIATE(T)                                                    \
  template bool lu_factor<T>(Tensor&, Tensor&, Tensor&);                  \
  template bool lu_solve<T>(const Tensor&, const Tensor&, bool, Tensor&); \
  template bool cholesky<T>(Tensor&, Tensor&);                            \
  template bool qr_factor<T>(Tensor&, Tensor&);                           \
  template bool qr_form<T>(Tensor&, const Tensor&);                       \
  template bool svd<T>(Tensor&, Tensor&, Tensor&, Tensor&, Tensor&);      \
  template bool eigh<T>(Tensor&, bool, Tensor&, Tensor&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cuda::cusolver
