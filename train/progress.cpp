#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_format.h"

#include "train/timer.h"

namespace tapegrad {
namespace {

constexpr std::string_view kBar = "━", kGreen = "\x1b[32m", kGreyText = "\x1b[37m",
                           kPlain = "\x1b[0m", kRestOfLine = "\x1b[K";

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

std::string count_text(double count) {
  if (count >= 1e6) return absl::StrFormat("%.1fM", count / 1e6);
  return count >= 1e3 ? absl::StrFormat("%.1fk", count / 1e3) : absl::StrFormat("%.0f", count);
}

Progress::Progress(int64_t steps, ProgressOptions options, int64_t first)
    : steps_(steps), first_(first), options_(std::move(options)), start_(steady_seconds()) {
  const int file = options_.out ? descriptor_of(options_.out) : -1;
  live_ = options_.live.value_or(file >= 0 && isatty(file)) && options_.out &&
          options_.style != ProgressStyle::kNone;
  const char* no_color = std::getenv("NO_COLOR");
  color_ = live_ && options_.color.value_or(no_color == nullptr || *no_color == '\0');
}

int Progress::columns() const {
  if (options_.columns) return *options_.columns;
  const int file = options_.out ? descriptor_of(options_.out) : -1;
  winsize window{};
  return live_ && file >= 0 && ioctl(file, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

void Progress::note(int64_t examples, int64_t bytes) {
  examples_ = examples;
  bytes_ = bytes;
}

double Progress::seconds() const { return stopped_ ? *stopped_ : steady_seconds() - start_; }

void Progress::stop_clock() { stopped_ = seconds(); }

bool Progress::wants_update() const { return live_ && steady_seconds() - drawn_ >= 0.1; }

std::string Progress::bar(int64_t step, bool finished) const {
  const bool marks = options_.style == ProgressStyle::kMarks;
  const int64_t width = marks ? 50 : 20;
  const int64_t done =
      finished ? width
      : steps_ > 0
          ? int64_t(double(width) * double(std::clamp<int64_t>(step, 0, steps_)) / double(steps_))
          : 0;
  if (marks)
    return absl::StrFormat("[%s%s]", std::string(size_t(done), '#'),
                           std::string(size_t(width - done), '.'));
  if (!live_) return repeat_text(kBar, width);
  if (!color_) return repeat_text(kBar, done) + std::string(size_t(width - done), ' ');
  std::string text(kGreen);
  text += repeat_text(kBar, done);
  text += kGreyText;
  text += repeat_text(kBar, width - done);
  return text += kPlain;
}

std::string Progress::load(double seconds) const {
  std::string text;
  if (examples_ > 0 && seconds > 0) text += ' ' + count_text(double(examples_) / seconds) + "/s";
  if (bytes_ > 0) text += absl::StrFormat(" %.0f MiB", double(bytes_) / 0x1p20);
  return text;
}

std::string Progress::line(int64_t step, const NamedValues& values, double seconds,
                           bool finished) const {
  const double per_step = step > first_ ? seconds / (double(step) - double(first_)) : 0.0;
  const int width = finished ? 0 : columns();  // 0: not limited
  const auto fits = [&](std::string_view text) {
    return width <= 0 || visible_length(text) < width;
  };
  std::string text;
  if (options_.style == ProgressStyle::kMarks) {
    const double estimate = finished ? seconds : per_step * (double(steps_) - double(first_));
    text = bar(step, finished) + absl::StrFormat(" %.1f/%.1f s", seconds, estimate);
  } else {
    const std::string count =
        absl::StrFormat("%*d/%d ", int(std::to_string(steps_).size()), step, steps_);
    const std::string time =
        (finished ? absl::StrFormat("%.0fs", seconds)
                  : duration_text(per_step * (double(steps_) - double(step)))) +
        absl::StrFormat(" %s/step", step_time_text(per_step));
    text = count + bar(step, finished) + ' ' + time;
    if (!fits(text)) text = count + time;  // a narrow terminal
  }
  // A line that wraps cannot be redrawn, so parts that do not fit are left out until the end.
  if (const std::string more = load(seconds); fits(text + more)) text += more;
  for (const auto& [name, value] : values) {
    const std::string part = absl::StrFormat(" - %s: %s", name, value_text(value));
    if (!fits(text + part)) break;
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
