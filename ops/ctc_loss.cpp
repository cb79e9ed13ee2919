#include "ops/ctc_loss.h"

#include <algorithm>
#include <cmath>

#include "core/base/internal/host_values.h"
#include "core/base/internal/step_constant.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/loss_reduction.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(ctc_loss) ctc_loss{"ctc_loss"};

}  // namespace kernels

using namespace detail;

namespace {

struct CtcLoss {
  static constexpr std::string_view kName = "ctc_loss";
  Tensor labels;  // int64
  CtcBatch batch;
  Tensor gradients{};  // gradient of each example's loss, computed with the loss when recording

  Tensor forward(const Tensor& log_probs) {
    Tensor losses = Tensor::empty({log_probs.shape()[1]}, f64, log_probs.device());
    if (is_recording()) gradients = log_probs.empty_like(log_probs.shape());
    kernels::ctc_loss(log_probs.contiguous(), labels, batch, losses, gradients);
    return losses.to(log_probs.dtype());
  }
  Variable backward(const Variable& dy) const {
    require_first_order();
    const Variable along = reshape(dy, {1, dy.size(0), 1});
    return where(along == 0, 0, along * Variable(gradients));  // 0 even where the gradient is NaN
  }
};

/// Checks the arguments and returns the batch description, with the position of each example's
/// labels.
CtcBatch check(const Variable& log_probs, const Variable& targets,
               const std::vector<int64_t>& input_lengths,
               const std::vector<int64_t>& target_lengths, int64_t blank) {
  constexpr std::string_view kName = CtcLoss::kName;
  const int64_t steps = log_probs.shape()[0], n = log_probs.shape()[1];
  const int64_t classes = log_probs.shape()[2];
  if (!is_integer(targets.dtype()))
    fail<DTypeError>(kName, ": targets are ", targets.dtype(), ", not integers");
  check_same_device(kName, log_probs.value(), targets.value());
  if (blank < 0 || blank >= classes)
    fail<IndexError>(kName, ": blank ", blank, " is not one of ", classes, " classes");
  if (int64_t(input_lengths.size()) != n || int64_t(target_lengths.size()) != n)
    fail<ShapeError>(kName, ": ", input_lengths.size(), " input lengths and ",
                     target_lengths.size(), " target lengths for a batch of ", n);
  const bool rows = targets.rank() == 2;
  if ((!rows && targets.rank() != 1) || (rows && targets.shape()[0] != n))
    fail<ShapeError>(kName, ": targets [", n, ", longest] or one vector wanted: ", targets.shape());
  CtcBatch batch{input_lengths, target_lengths, {}, blank};
  int64_t labels = 0;
  for (size_t i = 0; i < size_t(n); ++i) {
    const int64_t in = input_lengths[i], out = target_lengths[i];
    if (in < 0 || in > steps)
      fail<ArgumentError>(kName, ": input length ", in, " of example ", i, " is not in [0, ", steps,
                          ']');
    if (out < 0 || (rows && out > targets.shape()[1]))
      fail<ArgumentError>(kName, ": target length ", out, " of example ", i, " for targets ",
                          targets.shape());
    batch.first_labels.push_back(rows ? int64_t(i) * targets.shape()[1] : labels);
    if (__builtin_add_overflow(labels, out, &labels) || (!rows && labels > targets.numel()))
      fail<ArgumentError>(kName, ": target lengths sum to more than the ", targets.numel(),
                          " targets");
  }
  if (!rows && labels != targets.numel())
    fail<ArgumentError>(kName, ": target lengths sum to ", labels, ", not to the ", targets.numel(),
                        " targets");
  return batch;
}

}  // namespace

Variable ctc_loss(const Variable& log_probs, const Variable& targets,
                  const std::vector<int64_t>& input_lengths,
                  const std::vector<int64_t>& target_lengths, CtcLossOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... args) { return ctc_loss(args...); }, where, log_probs,
                      targets, input_lengths, target_lengths, options);
  const CallLine line(where);
  constexpr std::string_view kName = CtcLoss::kName;
  check_floats(kName, log_probs);
  const bool single = log_probs.rank() == 2;
  if (!single && log_probs.rank() != 3)
    fail<ShapeError>(kName,
                     ": log_probs [t, n, classes] or [t, classes] wanted: ", log_probs.shape());
  const Variable inputs = single ? unsqueeze(log_probs, 1) : log_probs;
  CtcBatch batch = check(inputs, targets, input_lengths, target_lengths, options.blank);
  Variable losses =
      apply(CtcLoss{targets.value().to(i64).contiguous(), std::move(batch)}, where, inputs);
  if (options.zero_infinity) losses = tapegrad::where(losses == INFINITY, 0, losses);
  if (options.reduction == Reduction::kMean) {
    std::vector<double> lengths;
    for (const int64_t length : target_lengths)
      lengths.push_back(double(std::max<int64_t>(length, 1)));
    const TensorOptions same{.dtype = losses.dtype(), .device = losses.device()};
    losses = losses / Variable(step_constant([&] { return tensor(lengths, same).value(); }));
  }
  return reduced(single && options.reduction == Reduction::kNone ? squeeze(losses, 0) : losses,
                 options.reduction);
}

std::vector<int64_t> detail::ctc_lengths(const Variable& lengths) {
  return host_integers(lengths.value());
}

void catalog_ctc_loss(Catalog& catalog) {
  catalog.add(
      "ctc_loss(log_probs, targets, input_lengths: ints, target_lengths: ints, blank: int = 0, "
      "zero_infinity: bool = false, reduction: str = mean)",
      "-log of the sum over all alignments of exp(log_probs)",
      [](const Arguments& a) {
        return ctc_loss(a[0], a[1], a.integers("input_lengths"), a.integers("target_lengths"),
                        {.blank = a.integer("blank"),
                         .reduction = reduction_of(a),
                         .zero_infinity = a.flag("zero_infinity")});
      },
      {.max_order = 1});
}

}  // namespace tapegrad
