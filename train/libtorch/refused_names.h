// Tools of PyTorch that this library replaces by others. A call gives a compile error with the
// spelling to use instead.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::torch {

template <typename Model>
Model compile(const Model&, const auto&...) {
  static_assert(::tapegrad::detail::kNever<Model>,
                "torch::compile(model): a model is compiled C++; GraphedStep "
                "(train/graphed_step.h), or {.graph = true} of fit(), joins the ops of a step");
}

namespace jit {
namespace script {
struct Module {};
}  // namespace script
template <typename Model>
Model trace(const Model&, const auto&...) {
  static_assert(::tapegrad::detail::kNever<Model>,
                "torch::jit::trace(model, x): a model is a C++ type; save(model, path) and "
                "load(model, path) keep its weights");
}
template <typename Path>
script::Module load(const Path&, const auto&...) {
  static_assert(::tapegrad::detail::kNever<Path>,
                "torch::jit::load(path): write the model as a C++ type, save its weights in Python "
                "with safetensors.torch.save_file, and write load(model, path)");
  return {};
}
}  // namespace jit

namespace profiler {
template <typename = void>
struct profile {
  template <typename... Xs>
  profile(const Xs&...) {
    static_assert(sizeof...(Xs) > 1000,
                  "torch::profiler::profile: type `Profiler profiler;`, run the steps, and type "
                  "`profiler.print();`");
  }
};
}  // namespace profiler

}  // namespace tapegrad::torch
