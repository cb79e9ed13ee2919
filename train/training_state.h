// TrainingState: the whole state of a training run in one file, from which another process can
// continue bit for bit.
//
//   TrainingState run;
//   run("model", net)("optimizer", adam)("schedule", warmup)("batches", loader);
//   run.resume("run.safetensors");   // if there is such a file
//   for (...) {
//     ...
//     run.save("run.safetensors");   // every epoch, or every hundred steps
//   }
//
// Several ranks (dist/init.h) save one checkpoint: run.save("run.safetensors", world). Any number
// of ranks can continue from the file.
//
// Parts are held by reference and must outlive this object. A part is an object with a
// state_dict(), a loader, a variable, or a counter. The default random generator is a part of every
// run, "random".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tape/variable.h"
#include "data/loader.h"
#include "dist/communicator.h"
#include "io/safetensors.h"

namespace tapegrad {

class TrainingState {
 public:
  TrainingState();

  /// Adds a part. Throws ArgumentError if the name exists, is empty, or contains a dot.
  template <HasState Part>
  TrainingState& operator()(const std::string& name, Part& part) {
    std::function<TensorMap()> shards;
    if constexpr (requires { part.shard_dict(); })
      shards = [&part] { return TensorMap(part.shard_dict()); };
    return add({name, [&part] { return TensorMap(part.state_dict()); },
                [&part](const TensorMap& state) { part.load_state_dict(state); }, shards});
  }
  TrainingState& operator()(const std::string& name, Loader& loader);
  TrainingState& operator()(const std::string& name, Variable& variable);
  TrainingState& operator()(const std::string& name, int64_t& number);

  /// Saves every part's tensors as "part.tensor". Throws IoError if the file cannot be written; the
  /// old file is then unchanged.
  void save(const std::string& path) const;
  /// Saves every part from several ranks. Rank 0 writes the file. If a part is divided among the
  /// ranks (dist/sharded_optimizer.h), each rank first writes its share to
  /// "PATH.NUMBER.RANK-of-RANKS". PATH, which names these files, is replaced after all of them have
  /// been written; then files of earlier saves are removed. If one rank fails, all ranks throw an
  /// IoError that names it, and the last checkpoint is unchanged. The files must be on a file
  /// system that the ranks share. A collective.
  void save(const std::string& path, const dist::Communicator& world) const;
  /// Restores every part. If an entry is missing or does not match, throws ArgumentError that names
  /// the part, and no part is changed. Throws the IoError and FormatError of load() in
  /// io/safetensors.h, and FormatError for a file that a newer version of the library wrote.
  void load(const std::string& path);
  /// Calls load() if the file exists. Returns whether it exists.
  bool resume(const std::string& path);

 private:
  struct Part {
    std::string name;
    std::function<TensorMap()> state;
    std::function<void(const TensorMap&)> restore;
    std::function<TensorMap()> shards = {};  // set if the part is divided among the ranks
  };
  TrainingState& add(Part part);
  static TensorMap read(const std::string& path);
  std::vector<TensorMap> snapshot() const;

  std::vector<Part> parts_;
};

}  // namespace tapegrad
