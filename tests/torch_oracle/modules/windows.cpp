// Convolution, pooling, padding and resizing.
#include "nn/conv.h"
#include "nn/image.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

void convolutions(Recorder& record) {
  record("Conv1d(4, 6, 3)", nn::Conv1d({.in_channels = 4, .out_channels = 6, .kernel_size = 3}),
         record.normal({2, 4, 9}));
  record("Conv1d(4, 6, 3, 2, 1, 2, 2, bias=False)",
         nn::Conv1d({.in_channels = 4,
                     .out_channels = 6,
                     .kernel_size = 3,
                     .stride = 2,
                     .padding = 1,
                     .dilation = 2,
                     .groups = 2,
                     .bias = false}),
         record.normal({2, 4, 9}));
  record("Conv2d(3, 4, 3)", nn::Conv2d({.in_channels = 3, .out_channels = 4, .kernel_size = 3}),
         record.normal({2, 3, 6, 7}));
  record("Conv2d(4, 4, (3, 2), (2, 1), (1, 0), 1, 4)",
         nn::Conv2d({.in_channels = 4,
                     .out_channels = 4,
                     .kernel_size = {3, 2},
                     .stride = {2, 1},
                     .padding = {1, 0},
                     .groups = 4}),
         record.normal({2, 4, 6, 7}));
  record("Conv3d(2, 3, (2, 3, 2), 1, (0, 1, 1))",
         nn::Conv3d(
             {.in_channels = 2, .out_channels = 3, .kernel_size = {2, 3, 2}, .padding = {0, 1, 1}}),
         record.normal({2, 2, 4, 4, 5}));
  record("ConvTranspose1d(4, 6, 3, 2, 1, 1, 2)",
         nn::ConvTranspose1d({.in_channels = 4,
                              .out_channels = 6,
                              .kernel_size = 3,
                              .stride = 2,
                              .padding = 1,
                              .output_padding = 1,
                              .groups = 2}),
         record.normal({2, 4, 5}));
  record("ConvTranspose2d(3, 2, 3)",
         nn::ConvTranspose2d({.in_channels = 3, .out_channels = 2, .kernel_size = 3}),
         record.normal({2, 3, 4, 5}));
  record("ConvTranspose2d(3, 2, (3, 2), 2, 1, (1, 0), bias=False, dilation=(2, 1))",
         nn::ConvTranspose2d({.in_channels = 3,
                              .out_channels = 2,
                              .kernel_size = {3, 2},
                              .stride = 2,
                              .padding = 1,
                              .output_padding = {1, 0},
                              .bias = false,
                              .dilation = {2, 1}}),
         record.normal({2, 3, 4, 5}));
  record("ConvTranspose3d(2, 3, 2, 2)",
         nn::ConvTranspose3d({.in_channels = 2, .out_channels = 3, .kernel_size = 2, .stride = 2}),
         record.normal({2, 2, 2, 3, 2}));
}

void pools(Recorder& record) {
  const Shape line{2, 3, 9}, image{2, 3, 6, 7}, volume{2, 2, 4, 5, 6};
  record("MaxPool1d(2)", nn::MaxPool1d(2), record.normal(line));
  record("MaxPool1d(3, 2, 1, 2)",
         nn::MaxPool1d({.kernel_size = 3, .stride = 2, .padding = 1, .dilation = 2}),
         record.normal(line));
  record("MaxPool2d(2)", nn::MaxPool2d(2), record.normal(image));
  record("MaxPool2d((3, 2), (2, 1), (1, 0), ceil_mode=True)",
         nn::MaxPool2d(
             {.kernel_size = {3, 2}, .stride = Size2d{2, 1}, .padding = {1, 0}, .ceil_mode = true}),
         record.normal(image));
  record("MaxPool3d(2)", nn::MaxPool3d(2), record.normal(volume));
  record("MaxPool3d(3, 2, 1)", nn::MaxPool3d({.kernel_size = 3, .stride = 2, .padding = 1}),
         record.normal(volume));
  record("AvgPool1d(3, 2, 1)", nn::AvgPool1d({.kernel_size = 3, .stride = 2, .padding = 1}),
         record.normal(line));
  record("AvgPool2d(2)", nn::AvgPool2d(2), record.normal(image));
  record("AvgPool2d((3, 2), 2, (1, 0), True, False)",
         nn::AvgPool2d({.kernel_size = {3, 2},
                        .stride = 2,
                        .padding = {1, 0},
                        .ceil_mode = true,
                        .count_include_pad = false}),
         record.normal(image));
  record("AvgPool3d(2, 2, 1)", nn::AvgPool3d({.kernel_size = 2, .stride = 2, .padding = 1}),
         record.normal(volume));
  record("LPPool1d(2, 3, 2)", nn::LPPool1d({.norm_type = 2, .kernel_size = 3, .stride = 2}),
         record.positive(line));
  record("LPPool2d(3, 2)", nn::LPPool2d({.norm_type = 3, .kernel_size = 2}),
         record.positive(image));
  record("AdaptiveAvgPool1d(4)", nn::AdaptiveAvgPool1d(4), record.normal(line));
  record("AdaptiveAvgPool2d((3, 2))", nn::AdaptiveAvgPool2d({3, 2}), record.normal(image));
  record("AdaptiveAvgPool3d((2, 3, 4))", nn::AdaptiveAvgPool3d({2, 3, 4}), record.normal(volume));
  record("AdaptiveMaxPool1d(4)", nn::AdaptiveMaxPool1d(4), record.normal(line));
  record("AdaptiveMaxPool2d((3, 2))", nn::AdaptiveMaxPool2d({3, 2}), record.normal(image));
  record("AdaptiveMaxPool3d((2, 3, 4))", nn::AdaptiveMaxPool3d({2, 3, 4}), record.normal(volume));

  const auto pooled = max_pool2d_with_indices(record.normal({2, 3, 6, 8}), {.kernel_size = 2});
  record("MaxUnpool2d(2)", nn::MaxUnpool2d({.kernel_size = 2}), record.normal({2, 3, 3, 4}),
         pooled.indices);
  const auto pooled1 = max_pool1d_with_indices(record.normal({2, 3, 8}), {.kernel_size = 2});
  record("MaxUnpool1d(2)", nn::MaxUnpool1d({.kernel_size = 2}), record.normal({2, 3, 4}),
         pooled1.indices);
  const auto pooled3 = max_pool3d_with_indices(record.normal({1, 2, 4, 4, 6}), {.kernel_size = 2});
  record("MaxUnpool3d(2)", nn::MaxUnpool3d({.kernel_size = 2}), record.normal({1, 2, 2, 2, 3}),
         pooled3.indices);
}

void paddings(Recorder& record) {
  const Shape line{2, 3, 5}, image{2, 3, 4, 5}, volume{1, 2, 3, 4, 5};
  record("ConstantPad1d((1, 2), 0.5)", nn::ConstantPad1d({1, 2}, 0.5), record.normal(line));
  record("ConstantPad2d((1, -1, 0, 2), 0.5)", nn::ConstantPad2d({1, -1, 0, 2}, 0.5),
         record.normal(image));
  record("ConstantPad3d(1, -2.0)", nn::ConstantPad3d(1, -2), record.normal(volume));
  record("ZeroPad2d((1, 0, 2, 1))", nn::ZeroPad2d({1, 0, 2, 1}), record.normal(image));
  record("ReflectionPad1d((1, 2))", nn::ReflectionPad1d({1, 2}), record.normal(line));
  record("ReflectionPad2d((1, 2, 3, 0))", nn::ReflectionPad2d({1, 2, 3, 0}), record.normal(image));
  record("ReflectionPad3d((1, 2, 3, 0, 1, 1))", nn::ReflectionPad3d({1, 2, 3, 0, 1, 1}),
         record.normal(volume));
  record("ReplicationPad1d((1, 2))", nn::ReplicationPad1d({1, 2}), record.normal(line));
  record("ReplicationPad2d((1, 2, 3, 0))", nn::ReplicationPad2d({1, 2, 3, 0}),
         record.normal(image));
  record("ReplicationPad3d((1, 2, 3, 0, 1, 1))", nn::ReplicationPad3d({1, 2, 3, 0, 1, 1}),
         record.normal(volume));
}

void images(Recorder& record) {
  const Shape image{2, 3, 4, 5};
  record("Upsample(scale_factor=2)", nn::Upsample({.scale_factor = 2.0}), record.normal(image));
  record("Upsample((7, 3), mode='bilinear')",
         nn::Upsample({.size = {7, 3}, .mode = SampleMode::kLinear}), record.normal(image));
  record("Upsample((7, 3), mode='bilinear', align_corners=True)",
         nn::Upsample({.size = {7, 3}, .mode = SampleMode::kLinear, .align_corners = true}),
         record.normal(image));
  record("Upsample(scale_factor=1.5, mode='bicubic')",
         nn::Upsample({.scale_factor = 1.5, .mode = SampleMode::kCubic}), record.normal(image));
  record("Upsample(9, mode='linear')", nn::Upsample({.size = {9}, .mode = SampleMode::kLinear}),
         record.normal({2, 3, 5}));
  record("Upsample(scale_factor=2, mode='trilinear')",
         nn::Upsample({.scale_factor = 2.0, .mode = SampleMode::kLinear}),
         record.normal({1, 2, 2, 3, 4}));
  record("PixelShuffle(2)", nn::PixelShuffle(2), record.normal({2, 8, 3, 4}));
  record("PixelUnshuffle(2)", nn::PixelUnshuffle(2), record.normal({2, 2, 4, 6}));
  record("ChannelShuffle(2)", nn::ChannelShuffle(2), record.normal({2, 6, 3, 4}));
  record("Unfold(3, 1, 1, 2)", nn::Unfold({.kernel_size = 3, .padding = 1, .stride = 2}),
         record.normal(image));
  record("Fold((4, 5), (2, 3))", nn::Fold({4, 5}, {.kernel_size = {2, 3}}),
         record.normal({2, 18, 9}));
}

}  // namespace

void window_rows(Recorder& record) {
  convolutions(record);
  pools(record);
  paddings(record);
  images(record);
}

}  // namespace tapegrad::torch_oracle
