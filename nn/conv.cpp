#include "nn/conv.h"

#include <sstream>

namespace tapegrad::nn {
namespace {

std::ostream& operator<<(std::ostream& out, const Size2d& size) {
  if (size.height == size.width) return out << size.height;
  return out << '(' << size.height << ", " << size.width << ')';
}

std::string pool_options(Size2d kernel_size, const std::optional<Size2d>& stride, Size2d padding) {
  std::ostringstream text;
  text << "kernel_size=" << kernel_size;
  if (stride && *stride != kernel_size) text << ", stride=" << *stride;
  if (padding != Size2d(0)) text << ", padding=" << padding;
  return text.str();
}

}  // namespace

Conv2d::Conv2d(Conv2dOptions options) : Weighted(options.bias), options_(options) {
  require_option(kName, ".out_channels", options.out_channels);
  require_option(kName, ".kernel_size", options.kernel_size.height);
  require_option(kName, ".kernel_size", options.kernel_size.width);
  require_option(kName, ".groups", options.groups);
  if (options.out_channels % options.groups != 0)
    fail<ArgumentError>("Conv2d: ", options.groups, " groups do not divide ", options.out_channels,
                        " output channels");
  if (options.in_channels == 0) return;
  require_option(kName, ".in_channels", options.in_channels);
  allocate(weight_shape(options.in_channels));
}

Shape Conv2d::weight_shape(int64_t in_channels) const {
  if (in_channels % options_.groups != 0)
    fail<ArgumentError>("Conv2d: ", options_.groups, " groups do not divide ", in_channels,
                        " input channels");
  return {options_.out_channels, in_channels / options_.groups, options_.kernel_size.height,
          options_.kernel_size.width};
}

Variable Conv2d::forward(const Variable& x, Where where) const {
  if (!is_inferred()) [[unlikely]] {
    if (x.rank() != 4) fail<ShapeError>("Conv2d: an input is [n, c, h, w], not ", x.shape());
    allocate(weight_shape(x.size(1)));
  }
  return conv2d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups},
                where);
}

std::string Conv2d::options() const {
  std::ostringstream text;
  if (is_inferred()) text << "in_channels=" << weight.size(1) * options_.groups << ", ";
  text << "out_channels=" << options_.out_channels << ", kernel_size=" << options_.kernel_size;
  if (options_.stride != Size2d(1)) text << ", stride=" << options_.stride;
  if (options_.padding != Size2d(0)) text << ", padding=" << options_.padding;
  if (options_.dilation != Size2d(1)) text << ", dilation=" << options_.dilation;
  if (options_.groups != 1) text << ", groups=" << options_.groups;
  if (!bias) text << ", bias=false";
  return text.str();
}

std::string MaxPool2d::options() const {
  return pool_options(options_.kernel_size, options_.stride, options_.padding);
}
std::string AvgPool2d::options() const {
  return pool_options(options_.kernel_size, options_.stride, options_.padding);
}
std::string AdaptiveAvgPool2d::options() const {
  std::ostringstream text;
  text << "output_size=" << output_size_;
  return text.str();
}

}  // namespace tapegrad::nn
