// tapegrad op run: writes the results and the status of the cases.
#include <fstream>
#include <memory>

#include <tapegrad/core/error.h>
#include <tapegrad/io/safetensors.h>

#include "tools/commands.h"
#include "tools/isolate.h"
#include "tools/run_case.h"
#include "tools/selection.h"

namespace tapegrad::tools {
ExitStatus run_cases(const OpOptions& options) {
  const Device device = parse_device(options.device);
  const Selection selection = select_cases(options);
  std::ofstream status(options.status);
  TensorMap results;
  Tally tally;
  std::unique_ptr<TemporaryFolder> folder;
  if (options.isolate) folder = std::make_unique<TemporaryFolder>();
  for (const CaseLine& line : selection.cases) {
    const auto run = [&](TensorMap& into) {
      return run_case(line, selection.tensors, device, options.order, into);
    };
    Outcome outcome = options.isolate
                          ? run_isolated(line, options.case_timeout, *folder, run, results)
                          : run(results);
    if (outcome.ms > options.case_timeout * 1000) outcome.status = "timeout";
    status << to_line(to_json(outcome)) << std::endl;  // flushed: survives a crash
    tally.add(line, outcome);
  }
  if (!status) fail<IoError>("cannot write ", options.status);
  save(options.out, results);
  return tally.finish();
}

}  // namespace tapegrad::tools
