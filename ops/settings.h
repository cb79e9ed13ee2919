// Properties of dtypes, and settings of the process and of the thread, under PyTorch's names.
#pragma once

#include "core/base/allocator.h"
#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"

namespace tapegrad {

/// promote() under PyTorch's name. Returns the dtype of an op of both dtypes.
DType promote_types(DType a, DType b);
DType result_type(const Operand& a, const Operand& b);
/// Returns whether PyTorch permits an in-place cast between the dtypes. A cast from a float type to
/// an integer type is not permitted, nor is a cast to bool from another type.
bool can_cast(DType from, DType to);
DType get_default_dtype();
/// Limits of a float type: `x.masked_fill(mask, finfo(x.dtype()).min)`.
struct FloatInfo {
  int bits;
  double eps, max, min, tiny;  // min is -max; tiny, the smallest normal number
};
FloatInfo finfo(DType dtype);  // throws DTypeError unless it is a float type
struct IntegerInfo {
  int bits;
  int64_t max, min;
};
IntegerInfo iinfo(DType dtype);  // throws DTypeError unless it is an integer type

/// Sets the number of threads that ops on the CPU use when this thread calls them. Initially this
/// is OMP_NUM_THREADS, or the number of processors if that is not set. Throws ArgumentError outside
/// of [1, 1024].
void set_num_threads(int64_t count);
int64_t get_num_threads();

/// set_matmul_precision() under PyTorch's name: "highest", "high" or "medium".
void set_float32_matmul_precision(Choice<MatmulPrecision> precision);
/// Has no effect: each op computes equal results in every run (docs/semantics.md).
inline void use_deterministic_algorithms(bool /*mode*/, bool /*warn_only*/ = false) {}
namespace cuda {
/// Frees the cached memory of the GPU, if there is one.
void empty_cache();
}  // namespace cuda

/// Returns the state of the default generator.
RandomState get_rng_state();
void set_rng_state(RandomState state);
uint64_t initial_seed();

/// is_recording() and Recording under PyTorch's names.
inline bool is_grad_enabled() { return is_recording(); }
using AutoGradMode = Recording;
struct GradMode {
  static bool is_enabled() { return is_recording(); }
  template <typename V = void>
  static void set_enabled(bool) {
    static_assert(detail::kNever<V>,
                  "GradMode::set_enabled(false): type `const Recording scope(false);` "
                  "or `const NoGrad guard;`");
  }
};
template <typename V = void>
void set_grad_enabled(bool) {
  static_assert(detail::kNever<V>,
                "set_grad_enabled(false): type `const Recording scope(false);` "
                "or `const NoGrad guard;`");
}

}  // namespace tapegrad
