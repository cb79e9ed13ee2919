#include "ops/sketch.h"

#include "ops/internal/sketch_signs.h"

namespace tapegrad {

constinit decltype(kernels::sketch) kernels::sketch{"sketch"};

ResultSketch sketch_of(const Tensor& x) {
  if (x.device() != cpu) return sketch_of(x.to(cpu));
  // The kernel would read a transposed matrix element by element.
  if (!x.is_contiguous() && x.strides()[-1] > 1) return sketch_of(x.contiguous());
  ResultSketch sketch;
  kernels::sketch(x, sketch);
  auto type = uint64_t(x.dtype());
  for (const int64_t size : x.shape()) type = type * kHashFactor + uint64_t(size);
  sketch.hash = mix_bits(sketch.hash ^ mix_bits(type));
  return sketch;
}

}  // namespace tapegrad
