// fit() and evaluate() with batches of any fields from an ItemLoader: two inputs, lengths, masks,
// boxes. A function computes the loss of a batch.
//
//   struct Pair { Variable left, right, same; };
//   ItemLoader pairs(items, {.batch_size = 32, .shuffle = true});
//   auto step = [](Siamese& model, Pair& batch) {
//     Variable logits = model(batch.left, batch.right);
//     return BatchResult(bce(logits, batch.same), logits, batch.same);   // or just the loss
//   };
//   fit(model, pairs, optimizer, step, {.epochs = 3, .validation = &other_pairs});
//   evaluate(model, other_pairs, step);
//
// Checkpoints, accumulation, clipping, mixed precision, callbacks, metrics and averages work as for
// Examples; a validation loader has batches of the same type. With .device, the Variables of a
// batch are moved. The option .graph is not supported. Batches of two Variables are Examples, which
// fit() also accepts without a function.
#pragma once

#include "data/item_loader.h"
#include "train/fit.h"

namespace tapegrad {

namespace detail {
template <typename M, typename Items, typename Fn>
BatchFn batch_fn(Fn fn, std::optional<Device> device) {
  return [fn = std::move(fn), device](nn::Module& model, void* item) mutable -> BatchResult {
    auto& batch = *static_cast<typename Items::Batch*>(item);
    if (device) move_fields(batch, *device);
    return fn(static_cast<M&>(model), batch);
  };
}
template <typename Fn, typename M, typename Items>
concept FunctionOfBatch = std::is_invocable_v<Fn&, M&, typename Items::Batch&>;
}  // namespace detail

/// `fn(model, batch)` returns the mean loss, or a BatchResult.
template <std::derived_from<nn::Module> M, typename Data, typename Collate,
          detail::FunctionOfBatch<M, ItemLoader<Data, Collate>> Fn>
History fit(M& model, ItemLoader<Data, Collate>& items, const Optimizers& optimizers, Fn fn,
            FitOptions options = {}) {
  options.batch = detail::batch_fn<M, ItemLoader<Data, Collate>>(std::move(fn), options.device);
  return fit(static_cast<nn::Module&>(model), static_cast<Loader&>(items), optimizers,
             std::move(options));
}
template <std::derived_from<nn::Module> M, typename Data, typename Collate,
          detail::FunctionOfBatch<M, ItemLoader<Data, Collate>> Fn>
History fit(M& model, ItemLoader<Data, Collate>& items, optim::Optimizer& optimizer, Fn fn,
            FitOptions options = {}) {
  return fit(model, items, Optimizers{&optimizer}, std::move(fn), std::move(options));
}

template <std::derived_from<nn::Module> M, typename Data, typename Collate,
          detail::FunctionOfBatch<M, ItemLoader<Data, Collate>> Fn>
History fit(M& model, ItemLoader<Data, Collate>& items, dist::AnyShardedOptimizer& optimizer, Fn fn,
            FitOptions options = {}) {
  options.batch = detail::batch_fn<M, ItemLoader<Data, Collate>>(std::move(fn), options.device);
  return fit(static_cast<nn::Module&>(model), static_cast<Loader&>(items), optimizer,
             std::move(options));
}

template <std::derived_from<nn::Module> M, typename Data, typename Collate,
          detail::FunctionOfBatch<M, ItemLoader<Data, Collate>> Fn>
Evaluation evaluate(M& model, ItemLoader<Data, Collate>& items, Fn fn,
                    EvaluateOptions options = {}) {
  options.batch = detail::batch_fn<M, ItemLoader<Data, Collate>>(std::move(fn), options.device);
  return evaluate(static_cast<nn::Module&>(model), static_cast<Loader&>(items), std::move(options));
}

}  // namespace tapegrad
