#include "train/training_state.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_join.h"

#include "core/base/error.h"
#include "core/base/generator.h"
#include "io/safetensors.h"
#include "train/internal/pass.h"
#include "train/internal/shard_files.h"

namespace tapegrad {
namespace {

Tensor integer(uint64_t value) { return Tensor::full({}, int64_t(value), i64); }

uint64_t integer_at(const TensorMap& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.dtype() != i64 || found->second.numel() != 1)
    fail<ArgumentError>("no integer \"", name, '"');
  return uint64_t(found->second.number().to<int64_t>());
}

/// Throws ArgumentError if the value in the file differs: with another loader, the run would
/// continue with other batches. Files of version 0.1 do not record the loader.
void require_same(const TensorMap& state, const char* name, uint64_t here) {
  if (!state.contains(name)) return;
  const uint64_t there = integer_at(state, name);
  if (there != here)
    fail<ArgumentError>("the loader's ", name, " is ", here, ", that of the file ", there);
}

/// Returns the size of the batches of all shards together. A run may continue with another number
/// of shards.
int64_t batch_of_ranks(const Loader& loader) { return loader.batch_size() * loader.shard().size; }

constexpr const char* kChecksum = "checksum";
/// Number that increases when older versions of the library can no longer read the files. A file
/// without it has format 1.
constexpr const char* kFormat = "format";
constexpr int64_t kNewestFormat = 2;  // 2: some tensors are in files of their own

/// FNV-1a of the names, types, shapes and bytes, to detect a file that changed on disk.
uint64_t checksum(const TensorMap& tensors) {
  uint64_t sum = 0xcbf29ce484222325;
  const auto add = [&](const void* data, size_t count) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < count; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
  };
  for (const auto& [name, tensor] : tensors) {
    if (name == kChecksum) continue;
    const Tensor values = tensor.to(cpu).contiguous();
    add(name.data(), name.size() + 1);
    const std::string_view type = tapegrad::name(values.dtype());
    add(type.data(), type.size());
    for (const int64_t size : values.shape()) add(&size, sizeof size);
    add(values.storage().data() + values.layout().offset * size_of(values.dtype()),
        size_t(values.numel() * size_of(values.dtype())));
  }
  return sum;
}

TensorMap random_state() {
  const RandomState state = default_generator().state();
  return {{"seed", integer(state.seed)}, {"offset", integer(state.offset)}};
}

void set_random_state(const TensorMap& state) {
  default_generator().set_state({integer_at(state, "seed"), integer_at(state, "offset")});
}

std::string joined(const std::set<std::string>& names) { return absl::StrJoin(names, ", "); }

/// Throws ArgumentError if the file has other parts, because it belongs to another run then.
void require_same_parts(const std::string& path, const std::set<std::string>& there,
                        const std::set<std::string>& here) {
  if (there == here) return;
  fail<ArgumentError>(path, ": the file has the parts ", joined(there),
                      "; this training state has ", joined(here));
}

}  // namespace

TrainingState::TrainingState() { add({"random", random_state, set_random_state}); }

TrainingState& TrainingState::operator()(const std::string& name, Loader& loader) {
  return add(
      {name,
       [&loader] {
         const LoaderState state = loader.state();
         return TensorMap{{"epoch", integer(state.epoch)},
                          {"position", integer(uint64_t(state.position))},
                          {"examples", integer(uint64_t(loader.dataset_size()))},
                          {"batch_size", integer(uint64_t(batch_of_ranks(loader)))},
                          {"seed", integer(loader.seed())}};
       },
       [&loader](const TensorMap& state) {
         require_same(state, "examples", uint64_t(loader.dataset_size()));
         require_same(state, "batch_size", uint64_t(batch_of_ranks(loader)));
         require_same(state, "seed", loader.seed());
         loader.set_state({integer_at(state, "epoch"), int64_t(integer_at(state, "position"))});
       }});
}

TrainingState& TrainingState::operator()(const std::string& name, Variable& variable) {
  return add({name,
              [&variable] {
                return TensorMap{{"value", variable.value()}};
              },
              [&variable](const TensorMap& state) {
                const auto found = state.find("value");
                if (found == state.end()) fail<ArgumentError>("no tensor \"value\"");
                const Tensor& value = found->second;
                if (value.shape() != variable.shape() || value.dtype() != variable.dtype())
                  fail<ArgumentError>("the variable is ", variable.dtype(), ' ', variable.shape(),
                                      ", that of the file ", value.dtype(), ' ', value.shape());
                variable.rebind(value.clone().to(variable.device()));
              }});
}

TrainingState& TrainingState::operator()(const std::string& name, int64_t& number) {
  return add({name,
              [&number] {
                return TensorMap{{"value", integer(uint64_t(number))}};
              },
              [&number](const TensorMap& state) { number = int64_t(integer_at(state, "value")); }});
}

TrainingState& TrainingState::add(Part part) {
  if (part.name.empty() || part.name.find('.') != std::string::npos)
    fail<ArgumentError>("TrainingState: a part's name is a word without points, not \"", part.name,
                        '"');
  if (std::ranges::find(parts_, part.name, &Part::name) != parts_.end())
    fail<ArgumentError>("TrainingState: two parts named \"", part.name, '"');
  parts_.push_back(std::move(part));
  return *this;
}

/// Returns copies, since a part's own tensors change when it is restored.
std::vector<TensorMap> TrainingState::snapshot() const {
  std::vector<TensorMap> states;
  for (const Part& part : parts_) {
    states.push_back(part.state());
    for (auto& [name, tensor] : states.back()) tensor = tensor.clone();
  }
  return states;
}

void TrainingState::save(const std::string& path) const { save(path, {}); }

void TrainingState::save(const std::string& path, const dist::Communicator& world) const {
  TensorMap common, own;
  bool is_divided = false;
  for (const Part& part : parts_) {
    const bool has_shards = part.shards && world.size() > 1;
    is_divided |= has_shards;
    for (auto& [name, tensor] : has_shards ? part.shards() : part.state())
      (is_piece(name) ? own : common).emplace(part.name + '.' + name, tensor);
  }
  const auto seal = [&](TensorMap& tensors) {
    tensors.emplace(kFormat, integer(is_divided ? 2 : 1));
    tensors.emplace(kChecksum, integer(checksum(tensors)));
  };
  seal(common);
  if (is_divided) seal(own);
  save_by_ranks(path, world, common, own);
}

/// Returns the tensors of a file without the checksum and the format.
TensorMap TrainingState::read(const std::string& path) {
  TensorMap all = tapegrad::load(path);
  if (all.contains(kFormat) && all.at(kFormat).item() > kNewestFormat)
    fail<FormatError>(path, ": the file has format ", integer_at(all, kFormat),
                      ", this version of tapegrad reads formats up to ", kNewestFormat,
                      ": use a newer version");
  if (all.contains(kChecksum) && integer_at(all, kChecksum) != checksum(all))
    fail<FormatError>(path, ": the checksum differs: the file was changed since it was saved");
  all.erase(kFormat);
  all.erase(kChecksum);
  return all;
}

void TrainingState::load(const std::string& path) {
  const TensorMap all = join_pieces(path, read(path), read);
  const std::vector<TensorMap> before = snapshot();
  std::set<std::string> there, here;
  for (const auto& [name, tensor] : all) there.insert(name.substr(0, name.find('.')));
  for (size_t i = 0; i < parts_.size(); ++i)
    if (!before[i].empty() || there.contains(parts_[i].name)) here.insert(parts_[i].name);
  require_same_parts(path, there, here);
  const auto undo = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) parts_[i].restore(before[i]);
  };
  size_t next = 0;
  try {
    for (; next < parts_.size(); ++next) parts_[next].restore(part_of(all, parts_[next].name));
  } catch (const ArgumentError& error) {
    undo(next + 1);
    fail<ArgumentError>(path, ": ", parts_[next].name, ": ", error.what());
  } catch (...) {
    undo(next + 1);
    throw;
  }
}

bool TrainingState::resume(const std::string& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  if (exists || error) load(path);  // for a better error message
  return exists;
}

}  // namespace tapegrad
