// Properties of dtypes, and settings of the process and of the thread, by PyTorch's names.
#pragma once

#include "core/base/generator.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"

namespace tapegrad {

/// promote() by PyTorch's name, and the dtype of an op of both.
inline DType promote_types(DType a, DType b) { return promote(a, b); }
DType result_type(const Operand& a, const Operand& b);
/// Returns whether PyTorch casts in place from one dtype to the other: not from a float type to an
/// integer type, and not to bool from another type.
inline bool can_cast(DType from, DType to) {
  if (to == boolean) return from == boolean;
  return !is_float(from) || is_float(to);
}
inline DType get_default_dtype() { return default_dtype(); }
/// The numbers of a float type: `x.masked_fill(mask, finfo(x.dtype()).min)`.
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

/// The number of threads that ops on the CPU use when this thread calls them; initially that of
/// OMP_NUM_THREADS, else of the processors. Throws ArgumentError outside of [1, 1024].
void set_num_threads(int64_t count);
int64_t get_num_threads();

/// The state of the default generator.
inline RandomState get_rng_state() { return default_generator().state(); }
inline void set_rng_state(RandomState state) { default_generator().set_state(state); }
inline uint64_t initial_seed() { return default_generator().state().seed; }

/// is_recording() and Recording by PyTorch's names.
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
