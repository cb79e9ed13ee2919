#include "ops/ctc_loss.h"

#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/team.cuh"
#include "backends/cuda/register.h"
#include "backends/cuda/runtime/copy.h"
#include "core/base/error.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // log 0

__device__ inline double log_add(double a, double b) {
  const double top = a < b ? b : a;
  return top == kNever ? kNever : top + std::log1p(std::exp((b < a ? b : a) - top));
}

struct Plus {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Smaller {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a < b ? a : b; }
};

/// Some examples of a batch, as a kernel argument, so that no table is copied to the device.
struct Examples {
  static constexpr int64_t kMost = 64;  // kernel arguments are limited to 4 KB
  int64_t first;                        // number of the first in the batch
  int64_t count;
  int64_t steps[kMost];
  int64_t lengths[kMost], first_labels[kMost];  // of targets
  int64_t workspaces[kMost];                    // offsets of the examples' workspaces, in doubles
};

/// Finds the first label that is no class, unless an earlier call found one. The verdict is the
/// label's example and the label.
__global__ void __launch_bounds__(kThreads)
    check_labels(Examples of, const int64_t* labels, int64_t classes, int64_t* verdict) {
  for (int64_t b = 0; b < of.count; ++b) {
    const int64_t* target = labels + of.first_labels[b];
    int64_t bad = of.lengths[b];
    for (int64_t k = BlockTeam::rank(); k < of.lengths[b]; k += BlockTeam::kSize)
      if ((target[k] < 0 || target[k] >= classes) && k < bad) bad = k;
    bad = BlockTeam::reduce(bad, Smaller{});
    if (BlockTeam::rank() != 0 || bad == of.lengths[b] || verdict[0] >= 0) continue;
    verdict[0] = of.first + b;
    verdict[1] = target[bad];
  }
}

/// The alignments of one example, computed by a block whose threads share the states. The target,
/// with blanks before, between and after the labels, has 2 length + 1 states. At each step an
/// alignment stays in its state, moves to the next, or skips a blank between different labels.
template <typename T>
class Alignments {
 public:
  /// Doubles of workspace. Without a gradient two rows of alpha suffice.
  static int64_t workspace(int64_t steps, int64_t length, bool with_gradient) {
    const int64_t states = 2 * length + 1;
    return with_gradient ? (steps + 3) * states + length : 2 * states;
  }

  __device__ Alignments(const Examples& of, int64_t b, const T* log_probs, const int64_t* labels,
                        int64_t examples, int64_t classes, int64_t blank, double* workspace,
                        bool with_gradient)
      : log_probs_(log_probs + (of.first + b) * classes),
        stride_(examples * classes),
        classes_(classes),
        labels_(labels + of.first_labels[b]),
        blank_(blank),
        steps_(of.steps[b]),
        states_(2 * of.lengths[b] + 1),
        alpha_(workspace + of.workspaces[b]),
        keeps_all_(with_gradient),
        beside_(alpha_ + of.steps[b] * states_) {}

  /// alpha[t, s]: the log probability of all prefixes that are in state s at step t.
  __device__ double log_likelihood() {
    if (steps_ == 0) return states_ == 1 ? 0.0 : kNever;
    for (int64_t s = threadIdx.x; s < states_; s += kThreads)
      alpha(0, s) = s < 2 ? at(0, s) : kNever;
    for (int64_t t = 1; t < steps_; ++t) {
      __syncthreads();
      for (int64_t s = threadIdx.x; s < states_; s += kThreads) {
        double sum = alpha(t - 1, s);
        if (s > 0) sum = log_add(sum, alpha(t - 1, s - 1));
        if (may_skip(s)) sum = log_add(sum, alpha(t - 1, s - 2));
        alpha(t, s) = sum + at(t, s);
      }
    }
    __syncthreads();
    const double last = alpha(steps_ - 1, states_ - 1);
    return states_ > 1 ? log_add(last, alpha(steps_ - 1, states_ - 2)) : last;
  }

  /// Computes gradient[t, class] = minus the posterior probability of being in one of the class's
  /// states at step t, for the classes that have states. The probabilities of a class are added in
  /// double in a fixed order and rounded once.
  __device__ void set_gradient(double log_likelihood, T* gradient) {
    for (int64_t s = threadIdx.x; s < states_; s += kThreads)
      beta(steps_ - 1, s) = s + 2 >= states_ ? 0 : kNever;
    find_equal_labels();
    for (int64_t t = steps_ - 1; t >= 0; --t) {
      __syncthreads();
      double blanks = 0;
      for (int64_t s = threadIdx.x; s < states_; s += kThreads) {
        const double share = std::exp(alpha(t, s) + beta(t, s) - log_likelihood);
        if (class_of(s) == blank_) blanks += share;
        shares()[s] = share;
        beta(t - 1, s) = before(t, s);
      }
      T* row = gradient + t * stride_;
      blanks = BlockTeam::reduce(blanks, Plus{});  // after it, the threads see all shares
      if (threadIdx.x == 0) row[blank_] = narrow<T>(-blanks);
      for (int64_t k = threadIdx.x; k < states_ / 2; k += kThreads) {
        if (next_equal()[k] < 0) continue;
        double sum = shares()[2 * k + 1];
        for (int64_t i = next_equal()[k]; i < states_ / 2; i = -next_equal()[i])
          sum += shares()[2 * i + 1];
        row[class_of(2 * k + 1)] = narrow<T>(-sum);
      }
    }
  }

  __device__ void set_undefined(T* gradient) const {
    const T nan = narrow<T>(std::numeric_limits<float>::quiet_NaN());
    for (int64_t t = 0; t < steps_; ++t)
      for (int64_t c = threadIdx.x; c < classes_; c += kThreads) gradient[t * stride_ + c] = nan;
  }

 private:
  __device__ int64_t class_of(int64_t s) const {
    if (s % 2 == 0) return blank_;
    const int64_t label = labels_[s / 2];
    return label < 0 || label >= classes_ ? blank_ : label;  // a graph does not wait for the check
  }
  __device__ bool may_skip(int64_t s) const {
    return s % 2 == 1 && s > 1 && class_of(s) != class_of(s - 2);
  }
  __device__ double at(int64_t t, int64_t s) const {
    return double(widen(log_probs_[t * stride_ + class_of(s)]));
  }
  __device__ double& alpha(int64_t t, int64_t s) {
    return alpha_[(keeps_all_ ? t : t & 1) * states_ + s];
  }
  /// Returns the log probability of all suffixes that follow state s at step t; two steps are in
  /// memory.
  __device__ double& beta(int64_t t, int64_t s) const { return beside_[(t & 1) * states_ + s]; }
  __device__ double before(int64_t t, int64_t s) const {
    double sum = beta(t, s) + at(t, s);
    if (s + 1 < states_) sum = log_add(sum, beta(t, s + 1) + at(t, s + 1));
    if (s + 2 < states_ && may_skip(s + 2)) sum = log_add(sum, beta(t, s + 2) + at(t, s + 2));
    return sum;
  }
  /// Returns the posterior probability of each state at a step.
  __device__ double* shares() const { return beside_ + 2 * states_; }
  /// next_equal()[k] is the next label equal to label k, or the number of labels. It is negated if
  /// an earlier label is equal, and for labels that are blanks.
  __device__ int64_t* next_equal() const {
    return reinterpret_cast<int64_t*>(beside_ + 3 * states_);
  }
  __device__ void find_equal_labels() const {
    const int64_t length = states_ / 2;
    for (int64_t k = threadIdx.x; k < length; k += kThreads) {
      const int64_t own = class_of(2 * k + 1);
      int64_t next = k + 1, earlier = 0;
      while (next < length && class_of(2 * next + 1) != own) ++next;
      while (earlier < k && class_of(2 * earlier + 1) != own) ++earlier;
      next_equal()[k] = earlier < k || own == blank_ ? -next : next;
    }
  }

  const T* log_probs_;
  int64_t stride_;  // stride between steps
  int64_t classes_;
  const int64_t* labels_;
  int64_t blank_, steps_, states_;
  double* alpha_;
  bool keeps_all_;  // whether alpha has all its rows in memory, or the last two
  double* beside_;  // beta, shares and next_equal
};

/// Each example has a block, and a multiprocessor seldom has more than one block. The bound of one
/// block lets nvcc keep all variables in registers.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1)
    align(Examples of, const T* log_probs, const int64_t* labels, int64_t examples, int64_t classes,
          int64_t blank, double* workspace, double* losses, T* gradients) {
  Alignments<T> alignments(of, blockIdx.x, log_probs, labels, examples, classes, blank, workspace,
                           gradients != nullptr);
  const int64_t example = of.first + blockIdx.x;
  const double log_likelihood = alignments.log_likelihood();
  if (threadIdx.x == 0) losses[example] = -log_likelihood;
  if (gradients == nullptr) return;
  T* gradient = gradients + example * classes;
  if (log_likelihood != kNever)
    alignments.set_gradient(log_likelihood, gradient);
  else
    alignments.set_undefined(gradient);
}

/// Calls run() with the examples of the batch, as many at a time as an argument holds.
template <typename T, typename Run>
void for_each_part(const CtcBatch& batch, bool with_gradient, const Run& run) {
  const int64_t n = int64_t(batch.input_lengths.size());
  for (int64_t first = 0; first < n; first += Examples::kMost) {
    Examples part{};
    part.first = first;
    part.count = std::min(n - first, Examples::kMost);
    int64_t workspace = 0;
    for (int64_t b = 0; b < part.count; ++b) {
      const size_t i = size_t(first + b);
      part.steps[b] = batch.input_lengths[i];
      part.lengths[b] = batch.target_lengths[i];
      part.first_labels[b] = batch.first_labels[i];
      part.workspaces[b] = workspace;
      workspace += Alignments<T>::workspace(part.steps[b], part.lengths[b], with_gradient);
    }
    run(part, workspace);
  }
}

/// Waits for the device, except while a graph is recorded.
void require_classes(const CtcBatch& batch, const Tensor& labels, int64_t classes,
                     const Tensor& where) {
  const cudaStream_t stream = stream_of(where);
  Tensor own;
  int64_t* verdict = recorded_verdict();
  if (verdict == nullptr) {
    own = Tensor::empty({2}, i64, where.device());
    verdict = own.data<int64_t>();
    TG_CUDA(cudaMemsetAsync(verdict, 0xff, 2 * sizeof(int64_t), stream));  // -1: nothing found
  }
  for_each_part<float>(batch, false, [&](const Examples& part, int64_t) {
    launch({1, kThreads, stream}, &check_labels, part, labels.data<int64_t>(), classes, verdict);
  });
  if (!own) return;
  int64_t found[2];
  copy_to_host(own, found);
  if (found[0] >= 0)
    fail<IndexError>("ctc_loss: label ", found[1], " of example ", found[0], " is outside [0, ",
                     classes, ')');
}

template <typename T>
void ctc_loss(const Tensor& log_probs, const Tensor& labels, const CtcBatch& batch, Tensor& losses,
              Tensor& gradients) {
  const int64_t examples = log_probs.shape()[1], classes = log_probs.shape()[2];
  if (examples == 0) return;
  require_classes(batch, labels, classes, log_probs);
  const cudaStream_t stream = stream_of(log_probs);
  if (gradients && gradients.numel() > 0)
    TG_CUDA(cudaMemsetAsync(gradients.data<T>(), 0, size_t(gradients.numel()) * sizeof(T), stream));
  for_each_part<T>(batch, bool(gradients), [&](const Examples& part, int64_t doubles) {
    const Tensor workspace = Tensor::empty({doubles}, f64, log_probs.device());
    launch({unsigned(part.count), kThreads, stream}, &align<T>, part, log_probs.data<T>(),
           labels.data<int64_t>(), examples, classes, batch.blank, workspace.data<double>(),
           losses.data<double>(), gradients ? gradients.data<T>() : nullptr);
  });
}

}  // namespace

void register_ctc_loss() {
  set<kernels::ctc_loss>(kFloatTypes,
                         []<typename T>(TypeTag<T>, auto&... a) { ctc_loss<T>(a...); });
}

}  // namespace tapegrad::backends::cuda
