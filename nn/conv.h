// Convolution and pooling layers for signals [batch, channels, length], images [batch, channels,
// height, width] and volumes [batch, channels, depth, height, width].
#pragma once

#include <optional>
#include <vector>

#include "core/base/choice.h"
#include "nn/refused_nullptr.h"
#include "nn/weighted.h"
#include "ops/conv.h"
#include "ops/pool.h"

namespace tapegrad::nn {

namespace detail {
/// Returns the options of a call like Conv2d(1, 32, 3, {.padding = 1}).
template <typename Options, typename Size>
Options with_sizes(Options options, int64_t in_channels, int64_t out_channels, Size kernel_size) {
  options.in_channels = in_channels;
  options.out_channels = out_channels;
  options.kernel_size = kernel_size;
  return options;
}
/// Returns the options of a call like Conv2d(1, 32, 1, 2, {.bias = false}).
template <typename Options, typename Size>
Options with_sizes(Options options, int64_t in_channels, int64_t out_channels, Size kernel_size,
                   Size stride) {
  options.stride = stride;
  return with_sizes(options, in_channels, out_channels, kernel_size);
}
/// Returns the options of a call like Conv2d(1, 32, 4, 2, 1, {.bias = false}).
template <typename Options, typename Size, typename Padding>
Options with_sizes(Options options, int64_t in_channels, int64_t out_channels, Size kernel_size,
                   Size stride, Padding padding) {
  options.stride = stride;
  options.padding = padding;
  return with_sizes(options, in_channels, out_channels, kernel_size);
}
}  // namespace detail

/// Values beyond the edges of the input of a convolution.
enum class PaddingMode { kZeros, kReflect, kReplicate, kCircular };
constexpr auto choice_names(PaddingMode) {
  return std::to_array<ChoiceName<PaddingMode>>({{"zeros", PaddingMode::kZeros},
                                                 {"reflect", PaddingMode::kReflect},
                                                 {"replicate", PaddingMode::kReplicate},
                                                 {"circular", PaddingMode::kCircular}});
}

/// Size is int64_t for one dimension, Size2d for two, Size3d for three.
template <typename Size>
struct ConvOptions {
  ByName by_name = {};
  int64_t in_channels = 0;   // optional: taken from the first input
  int64_t out_channels = 0;  // required
  Size kernel_size = 0;      // required
  Size stride = 1;
  tapegrad::Padding<Size> padding = Size(0);  // or "same" or "valid"
  Size dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  Choice<PaddingMode> padding_mode = PaddingMode::kZeros;
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
};

/// Cross-correlation. weight: [out_channels, in_channels / groups, kernel_size].
template <typename Self, typename Size>
class Conv : public Model<Self, Weighted> {
 public:
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;
  int64_t in_channels() const;  // 0 while unknown
  int64_t out_channels() const { return options_.out_channels; }

 protected:
  explicit Conv(ConvOptions<Size> options);
  /// Allocates the weight when x is the first input.
  void infer_weight(const Variable& x) const;
  tapegrad::ConvOptions<Size> op_options() const;
  /// Applies padding that the convolution itself cannot: other values than zero, or one row of
  /// zeros on one side, for "same" and a kernel of even size.
  Variable padded(const Variable& x) const;

 private:
  Shape weight_shape(int64_t in_channels) const;

  ConvOptions<Size> options_;
};

class Conv1d final : public Conv<Conv1d, int64_t> {
 public:
  static constexpr std::string_view kName = "Conv1d";
  explicit Conv1d(RefusedNullptr);
  explicit Conv1d(ConvOptions<int64_t> options);
  Conv1d(int64_t in_channels, int64_t out_channels, ConvOptions<int64_t> options);
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
         ConvOptions<int64_t> options);
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
         ConvOptions<int64_t> options);
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
         tapegrad::Padding<int64_t> padding, ConvOptions<int64_t> options);
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride = 1,
         tapegrad::Padding<int64_t> padding = 0, int64_t dilation = 1, int64_t groups = 1,
         bool bias = true, Where where = Where::current());
};
class Conv2d final : public Conv<Conv2d, Size2d> {
 public:
  static constexpr std::string_view kName = "Conv2d";
  explicit Conv2d(ConvOptions<Size2d> options);
  explicit Conv2d(RefusedNullptr);
  Conv2d(int64_t in_channels, int64_t out_channels, ConvOptions<Size2d> options);
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
         ConvOptions<Size2d> options);
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
         ConvOptions<Size2d> options);
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
         tapegrad::Padding<Size2d> padding, ConvOptions<Size2d> options);
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride = 1,
         tapegrad::Padding<Size2d> padding = 0, Size2d dilation = 1, int64_t groups = 1,
         bool bias = true, Where where = Where::current());
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
         tapegrad::Padding<Size2d> padding, Size2d dilation, int64_t groups, bool bias,
         Choice<PaddingMode> padding_mode, Where where = Where::current());
  using Conv::forward;
  /// Returns the epilogue of forward(x), computed by one kernel.
  Variable forward(const Variable& x, Epilogue epilogue, Where where = Where::current()) const;
};
class Conv3d final : public Conv<Conv3d, Size3d> {
 public:
  static constexpr std::string_view kName = "Conv3d";
  explicit Conv3d(RefusedNullptr);
  explicit Conv3d(ConvOptions<Size3d> options);
  Conv3d(int64_t in_channels, int64_t out_channels, ConvOptions<Size3d> options);
  Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
         ConvOptions<Size3d> options);
  Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
         ConvOptions<Size3d> options);
  Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
         tapegrad::Padding<Size3d> padding, ConvOptions<Size3d> options);
  Conv3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride = 1,
         tapegrad::Padding<Size3d> padding = 0, Size3d dilation = 1, int64_t groups = 1,
         bool bias = true, Where where = Where::current());
};

template <typename Size>
struct ConvTransposeOptions {
  ByName by_name = {};
  int64_t in_channels = 0;
  int64_t out_channels = 0;  // required
  Size kernel_size = 0;      // required
  Size stride = 1;
  Size padding = 0;
  Size output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Size dilation = 1;
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
};
/// Adjoint of Conv. weight: [in_channels, out_channels / groups, kernel_size].
template <typename Self, typename Size>
class ConvTranspose : public Model<Self, Weighted> {
 public:
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

 protected:
  explicit ConvTranspose(ConvTransposeOptions<Size> options);

 private:
  void allocate(int64_t in_channels) const;

  ConvTransposeOptions<Size> options_;
};

class ConvTranspose1d final : public ConvTranspose<ConvTranspose1d, int64_t> {
 public:
  static constexpr std::string_view kName = "ConvTranspose1d";
  explicit ConvTranspose1d(RefusedNullptr);
  explicit ConvTranspose1d(ConvTransposeOptions<int64_t> options);
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, ConvTransposeOptions<int64_t> options);
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  ConvTransposeOptions<int64_t> options);
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
                  ConvTransposeOptions<int64_t> options);
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, int64_t stride,
                  int64_t padding, ConvTransposeOptions<int64_t> options);
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  int64_t stride = 1, int64_t padding = 0, int64_t output_padding = 0,
                  int64_t groups = 1, bool bias = true, int64_t dilation = 1,
                  Where where = Where::current());
};
class ConvTranspose2d final : public ConvTranspose<ConvTranspose2d, Size2d> {
 public:
  static constexpr std::string_view kName = "ConvTranspose2d";
  explicit ConvTranspose2d(RefusedNullptr);
  explicit ConvTranspose2d(ConvTransposeOptions<Size2d> options);
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, ConvTransposeOptions<Size2d> options);
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size,
                  ConvTransposeOptions<Size2d> options);
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
                  ConvTransposeOptions<Size2d> options);
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride,
                  Size2d padding, ConvTransposeOptions<Size2d> options);
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride = 1,
                  Size2d padding = 0, Size2d output_padding = 0, int64_t groups = 1,
                  bool bias = true, Size2d dilation = 1, Where where = Where::current());
};
class ConvTranspose3d final : public ConvTranspose<ConvTranspose3d, Size3d> {
 public:
  static constexpr std::string_view kName = "ConvTranspose3d";
  explicit ConvTranspose3d(ConvTransposeOptions<Size3d> options);
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, ConvTransposeOptions<Size3d> options);
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size,
                  ConvTransposeOptions<Size3d> options);
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
                  ConvTransposeOptions<Size3d> options);
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride,
                  Size3d padding, ConvTransposeOptions<Size3d> options);
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3d kernel_size, Size3d stride = 1,
                  Size3d padding = 0, Size3d output_padding = 0, int64_t groups = 1,
                  bool bias = true, Size3d dilation = 1, Where where = Where::current());
};

/// Returns the size in each dimension, for printing.
std::vector<int64_t> numbers(int64_t size);
std::vector<int64_t> numbers(Size2d size);
std::vector<int64_t> numbers(Size3d size);
/// Formats "kernel_size=3, stride=2, padding=1" without options that have their default.
std::string pool_options(const WindowOptions& windows);
std::string output_size_option(const std::vector<int64_t>& output_size);

namespace detail {
/// Returns the windows of the options of a pooling layer.
template <typename Options>
WindowOptions windows_of(const Options& o) {
  WindowOptions windows{numbers(o.kernel_size), numbers(o.kernel_size), {}, {}};
  if constexpr (requires { o.stride; }) windows.stride = numbers(o.stride.value_or(o.kernel_size));
  if constexpr (requires { o.padding; }) windows.padding = numbers(o.padding);
  if constexpr (requires { o.dilation; }) windows.dilation = numbers(o.dilation);
  return windows;
}
}  // namespace detail

/// Base of pooling layers; the options are those of the function in ops/pool.h.
template <typename Self, typename Options>
class Pool : public Stateless<Self> {
 public:
  using Size = decltype(Options::kernel_size);
  using Function = Variable(const Variable&, Options, Where);
  explicit Pool(Options options) : options_(options) {
    require_pool_windows(this->kind(), detail::windows_of(options), options.by_name.where);
  }
  explicit Pool(Size kernel_size, OptionalSize<Size> stride = {}, Size padding = 0,
                Where where = Where::current())
      : Pool(Options{
            .by_name = {where}, .kernel_size = kernel_size, .stride = stride, .padding = padding}) {
  }
  /// Takes the size of a window, and options by name: MaxPool2d(3, {.stride = 2}).
  Pool(Size kernel_size, Options options) : Pool((options.kernel_size = kernel_size, options)) {}
  /// PyTorch's order of AvgPool2d: AvgPool2d(3, 2, 1, true, false).
  template <std::same_as<bool> B>
  requires requires { &Options::count_include_pad; }
  Pool(Size kernel_size, OptionalSize<Size> stride, Size padding, B ceil_mode,
       bool count_include_pad = true, std::optional<int64_t> divisor_override = {},
       Where where = Where::current())
      : Pool(Options{.by_name = {where},
                     .kernel_size = kernel_size,
                     .stride = stride,
                     .padding = padding,
                     .ceil_mode = ceil_mode,
                     .count_include_pad = count_include_pad,
                     .divisor_override = divisor_override}) {}

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return Self::pool(x, options_, where);
  }
  std::string options() const override { return pool_options(detail::windows_of(options_)); }

 protected:
  Options options_;
};

struct MaxPool1d final : Pool<MaxPool1d, MaxPool1dOptions> {
  static constexpr std::string_view kName = "MaxPool1d";
  static constexpr Function* pool = max_pool1d;
  using Pool::Pool;
  /// Returns the maxima and their positions, for MaxUnpool1d.
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
};
struct MaxPool2d final : Pool<MaxPool2d, MaxPool2dOptions> {
  static constexpr std::string_view kName = "MaxPool2d";
  static constexpr Function* pool = max_pool2d;
  using Pool::Pool;
  /// Returns the maxima and their positions, for MaxUnpool2d.
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
  /// Returns whether a window, which may have gaps, may be entirely in the padding. Its result is
  /// -inf.
  bool has_windows_of_padding() const;
};
struct MaxPool3d final : Pool<MaxPool3d, MaxPool3dOptions> {
  static constexpr std::string_view kName = "MaxPool3d";
  static constexpr Function* pool = max_pool3d;
  using Pool::Pool;
  /// Returns the maxima and their positions, for MaxUnpool3d.
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
};
struct AvgPool1d final : Pool<AvgPool1d, AvgPool1dOptions> {
  static constexpr std::string_view kName = "AvgPool1d";
  static constexpr Function* pool = avg_pool1d;
  using Pool::Pool;
};
struct AvgPool2d final : Pool<AvgPool2d, AvgPool2dOptions> {
  static constexpr std::string_view kName = "AvgPool2d";
  static constexpr Function* pool = avg_pool2d;
  using Pool::Pool;
};
struct AvgPool3d final : Pool<AvgPool3d, AvgPool3dOptions> {
  static constexpr std::string_view kName = "AvgPool3d";
  static constexpr Function* pool = avg_pool3d;
  using Pool::Pool;
};

/// Computes (sum of x^p)^(1/p) over each window.
template <typename Self, typename Size>
class LPPool : public Stateless<Self> {
 public:
  using Function = Variable(const Variable&, LpPoolOptions<Size>, Where);
  explicit LPPool(LpPoolOptions<Size> options) : options_(options) {
    require_positive(this->kind(), ".norm_type", options.norm_type, options.by_name.where);
    require_windows(this->kind(), detail::windows_of(options), options.by_name.where);
  }
  template <typename P>
  requires std::is_arithmetic_v<P> LPPool(P norm_type, Size kernel_size,
                                          std::optional<Size> stride = {}, bool ceil_mode = false,
                                          Where where = Where::current())
      : LPPool(LpPoolOptions<Size>{.by_name = {where},
                                   .norm_type = double(norm_type),
                                   .kernel_size = kernel_size,
                                   .stride = stride,
                                   .ceil_mode = ceil_mode}) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return Self::pool(x, options_, where);
  }

 private:
  LpPoolOptions<Size> options_;
};

struct LPPool1d final : LPPool<LPPool1d, int64_t> {
  static constexpr Function* pool = lp_pool1d;
  using LPPool::LPPool;
};
struct LPPool2d final : LPPool<LPPool2d, Size2d> {
  static constexpr Function* pool = lp_pool2d;
  using LPPool::LPPool;
};
struct LPPool3d final : LPPool<LPPool3d, Size3d> {
  static constexpr Function* pool = lp_pool3d;
  using LPPool::LPPool;
};

/// Partial inverse of max pooling: forward() takes the values and indices that
/// max_pool*_with_indices returned.
template <typename Self, typename Size>
class MaxUnpool : public Stateless<Self> {
 public:
  using Function = Variable(const Variable&, const Variable&, MaxUnpoolOptions<Size>, Where);
  explicit MaxUnpool(MaxUnpoolOptions<Size> options) : options_(options) {
    require_windows(this->kind(), detail::windows_of(options), options.by_name.where);
  }
  explicit MaxUnpool(Size kernel_size, std::optional<Size> stride = {}, Size padding = 0,
                     Where where = Where::current())
      : MaxUnpool(MaxUnpoolOptions<Size>{
            .by_name = {where}, .kernel_size = kernel_size, .stride = stride, .padding = padding}) {
  }
  Variable forward(const Variable& x, const Variable& indices) const {
    return Self::unpool(x, indices, options_, ModuleCall::line());
  }

 private:
  MaxUnpoolOptions<Size> options_;
};

struct MaxUnpool1d final : MaxUnpool<MaxUnpool1d, int64_t> {
  static constexpr Function* unpool = max_unpool1d;
  using MaxUnpool::MaxUnpool;
};
struct MaxUnpool2d final : MaxUnpool<MaxUnpool2d, Size2d> {
  static constexpr Function* unpool = max_unpool2d;
  using MaxUnpool::MaxUnpool;
};
struct MaxUnpool3d final : MaxUnpool<MaxUnpool3d, Size3d> {
  static constexpr Function* unpool = max_unpool3d;
  using MaxUnpool::MaxUnpool;
};

namespace detail {
/// A size whose numbers may be None: {None, 7} keeps the height.
template <typename Size>
struct PooledSize {
  PooledSize(Size given) : size(given) {}
  template <std::integral N>
  requires(!std::same_as<N, Size>) PooledSize(N all) : size(int64_t(all)) {}
  template <std::convertible_to<std::optional<int64_t>>... N>
  requires(sizeof...(N) > 1) PooledSize(N... numbers)
      : size(std::optional<int64_t>(numbers).value_or(-1)...) {}

  Size size;
};
}  // namespace detail

/// Base of layers that pool to a given output size.
template <typename Self, typename Size>
class AdaptivePool : public Stateless<Self> {
 public:
  explicit AdaptivePool(detail::PooledSize<Size> output_size, Where where = Where::current())
      : output_size_(output_size.size) {
    for (const int64_t size : numbers(output_size_))
      require_from(this->kind(), "output_size", size, -1, where);  // -1 keeps the size
  }

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return Self::pool(x, output_size_, where);
  }
  std::string options() const override { return output_size_option(numbers(output_size_)); }

 protected:
  Size output_size_;
};

struct AdaptiveAvgPool1d final : AdaptivePool<AdaptiveAvgPool1d, int64_t> {
  static constexpr std::string_view kName = "AdaptiveAvgPool1d";
  static constexpr auto pool = adaptive_avg_pool1d;
  using AdaptivePool::AdaptivePool;
};
struct AdaptiveAvgPool2d final : AdaptivePool<AdaptiveAvgPool2d, Size2d> {
  static constexpr std::string_view kName = "AdaptiveAvgPool2d";
  static constexpr auto pool = adaptive_avg_pool2d;
  using AdaptivePool::AdaptivePool;
};
struct AdaptiveAvgPool3d final : AdaptivePool<AdaptiveAvgPool3d, Size3d> {
  static constexpr std::string_view kName = "AdaptiveAvgPool3d";
  static constexpr auto pool = adaptive_avg_pool3d;
  using AdaptivePool::AdaptivePool;
};
struct AdaptiveMaxPool1d final : AdaptivePool<AdaptiveMaxPool1d, int64_t> {
  static constexpr std::string_view kName = "AdaptiveMaxPool1d";
  static constexpr auto pool = adaptive_max_pool1d;
  using AdaptivePool::AdaptivePool;
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
};
struct AdaptiveMaxPool2d final : AdaptivePool<AdaptiveMaxPool2d, Size2d> {
  static constexpr std::string_view kName = "AdaptiveMaxPool2d";
  static constexpr auto pool = adaptive_max_pool2d;
  using AdaptivePool::AdaptivePool;
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
};
struct AdaptiveMaxPool3d final : AdaptivePool<AdaptiveMaxPool3d, Size3d> {
  static constexpr std::string_view kName = "AdaptiveMaxPool3d";
  static constexpr auto pool = adaptive_max_pool3d;
  using AdaptivePool::AdaptivePool;
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<Conv2d, Weighted, false>;

}  // namespace tapegrad::nn
