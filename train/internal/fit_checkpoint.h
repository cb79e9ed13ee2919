// The checkpoint file of fit(). Errors suggest a remedy, and several ranks compare the contents
// that they have read.
#pragma once

#include <cstdint>
#include <string>

#include "dist/communicator.h"
#include "train/training_state.h"

namespace tapegrad {

class FitCheckpoint {
 public:
  /// With an empty path nothing is read or written. Keeps references to both arguments.
  FitCheckpoint(const std::string& path, const dist::Communicator& world)
      : path_(path), world_(world) {}

  bool is_wanted() const { return !path_.empty(); }
  /// Returns the parts of the file. The owner adds them before the first use.
  TrainingState& state() { return state_; }

  /// Throws unless the file can be written.
  void require_writable() const;
  /// Reads the file into the parts if the file exists. Returns whether it exists.
  bool resume();
  /// Throws unless all ranks have read a file with the same number of steps; -1 means no file.
  void require_same_steps(int64_t steps) const;
  /// Replaces the file. After an error the previous file is unchanged.
  void save() const;

 private:
  const std::string& path_;
  const dist::Communicator& world_;
  TrainingState state_;
};

}  // namespace tapegrad
