// Layers that are one function of ops/, with some of its arguments kept:
//
//   struct Hardshrink final : Function<Hardshrink, hardshrink, double> {
//     explicit Hardshrink(double lambd = 0.5);   // : Function(lambd) {}
//   };
//
// The library's own layers are constructed in .cpp files: with an inline constructor every user
// would compile a layer's virtual functions.
#pragma once

#include <tuple>

#include "nn/module.h"

namespace tapegrad::nn {

namespace detail {

/// function(xs..., kept..., where).
template <auto function, typename Kept, typename... Xs>
Variable call_with(const Kept& kept, Where where, const Xs&... xs) {
  return std::apply([&](const auto&... k) { return function(xs..., k..., where); }, kept);
}

}  // namespace detail

/// forward(x) is function(x, kept...).
template <typename Self, auto function, typename... Kept>
class Function : public Stateless<Self> {
 public:
  explicit Function(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return detail::call_with<function>(kept_, where, x);
  }

 protected:
  std::tuple<Kept...> kept_;
};

/// forward(x, y) is function(x, y, kept...).
template <typename Self, auto function, typename... Kept>
class Function2 : public Stateless<Self> {
 public:
  explicit Function2(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(const Variable& x, const Variable& y, Where where = Where::current()) const {
    return detail::call_with<function>(kept_, where, x, y);
  }

 protected:
  std::tuple<Kept...> kept_;
};

/// forward(x, y, z) is function(x, y, z, kept...).
template <typename Self, auto function, typename... Kept>
class Function3 : public Stateless<Self> {
 public:
  explicit Function3(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(const Variable& x, const Variable& y, const Variable& z,
                   Where where = Where::current()) const {
    return detail::call_with<function>(kept_, where, x, y, z);
  }

 protected:
  std::tuple<Kept...> kept_;
};

}  // namespace tapegrad::nn
