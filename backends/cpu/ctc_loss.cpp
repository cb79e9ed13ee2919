#include "ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/register.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // log 0

double log_add(double a, double b) {
  const double top = std::max(a, b);
  return top == kNever ? kNever : top + std::log1p(std::exp(std::min(a, b) - top));
}

/// The alignments of one example. Its target, with blanks before, between and after the labels, has
/// 2 length + 1 states. At each step an alignment stays in its state, moves to the next, or skips a
/// blank between different labels.
template <typename T>
class Alignments {
 public:
  Alignments(const T* log_probs, int64_t stride, const int64_t* labels, int64_t length,
             int64_t steps, int64_t blank)
      : log_probs_(log_probs),
        stride_(stride),
        labels_(labels),
        blank_(blank),
        steps_(steps),
        states_(2 * length + 1),
        alpha_(size_t(steps * states_), kNever) {}

  /// alpha[t, s]: the log probability of all prefixes that are in state s at step t.
  double log_likelihood() {
    if (steps_ == 0) return states_ == 1 ? 0.0 : kNever;
    for (int64_t s = 0; s < std::min<int64_t>(states_, 2); ++s) alpha(0, s) = at(0, s);
    for (int64_t t = 1; t < steps_; ++t)
      for (int64_t s = 0; s < states_; ++s) {
        double sum = alpha(t - 1, s);
        if (s > 0) sum = log_add(sum, alpha(t - 1, s - 1));
        if (may_skip(s)) sum = log_add(sum, alpha(t - 1, s - 2));
        alpha(t, s) = sum + at(t, s);
      }
    const double last = alpha(steps_ - 1, states_ - 1);
    return states_ > 1 ? log_add(last, alpha(steps_ - 1, states_ - 2)) : last;
  }

  /// Computes gradient[t, class] -= the posterior probability of being in one of the class's states
  /// at step t.
  void add_gradient(double log_likelihood, T* gradient) {
    std::vector<double> beta(size_t(states_), kNever), next;  // log probabilities of the suffixes
                                                              // after step t
    if (steps_ > 0) beta[size_t(states_ - 1)] = 0;
    if (steps_ > 0 && states_ > 1) beta[size_t(states_ - 2)] = 0;
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      for (int64_t s = 0; s < states_; ++s) {
        const double share = std::exp(alpha(t, s) + beta[size_t(s)] - log_likelihood);
        T& to = gradient[t * stride_ + class_of(s)];
        to = T(Compute<T>(to) - Compute<T>(share));
      }
      next.assign(size_t(states_), kNever);
      for (int64_t s = 0; s < states_; ++s) {  // from s at t - 1 to its successors at t
        double sum = beta[size_t(s)] + at(t, s);
        if (s + 1 < states_) sum = log_add(sum, beta[size_t(s + 1)] + at(t, s + 1));
        if (s + 2 < states_ && may_skip(s + 2))
          sum = log_add(sum, beta[size_t(s + 2)] + at(t, s + 2));
        next[size_t(s)] = sum;
      }
      beta.swap(next);
    }
  }

 private:
  int64_t class_of(int64_t s) const { return s % 2 == 0 ? blank_ : labels_[s / 2]; }
  bool may_skip(int64_t s) const { return s % 2 == 1 && s > 1 && class_of(s) != class_of(s - 2); }
  double at(int64_t t, int64_t s) const {
    return double(Compute<T>(log_probs_[t * stride_ + class_of(s)]));
  }
  double& alpha(int64_t t, int64_t s) { return alpha_[size_t(t * states_ + s)]; }

  const T* log_probs_;
  int64_t stride_;  // stride between steps
  const int64_t* labels_;
  int64_t blank_, steps_, states_;
  std::vector<double> alpha_;
};

template <typename T>
void ctc_loss(const Tensor& log_probs, const Tensor& labels, const CtcBatch& batch, Tensor& losses,
              Tensor& gradients) {
  const int64_t n = log_probs.shape()[1], classes = log_probs.shape()[2], stride = n * classes;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < batch.target_lengths[size_t(i)]; ++k) {
      const int64_t label = labels.data<int64_t>()[batch.first_labels[size_t(i)] + k];
      if (label < 0 || label >= classes)
        fail<IndexError>("ctc_loss: label ", label, " of example ", i, " is outside [0, ", classes,
                         ')');
    }
  if (gradients) std::fill_n(gradients.data<T>(), gradients.numel(), T(0));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t steps = batch.input_lengths[size_t(i)];
    Alignments<T> alignments(log_probs.data<T>() + i * classes, stride,
                             labels.data<int64_t>() + batch.first_labels[size_t(i)],
                             batch.target_lengths[size_t(i)], steps, batch.blank);
    const double log_likelihood = alignments.log_likelihood();
    losses.data<double>()[i] = -log_likelihood;
    if (!gradients) continue;
    T* gradient = gradients.data<T>() + i * classes;
    if (log_likelihood != kNever) {
      alignments.add_gradient(log_likelihood, gradient);
    } else {
      for (int64_t t = 0; t < steps; ++t)
        std::fill_n(gradient + t * stride, classes, T(std::numeric_limits<float>::quiet_NaN()));
    }
  }
}

}  // namespace

void register_ctc_loss() {
  set<kernels::ctc_loss>(kFloatTypes,
                         []<typename T>(TypeTag<T>, auto&... a) { ctc_loss<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
