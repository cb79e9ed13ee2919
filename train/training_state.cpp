#include "train/training_state.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/generator.h"

namespace tapegrad {
namespace {

Tensor integer(uint64_t value) { return Tensor::full({}, int64_t(value), i64); }

uint64_t integer_at(const TensorMap& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.dtype() != i64 || found->second.numel() != 1)
    fail<ArgumentError>("no integer \"", name, '"');
  return uint64_t(found->second.number().to<int64_t>());
}

TensorMap random_state() {
  const RandomState state = default_generator().state();
  return {{"seed", integer(state.seed)}, {"offset", integer(state.offset)}};
}

void set_random_state(const TensorMap& state) {
  default_generator().set_state({integer_at(state, "seed"), integer_at(state, "offset")});
}

/// Returns the tensors whose names begin with "part.", without this prefix.
TensorMap part_of(const TensorMap& all, const std::string& part) {
  const std::string prefix = part + '.';
  TensorMap found;
  for (auto it = all.lower_bound(prefix); it != all.end() && it->first.starts_with(prefix); ++it)
    found.emplace(it->first.substr(prefix.size()), it->second);
  return found;
}

}  // namespace

TrainingState::TrainingState() { add({"random", random_state, set_random_state}); }

TrainingState& TrainingState::operator()(const std::string& name, Loader& loader) {
  return add(
      {name,
       [&loader] {
         const LoaderState state = loader.state();
         return TensorMap{{"epoch", integer(state.epoch)},
                          {"position", integer(uint64_t(state.position))}};
       },
       [&loader](const TensorMap& state) {
         loader.set_state({integer_at(state, "epoch"), int64_t(integer_at(state, "position"))});
       }});
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

void TrainingState::save(const std::string& path) const {
  TensorMap all;
  for (const Part& part : parts_)
    for (auto& [name, tensor] : part.state()) all.emplace(part.name + '.' + name, tensor);
  tapegrad::save(path, all);
}

void TrainingState::load(const std::string& path) {
  const TensorMap all = tapegrad::load(path);
  const std::vector<TensorMap> before = snapshot();
  size_t next = 0;
  try {
    for (; next < parts_.size(); ++next) parts_[next].restore(part_of(all, parts_[next].name));
  } catch (const ArgumentError& error) {
    for (size_t i = 0; i < next; ++i) parts_[i].restore(before[i]);
    fail<ArgumentError>(path, ": ", parts_[next].name, ": ", error.what());
  }
}

}  // namespace tapegrad
