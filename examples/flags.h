// Command line handling of the examples: flags outside of their range, unknown words and a folder
// that cannot be written are rejected before anything runs, and output that could not be written is
// an error.
#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <tapegrad/tapegrad.h>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"

namespace examples {

/// Returns the value. ArgumentError, which names the flag, the value and the range, if it is
/// outside of [low, high]; NaN is.
template <typename T>
T in_range(const char* flag, T value, T low, T high = std::numeric_limits<T>::max()) {
  if (value >= low && value <= high) return value;
  std::ostringstream text;
  text << flag << ": " << value << " is not ";
  if (value < low)
    text << "at least " << low;
  else
    text << "in [" << low << ", " << high << ']';
  throw tapegrad::ArgumentError(text.str());
}

/// Whole numbers that must be at least `low`, with their flags.
inline void at_least(int64_t low, std::initializer_list<std::pair<const char*, int64_t>> flags) {
  for (const auto& [flag, value] : flags) in_range(flag, value, low);
}

/// Returns the folder, which is made and tried; empty stays empty.
inline std::filesystem::path writable_folder(const char* flag, const std::string& folder) {
  if (folder.empty()) return {};
  const std::filesystem::path path = folder, probe = path / ".tapegrad-probe";
  std::error_code error;
  std::filesystem::create_directories(path, error);
  const bool is_written = !error && (std::ofstream(probe) << '.').flush().good();
  std::filesystem::remove(probe, error);
  if (!is_written)
    throw tapegrad::IoError(std::string(flag) + ": cannot write to the folder " + folder);
  return path;
}

/// A new folder for temporary files, which is removed with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tapegrad-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw tapegrad::IoError("cannot make a temporary folder " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Sets the default device from the flag --device. An empty text keeps the environment's choice,
/// TAPEGRAD_DEVICE, or else the CPU.
inline void use_device(const std::string& text) {
  if (!text.empty())
    tapegrad::set_default_device(tapegrad::device_or_cpu(tapegrad::parse_device(text)));
}

/// Returns the file for the state of a training run: run.safetensors in the folder of --out, or
/// none if there is no folder. --resume without --out is an ArgumentError.
inline std::string run_file(const std::filesystem::path& out, bool resume) {
  if (!out.empty()) return (out / "run.safetensors").string();
  if (resume) throw tapegrad::ArgumentError("--resume: give the folder of the run with --out");
  return {};
}

/// Continues the run whose state is in the file, if --resume is given and there is such a file.
inline void resume_run(tapegrad::TrainingState& state, const std::string& file, bool resume) {
  if (resume && state.resume(file)) std::cout << file << ": the run continues\n";
}

/// Prints the time of the fastest step. Prints nothing for infinity, of a run that made no step.
inline void print_fastest_step(double seconds) {
  if (std::isfinite(seconds)) std::cout << "fastest step: " << seconds * 1e3 << " ms\n";
}

/// Main function of an example. An error is printed once, with the rank if there are several.
template <typename Run>
int run_example(const char* name, const char* usage, int argc, char** argv, Run run) {
  absl::SetProgramUsageMessage(usage);
  // Abseil ends a program that was asked for help with status 1.
  if (argc == 2 && std::string_view(argv[1]) == "--help")
    std::atexit([] {
      std::cout.flush();
      std::_Exit(EXIT_SUCCESS);
    });
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  try {
    if (words.size() > 1)
      throw tapegrad::ArgumentError(std::string("unknown argument: ") + words[1]);
    run();
    if (!std::cout.flush()) throw tapegrad::IoError("the output could not be written");
  } catch (const std::exception& error) {
    // One write, so that the lines of several ranks do not mix.
    std::cerr << name + (": " + tapegrad::dist::with_rank(error.what())) + '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace examples
