#include "train/internal/fit_checkpoint.h"

#include "core/base/error.h"
#include "io/atomic_file.h"

namespace tapegrad {
namespace {

/// Calls a function that reads or writes the file; adds advice to its errors.
template <typename Call>
void with_advice(const std::string& advice, const Call& call) {
  try {
    call();
  } catch (const IoError& error) {
    fail<IoError>("fit: ", error.what(), "; ", advice);
  } catch (const FormatError& error) {
    fail<FormatError>("fit: ", error.what(), "; ", advice);
  } catch (const ArgumentError& error) {
    fail<ArgumentError>("fit: ", error.what(), "; ", advice);
  }
}

}  // namespace

void FitCheckpoint::require_writable() const {
  with_advice("choose a .checkpoint in a folder that can be written",
              [&] { const AtomicFile attempt(path_); });
}

bool FitCheckpoint::resume() {
  bool resumed = false;
  with_advice("to start anew, remove the file or choose another .checkpoint",
              [&] { resumed = state_.resume(path_); });
  return resumed;
}

/// A rank that does not find the file would start a new run.
void FitCheckpoint::require_same_steps(int64_t steps) const {
  const int64_t most = world_.max(steps, "steps"), fewest = -world_.max(-steps, "steps");
  const auto text = [](int64_t n) { return n < 0 ? "none" : std::to_string(n) + " steps"; };
  if (most != fewest)
    fail<IoError>("fit: rank ", world_.rank(), " found a checkpoint of ", text(steps),
                  ", other ranks one of ", text(steps == most ? fewest : most),
                  ": .checkpoint must be on a file system that all ranks share");
}

void FitCheckpoint::save() const {
  with_advice(
      "the last checkpoint is unchanged: make room or mend the folder, then run again to continue "
      "from it",
      [&] { state_.save(path_, world_); });
}

}  // namespace tapegrad
