#include "nn/weight_norm.h"

#include <cmath>

#include "core/tape/internal/leaf_changes.h"
#include "core/tape/recording.h"
#include "nn/internal/weight_parts.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn::detail {

/// Replaces the handle of the weight: the value may be computed and no parameter. A captured step
/// that reads the weight, or the parameters it is computed from, is recorded again.
static void set_weight(Weighted& layer, const Variable& w, std::initializer_list<Variable> read) {
  for (const Variable& x : read)
    if (x.defined()) tapegrad::detail::note_leaf_change(x.value().storage());
  static_cast<Variable&>(layer.weight) = w;
}

void WeightParts::check(const Weighted& layer, std::string_view function, std::string_view name,
                        int dim) {
  if (name != "weight")
    fail<ArgumentError>(function, ": \"", name, "\"; only the weight is computed");
  if (!layer.is_inferred())
    fail<ArgumentError>(function, ": the size of the weight of ", layer.kind(),
                        " is not known; give its input size, or run the layer once");
  if (layer.parts_ != nullptr)
    fail<ArgumentError>(function, ": the weight of ", layer.kind(), " is computed already");
  if (dim < -1 || dim >= layer.weight.rank())
    fail<IndexError>(function, ": dim ", dim, " of a weight ", layer.weight.shape());
}

void WeightParts::weight_norm(Weighted& layer, std::string_view name, int dim) {
  check(layer, "weight_norm", name, dim);
  std::shared_ptr<WeightParts> parts(new WeightParts(dim));
  const Variable w = layer.weight.detach();
  const NoGrad no_grad;
  parts->g_ = parts->norm_of(w).requires_grad_();
  parts->v_ = w.clone().requires_grad_();
  set_weight(layer, w, {w});
  layer.parts_ = std::move(parts);
}

void WeightParts::spectral_norm(Weighted& layer, std::string_view name, int64_t n_power_iterations,
                                double eps, std::optional<int> dim) {
  const int rows = dim.value_or(layer.kind().starts_with("ConvTranspose") ? 1 : 0);
  check(layer, "spectral_norm", name, rows);
  if (n_power_iterations < 1 || n_power_iterations > 1000 || rows < 0)
    fail<ArgumentError>("spectral_norm: ", n_power_iterations,
                        " n_power_iterations, not from 1 to 1000, or a dim of ", rows);
  std::shared_ptr<WeightParts> parts(new WeightParts(rows));
  parts->iterations_ = n_power_iterations;
  parts->eps_ = eps;
  const NoGrad no_grad;
  const Variable w = layer.weight.detach();
  parts->original_ = w.clone().requires_grad_();
  const Variable matrix = parts->as_matrix(w);
  const TensorOptions like{.dtype = w.dtype(), .device = w.device()};
  parts->vectors_["_u"] = normalize(randn({matrix.size(0)}, like), 2.0, 0, eps);
  parts->vectors_["_v"] = normalize(randn({matrix.size(1)}, like), 2.0, 0, eps);
  parts->iterate(matrix, 15);
  set_weight(layer, parts->compute(false).detach(), {w});
  layer.parts_ = std::move(parts);
}

void WeightParts::remove(Weighted& layer) {
  if (layer.parts_ == nullptr)
    fail<ArgumentError>("remove: the weight of ", layer.kind(), " is not computed");
  const NoGrad no_grad;
  const WeightParts& parts = *layer.parts_;
  set_weight(layer, layer.parts_->compute(false).detach().clone().requires_grad_(),
             {parts.original_, parts.g_, parts.v_});
  layer.parts_.reset();
}

void WeightParts::prune(Weighted& layer, std::string_view function, std::string_view name,
                        utils::prune::Amount amount, bool at_random) {
  if (!is_pruned(layer)) check(layer, function, name, 0);
  if (name != "weight")
    fail<ArgumentError>(function, ": \"", name, "\"; only the weight is pruned");
  const NoGrad no_grad;
  const Variable& w = is_pruned(layer) ? layer.parts_->original_ : layer.weight;
  const Variable mask = is_pruned(layer) ? layer.parts_->mask_.clone() : ones_like(w);
  const Variable kept = squeeze(nonzero(flatten(mask)), 1);
  const int64_t count = amount.of(kept.numel());
  if (count > 0) {
    const Variable size = at_random ? rand_like(w) : abs(w);
    const Variable order = argsort(index_select(flatten(size), 0, kept), 0);
    Variable flat = flatten(mask);
    flat.index_fill_(0, index_select(kept, 0, narrow(order, 0, 0, count)), 0);
  }
  std::shared_ptr<WeightParts> parts = layer.parts_;
  if (parts == nullptr) {
    parts.reset(new WeightParts(0));
    parts->original_ = w;
  }
  parts->mask_ = mask;
  set_weight(layer, parts->compute(false).detach(), {w});
  layer.parts_ = std::move(parts);
}

bool WeightParts::is_pruned(const Weighted& layer) {
  return layer.parts_ != nullptr && layer.parts_->mask_.defined();
}

void WeightParts::remove_mask(Weighted& layer, std::string_view name) {
  if (name != "weight" || !is_pruned(layer))
    fail<ArgumentError>("remove: the ", name, " of ", layer.kind(), " is not pruned");
  const NoGrad no_grad;
  Variable original = layer.parts_->original_;
  original.mul_(layer.parts_->mask_);
  set_weight(layer, original, {original});
  layer.parts_.reset();
}

void WeightParts::add_module(Weighted& layer, std::string_view name, AnyModule module) {
  std::shared_ptr<WeightParts> parts = layer.parts_;
  if (parts == nullptr || parts->modules_.empty() || name != "weight") {
    check(layer, "register_parametrization", name, 0);
    parts.reset(new WeightParts(0));
    parts->original_ = layer.weight;
  }
  const NoGrad no_grad;
  const Variable before = parts->compute(false), after = module(before);
  if (after.shape() != before.shape())
    fail<ShapeError>("register_parametrization: the module makes a weight ", after.shape(), " of ",
                     before.shape(), "; the shape must stay");
  parts->modules_.push_back(std::move(module));
  set_weight(layer, after.detach(), {parts->original_});
  layer.parts_ = std::move(parts);
}

void WeightParts::remove_modules(Weighted& layer, std::string_view name, bool leave_parametrized) {
  if (name != "weight" || layer.parts_ == nullptr || layer.parts_->modules_.empty())
    fail<ArgumentError>("remove_parametrizations: the ", name, " of ", layer.kind(),
                        " is not parametrized");
  const NoGrad no_grad;
  Variable original = layer.parts_->original_;
  if (leave_parametrized) original.copy_(layer.parts_->compute(false));
  set_weight(layer, original, {original});
  layer.parts_.reset();
}

Variable WeightParts::compute(bool is_training) {
  if (!v_.defined() && vectors_.empty() && !mask_.defined()) {
    Variable w = original_;
    for (const AnyModule& module : modules_) w = module(w);
    return w;
  }
  if (mask_.defined()) return original_ * mask_;
  if (v_.defined()) return v_ * (g_ / norm_of(v_));
  const Variable matrix = as_matrix(original_);
  if (is_training) {
    const NoGrad no_grad;
    iterate(matrix.detach(), iterations_);
  }
  // Clones, since the next call overwrites the vectors, which this call's rule needs.
  const Variable u = vectors_["_u"].clone(), v = vectors_["_v"].clone();
  return original_ / dot(u, mv(matrix, v));
}

void WeightParts::set(const Variable& w) {
  const NoGrad no_grad;
  if (!v_.defined()) return void(original_.copy_(w));
  v_.copy_(w);
  g_.copy_(norm_of(w));
}

/// Returns the norm of each entry of dimension dim, with all dimensions; of the whole weight for
/// dim -1.
Variable WeightParts::norm_of(const Variable& w) const {
  if (dim_ < 0) return norm(w, 2.0);
  Dims others;
  for (int i = 0; i < w.rank(); ++i)
    if (i != dim_) others.push_back(i);
  return norm(w, 2.0, others, true);
}

Variable WeightParts::as_matrix(const Variable& w) const {
  return flatten(dim_ == 0 ? w : movedim(w, dim_, 0), 1);
}

/// Steps of the power iteration for the largest singular value.
void WeightParts::iterate(const Variable& matrix, int64_t times) {
  Buffer &u = vectors_["_u"], &v = vectors_["_v"];
  for (int64_t i = 0; i < times; ++i) {
    u.copy_(normalize(mv(matrix, v), 2.0, 0, eps_));
    v.copy_(normalize(mv(t(matrix), u), 2.0, 0, eps_));
  }
}

}  // namespace tapegrad::nn::detail

namespace tapegrad::nn {

void detail::set_weight_norm(Weighted& layer, std::string_view name, int dim) {
  WeightParts::weight_norm(layer, name, dim);
}
void detail::set_spectral_norm(Weighted& layer, std::string_view name, int64_t n_power_iterations,
                               double eps, std::optional<int> dim) {
  WeightParts::spectral_norm(layer, name, n_power_iterations, eps, dim);
}
int64_t utils::prune::Amount::of(int64_t count) const {
  const double most = is_share_ ? 1.0 : double(count);
  if (!(value_ >= 0 && value_ <= most))
    fail<ArgumentError>("prune: an amount of ", value_, ", not from 0 to ", most);
  return is_share_ ? std::llrint(value_ * double(count)) : int64_t(value_);
}
void utils::prune::l1_unstructured(Weighted& layer, std::string_view name, Amount amount) {
  detail::WeightParts::prune(layer, "l1_unstructured", name, amount, false);
}
void utils::prune::random_unstructured(Weighted& layer, std::string_view name, Amount amount) {
  detail::WeightParts::prune(layer, "random_unstructured", name, amount, true);
}
void utils::prune::remove(Weighted& layer, std::string_view name) {
  detail::WeightParts::remove_mask(layer, name);
}
bool utils::prune::is_pruned(const Weighted& layer) {
  return detail::WeightParts::is_pruned(layer);
}
void detail::set_parametrization(Weighted& layer, std::string_view name, AnyModule module) {
  WeightParts::add_module(layer, name, std::move(module));
}
void utils::parametrize::remove_parametrizations(Weighted& layer, std::string_view name,
                                                 bool leave_parametrized) {
  detail::WeightParts::remove_modules(layer, name, leave_parametrized);
}
bool utils::parametrize::is_parametrized(const Weighted& layer) {
  return detail::WeightParts::is_computed(layer);
}
void utils::remove_weight_norm(Weighted& layer) { detail::WeightParts::remove(layer); }
void utils::remove_spectral_norm(Weighted& layer) { detail::WeightParts::remove(layer); }

}  // namespace tapegrad::nn
