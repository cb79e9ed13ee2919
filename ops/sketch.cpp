#include "ops/sketch.h"

#include "ops/internal/sketch_signs.h"

namespace tapegrad {

constinit decltype(kernels::sketch) kernels::sketch{"sketch"};

ResultSketch sketch_of(const Tensor& x) {
  const Tensor here = x.to(cpu).contiguous();
  ResultSketch sketch;
  kernels::sketch(here, sketch);
  sketch.hash = mix_bits(sketch.hash ^ uint64_t(here.dtype()));
  for (const int64_t size : here.shape()) sketch.hash = mix_bits(sketch.hash ^ uint64_t(size));
  return sketch;
}

}  // namespace tapegrad
