// Layers of Keras. Their constructors give a compile error with the spelling to use instead.
#pragma once

#include "nn/sequential.h"

namespace tapegrad::nn {

/// Sequential under Flux's name.
using Chain = Sequential;

namespace detail {
/// A Sequential accepts these layers, so that the constructor's message is the only error.
template <typename Self>
struct Refused : Stateless<Self> {
  Variable forward(const Variable& x) const;
};
template <typename... Xs>
inline constexpr bool kNone = sizeof...(Xs) > 1000;
}  // namespace detail

struct Dense : detail::Refused<Dense> {
  /// Constructor for Dense(2, 3, tanh), where tanh names several functions.
  template <typename Op = detail::OneOperandOp>
  Dense(int64_t, int64_t, Op*) {
    static_assert(detail::kNone<Op> && sizeof(Op*) == 0,
                  "nn::Dense(2, 3, tanh): type nn::Linear(2, 3), nn::Tanh()");
  }
  template <typename... Xs>
  Dense(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::Dense(10): type nn::Linear(inputs, 10), or nn::Linear({.out_features = 10}) "
                  "where the inputs are taken from the first call");
  }
};
struct Conv2D : detail::Refused<Conv2D> {
  template <typename... Xs>
  Conv2D(Xs...) {
    static_assert(
        detail::kNone<Xs...>,
        "nn::Conv2D(32, 3): type nn::Conv2d(channels, 32, 3), or nn::Conv2d({.out_channels "
        "= 32, .kernel_size = 3}) where the channels are taken from the first call");
  }
};
struct MaxPooling2D : detail::Refused<MaxPooling2D> {
  template <typename... Xs>
  MaxPooling2D(Xs...) {
    static_assert(detail::kNone<Xs...>, "nn::MaxPooling2D(2): type nn::MaxPool2d(2)");
  }
};
struct AveragePooling2D : detail::Refused<AveragePooling2D> {
  template <typename... Xs>
  AveragePooling2D(Xs...) {
    static_assert(detail::kNone<Xs...>, "nn::AveragePooling2D(2): type nn::AvgPool2d(2)");
  }
};
struct GlobalAveragePooling2D : detail::Refused<GlobalAveragePooling2D> {
  template <typename... Xs>
  GlobalAveragePooling2D(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::GlobalAveragePooling2D(): type nn::AdaptiveAvgPool2d(1), nn::Flatten()");
  }
};
struct BatchNormalization : detail::Refused<BatchNormalization> {
  template <typename... Xs>
  BatchNormalization(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::BatchNormalization(): type nn::BatchNorm2d() for images, nn::BatchNorm1d() "
                  "for rows; images are [batch, channels, height, width]");
  }
};
struct LayerNormalization : detail::Refused<LayerNormalization> {
  template <typename... Xs>
  LayerNormalization(Xs...) {
    static_assert(detail::kNone<Xs...>, "nn::LayerNormalization(): type nn::LayerNorm(features)");
  }
};
struct LazyLinear : detail::Refused<LazyLinear> {
  template <typename... Xs>
  LazyLinear(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::LazyLinear(10): type nn::Linear({.out_features = 10})");
  }
};
struct LazyConv2d : detail::Refused<LazyConv2d> {
  template <typename... Xs>
  LazyConv2d(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::LazyConv2d(32, 3): type nn::Conv2d({.out_channels = "
                  "32, .kernel_size = 3})");
  }
};
/// Other lazy layers of PyTorch.
struct RefusedLazy : detail::Refused<RefusedLazy> {
  template <typename... Xs>
  RefusedLazy(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::Lazy...: take the layer without Lazy and leave out the size: "
                  "nn::BatchNorm2d(), nn::Conv1d({.out_channels = 32, .kernel_size = 3})");
  }
};
using LazyConv1d = RefusedLazy;
using LazyConv3d = RefusedLazy;
using LazyConvTranspose1d = RefusedLazy;
using LazyConvTranspose2d = RefusedLazy;
using LazyConvTranspose3d = RefusedLazy;
using LazyBatchNorm1d = RefusedLazy;
using LazyBatchNorm2d = RefusedLazy;
using LazyBatchNorm3d = RefusedLazy;
using LazyInstanceNorm1d = RefusedLazy;
using LazyInstanceNorm2d = RefusedLazy;
using LazyInstanceNorm3d = RefusedLazy;
struct SyncBatchNorm : detail::Refused<SyncBatchNorm> {
  template <typename... Xs>
  SyncBatchNorm(Xs...) {
    static_assert(detail::kNone<Xs...>,
                  "nn::SyncBatchNorm: type dist::SyncBatchNorm (docs/scale_out.md)");
  }
};
struct Input : detail::Refused<Input> {
  template <typename... Xs>
  Input(Xs...) {
    static_assert(
        detail::kNone<Xs...>,
        "nn::Input(...): write nn::Sequential({layers ...}, {.input_shape = {1, 28, 28}})");
  }
};

}  // namespace tapegrad::nn
