// A run of training in one file, from which another process goes on bit for bit.
//
//   TrainingState run;
//   run("model", net)("optimizer", adam)("schedule", warmup)("batches", loader);
//   if (resume) run.load("run.safetensors");
//   for (...) {
//     ...
//     run.save("run.safetensors");   // every epoch, or every hundred steps
//   }
//
// The parts are named, not copied: they must outlive it. The default generator of random numbers is
// a part of every run, "random".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "io/safetensors.h"

namespace tapegrad {

class TrainingState {
 public:
  TrainingState();

  /// ArgumentError for a name that is there already, is empty, or holds a point.
  template <HasState Part>
  TrainingState& operator()(const std::string& name, Part& part) {
    return add({name, [&part] { return TensorMap(part.state_dict()); },
                [&part](const TensorMap& state) { part.load_state_dict(state); }});
  }
  TrainingState& operator()(const std::string& name, Loader& loader);

  /// Every part's tensors, "part.tensor". IoError, and the old file as it was, when it cannot be
  /// written.
  void save(const std::string& path) const;
  /// ArgumentError that names the part when something is missing or does not fit; every part is
  /// then as it was before. IoError and FormatError as load() of io/safetensors.h.
  void load(const std::string& path);

 private:
  struct Part {
    std::string name;
    std::function<TensorMap()> state;
    std::function<void(const TensorMap&)> restore;
  };
  TrainingState& add(Part part);
  std::vector<TensorMap> snapshot() const;

  std::vector<Part> parts_;
};

}  // namespace tapegrad
