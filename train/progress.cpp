#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "absl/strings/str_format.h"

#include "train/timer.h"

namespace tapegrad {
namespace {

constexpr std::string_view kBar = "━", kGreen = "\x1b[32m", kGrey = "\x1b[37m", kPlain = "\x1b[0m",
                           kRestOfLine = "\x1b[K";

int descriptor_of(const std::ostream* out) {
  if (out == &std::cout) return STDOUT_FILENO;
  return out == &std::cerr || out == &std::clog ? STDERR_FILENO : -1;
}

std::string repeat_text(std::string_view text, int64_t times) {
  std::string all;
  for (int64_t i = 0; i < times; ++i) all += text;
  return all;
}

/// Formats a value like Keras: small numbers with an exponent.
std::string value_text(double value) {
  return std::abs(value) > 1e-3 || value == 0 || std::isnan(value) ? absl::StrFormat("%.4f", value)
                                                                   : absl::StrFormat("%.4e", value);
}

/// Number of columns on a terminal; escape sequences and UTF-8 continuation bytes take none.
int64_t visible_length(std::string_view text) {
  int64_t length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      while (i < text.size() && text[i] != 'm') ++i;
    else if ((text[i] & 0xC0) != 0x80)
      ++length;
  }
  return length;
}

}  // namespace

std::string duration_text(double seconds) {
  const long long whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600)
    return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  if (whole >= 60) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%ds", whole);
}

std::string step_time_text(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.0fs", seconds);
  return seconds >= 1e-3 ? absl::StrFormat("%.0fms", seconds * 1e3)
                         : absl::StrFormat("%.0fus", seconds * 1e6);
}

Progress::Progress(int64_t steps, ProgressOptions options)
    : steps_(steps), options_(std::move(options)), start_(steady_seconds()) {
  const int file = options_.out ? descriptor_of(options_.out) : -1;
  live_ = options_.live.value_or(file >= 0 && isatty(file)) && options_.out &&
          options_.style != ProgressStyle::kNone;
  winsize window{};
  if (!options_.columns && live_ && file >= 0 && ioctl(file, TIOCGWINSZ, &window) == 0)
    columns_ = window.ws_col;
  else
    columns_ = options_.columns.value_or(0);
}

double Progress::seconds() const { return stopped_ ? *stopped_ : steady_seconds() - start_; }

void Progress::stop_clock() { stopped_ = seconds(); }

bool Progress::wants_update() const { return live_ && steady_seconds() - drawn_ >= 0.1; }

std::string Progress::bar(int64_t step, bool finished) const {
  const bool marks = options_.style == ProgressStyle::kMarks;
  const int64_t width = marks ? 50 : 20;
  const int64_t done = finished     ? width
                       : steps_ > 0 ? width * std::clamp<int64_t>(step, 0, steps_) / steps_
                                    : 0;
  if (marks)
    return absl::StrFormat("[%s%s]", std::string(size_t(done), '#'),
                           std::string(size_t(width - done), '.'));
  if (!live_) return repeat_text(kBar, width);
  std::string text(kGreen);
  text += repeat_text(kBar, done);
  text += kGrey;
  text += repeat_text(kBar, width - done);
  return text += kPlain;
}

std::string Progress::line(int64_t step, const NamedValues& values, double seconds,
                           bool finished) const {
  const double per_step = step > 0 ? seconds / double(step) : 0.0;
  std::string text;
  if (options_.style == ProgressStyle::kMarks) {
    const double estimate = finished ? seconds : per_step * double(steps_);
    text = bar(step, finished) + absl::StrFormat(" %.1f/%.1f s", seconds, estimate);
  } else {
    const auto digits = int(std::to_string(steps_).size());
    text = absl::StrFormat("%*d/%d %s ", digits, step, steps_, bar(step, finished));
    text += finished ? absl::StrFormat("%.0fs", seconds)
                     : duration_text(per_step * double(steps_ - step));
    text += absl::StrFormat(" %s/step", step_time_text(per_step));
  }
  for (const auto& [name, value] : values) {
    const std::string part = absl::StrFormat(" - %s: %s", name, value_text(value));
    // A line that wraps cannot be redrawn, so values that do not fit are left out until the end.
    if (!finished && columns_ > 0 && visible_length(text + part) >= columns_) break;
    text += part;
  }
  return text;
}

void Progress::draw(const std::string& line) {
  *options_.out << '\r' << line << kRestOfLine << std::flush;
  drawn_ = steady_seconds();
}

void Progress::update(int64_t step, const NamedValues& values) {
  if (wants_update()) draw(line(step, values, seconds(), false));
}

void Progress::finish(int64_t step, const NamedValues& values) {
  if (!stopped_) stop_clock();
  if (!options_.out || options_.style == ProgressStyle::kNone) return;
  const std::string text = line(step, values, *stopped_, true);
  if (live_) draw(text);
  *options_.out << (live_ ? "" : text) << '\n' << std::flush;
}

}  // namespace tapegrad
