#include "backends/cuda/cudnn/pool.h"

#include "backends/cuda/cudnn/image_graphs.h"

namespace tapegrad::backends::cuda {
namespace {

using Pair = std::array<int64_t, 2>;

Pair pair(Size2d size) { return {size.height, size.width}; }

/// Windows that divide images evenly.
Graph::Windows even(cudnnResampleMode_t mode, const Pair& in, const Pair& out) {
  const Pair size{in[0] / out[0], in[1] / out[1]};
  return {mode, size, size, {0, 0}};
}
Graph::Windows windows_of(const MaximumWindows& w, const Pair& in, const Pair& out) {
  const MaxPool2dOptions& o = w.options;
  if (w.adaptive) return even(CUDNN_RESAMPLE_MAXPOOL, in, out);
  return {CUDNN_RESAMPLE_MAXPOOL, pair(o.kernel_size), pair(o.stride.value_or(o.kernel_size)),
          pair(o.padding)};
}
Graph::Windows windows_of(const AverageWindows& w, const Pair& in, const Pair& out) {
  const AvgPool2dOptions& o = w.options;
  if (w.adaptive) return even(CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING, in, out);
  return {o.count_include_pad ? CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING
                              : CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING,
          pair(o.kernel_size), pair(o.stride.value_or(o.kernel_size)), pair(o.padding)};
}

bool is_dilated(const MaximumWindows& w) { return !w.adaptive && w.options.dilation != Size2d(1); }
bool is_dilated(const AverageWindows&) { return false; }

Graph::Sizes sizes_of(const Tensor& x, ImageLayout layout) {
  const Shape& s = x.shape();
  return layout == ImageLayout::kChannelsLast ? Graph::Sizes{s[0], s[3], s[1], s[2]}
                                              : Graph::Sizes{s[0], s[1], s[2], s[3]};
}

/// Returns the pooling problem, or nullopt if cuDNN should not be used. x is the pooled tensor or
/// its gradient.
template <typename Windows>
std::optional<PoolProblem> problem_of(const Tensor& x, const Windows& windows, const Tensor& y,
                                      ImageLayout layout) {
  if (!is_cudnn_wanted() || x.dtype() == f64 || is_dilated(windows) || !is_fit_for_cudnn(x) ||
      !is_fit_for_cudnn(y))
    return {};
  const bool last = layout == ImageLayout::kChannelsLast;
  const Graph::Sizes from = sizes_of(x, layout), to = sizes_of(y, layout);
  if (x.numel() < (last ? kFewestPooledLast : kFewestPooled) || (last && from[1] % 8 != 0))
    return {};
  const Pair in{from[2], from[3]}, out{to[2], to[3]};
  const Graph::Windows w = windows_of(windows, in, out);
  for (size_t d = 0; d < 2; ++d) {
    if (windows.adaptive && in[d] % out[d] != 0) return {};
    if ((out[d] - 1) * w.stride[d] + w.size[d] > in[d] + 2 * w.padding[d]) return {};
  }
  const cudnnDataType_t type = cudnn_type(x.dtype());
  const auto form = [&](const Graph::Sizes& sizes) {
    return last ? Graph::channels_last(sizes, type) : Graph::dense(sizes, type);
  };
  return PoolProblem{w, form(from), form(to)};
}

const GraphPlan* plan_for(const PoolProblem& p, bool backward, const CudnnUse& use) {
  GraphKey key(backward ? GraphKind::kPoolBackward : GraphKind::kPool);
  key.add(p.x).add(p.y).add(p.windows.mode);
  for (const Pair& size : {p.windows.size, p.windows.stride, p.windows.padding})
    key.add(size[0]).add(size[1]);
  return plan_of(use, key, [&](GraphTarget target) {
    return backward ? plan_pool_backward(p, target) : plan_pool(p, target);
  });
}

template <typename Windows>
bool pool(const Tensor& x, const Windows& windows, Tensor& y, ImageLayout layout) {
  const auto problem = problem_of(x, windows, y, layout);
  if (!problem) return false;
  const CudnnUse use(x.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/false, use);
  const void* const addresses[] = {address_of(x), address_of(y)};
  return plan != nullptr && plan->run(use, addresses);
}

}  // namespace

bool cudnn_max_pool2d(const Tensor& x, const MaximumWindows& windows, Tensor& y,
                      ImageLayout layout) {
  return pool(x, windows, y, layout);
}
bool cudnn_avg_pool2d(const Tensor& x, const AverageWindows& windows, Tensor& y,
                      ImageLayout layout) {
  return pool(x, windows, y, layout);
}

bool cudnn_avg_pool2d_backward(const Tensor& dy, const AverageWindows& windows, Tensor& dx,
                               ImageLayout layout) {
  const auto problem = problem_of(dx, windows, dy, layout);
  if (!problem) return false;
  const CudnnUse use(dx.device());
  if (!use) return false;
  const GraphPlan* plan = plan_for(*problem, /*backward=*/true, use);
  // The gradients' memory stands in for x and y, which average pooling does not read.
  const void* const addresses[] = {address_of(dx), address_of(dy), address_of(dy), address_of(dx)};
  return plan != nullptr && plan->run(use, addresses);
}

}  // namespace tapegrad::backends::cuda
