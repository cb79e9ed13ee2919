// Evaluates a model: loss, accuracy and other metrics of a data set, or the outputs themselves.
//
//   F1 f1(10);
//   Evaluation result = evaluate(model, test, {.metrics = {&f1}});
//   result.print("test");
//   Variable logits = predict(model, test);
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/by_name.h"
#include "data/loader.h"
#include "nn/module.h"
#include "ops/loss.h"
#include "train/metrics.h"
#include "train/progress.h"

namespace tapegrad {

namespace nn {
struct BCEWithLogitsLoss;
}

/// Function that returns the mean loss of a batch, one element: a lambda, a layer such as
/// nn::MSELoss(), or a function of ops/loss.h, called with its default options.
struct LossFn : std::function<Variable(const Variable& output, const Variable& target)> {
  using function::function;
  /// Each constructor selects one overload of a function: the second that of smooth_l1_loss and
  /// huber_loss, the first that of the other losses.
  LossFn(Variable (*loss)(const Variable&, const Variable&, Reduction, Where));
  LossFn(Variable (*loss)(const Variable&, const Variable&, Reduction, double, Where));
  /// Calls a loss that is a module. Errors name the line that calls fit() or evaluate().
  template <typename M>
  requires std::derived_from<std::remove_cvref_t<M>, nn::Module> LossFn(M&& module)
      : function([loss = std::remove_cvref_t<M>(std::forward<M>(module))](
                     const Variable& output, const Variable& target) mutable {
          if constexpr (requires { loss(output, target, Where()); })
            return loss(output, target, Where());
          else
            return loss(output, target);
        }),
        is_function_of_logits_(std::same_as<std::remove_cvref_t<M>, nn::BCEWithLogitsLoss>) {}
  /// Selects a loss by PyTorch's or Keras's name: "cross_entropy", "mse", "mean_squared_error",
  /// "binary_crossentropy" ... As in Keras, categorical_crossentropy and its sparse form take
  /// probabilities, and "cross_entropy" takes logits. Throws ArgumentError, which lists the names,
  /// for another name.
  template <std::convertible_to<std::string_view> Name>
  LossFn(const Name& name, Where where = Where::current()) : LossFn(named(name, where)) {}
  /// Returns whether the loss is binary_cross_entropy_with_logits or nn::BCEWithLogitsLoss, so that
  /// an output above 0 predicts the class 1.
  bool takes_logits() const { return is_function_of_logits_; }

 private:
  static LossFn named(std::string_view name, Where where);

  bool is_function_of_logits_ = false;
};

namespace detail {
/// Returns the loss; `where` is the user's line, for the error of a name.
template <std::convertible_to<LossFn> Loss>
LossFn loss_of(Loss loss, Where where) {
  if constexpr (std::convertible_to<Loss, std::string_view>)
    return LossFn(loss, where);
  else
    return LossFn(std::move(loss));
}
}  // namespace detail

/// Result of a user's function for a batch of any fields (train/fit_items.h). Output and target are
/// used for the accuracy and the metrics, which are not computed if the output is empty.
struct BatchResult {
  BatchResult(Variable mean_loss, Variable outputs = {}, Variable targets = {});

  Variable loss;  // mean over the batch, one element
  Variable output, target;
};
/// `item` is Loader::Iterator::item().
using BatchFn = std::function<BatchResult(nn::Module& model, void* item)>;

struct EvaluateOptions {
  ByName by_name = {};
  int64_t batch_size = 256;  // for evaluate() with tensors
  LossFn loss = {};          // default: cross_entropy
  bool accuracy = true;
  std::optional<Device> device = {};
  std::vector<MetricRef> metrics = {};  // reset first; afterwards they have the totals of this pass
  std::optional<DType> amp = {};        // run the model in an Autocast scope of this dtype
  BatchFn batch = {};                   // in place of model and loss; set by train/fit_items.h
};

struct Evaluation {
  double loss = kNaN;
  double accuracy = kNaN;  // of classes; NaN if not computed
  NamedValues more;        // values of the metrics
  int64_t count = 0;       // number of examples
  /// Classes, in the order of the loader; empty if the accuracy is NaN.
  std::vector<int64_t> labels, predictions;
  double seconds = 0;

  // Defined in evaluate.cpp, since programs otherwise compile the copies of the lists.
  Evaluation();
  Evaluation(const Evaluation&);
  Evaluation(Evaluation&&) noexcept;
  Evaluation& operator=(const Evaluation&);
  Evaluation& operator=(Evaluation&&) noexcept;
  ~Evaluation();

  /// Calls print_predictions() with these results. Without classes, prints the loss and the
  /// metrics, as operator<< does.
  void print(const std::string& title, std::ostream& out = standard_output()) const;
  /// The loss for i = 0 and the accuracy for i = 1: `auto [loss, accuracy] = evaluate(model,
  /// test);`.
  template <size_t i>
  double get() const {
    return i == 0 ? loss : accuracy;
  }
};

/// Prints "loss 0.31, accuracy 0.9, f1 0.88 (50 examples)", without values that were not computed.
std::ostream& operator<<(std::ostream& out, const Evaluation& result);

namespace detail {
/// Returns evaluate(model, data, {.by_name = {where}}).
Evaluation evaluate(nn::Module& model, Loader& data, Where where);
}  // namespace detail

/// Runs one pass over the loader in evaluation mode without recording. Restores every module's
/// mode, also after an exception.
Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options);
/// Overload without options, for which programs do not compile the options. A template, so that
/// `{}` means the options.
template <std::same_as<Where> W = Where>
Evaluation evaluate(nn::Module& model, Loader& data, W where = Where::current()) {
  return detail::evaluate(model, data, where);
}
Evaluation evaluate(nn::Module& model, Loader&& data, EvaluateOptions options = {});

/// Overload for tensors with equal sizes in dimension 0, from which the batches are read, as in
/// Keras.
Evaluation evaluate(nn::Module& model, const Variable& x, const Variable& y,
                    EvaluateOptions options = {});

/// Overload with the loss as an argument: evaluate(model, x, y, nn::MSELoss()).
template <std::convertible_to<LossFn> Loss>
Evaluation evaluate(nn::Module& model, const Variable& x, const Variable& y, Loss loss,
                    Where where = Where::current()) {
  return evaluate(model, x, y,
                  {.by_name = {where}, .loss = detail::loss_of(std::move(loss), where)});
}

/// Returns the concatenated outputs of all batches, on the CPU. Modes and recording are handled as
/// in evaluate().
Variable predict(nn::Module& model, Loader& data, std::optional<Device> device = {},
                 Where where = Where::current());
Variable predict(nn::Module& model, const Variable& x, int64_t batch_size = 256,
                 Where where = Where::current());
/// Overloads for a data set, which is read with a DataLoader of .batch_size.
template <std::derived_from<Dataset> Set>
Evaluation evaluate(nn::Module& model, const Set& data, EvaluateOptions options = {}) {
  DataLoader batches(data, {.batch_size = options.batch_size}, options.by_name.where);
  return evaluate(model, batches, std::move(options));
}
template <std::derived_from<Dataset> Set>
Variable predict(nn::Module& model, const Set& data, int64_t batch_size = 256,
                 Where where = Where::current()) {
  DataLoader batches(data, {.batch_size = batch_size}, where);
  return predict(model, batches, {}, where);
}
struct PredictOptions {
  ByName by_name = {};
  int64_t batch_size = 256;
};
Variable predict(nn::Module& model, const Variable& x, PredictOptions options);

/// Puts a model into evaluation mode for a scope, then restores the mode of each module.
class [[nodiscard]] EvalMode {
 public:
  explicit EvalMode(nn::Module& model);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

}  // namespace tapegrad

template <>
struct std::tuple_size<tapegrad::Evaluation> : std::integral_constant<size_t, 2> {};
template <size_t i>
struct std::tuple_element<i, tapegrad::Evaluation> {
  using type = double;
};
