// Normalization layers. The formulas are in ops/norm.h.
#pragma once

#include <concepts>
#include <optional>

#include "nn/module.h"
#include "nn/refused_nullptr.h"

namespace tapegrad::nn {

struct BatchNormOptions {
  ByName by_name = {};
  int64_t num_features = 0;  // channels; optional: taken from the first input
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: running statistics are the mean of all batches
  bool affine = true;                    // with weight (initially 1) and bias (0) per channel
  bool track_running_stats = true;       // if false, uses the batch's statistics even after eval()
  std::optional<DType> dtype = {};       // of the parameters; default_dtype() by default
  bool bias = true;                      // of affine
};

namespace detail {
/// An integer of a shape. g++ takes {.elementwise_affine = false} for an array of bool.
template <typename T>
concept SizeInteger = std::integral<T> && !std::same_as<T, bool>;
/// Returns the options of a call like BatchNorm2d(64, {.momentum = 0.01}): the number of channels,
/// and options by name.
template <typename Options>
Options with_features(int64_t num_features, Options options) {
  options.num_features = num_features;
  return options;
}
/// Returns the options of a call like LayerNorm(64, {.bias = false}): the normalized shape, and
/// options by name.
template <typename Options>
Options with_shape(const Shape& normalized_shape, Options options) {
  options.normalized_shape = normalized_shape;
  return options;
}
}  // namespace detail

/// Base of the layers that normalize channels (dimension 1). Self is one of the classes below.
///
/// In training, batch normalization uses the mean and variance of the batch, and moves the buffers
/// running_mean and running_var towards them. After eval() it uses the buffers.
template <typename Self>
class BatchNorm : public Model<Self> {
 public:
  Parameter weight, bias;
  Variable running_mean, running_var, num_batches_tracked;

  void members(Members& m) override;
  std::string options() const override;
  bool is_inferred() const override;
  std::optional<double> momentum() const { return options_.momentum; }
  /// Throws ArgumentError for a number outside [0, 1].
  void set_momentum(std::optional<double> momentum);
  /// Resets the running statistics to those of a new layer.
  void reset_running_stats();

 protected:
  explicit BatchNorm(BatchNormOptions options);
  Variable normalize(const Variable& x, Where where) const;

 private:
  void allocate(int64_t channels) const;

  BatchNormOptions options_;
};

/// Batch normalization for [n, c] or [n, c, l].
class BatchNorm1d final : public BatchNorm<BatchNorm1d> {
 public:
  static constexpr std::string_view kName = "BatchNorm1d";
  explicit BatchNorm1d(RefusedNullptr);
  explicit BatchNorm1d(BatchNormOptions options = {});
  BatchNorm1d(int64_t num_features, BatchNormOptions options);
  explicit BatchNorm1d(int64_t num_features, double eps = 1e-5,
                       std::optional<double> momentum = 0.1, bool affine = true,
                       bool track_running_stats = true, Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

/// Batch normalization for [n, c, h, w].
class BatchNorm2d final : public BatchNorm<BatchNorm2d> {
 public:
  static constexpr std::string_view kName = "BatchNorm2d";
  explicit BatchNorm2d(RefusedNullptr);
  explicit BatchNorm2d(BatchNormOptions options = {});
  BatchNorm2d(int64_t num_features, BatchNormOptions options);
  explicit BatchNorm2d(int64_t num_features, double eps = 1e-5,
                       std::optional<double> momentum = 0.1, bool affine = true,
                       bool track_running_stats = true, Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

/// Batch normalization for [n, c, d, h, w].
class BatchNorm3d final : public BatchNorm<BatchNorm3d> {
 public:
  static constexpr std::string_view kName = "BatchNorm3d";
  explicit BatchNorm3d(BatchNormOptions options = {});
  BatchNorm3d(int64_t num_features, BatchNormOptions options);
  explicit BatchNorm3d(int64_t num_features, double eps = 1e-5,
                       std::optional<double> momentum = 0.1, bool affine = true,
                       bool track_running_stats = true, Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

struct InstanceNormOptions {
  ByName by_name = {};
  int64_t num_features = 0;  // channels; optional if no parameter or buffer needs the number
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = false;
  bool track_running_stats = false;  // maintain running statistics, and use them after eval()
  bool bias = true;                  // of affine
};

/// Normalizes each channel of each example [n, c, l], or of one example [c, l].
class InstanceNorm1d final : public BatchNorm<InstanceNorm1d> {
 public:
  static constexpr std::string_view kName = "InstanceNorm1d";
  explicit InstanceNorm1d(InstanceNormOptions options = {});
  InstanceNorm1d(int64_t num_features, InstanceNormOptions options);
  explicit InstanceNorm1d(int64_t num_features, double eps = 1e-5, double momentum = 0.1,
                          bool affine = false, bool track_running_stats = false,
                          Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};
class InstanceNorm2d final : public BatchNorm<InstanceNorm2d> {
 public:
  static constexpr std::string_view kName = "InstanceNorm2d";
  explicit InstanceNorm2d(InstanceNormOptions options = {});
  InstanceNorm2d(int64_t num_features, InstanceNormOptions options);
  explicit InstanceNorm2d(int64_t num_features, double eps = 1e-5, double momentum = 0.1,
                          bool affine = false, bool track_running_stats = false,
                          Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};
class InstanceNorm3d final : public BatchNorm<InstanceNorm3d> {
 public:
  static constexpr std::string_view kName = "InstanceNorm3d";
  explicit InstanceNorm3d(InstanceNormOptions options = {});
  InstanceNorm3d(int64_t num_features, InstanceNormOptions options);
  explicit InstanceNorm3d(int64_t num_features, double eps = 1e-5, double momentum = 0.1,
                          bool affine = false, bool track_running_stats = false,
                          Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;
};

struct GroupNormOptions {
  int64_t num_groups = 0;    // required
  int64_t num_channels = 0;  // required; must be a multiple of num_groups
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;  // of affine
};
/// Normalizes each group of channels of each example.
class GroupNorm final : public Model<GroupNorm> {
 public:
  static constexpr std::string_view kName = "GroupNorm";
  explicit GroupNorm(RefusedNullptr);
  explicit GroupNorm(GroupNormOptions options, Where where = Where::current());
  /// Takes both sizes, and options by name: GroupNorm(8, 64, {.affine = false}).
  GroupNorm(int64_t num_groups, int64_t num_channels, GroupNormOptions options,
            Where where = Where::current());
  explicit GroupNorm(int64_t num_groups, int64_t num_channels, double eps = 1e-5,
                     bool affine = true, Where where = Where::current());

  void members(Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

  Parameter weight, bias;

 private:
  GroupNormOptions options_;
};

template <detail::SizeInteger Int, size_t n>
Shape to_shape(const Int (&sizes)[n]) {
  Shape shape;
  for (const Int size : sizes) shape.push_back(int64_t(size));
  return shape;
}

struct RMSNormOptions {
  Shape normalized_shape = {};     // sizes of the last dimensions; required
  std::optional<double> eps = {};  // by default the machine epsilon of the dtype
  bool elementwise_affine = true;
};
class RMSNorm final : public Model<RMSNorm> {
 public:
  static constexpr std::string_view kName = "RMSNorm";
  explicit RMSNorm(RMSNormOptions options, Where where = Where::current());
  explicit RMSNorm(int64_t size, Where where = Where::current());
  RMSNorm(int64_t size, RMSNormOptions options, Where where = Where::current());
  template <detail::SizeInteger Int, size_t n>
  explicit RMSNorm(const Int (&sizes)[n], Where where = Where::current())
      : RMSNorm(RMSNormOptions{.normalized_shape = to_shape(sizes)}, where) {}

  void members(Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;

  Parameter weight;

 private:
  RMSNormOptions options_;
};

/// Divides by a function of the squares of `size` neighbouring channels (Krizhevsky et al. 2012).
class LocalResponseNorm final : public Stateless<LocalResponseNorm> {
 public:
  static constexpr std::string_view kName = "LocalResponseNorm";
  explicit LocalResponseNorm(int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1.0,
                             Where where = Where::current());
  Variable forward(const Variable& x, Where where = Where::current()) const;

 private:
  int64_t size_;
  double alpha_, beta_, k_;
};

struct LayerNormOptions {
  Shape normalized_shape = {};  // sizes of the last dimensions; required
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
};
class LayerNorm final : public Model<LayerNorm> {
 public:
  static constexpr std::string_view kName = "LayerNorm";
  explicit LayerNorm(RefusedNullptr);
  explicit LayerNorm(LayerNormOptions options, Where where = Where::current());
  /// A template, so that `LayerNorm({{64}, 1e-6})` means the options.
  template <std::integral Int>
  explicit LayerNorm(Int size, double eps = 1e-5, Where where = Where::current())
      : LayerNorm(LayerNormOptions{.normalized_shape = {int64_t(size)}, .eps = eps}, where) {}
  /// Takes the size of the last dimension, and options by name: LayerNorm(64, {.bias = false}).
  template <std::integral Int>
  LayerNorm(Int size, LayerNormOptions options, Where where = Where::current())
      : LayerNorm(detail::with_shape({int64_t(size)}, options), where) {}
  template <detail::SizeInteger Int, size_t n>
  LayerNorm(const Int (&sizes)[n], LayerNormOptions options, Where where = Where::current())
      : LayerNorm(detail::with_shape(to_shape(sizes), options), where) {}
  /// Takes the last sizes: `LayerNorm({4, 64})`. An array, which g++ 12 does not confuse with named
  /// options.
  template <detail::SizeInteger Int, size_t n>
  explicit LayerNorm(const Int (&sizes)[n], double eps = 1e-5, Where where = Where::current())
      : LayerNorm(LayerNormOptions{.normalized_shape = to_shape(sizes), .eps = eps}, where) {}
  /// Takes all options by position: LayerNorm({4, 64}, 1e-6, false), LayerNorm(64, 1e-6, true).
  template <detail::SizeInteger Int, size_t n, std::same_as<bool> B>
  LayerNorm(const Int (&sizes)[n], double eps, B elementwise_affine, bool has_bias = true,
            Where where = Where::current())
      : LayerNorm(LayerNormOptions{to_shape(sizes), eps, elementwise_affine, has_bias}, where) {}
  template <std::integral Int, std::same_as<bool> B>
  LayerNorm(Int size, double eps, B elementwise_affine, bool has_bias = true,
            Where where = Where::current())
      : LayerNorm(LayerNormOptions{{int64_t(size)}, eps, elementwise_affine, has_bias}, where) {}
  template <std::same_as<std::vector<int64_t>> V>
  explicit LayerNorm(const V& sizes, double eps = 1e-5, Where where = Where::current())
      : LayerNorm(LayerNormOptions{.normalized_shape = sizes, .eps = eps}, where) {}

  void members(Members& m) override;
  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

  Parameter weight, bias;

 private:
  LayerNormOptions options_;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<BatchNorm2d, Module, false>;
extern template class Model<LayerNorm, Module, false>;

}  // namespace tapegrad::nn
