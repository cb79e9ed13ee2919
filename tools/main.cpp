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

constexpr std::string_view kHelp = R"(tapegrad op: runs ops that a file describes

  tapegrad op list      [--format=text|json|markdown]
  tapegrad op run       --cases=C.jsonl --tensors=T.safetensors --out=R.safetensors --status=S.jsonl
                        [--device=cpu|cuda[:i]] [--threads=N] [--order=0|1|2] [--filter=REGEX]
                        [--isolate] [--case_timeout=30s]
  tapegrad op gradcheck --cases=... --tensors=... [--device] [--threads] [--order=1|2] [--filter]
  tapegrad op bench     --cases=... --tensors=... [--device] [--threads] [--order] [--filter]
                        [--min_time=0.5s] [--cpu_time]
  tapegrad --version

list       prints the catalog. JSON: [{"name", "inputs": [{"name", "optional", "list"}],
           "attributes": [{"name", "type", "default"}], "dtypes": {"cpu": [...], "cuda": [...]},
           "max_order", "random", "inplace"}]. A required attribute has no "default". max_order 2
           means any order. dtypes are found by running the op on tiny inputs.
run        runs each case of C on tensors of T. Writes results to R, and one line per case to S:
           {"id", "status": "ok|error|unsupported|crash|timeout", "kind", "message", "ms",
           "kernels", "out": [{"dtype", "shape"}], "null_grads"}. "kernels" lists the kernels that
           ran; "unsupported" means that a kernel is missing; "null_grads" lists the inputs whose
           first gradient is undefined.
gradcheck  compares the full Jacobian in float64 with central differences. An in-place op gets a
           copy of its first input. Prints one JSON line per case.
bench      measures the time of each case, including gradients if its order is above 0. Prints one
           JSON line per case. --cpu_time counts processor time of all threads, which other programs
           change less. benchmarks/peers/torch_sweep.py runs it over the catalog beside PyTorch.

A case is one line of C:

  {"id": "conv2d/7", "op": "conv2d",
   "inputs": [{"t": "x", "grad": true,
               "view": {"shape": [1, 24, 6, 6], "strides": [864, 36, 6, 1], "offset": 0}},
              {"t": "w", "grad": true}, null],
   "attrs": {"stride": [2, 2], "groups": 24}, "order": 2, "seeds": ["v"], "seeds2": ["s0", "s1"],
   "rng_seed": "42", "expect": "ok"}

  inputs     an array in order, or an object by name. null is an input that is left out, and
             {"list": [...]} an input that is a list. "t" names a tensor of T. "view" applies to
             its flat buffer and counts elements. Equal "t" and view give the same Variable.
  attrs      numbers too wide for JSON, nan and inf are strings; dtypes have NumPy's names.
  order      0 writes outputs <id>/out/k; 1 also gradients <id>/g1/i of sum <seeds_k, y_k>; 2 also
             <id>/g2/i and <id>/g2/seed/k of sum <seeds2_i, g1_i>. --order is an upper limit, and
             the default for cases without an order. i counts flattened inputs. There is one of
             seeds per floating-point output, and one of seeds2 per input with grad.
  rng_seed   seed of the default generator; the default is 0.
  expect     "ok", or {"error": KIND}: argument, shape, dtype, index, device, autograd, kernel,
             out_of_memory. Shape, dtype and index errors are argument errors too.

Exit status: 0 all cases ended as expected; 1 some did not; 2 invalid command line, or a file that
cannot be opened; 3 malformed input file; 4 a case crashed or timed out. With --isolate each case
runs in its own process; without it, a timeout is detected only after the case has ended.
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
    known.insert(known.end(), {"min_time", "cpu_time"});
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
