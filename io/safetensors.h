// safetensors: named tensors in one file, the format of Hugging Face. Eight bytes of header length,
// a JSON header, the elements. Nothing in a file is ever executed, and every fault is an error.
//
//   save("model.safetensors", model);                        // any model or optimizer with a state
//   save("half.safetensors", model, {.dtype = f16});         // half the size
//   load("half.safetensors", model);                         // back to the model's own types
//   TensorMap tensors = load("model.safetensors");
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>

#include "core/base/tensor_map.h"

namespace tapegrad {

/// What can give its tensors by name and take them back: a model, an optimizer.
template <typename M>
concept HasState = requires(M& model, const TensorMap& state) {
  { model.state_dict() } -> std::convertible_to<TensorMap>;
  model.load_state_dict(state);
};

struct SaveOptions {
  /// Floating-point tensors are stored as this type; others as they are. ArgumentError for a value
  /// that is finite and would not be: the largest float16 is 65504.
  std::optional<DType> dtype = {};
  std::map<std::string, std::string> metadata = {};
};

/// Written beside the target, flushed and renamed over it: the path holds the old file or the new
/// one, whatever happens. IoError when that fails; the old file is then as it was.
void save(const std::string& path, const TensorMap& tensors, SaveOptions options = {});
template <HasState M>
void save(const std::string& path, const M& model, SaveOptions options = {}) {
  save(path, TensorMap(model.state_dict()), std::move(options));
}

/// The tensors of a file, on the CPU. IoError when it cannot be read; FormatError, naming the file
/// and the fault, for anything but a whole and valid one. Types: F64 F32 F16 BF16 I64 I32 I16 I8 U8
/// BOOL; at most 8 dimensions; a header of at most 8 MiB.
TensorMap load(const std::string& path);
std::map<std::string, std::string> load_metadata(const std::string& path);

/// Each tensor converted to the type that `like` has under its name, when both are floats.
/// ArgumentError for a finite value that would not be finite any more.
TensorMap convert_like(TensorMap tensors, const TensorMap& like);

/// Puts a file's tensors into a model; floats become the model's type. When names, shapes or types
/// do not fit, one ArgumentError lists all that are wrong and the model is unchanged.
template <HasState M>
void load(const std::string& path, M& model) {
  model.load_state_dict(convert_like(load(path), model.state_dict()));
}

}  // namespace tapegrad
