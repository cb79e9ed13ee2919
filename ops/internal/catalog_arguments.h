// Attributes of several ops of the catalog: `dtype`, to which the input is converted first or in
// which a tensor is created, and `dim`.
#pragma once

#include "ops/catalog.h"
#include "ops/create.h"

namespace tapegrad::detail {

inline Variable input_in_dtype(const Arguments& a) {
  return a.has("dtype") ? a[0].to(a.dtype("dtype")) : a[0];
}

inline TensorOptions options_of(const Arguments& a) {
  TensorOptions options;
  if (a.has("dtype")) options.dtype = a.dtype("dtype");
  return options;
}

/// Returns the dimensions `dim`; without the attribute an empty list, which means all.
inline Dims dims_of(const Arguments& a) { return a.has("dim") ? a.dims("dim") : Dims{}; }

}  // namespace tapegrad::detail
