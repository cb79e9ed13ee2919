// The attribute `dtype` of ops that convert their input first.
#pragma once

#include "ops/catalog.h"

namespace tapegrad::detail {

inline Variable input_in_dtype(const Arguments& a) {
  return a.has("dtype") ? a[0].to(a.dtype("dtype")) : a[0];
}

}  // namespace tapegrad::detail
