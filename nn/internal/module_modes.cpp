#include "nn/internal/module_modes.h"

namespace tapegrad {

Modes modes_of(nn::Module& model) {
  struct Keeper final : nn::MemberVisitor {
    void on_module(const std::string&, nn::Module& module) override {
      modes.emplace_back(&module, module.is_training());
    }
    Modes modes;
  } keeper;
  model.visit(keeper);
  return keeper.modes;
}

// train() sets the mode of all submodules, whose own entries follow.
void restore(const Modes& modes) {
  for (const auto& [module, training] : modes) module->train(training);
}

}  // namespace tapegrad
