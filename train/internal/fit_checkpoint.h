// The checkpoint file of fit(): errors say what to do, and several ranks agree on what they found.
#pragma once

#include <cstdint>
#include <string>

#include "dist/communicator.h"
#include "train/training_state.h"

namespace tapegrad {

class FitCheckpoint {
 public:
  /// With an empty path nothing is read or written. Keeps references to both.
  FitCheckpoint(const std::string& path, const dist::Communicator& world)
      : path_(path), world_(world) {}

  bool is_wanted() const { return !path_.empty(); }
  /// The parts of the file, which the owner names before the first use.
  TrainingState& state() { return state_; }

  /// Throws unless the file can be written.
  void require_writable() const;
  /// Reads the file into the parts if it exists. Returns whether it does.
  bool resume();
  /// Throws unless all ranks have read a file with as many steps; -1: there was none.
  void require_same_steps(int64_t steps) const;
  /// Replaces the file. After an error the last one is unchanged.
  void save() const;

 private:
  const std::string& path_;
  const dist::Communicator& world_;
  TrainingState state_;
};

}  // namespace tapegrad
