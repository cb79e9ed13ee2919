// Layers that are one function of ops/, with some of its arguments kept:
//
//   struct Hardshrink final : Function<Hardshrink, hardshrink, double> {
//     explicit Hardshrink(double lambd = 0.5) : Function(lambd) {}
//   };
#pragma once

#include <concepts>
#include <tuple>

#include "nn/module.h"

namespace tapegrad::nn {

/// forward(x) is function(x, kept...); a function of two or three Variables takes as many.
template <typename Self, auto function, typename... Kept>
class Function : public Stateless<Self> {
  template <typename... Xs>
  static constexpr bool kTakes = std::invocable<decltype(function), Xs..., const Kept&..., Where>;
  using X = const Variable&;

 public:
  explicit Function(Kept... kept) : kept_(std::move(kept)...) {}

  Variable forward(X x, Where where = Where::current()) const requires kTakes<X> {
    return run(where, x);
  }
  Variable forward(X x, X y, Where where = Where::current()) const requires kTakes<X, X> {
    return run(where, x, y);
  }
  Variable forward(X x, X y, X z, Where where = Where::current()) const requires kTakes<X, X, X> {
    return run(where, x, y, z);
  }

  using Model<Self>::operator();
  Variable operator()(X x, X y, Where where = Where::current()) const requires kTakes<X, X> {
    return run(where, x, y);
  }
  Variable operator()(X x, X y, X z,
                      Where where = Where::current()) const requires kTakes<X, X, X> {
    return run(where, x, y, z);
  }

 protected:
  std::tuple<Kept...> kept_;

 private:
  template <typename... Xs>
  Variable run(Where where, const Xs&... xs) const {
    return std::apply([&](const Kept&... kept) { return function(xs..., kept..., where); }, kept_);
  }
};

}  // namespace tapegrad::nn
