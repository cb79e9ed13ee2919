// fit() with tensors in place of a loader.
#include <utility>

#include "core/base/error.h"
#include "ops/view.h"
#include "train/fit.h"

namespace tapegrad {

History fit(nn::Module& model, const Variable& x, const Variable& y, const Optimizers& optimizers,
            FitOptions options) {
  const Where where = options.by_name.where;
  const TensorDataset all(x, y, where);
  const double split = std::exchange(options.validation_split, 0);
  if (!(split >= 0 && split < 1))
    fail_at<ArgumentError>(where, "fit: validation_split is ", split, ", not in [0, 1)");
  const auto count = int64_t(double(all.size()) * (1 - split));
  if (count < all.size()) {
    if (options.validation_data.tensors.data.defined() || options.validation_data.loader != nullptr)
      fail_at<ArgumentError>(where, "fit: both .validation_split and .validation_data are given");
    const auto rest = [&](const Variable& of) { return narrow(of, 0, count, all.size() - count); };
    options.validation_data = {rest(x), rest(y)};
  }
  DataLoader loader(all.take(count), {.batch_size = options.batch_size, .shuffle = options.shuffle},
                    where);
  return fit(model, loader, optimizers, std::move(options));
}

}  // namespace tapegrad
