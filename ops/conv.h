// Convolution, transposed convolution, and unfolding into columns. Images are [batch, channels,
// height, width]; signals have one spatial dimension, volumes three. An input without the batch
// dimension gives a result without it.
#pragma once

#include <concepts>
#include <optional>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/epilogue.h"

namespace tapegrad {

/// Height and width; one number sets both.
struct Size2d {
  Size2d(int64_t both) : height(both), width(both) {}
  Size2d(int64_t h, int64_t w) : height(h), width(w) {}
  bool operator==(const Size2d&) const = default;

  int64_t height, width;
};

/// Depth, height and width; one number sets all three.
struct Size3d {
  Size3d(int64_t all) : Size3d(all, all, all) {}
  Size3d(int64_t d, int64_t h, int64_t w) : depth(d), height(h), width(w) {}
  bool operator==(const Size3d&) const = default;

  Size2d plane() const { return {height, width}; }

  int64_t depth, height, width;
};

/// An optional size. {2, 1} is a size of two numbers.
template <typename Size>
struct OptionalSize : std::optional<Size> {
  using std::optional<Size>::optional;
  OptionalSize(std::optional<Size> given) : std::optional<Size>(given) {}
  template <std::convertible_to<int64_t>... N>
  requires(sizeof...(N) > 1) OptionalSize(N... numbers)
      : std::optional<Size>(Size(int64_t(numbers)...)) {}
};

/// Size is int64_t, Size2d or Size3d, for one, two or three spatial dimensions.
template <typename Size>
struct ConvOptions {
  ByName by_name = {};
  Size stride = 1;
  Size padding = 0;  // zeros on each side
  Size dilation = 1;
  int64_t groups = 1;  // must divide both channel counts
};
using Conv1dOptions = ConvOptions<int64_t>;
using Conv2dOptions = ConvOptions<Size2d>;
using Conv3dOptions = ConvOptions<Size3d>;

/// Computes a 2-D cross-correlation: y[n,o,i,j] = b[o] + sum over c,u,v of w[o,c,u,v]
/// x[n,c, i*stride + u*dilation - padding, ...]. x is [n, c, h, w], weight [o, c/groups, kh, kw],
/// bias [o] or empty; y is [n, o, h', w'] with h' = (h + 2 padding - dilation (kh - 1) - 1) /
/// stride + 1. The activation of the epilogue is applied to y. Throws ShapeError if channels do not
/// match or the kernel is larger than the padded image.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias = {},
                Conv2dOptions options = {}, Epilogue epilogue = {}, Where where = Where::current());

/// Computes cross-correlations of signals [n, c, length] with weight [o, c/groups, k], and of
/// volumes [n, c, depth, h, w] with weight [o, c/groups, kd, kh, kw].
Variable conv1d(const Variable& x, const Variable& weight, const Variable& bias = {},
                Conv1dOptions options = {}, Where where = Where::current());
Variable conv3d(const Variable& x, const Variable& weight, const Variable& bias = {},
                Conv3dOptions options = {}, Where where = Where::current());

/// Returns conv2d(x, weight, bias, options, {Activation::kRelu}), which is max(conv2d(...), 0).
Variable conv2d_relu(const Variable& x, const Variable& weight, const Variable& bias = {},
                     Conv2dOptions options = {}, Where where = Where::current());

template <typename Size>
struct ConvTransposeOptions {
  ByName by_name = {};
  Size stride = 1;
  Size padding = 0;         // removed on each side of the result
  Size output_padding = 0;  // added at the end of the result; less than stride or dilation
  int64_t groups = 1;
  Size dilation = 1;
};
/// Computes a transposed convolution, the adjoint of convolution:
/// y[n,o, i*stride + u*dilation - padding, ...] is the sum of w[c,o,u,v] x[n,c,i,j]. x is
/// [n, c, h, w], weight [c, o/groups, kh, kw], bias [o] or empty; y is [n, o, h', w'] with h' = (h
/// - 1) stride - 2 padding + dilation (kh - 1) + output_padding + 1.
Variable conv_transpose1d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          ConvTransposeOptions<int64_t> options = {},
                          Where where = Where::current());
Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          ConvTransposeOptions<Size2d> options = {},
                          Where where = Where::current());
Variable conv_transpose3d(const Variable& x, const Variable& weight, const Variable& bias = {},
                          ConvTransposeOptions<Size3d> options = {},
                          Where where = Where::current());

/// Algorithm for float32 convolutions on the CPU with 3 x 3 kernels, stride 1 and at least 32 input
/// and output channels. kAuto uses Winograd's algorithm if a heuristic expects it to be faster (up
/// to twice as fast). Winograd's algorithm is not exact for integer values, and its rounding error
/// is larger (about 1e-6 of the largest result instead of 2e-7). The heuristic considers sizes and
/// threads, so the result for an image may differ by this error between batch sizes. kDirect never
/// uses Winograd's algorithm.
enum class ConvAlgorithm { kAuto, kDirect };
/// Sets the algorithm for the process; initially kAuto.
void set_conv_algorithm(ConvAlgorithm algorithm);
ConvAlgorithm conv_algorithm();

/// Layout of large results of convolutions, and of the layers after them. With kBlocked they keep a
/// packed layout until their elements are read (core/base/storage.h): blocks of channels for
/// float32 on the CPU, channels-last for sixteen-bit floats on a GPU. With kPlain each result is
/// converted to row-major order at once.
enum class ConvLayout { kBlocked, kPlain };
/// Sets the layout for the process; initially kBlocked.
void set_conv_layout(ConvLayout layout);
ConvLayout conv_layout();

struct UnfoldOptions {
  ByName by_name = {};
  Size2d kernel_size = 0;
  Size2d dilation = 1;
  Size2d padding = 0;
  Size2d stride = 1;
};
/// Extracts windows as columns (im2col): [n, c, h, w] -> [n, c kh kw, number of windows].
Variable unfold(const Variable& x, UnfoldOptions options, Where where = Where::current());
/// Returns the adjoint of unfold (col2im): sums overlapping windows into [n, c, output_size].
Variable fold(const Variable& columns, Size2d output_size, UnfoldOptions options,
              Where where = Where::current());

namespace kernels {

// Tensors are contiguous. An empty bias means none; an empty dx, dw or db is not computed.

/// Computes y = epilogue(conv(x, weight) + bias). Does not write epilogue.at.
extern Kernel<void(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y)>
    conv2d;

/// dx needs weight, dw needs x. dy is the gradient of the result of the epilogue `behind`; dy may
/// be overwritten if there is an epilogue.
extern Kernel<void(const Tensor& dy, const Epilogue& behind, const Tensor& x, const Tensor& weight,
                   const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db)>
    conv2d_backward;

extern Kernel<void(const Tensor& x, const UnfoldOptions& options, Tensor& columns)> unfold;
extern Kernel<void(const Tensor& columns, const UnfoldOptions& options, Tensor& x)> fold;

}  // namespace kernels

}  // namespace tapegrad

#include "ops/conv_positional.h"
