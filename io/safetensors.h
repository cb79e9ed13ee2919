// safetensors, the format of Hugging Face for named tensors in one file: eight bytes with the
// header length, a JSON header, the elements. Nothing in a file is ever executed, and every fault
// is an error.
//
//   save("model.safetensors", model);                        // any model or optimizer with a state
//   save("half.safetensors", model, {.dtype = f16});         // half the size
//   load("half.safetensors", model);                         // converts to the model's types
//   TensorMap tensors = load("model.safetensors");
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/tensor_map.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// A type that returns its tensors by name and accepts them back, such as a model or an optimizer.
template <typename M>
concept HasState = requires(M& model, const TensorMap& state) {
  { model.state_dict() } -> std::convertible_to<TensorMap>;
  model.load_state_dict(state);
};

/// Variables by name: std::map<std::string, Variable>, or std::unordered_map.
template <typename Map>
concept VariablesByName = std::derived_from<typename Map::mapped_type, Variable> &&
    std::convertible_to<typename Map::key_type, std::string>;
namespace detail {
template <typename Map>
TensorMap tensors_of(const Map& variables) {
  TensorMap tensors;
  for (const auto& [name, x] : variables) tensors.emplace(name, x.value());
  return tensors;
}
}  // namespace detail

struct SaveOptions {
  /// If set, floating-point tensors are converted to this dtype; others are stored unchanged.
  /// save() throws ArgumentError for a finite value that would become infinite: the largest float16
  /// is 65504.
  std::optional<DType> dtype = {};
  std::map<std::string, std::string> metadata = {};
};

/// Writes a temporary file beside the target, flushes it and renames it over the target, so the
/// path always has the old file or the new one. Throws IoError on failure; the old file is then
/// unchanged. Throws ArgumentError for a path that ends in .npy or .npz; io/numpy_file.h writes
/// NumPy's files.
void save(const std::string& path, const TensorMap& tensors, SaveOptions options = {},
          Where where = Where::current());
template <HasState M>
void save(const std::string& path, const M& model, SaveOptions options = {},
          Where where = Where::current()) {
  at_line(where, [&] { save(path, TensorMap(model.state_dict()), std::move(options), where); });
}

template <VariablesByName Map>
void save(const std::string& path, const Map& variables, SaveOptions options = {},
          Where where = Where::current()) {
  save(path, detail::tensors_of(variables), std::move(options), where);
}
template <VariablesByName Map>
void save(const Map& variables, const std::string& path, SaveOptions options = {},
          Where where = Where::current()) {
  save(path, detail::tensors_of(variables), std::move(options), where);
}

/// Content of a file under one name: a tensor, a number, the tensors of a model, an optimizer or a
/// state, or a list of such values with names.
class Saved {
 public:
  /// Stores a number as a tensor of one element: int64, bool or float64.
  template <typename T>
  requires std::is_arithmetic_v<T> Saved(T value) : Saved(number(value)) {}
  Saved(const Tensor& value);
  template <std::derived_from<Variable> V>
  Saved(const V& value) : Saved(value.value()) {}
  Saved(TensorMap state);
  template <HasState M>
  Saved(const M& model) : Saved(TensorMap(model.state_dict())) {}
  template <VariablesByName Map>
  Saved(const Map& variables) : Saved(detail::tensors_of(variables)) {}
  Saved(std::initializer_list<std::pair<std::string, Saved>> values);
  template <std::same_as<char> C>
  Saved(const C*) {
    static_assert(detail::kNever<C>, "texts are metadata: save(path, model, {.metadata = ...})");
  }

  /// Returns the tensors by their names in the file: "epoch", "model.fc.weight".
  static TensorMap join(std::initializer_list<std::pair<std::string, Saved>> values);

 private:
  static Tensor number(Number value);
  TensorMap tensors_;
  bool has_names_ = false;
};
/// Saves several values in one file: `save("x.safetensors", {{"x", x}, {"y", y}})`,
/// `save("run.safetensors", {{"epoch", 3}, {"model", net}, {"adam", adam.state_dict()}})`. The
/// tensors of a model are named "model.fc.weight"; part_of() returns them. Throws ArgumentError if
/// two tensors get one name.
void save(const std::string& path, std::initializer_list<std::pair<std::string, Saved>> values,
          Where where = Where::current());
void save(std::initializer_list<std::pair<std::string, Saved>> values, const std::string& path,
          Where where = Where::current());
/// Returns one of the states in such a file. Returns an empty map if the file has no state of this
/// name: `model.load_state_dict(part_of(load("run.safetensors"), "model"))`.
TensorMap part_of(const TensorMap& tensors, const std::string& state);
/// Saves a Variable under the name "0", or several under "0", "1" ...
void save(const Variable& x, const std::string& path, Where where = Where::current());
template <std::derived_from<Variable> V>
void save(const std::string& path, const V& x, Where where = Where::current()) {
  save(x, path, where);
}
void save(const std::vector<Variable>& xs, const std::string& path, Where where = Where::current());
void save(std::initializer_list<Variable> xs, const std::string& path,
          Where where = Where::current());
/// Reads a file written by save() of Variables. Throws FormatError for a file with other names.
void load(Variable& x, const std::string& path, Where where = Where::current());
void load(std::vector<Variable>& xs, const std::string& path, Where where = Where::current());
/// Overload with the order of arguments of torch::save(model, path).
template <HasState M>
void save(const M& model, const std::string& path, SaveOptions options = {},
          Where where = Where::current()) {
  at_line(where, [&] { save(path, TensorMap(model.state_dict()), std::move(options), where); });
}
/// Overload for a model behind a pointer, as in libtorch: auto net = std::make_shared<Net>().
template <HasState M>
void save(const std::shared_ptr<M>& model, const std::string& path, SaveOptions options = {},
          Where where = Where::current()) {
  save(path, *model, std::move(options), where);
}
void save(const TensorMap& tensors, const std::string& path, SaveOptions options = {},
          Where where = Where::current());

/// Returns the tensors of a file, on the CPU. Throws IoError if the file cannot be read, and
/// FormatError, naming the file and the fault, if the file is invalid or incomplete. Supports F64
/// F32 F16 BF16 I64 I32 I16 I8 U8 BOOL, at most 8 dimensions, and a header of at most 8 MiB.
TensorMap load(const std::string& path, Where where = Where::current());
std::map<std::string, std::string> load_metadata(const std::string& path,
                                                 Where where = Where::current());

/// Converts each floating-point tensor to the dtype of the tensor with the same name in `like`, if
/// that is a floating-point dtype. Throws ArgumentError for a finite value that would become
/// infinite.
TensorMap convert_like(TensorMap tensors, const TensorMap& like);

/// Loads a file's tensors into a model; floats are converted to the model's dtype. If names, shapes
/// or dtypes do not match, throws one ArgumentError that lists all faults, and the model is
/// unchanged.
template <HasState M>
void load(const std::string& path, M& model, Where where = Where::current()) {
  at_line(where,
          [&] { model.load_state_dict(convert_like(load(path, where), model.state_dict())); });
}
template <HasState M>
void load(M& model, const std::string& path, Where where = Where::current()) {
  load(path, model, where);
}
template <HasState M>
void load(const std::shared_ptr<M>& model, const std::string& path,
          Where where = Where::current()) {
  load(path, *model, where);
}

// Streams in place of files, as in libtorch. A stream holds one object, from its position to its
// end. A std::ofstream and a std::ifstream are opened with std::ios::binary.

void save(const TensorMap& tensors, std::ostream& out, SaveOptions options = {},
          Where where = Where::current());
void save(const Variable& x, std::ostream& out, Where where = Where::current());
template <HasState M>
void save(const M& model, std::ostream& out, SaveOptions options = {},
          Where where = Where::current()) {
  at_line(where, [&] { save(TensorMap(model.state_dict()), out, std::move(options), where); });
}
/// Throws IoError if the stream cannot be read, and FormatError if its content is invalid.
TensorMap load(std::istream& in, Where where = Where::current());
void load(Variable& x, std::istream& in, Where where = Where::current());
template <HasState M>
void load(M& model, std::istream& in, Where where = Where::current()) {
  at_line(where, [&] { model.load_state_dict(convert_like(load(in, where), model.state_dict())); });
}

}  // namespace tapegrad
