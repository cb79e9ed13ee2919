// The state that all handles of a module share.
#pragma once

#include <atomic>
#include <mutex>

#include "core/tape/hooks.h"
#include "nn/module.h"

namespace tapegrad::nn {

/// Mutex held while a first call changes modules that other threads may call: to infer sizes, which
/// replaces parameters, and to name submodules, which visits them. Recursive, since an initializer
/// may call modules.
inline constinit std::recursive_mutex first_call;

}  // namespace tapegrad::nn

namespace tapegrad::detail {

struct ModuleHooks {
  HookList<nn::ForwardPreHook> before;
  HookList<nn::ForwardHook> after;
  HookList<nn::BackwardHook> backward;
  uint32_t added = 0;  // number of hooks added so far
};

struct ModuleState {
  /// State that clone() does not copy.
  struct Own {
    Own() = default;
    Own(const Own& other) : uses_mode(other.uses_mode.load(std::memory_order_relaxed)) {}
    std::unique_ptr<ModuleHooks> hooks;
    std::atomic<const std::string*> name{nullptr};  // "Net.fc1", in the last calling model
    std::atomic<uint64_t> named_in{0};              // id of that model
    std::atomic<uint64_t> id{0};                    // nonzero after a call as an outermost module
    std::atomic<bool> has_sizes{false};             // a thread has found that all sizes are known
    std::atomic<bool> uses_mode{false};             // is_training() was called, or will be
    std::atomic<bool> members_checked{false};       // members() was found to name all modules
    std::atomic<bool> parameters_checked{false};    // in the first recorded call as outermost
  };

  bool training = true;
  bool has_output = false;
  Shape output;
  nn::Init init;
  Own own;
};

}  // namespace tapegrad::detail
