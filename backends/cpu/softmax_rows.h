// softmax, log_softmax, logsumexp and their gradients for rows of few floats (tools/short_rows.h).
// The results of a row do not depend on the number of rows.
//
//   *_short   rows of fewer than kShortRow elements: rows lie in the lanes of vectors, so that
//             short rows fill them. A row is summed in its order in double.
//   *_middle  contiguous rows of at most kMiddleRow elements: each row fills vectors; the maxima
//             and the sums of a group of rows are reduced across lanes together.
#pragma once

#include <cstdint>
#include <limits>

namespace tapegrad::backends::cpu {

inline constexpr int64_t kParallelSoftmax = 8192;  // elements that justify a second thread
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Tensors [outer, n, inner] of rows along n. A row is contiguous if inner is 1.
struct SoftmaxRows {
  int64_t outer, n, inner;
};

/// y has the shape of x, or [outer, inner] (logsumexp). y may be x.
void softmax_short(const float* x, const SoftmaxRows& rows, float* y);
void log_softmax_short(const float* x, const SoftmaxRows& rows, float* y);
void logsumexp_short(const float* x, const SoftmaxRows& rows, float* y);
void softmax_middle(const float* x, const SoftmaxRows& rows, float* y);
void log_softmax_middle(const float* x, const SoftmaxRows& rows, float* y);
void logsumexp_middle(const float* x, const SoftmaxRows& rows, float* y);

/// Gradients of x from y and dy. dx may be dy.
void softmax_short_backward(const float* y, const float* dy, const SoftmaxRows& rows, float* dx);
void log_softmax_short_backward(const float* y, const float* dy, const SoftmaxRows& rows,
                                float* dx);
void softmax_middle_backward(const float* y, const float* dy, const SoftmaxRows& rows, float* dx);
void log_softmax_middle_backward(const float* y, const float* dy, const SoftmaxRows& rows,
                                 float* dx);

}  // namespace tapegrad::backends::cpu
