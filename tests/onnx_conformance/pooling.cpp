// Pooling with its windows.
#include <limits>

#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/pool.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/view.h"
#include "tests/onnx_conformance/windows.h"

namespace tapegrad::onnx_conformance {

Variable run_op(const std::string& name, size_t dims, Values inputs, Attributes attributes) {
  if (dims < 1 || dims > 3) throw Unsupported(name + " in " + std::to_string(dims) + " dimensions");
  const OpInfo& op = catalog().find(name + std::to_string(dims) + 'd');
  return op.call({.inputs = std::move(inputs), .attributes = std::move(attributes)}).at(0);
}

Windows::Windows(const Node& node, const Variable& x, const Variable& weight) {
  kernel = node.ints("kernel_shape");
  if (kernel.empty())
    for (int i = 2; i < weight.rank(); ++i) kernel.push_back(weight.size(i));
  stride = node.ints("strides", Ints(dims(), 1));
  dilation = node.ints("dilations", Ints(dims(), 1));
  const Ints pads = node.ints("pads", Ints(2 * dims(), 0));
  const std::string automatic = node.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < dims(); ++i) {
    const int64_t size = x.size(2 + int(i)), reach = (kernel[i] - 1) * dilation[i] + 1;
    int64_t low = pads[i], high = pads[i + dims()];
    if (automatic.starts_with("SAME")) {
      const int64_t wanted = (size + stride[i] - 1) / stride[i];
      const int64_t total = std::max<int64_t>((wanted - 1) * stride[i] + reach - size, 0);
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    before.push_back(low);
    after.push_back(high);
    const int64_t room = size + low + high - reach;
    sizes.push_back(
        (node.flag("ceil_mode", false) ? (room + stride[i] - 1) / stride[i] : room / stride[i]) +
        1);
  }
}

bool Windows::is_padded() const {
  return std::any_of(before.begin(), before.end(), [](int64_t n) { return n != 0; }) ||
         std::any_of(after.begin(), after.end(), [](int64_t n) { return n != 0; });
}

Ints Windows::amounts(const Variable& x, bool extended) const {
  Ints list;
  for (size_t i = dims(); i-- > 0;) {
    const int64_t reach = (kernel[i] - 1) * dilation[i] + 1, size = x.size(2 + int(i));
    const int64_t missing = (sizes[i] - 1) * stride[i] + reach - size - before[i];
    list.insert(list.end(), {before[i], extended ? std::max(missing, after[i]) : after[i]});
  }
  return list;
}

Variable convolution(const Node& node, const Variable& x, const Variable& weight,
                     const Variable& bias) {
  const Windows w(node, x, weight);
  return run_op(
      "conv", w.dims(), {w.is_padded() ? pad(x, w.amounts(x, false)) : x, weight, bias},
      {{"stride", w.stride}, {"dilation", w.dilation}, {"groups", node.integer("group", 1)}});
}

namespace {

using N = const Node&;

/// Average pooling by sums over windows, where padding counts or does not.
Variable averaged(N n) {
  const Windows w(n, n[0]);
  const Attributes windows{{"kernel_size", w.kernel}, {"stride", w.stride}};
  const auto means = [&](const Variable& x) { return run_op("avg_pool", w.dims(), {x}, windows); };
  Variable counted = ones_like(n[0]);
  if (n.flag("count_include_pad", false)) counted = pad(counted, w.amounts(n[0], false), 1.0);
  Ints rest = w.amounts(n[0], true);
  const Variable x = pad(n[0], rest);
  for (size_t i = 0; i < w.dims(); ++i) {  // from the padded sizes to those of x
    const int dim = x.rank() - 1 - int(i);
    if (counted.size(dim) != n[0].size(dim) || n.flag("count_include_pad", false)) rest[2 * i] = 0;
    rest[2 * i + 1] = x.size(dim) - counted.size(dim) - rest[2 * i];
  }
  return means(x) / means(pad(counted, rest));
}

Values largest(N n) {
  const Windows w(n, n[0]);
  const bool exact = is_float(n[0].dtype());
  const Variable wide = exact ? n[0] : n[0].to(f32);  // 8-bit values are exact
  const double low = -std::numeric_limits<double>::infinity();
  const Variable x = pad(wide, w.amounts(n[0], true), low);
  const Attributes windows{
      {"kernel_size", w.kernel}, {"stride", w.stride}, {"dilation", w.dilation}};
  Values y{run_op("max_pool", w.dims(), {x}, windows).to(n[0].dtype())};
  if (n.outputs < 2) return y;
  // Converts positions in a padded plane to positions in the whole of n[0].
  if (w.dims() != 2) throw Unsupported("MaxPool's indices of other than images");
  const Variable at = max_pool2d_with_indices(x, {.kernel_size = {w.kernel[0], w.kernel[1]},
                                                  .stride = Size2d(w.stride[0], w.stride[1]),
                                                  .dilation = {w.dilation[0], w.dilation[1]}})
                          .indices;
  const int64_t width = x.size(3), rows = n[0].size(2), columns = n[0].size(3);
  const Variable j = remainder(at, width), i = floor_divide(at, width) - w.before[0];
  const Variable column = j - w.before[1];
  const Variable in_plane =
      n.integer("storage_order", 0) != 0 ? column * rows + i : i * columns + column;
  const int64_t planes = n[0].size(0) * n[0].size(1);
  const Variable plane = reshape(arange(planes), {n[0].size(0), n[0].size(1), 1, 1});
  y.push_back(in_plane + plane * (rows * columns));
  return y;
}

/// Writes to the first positions of a larger result, if output_shape requests one.
Variable unpooled(N n) {
  const Ints kernel = n.ints("kernel_shape"), stride = n.ints("strides", Ints(kernel.size(), 1));
  const Ints pads = n.ints("pads", Ints(2 * kernel.size(), 0));
  Shape shape{n[0].size(0), n[0].size(1)};
  for (size_t i = 0; i < kernel.size(); ++i)
    shape.push_back((n[0].size(2 + int(i)) - 1) * stride[i] + kernel[i] - pads[i] -
                    pads[i + kernel.size()]);
  const Variable flat = zeros({numel(shape)}, {.dtype = n[0].dtype()});
  const int64_t count = n[0].numel();
  Variable y = reshape(scatter(flat, 0, reshape(n[1], {count}), reshape(n[0], {count})), shape);
  if (!n.has(2)) return y;
  const Ints wanted = n.ints_at(2);
  Ints amounts;
  for (int i = y.rank(); i-- > 0;)
    amounts.insert(amounts.end(), {0, wanted[size_t(i)] - y.size(i)});
  return pad(y, amounts);
}

std::function<Variable(N)> over_all(Variable (*f)(const Variable&, const Dims&, bool, Where)) {
  return [f](N n) {
    Dims dims;
    for (int i = 2; i < n[0].rank(); ++i) dims.push_back(i);
    return f(n[0], dims, /*keepdim=*/true, Where::current());
  };
}

}  // namespace

void add_pooling(Operators& table) {
  add(table, "AveragePool", averaged);
  add(table, "GlobalAveragePool", over_all(mean));
  add(table, "GlobalMaxPool", over_all(amax));
  add(table, "MaxUnpool", unpooled);
  table["MaxPool"] = largest;
}

}  // namespace tapegrad::onnx_conformance
