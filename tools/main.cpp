// The `tapegrad` command.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <tapegrad/core/error.h>
#include <tapegrad/core/runtime_info.h>

#include "tools/commands.h"

namespace tapegrad::tools {
namespace {

constexpr std::string_view kHelp = R"(tapegrad op: any op, run from a file

  tapegrad op list      [--format=text|json|markdown]
  tapegrad op run       --cases=C.jsonl --tensors=T.safetensors --out=R.safetensors --status=S.jsonl
                        [--device=cpu|cuda[:i]] [--threads=N] [--order=0|1|2] [--filter=REGEX]
                        [--isolate] [--case_timeout=30s]
  tapegrad op gradcheck --cases=... --tensors=... [--device] [--threads] [--order=1|2] [--filter]
  tapegrad op bench     --cases=... --tensors=... [--device] [--threads] [--order] [--filter]
                        [--min_time=0.5s]
  tapegrad --version

list       the catalog. JSON: [{"name", "inputs": [{"name", "optional", "list"}], "attributes":
           [{"name", "type", "default"}], "dtypes": {"cpu": [...], "cuda": [...]}, "max_order",
           "random", "inplace"}]. An attribute that must be given has no "default"; max_order 2
           means any order. dtypes are those with which the op runs on tiny inputs.
run        each case of C on tensors of T; results to R, a line for each case to S: {"id", "status":
           "ok|error|unsupported|crash|timeout", "kind", "message", "ms", "kernels", "out": [{"dtype",
           "shape"}], "null_grads"}. kernels are those that ran; unsupported: there was none;
           null_grads are the inputs whose first gradient is undefined.
gradcheck  backward passes against central differences, in float64, the full Jacobian. An in-place
           op gets a copy of its first input. One JSON line a case.
bench      the time of a case, with its gradients when it has an order. One JSON line a case.

A case is one line of C:

  {"id": "conv2d/7", "op": "conv2d",
   "inputs": [{"t": "x", "grad": true,
               "view": {"shape": [1, 24, 6, 6], "strides": [864, 36, 6, 1], "offset": 0}},
              {"t": "w", "grad": true}, null],
   "attrs": {"stride": [2, 2], "groups": 24}, "order": 2, "seeds": ["v"], "seeds2": ["s0", "s1"],
   "rng_seed": "42", "expect": "ok"}

  inputs     by position, or an object by name; null is one left out, {"list": [...]} an argument
             that takes several. "t" names a tensor of T; "view" applies to its flat buffer, in
             elements. The same "t" with the same view is the same Variable.
  attrs      numbers too wide for JSON, nan and inf are strings; dtypes are NumPy's names.
  order      0 outputs <id>/out/k; 1 also gradients <id>/g1/i of sum <seeds_k, y_k>; 2 also
             <id>/g2/i and <id>/g2/seed/k of sum <seeds2_i, g1_i>. --order lowers it, and stands in
             where a case has none. i counts flattened inputs, seeds the floating outputs, seeds2
             the inputs with grad.
  rng_seed   of the default generator; 0 when absent.
  expect     "ok", or {"error": KIND}: argument, shape, dtype, index, device, autograd, kernel,
             out_of_memory. Shape, dtype and index errors are argument errors too.

Exit status: 0 every case ended as it expects; 1 some did not; 2 a wrong command line, or a file
that cannot be opened; 3 a malformed input file; 4 a case crashed or timed out (with --isolate, each
case in a process of its own; without, a case is only found late after it has ended).
)";

using Arguments = std::vector<std::string_view>;

/// Sets the number of threads and executes the program again, since OpenMP reads the number when a
/// program starts.
void use_threads(int threads, char** argv) {
  const std::string count = std::to_string(threads);
  const char* now = std::getenv("OMP_NUM_THREADS");
  if (threads == 0 || (now != nullptr && count == now)) return;
  setenv("OMP_NUM_THREADS", count.c_str(), /*overwrite=*/1);
  execv("/proc/self/exe", argv);
  fail<UsageError>("--threads: cannot start again: ", std::strerror(errno));
}

ExitStatus run_op_command(const Arguments& arguments, char** argv) {
  if (arguments.empty()) fail<UsageError>("op: list, run, gradcheck or bench?");
  const std::string_view command = arguments[0];
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (command == "list") return list_ops(parse_options(rest, {"format"}));

  Arguments known = {"cases", "tensors", "device", "threads", "order", "filter"};
  Arguments required = {"cases", "tensors"};
  ExitStatus (*run)(const OpOptions&) = nullptr;
  if (command == "run") {
    run = run_cases;
    known.insert(known.end(), {"out", "status", "isolate", "case_timeout"});
    required.insert(required.end(), {"out", "status"});
  } else if (command == "gradcheck") {
    run = gradcheck_cases;
  } else if (command == "bench") {
    run = bench_cases;
    known.push_back("min_time");
  } else {
    fail<UsageError>("op: no command ", command);
  }
  const OpOptions options = parse_options(rest, known);
  require_options(options, required);
  use_threads(options.threads, argv);
  return run(options);
}

ExitStatus run_command(const Arguments& arguments, char** argv) {
  for (std::string_view argument : arguments)
    if (argument == "--help") {
      std::cout << kHelp;
      return kAsExpected;
    }
  if (arguments.empty()) fail<UsageError>("no command");
  if (arguments[0] == "--version") {
    std::cout << runtime_info();
    return kAsExpected;
  }
  if (arguments[0] != "op") fail<UsageError>("no command ", arguments[0]);
  return run_op_command({arguments.begin() + 1, arguments.end()}, argv);
}

}  // namespace
}  // namespace tapegrad::tools

int main(int argc, char** argv) {
  using namespace tapegrad::tools;
  const auto failed = [](ExitStatus status, const std::exception& error, const char* hint) {
    std::cerr << "tapegrad: " << error.what() << hint << '\n';
    return status;
  };
  try {
    return run_command({argv + 1, argv + argc}, argv);
  } catch (const UsageError& error) {
    return failed(kUsage, error, "\ntry: tapegrad --help");
  } catch (const tapegrad::FormatError& error) {
    return failed(kMalformed, error, "");
  } catch (const std::exception& error) {
    return failed(kUsage, error, "");
  }
}
