#include "train/fit.h"

#include <algorithm>

#include "core/base/error.h"
#include "train/internal/fit_run.h"

namespace tapegrad {
namespace {

/// Throws ArgumentError if the model has parameters and no optimizer updates one of these.
void require_common_parameter(const nn::Module& model, const Optimizers& optimizers) {
  const std::vector<Variable> own = model.parameters();
  if (own.empty()) return;
  for (const optim::Optimizer* optimizer : optimizers)
    for (const Variable& param : optimizer->parameters())
      if (std::ranges::any_of(own, [&](const Variable& each) { return each.is_same(param); }))
        return;
  fail<ArgumentError>("fit: ", optimizers[0]->kind(), " updates no parameter of the model ",
                      model.kind(), ": construct the optimizer with this model");
}

void check(const nn::Module& model, const FitOptions& options, const Loader& data,
           const Optimizers& optimizers, const dist::AnyShardedOptimizer* sharded) {
  if (options.epochs < 0) fail<ArgumentError>("fit: epochs is negative: ", options.epochs);
  if (options.epochs > 0 && data.size() == 0)
    fail<ArgumentError>("fit: the loader has no batches: ", data.num_examples(), " examples");
  if (options.epochs > 0 && options.validation != nullptr && options.validation->size() == 0)
    fail<ArgumentError>("fit: the loader of .validation has no batches: ",
                        options.validation->num_examples(), " examples");
  if (optimizers.empty() || std::ranges::count(optimizers, nullptr) > 0)
    fail<ArgumentError>("fit: no optimizer");
  if (options.accumulate < 1)
    fail<ArgumentError>("fit: accumulate is ", options.accumulate, ", not at least 1");
  if (options.checkpoint_steps < 0)
    fail<ArgumentError>("fit: checkpoint_steps is negative: ", options.checkpoint_steps);
  if (options.checkpoint_epochs < 1)
    fail<ArgumentError>("fit: checkpoint_epochs is ", options.checkpoint_epochs,
                        ", not at least 1");
  require_batch_fn("fit", data, options.batch);
  if (!options.batch && sharded == nullptr) require_common_parameter(model, optimizers);
  if (options.batch && options.validation != nullptr &&
      (options.validation->item_type() == nullptr ||
       *options.validation->item_type() != *data.item_type()))
    fail<ArgumentError>("fit: the batches of .validation have other fields than the loader's");
}

/// Reads .validation_data for the lifetime of the object.
class ValidationReader {
 public:
  explicit ValidationReader(FitOptions& options) {
    const auto& [x, y] = options.validation_data.tensors;
    Loader* const given = options.validation_data.loader;
    if (!x.defined() && given == nullptr) return;
    if (options.validation != nullptr)
      fail<ArgumentError>("fit: both .validation and .validation_data are given");
    if (given != nullptr) {
      options.validation = given;
      return;
    }
    loader_.emplace(TensorDataset(x, y),
                    DeviceLoaderOptions{.batch_size = options.batch_size,
                                        .device = options.device.value_or(x.device())});
    options.validation = &*loader_;
  }

 private:
  std::optional<DeviceLoader> loader_;
};

void require_no_split(const FitOptions& options) {
  if (options.validation_split != 0)
    fail<ArgumentError>(
        "fit: .validation_split divides tensors; divide a data set with "
        "random_split()");
}

}  // namespace

History fit(nn::Module& model, Loader& data, const Optimizers& optimizers, FitOptions options) {
  return at_line(options.by_name.where, [&] {
    require_no_split(options);
    const ValidationReader validation(options);
    check(model, options, data, optimizers, nullptr);
    return FitRun(model, data, optimizers, nullptr, std::move(options)).run();
  });
}

History fit(nn::Module& model, Loader& data, dist::AnyShardedOptimizer& optimizer,
            FitOptions options) {
  return at_line(options.by_name.where, [&] {
    const Optimizers local{&optimizer.local_optimizer()};
    require_no_split(options);
    const ValidationReader validation(options);
    check(model, options, data, local, &optimizer);
    return FitRun(model, data, local, &optimizer, std::move(options)).run();
  });
}

ValidationData::ValidationData(Variable data, Variable target)
    : tensors{std::move(data), std::move(target)} {}
ValidationData::ValidationData(Example example) : tensors(std::move(example)) {}
ValidationData::ValidationData(Loader& batches) : loader(&batches) {}
ValidationData::ValidationData(const TensorDataset& set) : tensors{set.data(), set.target()} {}
History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options) {
  return fit(model, data, Optimizers{&optimizer}, std::move(options));
}
History fit(nn::Module& model, Loader&& data, optim::Optimizer& optimizer, FitOptions options) {
  return fit(model, data, optimizer, std::move(options));
}
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer& optimizer,
            FitOptions options) {
  return fit(model, x, y, Optimizers{&optimizer}, std::move(options));
}
History fit(nn::Module& model, Loader& data, optim::Optimizer&& optimizer, FitOptions options) {
  return fit(model, data, optimizer, std::move(options));
}
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer&& optimizer,
            FitOptions options) {
  return fit(model, x, y, optimizer, std::move(options));
}

}  // namespace tapegrad
