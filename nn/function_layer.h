// Layers that call one function of ops/ with fixed trailing arguments:
//
//   struct PixelShuffle final : Function<PixelShuffle, pixel_shuffle, int64_t> {
//     explicit PixelShuffle(int64_t upscale_factor);   // : Function(upscale_factor) {}
//   };
//
// A function with several overloads is selected by a cast to its type.
//
// The library's layers define their constructors in .cpp files: an inline constructor would make
// every user compile the layer's virtual functions.
#pragma once

#include "nn/module.h"

namespace tapegrad::nn {

namespace detail {

/// A minimal std::tuple. std::tuple is slow to compile, and every user compiles about forty
/// instances.
template <typename... Kept>
struct Arguments {
  template <auto function, typename... Xs>
  Variable call(Where where, Xs&&... xs) const {
    return function(std::forward<Xs>(xs)..., where);
  }
};
template <typename First, typename... Rest>
struct Arguments<First, Rest...> {
  First first;
  Arguments<Rest...> rest;

  explicit Arguments(First head, Rest... tail) : first(std::move(head)), rest(std::move(tail)...) {}
  /// Calls function(xs..., kept..., where).
  template <auto function, typename... Xs>
  Variable call(Where where, Xs&&... xs) const {
    return rest.template call<function>(where, std::forward<Xs>(xs)..., first);
  }
};

}  // namespace detail

/// Layer whose forward(x) is function(x, kept...).
template <typename Self, auto function, typename... Kept>
class Function : public Stateless<Self> {
 public:
  explicit Function(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(Variable x, Where where = Where::current()) const {
    return kept_.template call<function>(where, std::move(x));
  }

 protected:
  detail::Arguments<Kept...> kept_;
};

/// Layer whose forward(x, y) is function(x, y, kept...).
template <typename Self, auto function, typename... Kept>
class Function2 : public Stateless<Self> {
 public:
  explicit Function2(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(const Variable& x, const Variable& y, Where where = Where::current()) const {
    return kept_.template call<function>(where, x, y);
  }

 protected:
  detail::Arguments<Kept...> kept_;
};

/// Layer whose forward(x, y, z) is function(x, y, z, kept...).
template <typename Self, auto function, typename... Kept>
class Function3 : public Stateless<Self> {
 public:
  explicit Function3(Kept... kept) : kept_(std::move(kept)...) {}
  Variable forward(const Variable& x, const Variable& y, const Variable& z,
                   Where where = Where::current()) const {
    return kept_.template call<function>(where, x, y, z);
  }

 protected:
  detail::Arguments<Kept...> kept_;
};

}  // namespace tapegrad::nn
