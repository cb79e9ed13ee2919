// RunLedger records the result of every op of a run; compare_runs() finds where two runs diverge.
//
//   RunLedger ledger;                        // records this thread from here on
//   for (int step = 0; step < 3; ++step) {
//     ledger.note("batch", x);
//     ... forward, backward, step ...
//     ledger.note(model);                    // the weights after the step
//   }
//   ledger.save("cpu.ledger");               // and "gpu.ledger" from another run
//
//   std::cout << compare_runs("cpu.ledger", "gpu.ledger", {.tolerance = 1e-4});
//
//   the runs part at entry 215 of 630, in step 2:
//     forward of softmax, in Net.attention, at model.cpp:31, float32 [64, 10]
//     relative error 3.1e-2
//   before it: forward of matmul, in Net.attention, at model.cpp:30: relative error 2.2e-7
//
// An entry has 61 bytes: a hash of the bits of a result, two sums of its elements with random
// signs, an estimate of its norm, and two sums of its bits. The difference of the sums between two
// runs estimates the norm of the difference of the results. The ledgers of two devices, dtypes or
// libraries can therefore be compared, although they do not contain the values.
// docs/compare_runs.md has an example.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "core/base/owner.h"
#include "core/tape/variable.h"
#include "nn/module.h"
#include "ops/sketch.h"
#include "train/callback.h"

namespace tapegrad {

struct LedgerOptions {
  /// Record the ops and weights of every n-th step, beginning with the first.
  int64_t every = 1;
};

class RunLedger {
 public:
  /// Throws ArgumentError for `every` below 1.
  explicit RunLedger(LedgerOptions options = {});
  ~RunLedger();
  RunLedger(const RunLedger&) = delete;
  RunLedger& operator=(const RunLedger&) = delete;

  /// Ends the recording. A second call has no effect.
  void stop();

  /// Adds a value that is not the result of an op, such as a batch or a weight.
  void note(const std::string& name, const Variable& value);
  /// Adds all parameters, if the ops of the step were recorded, and ends the step.
  void note(const nn::Module& model);
  /// Ends the step without its weights. A fault of the optimizer is then found in the first op of
  /// the next step that reads the weight.
  void end_step();

  int64_t size() const;  // number of entries
  /// Writes a safetensors file. Throws IoError if it cannot be written.
  void save(const std::string& path) const;

 private:
  friend class LedgerFault;
  struct Impl;
  detail::Owner<Impl> impl_;
};

/// Records a run of fit(): batches, ops, and the weights after every step.
Callback record(RunLedger& ledger);

struct CompareOptions {
  /// Largest relative error of a result that does not count as a difference; 0 compares all bits.
  double tolerance = 0;
};

/// The place where two runs diverge.
struct RunDifference {
  struct Place {
    int64_t entry = -1, step = 0;
    std::string pass;  // "forward", "backward", "value"
    std::string op, module, line, type;
    double error = 0;  // estimated relative error of the result
  };

  bool equal = true;
  int64_t compared = 0;  // entries of both runs
  Place at;              // first difference
  Place before;          // last entry that agrees; its op is empty if there is none
  std::string reason;    // set if the runs execute different ops from there on
};
/// Prints the lines above, or that the runs agree.
std::ostream& operator<<(std::ostream& out, const RunDifference& difference);

/// Compares two files of RunLedger::save(), or one with the file of a PyTorch run
/// (docs/compare_runs.md), whose entries are the outputs of modules. Throws IoError for a file that
/// cannot be read, and FormatError for a file that is not a ledger.
RunDifference compare_runs(const std::string& a, const std::string& b, CompareOptions options = {});

}  // namespace tapegrad
