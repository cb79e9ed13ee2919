// Activations as layers, for Sequential; the formulas stand in ops/activation.h. And the other
// layers without parameters: Flatten, Identity, Lambda.
#pragma once

#include "nn/module.h"
#include "ops/activation.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::nn {

struct ReLU final : Stateless<ReLU> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return relu(x, where);
  }
};
struct ReLU6 final : Stateless<ReLU6> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return relu6(x, where);
  }
};
struct LeakyReLU final : Stateless<LeakyReLU> {
  double negative_slope;
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope(negative_slope) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return leaky_relu(x, negative_slope, where);
  }
};
struct ELU final : Stateless<ELU> {
  double alpha;
  explicit ELU(double alpha = 1.0) : alpha(alpha) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return elu(x, alpha, where);
  }
};
struct SELU final : Stateless<SELU> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return selu(x, where);
  }
};
struct GELU final : Stateless<GELU> {
  Gelu approximate;
  explicit GELU(Gelu approximate = Gelu::kErf) : approximate(approximate) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return gelu(x, approximate, where);
  }
};
struct SiLU final : Stateless<SiLU> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return silu(x, where);
  }
};
struct Mish final : Stateless<Mish> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return mish(x, where);
  }
};
struct Sigmoid final : Stateless<Sigmoid> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return sigmoid(x, where);
  }
};
struct Tanh final : Stateless<Tanh> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return tanh(x, where);
  }
};
struct Softplus final : Stateless<Softplus> {
  double beta, threshold;
  explicit Softplus(double beta = 1.0, double threshold = 20.0)
      : beta(beta), threshold(threshold) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return softplus(x, beta, threshold, where);
  }
};
struct Hardsigmoid final : Stateless<Hardsigmoid> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return hardsigmoid(x, where);
  }
};
struct Hardswish final : Stateless<Hardswish> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return hardswish(x, where);
  }
};
/// 1 where x > 0, else 0; no gradient passes.
struct Step final : Stateless<Step> {
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return step(x, where);
  }
};
struct Softmax final : Stateless<Softmax> {
  int dim;
  explicit Softmax(int dim = -1) : dim(dim) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return softmax(x, dim, where);
  }
};
struct LogSoftmax final : Stateless<LogSoftmax> {
  int dim;
  explicit LogSoftmax(int dim = -1) : dim(dim) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return log_softmax(x, dim, where);
  }
};

/// Dimensions start_dim..end_dim become one: all but the batch.
struct Flatten final : Stateless<Flatten> {
  int start_dim, end_dim;
  explicit Flatten(int start_dim = 1, int end_dim = -1) : start_dim(start_dim), end_dim(end_dim) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return flatten(x, start_dim, end_dim, where);
  }
};
struct Identity final : Stateless<Identity> {
  Variable forward(const Variable& x) const { return x; }
};
/// Any function as a layer: `nn::Lambda([](const Variable& x) { return 2 * x; })`.
struct Lambda final : Stateless<Lambda> {
  std::function<Variable(const Variable&)> function;
  explicit Lambda(std::function<Variable(const Variable&)> function)
      : function(std::move(function)) {}
  Variable forward(const Variable& x) const { return function(x); }
};

}  // namespace tapegrad::nn
