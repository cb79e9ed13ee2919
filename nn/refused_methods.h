// Methods of libtorch's and Keras's models. A call gives a compile error with the spelling to use
// instead. The deduced result types make this message the first error.
#pragma once

#include <string>

#include "core/base/tensor.h"

namespace tapegrad::nn {

class RefusedMethods {
 public:
  template <typename T>
  auto register_module(const std::string&, T&&) {
    static_assert(tapegrad::detail::kNever<T>,
                  "register_module: hold the module as a member, and name it in `void "
                  "members(nn::Members& m) override { m(\"name\", member); }`");
  }
  template <typename T>
  auto register_parameter(const std::string&, T&&, bool = true) {
    static_assert(tapegrad::detail::kNever<T>,
                  "register_parameter: hold a Variable that requires a gradient as a member, and "
                  "name it in `void members(nn::Members& m) override { m(\"name\", member); }`");
  }
  template <typename T>
  auto register_buffer(const std::string&, T&&) {
    static_assert(tapegrad::detail::kNever<T>,
                  "register_buffer: hold a Variable as a member, and name it in `void "
                  "members(nn::Members& m) override { m.buffer(\"name\", member); }`");
  }

  template <std::same_as<bool> T>
  explicit operator T() const {
    static_assert(tapegrad::detail::kNever<T>,
                  "if (m.as<nn::Conv2d>()): write if (m.is<nn::Conv2d>()); as() throws for another "
                  "layer");
  }
  template <typename T = void>
  auto summary() const {
    static_assert(tapegrad::detail::kNever<T>,
                  "model.summary(): write std::cout << nn::summary(model, {784}), with the shape "
                  "of an input");
  }
  template <typename T = void>
  auto get_weights() const {
    static_assert(tapegrad::detail::kNever<T>,
                  "model.get_weights(): write model.parameters(), or model.state_dict() by name");
  }
  template <typename T = void>
  auto count_params() const {
    static_assert(tapegrad::detail::kNever<T>,
                  "model.count_params(): write model.num_parameters()");
  }
  template <typename T = void>
  auto half() const {
    static_assert(tapegrad::detail::kNever<T>, "model.half(): write model.to(f16)");
  }
  template <typename T = void>
  auto reset_parameters() const {
    static_assert(tapegrad::detail::kNever<T>,
                  "layer.reset_parameters(): write nn::initialize(layer, nn::init::torch)");
  }
  template <typename T = void>
  auto compile(const auto&...) const {
    static_assert(tapegrad::detail::kNever<T>,
                  "model.compile(...): construct an optim::Adam opt(model, 1e-3) and pass it to "
                  "fit(model, loader, opt)");
  }
  template <typename T = void>
  auto save_weights(const auto&...) const {
    static_assert(tapegrad::detail::kNever<T>,
                  "model.save_weights(path): write save(model, path); load(model, path) reads it");
  }
  template <typename T = void>
  auto load_weights(const auto&...) {
    static_assert(tapegrad::detail::kNever<T>, "model.load_weights(path): write load(model, path)");
  }
  template <typename T = void>
  auto save(const auto&...) const {
    static_assert(tapegrad::detail::kNever<T>, "model.save(path): write save(model, path)");
  }
  template <typename T = void>
  auto load(const auto&...) {
    static_assert(tapegrad::detail::kNever<T>, "model.load(path): write load(model, path)");
  }
};

}  // namespace tapegrad::nn
