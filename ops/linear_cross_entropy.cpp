#include "ops/linear_cross_entropy.h"

#include <algorithm>
#include <array>

#include "core/autograd/derivatives.h"
#include "core/dispatch/kernels.h"
#include "core/tape/autocast.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/is_recorded.h"
#include "ops/internal/loss_reduction.h"
#include "ops/internal/operands.h"
#include "ops/internal/read_again.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

constexpr int64_t kFewestRows = 512;  // of a part, for the speed of its products

/// Rows [first, first + count) of a contiguous tensor.
Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  StridedLayout layout = x.layout();
  layout.shape[0] = count;
  layout.offset += first * layout.strides[0];
  return x.with_layout(layout);
}

/// x [rows, in], weight [classes, in], bias [classes] or empty.
struct LinearCrossEntropy {
  static constexpr std::string_view kName = "linear_cross_entropy";
  static constexpr size_t kRequired = 2;
  ReadAgain checked;  // the class ids: int64, in range
  ReadAgain weights;  // of the classes, in the dtype of x, or empty
  CrossEntropySpec spec;
  Reduction reduction;
  std::array<bool, 3> wanted;  // gradients
  SavedInput<0> x{};
  SavedInput<1> weight{};
  SavedInput<2> bias{};
  std::array<Tensor, 3> gradients{};  // of the loss
  auto saved() { return std::tie(x, weight, bias); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor &target = checked.value(kName), &factors = weights.value(kName);
    const int64_t rows = x.shape()[0], classes = weight.shape()[0];
    const int64_t most = std::min(rows, std::max(x.shape()[1], kFewestRows));
    Tensor losses = Tensor::full({rows}, 0, x.dtype(), x.device());
    Tensor y = x.empty_like({}), scale;
    if (reduction == Reduction::kMean) {
      scale = x.empty_like({});
      kernels::cross_entropy_reduce(y, losses, target, factors, spec.ignore_index, scale);
    }
    const bool has_gradients = wanted[0] || wanted[1] || wanted[2];
    const Tensor logits = x.empty_like({most, classes}), statistics = x.empty_like({2, most});
    const Tensor slopes = has_gradients ? x.empty_like({most, classes}) : Tensor();
    const Tensor one = has_gradients ? Tensor::full({}, 1, x.dtype(), x.device()) : Tensor();
    if (wanted[0]) gradients[0] = x.empty_like();
    for (int64_t first = 0; first < rows; first += most) {
      const int64_t count = std::min(most, rows - first);
      const Tensor some = rows_of(x, first, count), ids = rows_of(target, first, count);
      Tensor z = rows_of(logits, 0, count), of_rows = rows_of(losses, first, count);
      Tensor sums = statistics.with_layout({{2, count}, {count, 1}, 0});
      kernels::linear(some, weight, bias, {}, z);
      kernels::cross_entropy(as_pixels(z), ids, factors, spec, of_rows, sums);
      if (!has_gradients) continue;
      const Tensor dz = rows_of(slopes, 0, count);
      Tensor pixels = as_pixels(dz);
      kernels::cross_entropy_backward(as_pixels(z), ids, factors, spec, sums, one, scale, pixels);
      add_gradients(dz, some, weight, first);
    }
    kernels::cross_entropy_reduce(y, losses, target, factors, spec.ignore_index, scale);
    return y;
  }

  std::array<Variable, 3> backward(const Variable& dy) const {
    std::vector<Variable> inputs{x(), weight()};
    if (bias) inputs.push_back(bias());
    const Variable ids(checked.value(kName));
    const CrossEntropyOptions options{
        .weight = weights ? Variable(weights.value(kName)) : Variable(),
        .ignore_index = spec.ignore_index,
        .reduction = reduction,
        .label_smoothing = spec.label_smoothing};
    const auto two_ops = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
      const Variable z = linear(in[0], in[1], in.size() > 2 ? in[2] : Variable());
      return {cross_entropy(z, ids, options)};
    };
    std::vector<Variable> products =
        vjp(two_ops, inputs, std::vector<Variable>{dy}, {.create_graph = true}).products;
    products.resize(3);
    return {products[0], products[1], products[2]};
  }
  KernelGradients<3> kernel_backward(const Tensor& dy, Needs needs) const {
    KernelGradients<3> scaled;
    for (size_t i = 0; i < 3; ++i)
      if (needs[i]) scaled[i] = (Variable(gradients[i]) * Variable(dy)).value();
    return scaled;
  }

 private:
  void add_gradients(const Tensor& dz, const Tensor& x, const Tensor& weight, int64_t first) {
    auto& [dx, dw, db] = gradients;
    Tensor of_x = wanted[0] ? rows_of(dx, first, x.shape()[0]) : Tensor();
    Tensor of_weight = wanted[1] ? weight.empty_like() : Tensor();
    Tensor of_bias = wanted[2] ? weight.empty_like({weight.shape()[0]}) : Tensor();
    kernels::linear_backward(dz, {}, x, weight, {}, of_x, of_weight, of_bias);
    const auto add = [](const Tensor& part, Tensor& sum) {
      if (part && sum)
        kernels::accumulate(part, sum);
      else if (part)
        sum = part;
    };
    add(of_weight, dw);
    add(of_bias, db);
  }
};

/// Returns whether the op accepts the arguments; if not, linear() and cross_entropy() are called.
bool fits(const Variable& x, const Variable& weight, const Variable& target,
          const LinearCrossEntropyOptions& options) {
  const Variable& bias = options.linear_bias;
  return !is_autocast_enabled() && (x.dtype() == f32 || x.dtype() == f64) &&
         weight.dtype() == x.dtype() && weight.device() == x.device() && weight.rank() == 2 &&
         weight.size(1) == x.size(-1) && x.numel() > 0 && weight.numel() > 0 &&
         (!bias.defined() || (bias.shape() == Shape{weight.size(0)} && bias.dtype() == x.dtype() &&
                              bias.device() == x.device())) &&
         (!options.weight.defined() ||
          (options.weight.shape() == Shape{weight.size(0)} &&
           options.weight.device() == x.device() && !options.weight.requires_grad())) &&
         is_integer(target.dtype()) && target.device() == x.device() &&
         options.reduction != Reduction::kNone && options.label_smoothing >= 0 &&
         options.label_smoothing <= 1;
}

}  // namespace

Variable linear_cross_entropy(const Variable& x, const Variable& linear_weight,
                              const Variable& target, LinearCrossEntropyOptions options,
                              Where where) {
  constexpr std::string_view kName = LinearCrossEntropy::kName;
  const CallLine line(where);
  if (x.rank() < 1) fail<ShapeError>(kName, ": input [..., in] wanted: ", x.shape());
  const int64_t in = x.size(-1);
  Shape front;
  for (int i = 0; i + 1 < x.rank(); ++i) front.push_back(x.shape()[i]);
  const bool has_ids = is_integer(target.dtype());
  Shape wanted = front;
  if (!has_ids) wanted.push_back(linear_weight.size(0));
  if (target.shape() != wanted)
    fail<ShapeError>(kName, ": ", has_ids ? "class ids" : "class probabilities", " are ",
                     target.shape(), " for an input of ", x.shape(), ", not ", wanted);
  const Variable rows = reshape(x, {-1, in});
  const Variable ids = has_ids ? flatten(target) : reshape(target, {-1, linear_weight.size(0)});
  const Variable& bias = options.linear_bias;
  if (!fits(rows, linear_weight, ids, options)) {
    const Variable losses = cross_entropy(linear(rows, linear_weight, bias), ids,
                                          {.weight = options.weight,
                                           .ignore_index = options.ignore_index,
                                           .reduction = options.reduction,
                                           .label_smoothing = options.label_smoothing});
    return options.reduction == Reduction::kNone ? reshape(losses, front) : losses;
  }
  const Tensor checked = ids.value().to(i64).contiguous();
  kernels::check_classes(checked, kName, linear_weight.size(0), options.ignore_index);
  Tensor weights;
  if (options.weight.defined()) weights = options.weight.value().to(rows.dtype()).contiguous();
  return apply(LinearCrossEntropy{.checked = checked,
                                  .weights = weights,
                                  .spec = {options.ignore_index, options.label_smoothing},
                                  .reduction = options.reduction,
                                  .wanted = {is_recorded(rows), is_recorded(linear_weight),
                                             is_recorded(bias)}},
               where, rows.contiguous(), linear_weight.contiguous(), bias);
}

void catalog_linear_cross_entropy(Catalog& catalog) {
  catalog.add(
      "linear_cross_entropy(input, linear_weight, target, linear_bias?, weight?, "
      "ignore_index: int = -100, label_smoothing: float = 0.0, reduction: str = mean)",
      "cross_entropy(linear(input, linear_weight, linear_bias), target)", [](const Arguments& a) {
        return linear_cross_entropy(a[0], a[1], a[2],
                                    {.linear_bias = a[3],
                                     .weight = a[4],
                                     .reduction = reduction_of(a),
                                     .ignore_index = a.integer("ignore_index"),
                                     .label_smoothing = a.real("label_smoothing")});
      });
}

}  // namespace tapegrad
