// The attribute `dtype` of ops that convert their input first, or that create a tensor.
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

}  // namespace tapegrad::detail
