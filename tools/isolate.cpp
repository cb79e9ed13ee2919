#include "tools/isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <tapegrad/core/error.h>
#include <tapegrad/io/safetensors.h>

namespace tapegrad::tools {
namespace {

using Clock = std::chrono::steady_clock;

void write_all(int file, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR) return;
    if (written > 0) at += size_t(written);
  }
}

/// Reads the pipe until it is closed. Returns false on timeout.
bool read_all(int file, double seconds, std::string& text) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::min(seconds, 1e7)));
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{.fd = file, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, int(std::min<int64_t>(left, 1'000'000)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char part[4096];
    const ssize_t count = read(file, part, sizeof part);
    if (count == 0) return true;
    if (count > 0) text.append(part, size_t(count));
  }
}

[[noreturn]] void be_the_child(int answer, const std::string& file,
                               const std::function<Outcome(TensorMap&)>& run) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  try {
    TensorMap results;
    const Outcome outcome = run(results);
    save(file, results);
    write_all(answer, to_line(to_json(outcome)));
    status = 0;
  } catch (const std::exception& error) {
    write_all(STDERR_FILENO, std::string("tapegrad: ") + error.what() + '\n');
  }
  _exit(status);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ')';
  return "ended with status " + std::to_string(WEXITSTATUS(status)) + " and no answer";
}

Outcome from_json(const nlohmann::ordered_json& answer) {
  return {.id = answer["id"],
          .status = answer["status"],
          .kind = answer["kind"],
          .message = answer["message"],
          .ms = answer["ms"],
          .kernels = answer["kernels"],
          .out = answer["out"],
          .null_grads = answer["null_grads"]};
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "tapegrad-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    fail<IoError>("cannot make a folder ", pattern, ": ", std::strerror(errno));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Outcome run_isolated(const CaseLine& line, double timeout, const TemporaryFolder& folder,
                     const std::function<Outcome(TensorMap& results)>& run, TensorMap& results) {
  const std::string file = folder.file("results.safetensors");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail<IoError>("cannot make a pipe: ", std::strerror(errno));
  const Clock::time_point start = Clock::now();
  const pid_t child = fork();
  if (child < 0) fail<IoError>("cannot start a process: ", std::strerror(errno));
  if (child == 0) be_the_child(ends[1], file, run);
  close(ends[1]);

  std::string answer;
  const bool in_time = read_all(ends[0], timeout, answer);
  close(ends[0]);
  if (!in_time) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }

  Outcome outcome{.id = line.id};
  outcome.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (!in_time) {
    outcome.status = "timeout";
    outcome.message = "no end after " + std::to_string(timeout) + " s";
  } else if (status != 0) {
    outcome.status = "crash";
    outcome.message = describe_end(status);
  } else {
    outcome = from_json(nlohmann::ordered_json::parse(answer));
    results.merge(load(file));
  }
  std::filesystem::remove(file);
  return outcome;
}

}  // namespace tapegrad::tools
