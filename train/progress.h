// Progress line of an epoch.
//
//   469/469 ━━━━━━━━━━━━━━━━━━━━ 12s 25ms/step - loss: 0.5311 - accuracy: 0.8123
//   469/469 ━━━━━━━━━━━━━━━━━━━━ 12s 25ms/step 5.1k/s 61 MiB - loss: 0.5311
//   [##################################################] 12.3/12.3 s - loss: 0.5311
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/output.h"

namespace tapegrad {

using NamedValues = std::vector<std::pair<std::string, double>>;

enum class ProgressStyle {
  kKeras,  // steps, a bar, seconds (while running: remaining), time per step, values
  kMarks,  // a bar of 50 characters, elapsed / estimated total seconds, values
  kNone,
};

struct ProgressOptions {
  ProgressStyle style = ProgressStyle::kKeras;
  std::ostream* out = &standard_output();
  /// Whether the line is redrawn while it changes, at most ten times a second. Otherwise each epoch
  /// prints one line. Default: whether `out` is std::cout or std::cerr on a terminal.
  std::optional<bool> live = {};
  std::optional<int> columns = {};  // width of the terminal; detected by default
  /// Default: whether the environment variable NO_COLOR is empty or absent. Only a live line has
  /// colours.
  std::optional<bool> color = {};
};

class Progress {
 public:
  /// A resumed epoch begins after `first` of its steps.
  Progress(int64_t steps, ProgressOptions options, int64_t first = 0);

  bool is_live() const { return live_; }
  /// Returns whether an update would be drawn at present. If not, the caller need not compute
  /// values.
  bool wants_update() const;
  void update(int64_t step, const NamedValues& values);
  /// Sets numbers that the line shows in addition to the time: the rate for the given number of
  /// examples since the beginning, and the bytes in use. A value of 0 is not shown.
  void note(int64_t examples, int64_t bytes);
  /// Stops the clock of the line at the end of training. Without this call, finish() stops the
  /// clock.
  void stop_clock();
  /// Prints the final line.
  void finish(int64_t step, const NamedValues& values);

  double seconds() const;  // until now, or until stop_clock()

  /// Returns the line, finished or after `seconds` of progress.
  std::string line(int64_t step, const NamedValues& values, double seconds, bool finished) const;

 private:
  std::string bar(int64_t step, bool finished) const;
  std::string load(double seconds) const;
  /// Returns the width of the terminal, which may change; 0 if it is unknown.
  int columns() const;
  void draw(const std::string& line);

  int64_t steps_, first_;
  ProgressOptions options_;
  bool live_, color_;
  int64_t examples_ = 0, bytes_ = 0;
  double start_, drawn_ = 0;  // seconds of a steady clock
  std::optional<double> stopped_;
};

/// Returns "12s", "1:05" or "1:01:05", for example.
std::string duration_text(double seconds);
/// Returns "3s", "25ms" or "47us", for example.
std::string step_time_text(double seconds);
/// Returns "470", "5.1k" or "1.2M", for example.
std::string count_text(double count);

}  // namespace tapegrad
