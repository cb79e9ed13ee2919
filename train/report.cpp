#include "train/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "core/base/error.h"
#include "core/base/internal/escaped_text.h"
#include "core/inspect/runtime_info.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "io/atomic_file.h"
#include "ops/view.h"
#include "train/internal/pixels.h"
#include "train/plot.h"

namespace tapegrad {
namespace {

constexpr const char* kStyle = R"(<style>
:root { color-scheme: light dark; --text: #1c2733; --page: #ffffff; --faint: #6b7785;
        --line: #d7dde3; --bar: #5b83b8; --right: 46, 125, 50; --wrong: 198, 40, 40 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e8ee; --page: #14191f; --faint: #93a0ad; --line: #36414d; --bar: #7ba3d8 }
  figure.chart svg { filter: invert(0.92) hue-rotate(180deg); border-radius: 4px }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
       max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
figure { margin: 0 0 1rem; display: inline-block } figure svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line) }
th { color: var(--faint); font-weight: 600 } td.name, th.name { text-align: left }
td.bar { width: 14rem } td.bar div { height: 0.7rem; background: var(--bar); border-radius: 2px }
table.matrix td { min-width: 2.2rem; padding: 0.2rem 0.4rem; text-align: center }
.samples figure { vertical-align: top; width: 4.6rem; margin: 0 0.5rem 0.6rem 0; font-size: 0.75rem; color: var(--faint) }
.samples img { width: 100%; image-rendering: pixelated; display: block; border-radius: 3px }
pre { overflow-x: auto; color: var(--faint); font-size: 0.8rem }
</style>
)";

std::string number_text(double value) {
  return std::isnan(value) ? "" : absl::StrFormat("%.4g", value);
}

void add_heading(std::string& page, const char* text) {
  page += absl::StrFormat("<h2>%s</h2>\n", text);
}

/// Adds the curves of a value in training, "f1", and in evaluations, "train_f1" and "val_f1".
void add_chart(std::string& page, const History& history, const std::string& word) {
  std::map<std::string, PlotSeries> curves;
  for (const EpochResult& epoch : history.epochs)
    for (const auto& [name, value] : epoch.values()) {
      if (name != word && name != "train_" + word && name != "val_" + word) continue;
      PlotSeries& curve = curves[name];
      curve.name = name;
      curve.x.push_back(double(epoch.epoch));
      curve.y.push_back(value);
    }
  if (curves.empty()) return;
  std::vector<PlotSeries> list;
  for (auto& [name, curve] : curves) list.push_back(std::move(curve));
  page += "<figure class=\"chart\">" +
          line_chart(list, {.x_label = "epoch", .y_label = word, .width = 480, .height = 320}) +
          "</figure>\n";
}

void add_history(std::string& page, const History& history) {
  add_heading(page, "Training");
  std::vector<std::string> words{"loss", "accuracy"};
  if (!history.epochs.empty())
    for (const auto& [name, value] : history.epochs.back().more)
      if (!name.starts_with("val_") && std::ranges::find(words, name) == words.end())
        words.push_back(name);
  for (const std::string& word : words) add_chart(page, history, word);
  if (history.epochs.empty()) return;
  page += "<table><tr><th>epoch</th>";
  const NamedValues columns = history.epochs.back().values();
  for (const auto& [name, value] : columns) page += "<th>" + xml_escape(name) + "</th>";
  page += "<th>seconds</th></tr>\n";
  // Long runs show every n-th epoch and the last one.
  const size_t count = history.epochs.size(), every = (count + 39) / 40;
  for (size_t i = 0; i < count; ++i) {
    if (i % every != 0 && i + 1 != count) continue;
    const EpochResult& epoch = history.epochs[i];
    const NamedValues values = epoch.values();
    page += absl::StrFormat("<tr><td>%d</td>", epoch.epoch);
    for (const auto& [name, ignored] : columns) {
      const auto found = std::ranges::find(values, name, &NamedValues::value_type::first);
      page += "<td>" + (found == values.end() ? "" : number_text(found->second)) + "</td>";
    }
    page += "<td>" + number_text(epoch.seconds) + "</td></tr>\n";
  }
  page += "</table>\n";
  if (history.stopped_early)
    page += "<p>Stopped early: " + xml_escape(history.stop_reason) + ".</p>\n";
}

struct Classes {
  const std::vector<std::string>& names;
  std::string operator()(int64_t id) const {
    return id >= 0 && size_t(id) < names.size() ? xml_escape(names[size_t(id)])
                                                : std::to_string(id);
  }
};

constexpr int64_t kMostClasses = 1000;  // of a table

void add_confusion(std::string& page, const Evaluation& result, const Classes& class_name) {
  int64_t last = 0;
  for (const auto* ids : {&result.labels, &result.predictions})
    for (const int64_t id : *ids) last = std::max(last, id);
  if (last >= kMostClasses) return;
  const int64_t classes = last + 1;
  add_heading(page, "Confusion matrix");
  std::vector<int64_t> counts(size_t(classes * classes));
  std::vector<int64_t> totals(size_t(classes), 0);
  for (size_t i = 0; i < result.labels.size(); ++i) {
    if (result.labels[i] < 0 || result.predictions[i] < 0) continue;  // ignored targets
    ++counts[size_t(result.labels[i] * classes + result.predictions[i])];
    ++totals[size_t(result.labels[i])];
  }
  page += absl::StrFormat(
      "<p>%d examples, accuracy %.2f %%. Rows are true classes, columns predictions.</p>\n",
      result.count, 100 * result.accuracy);
  page += "<table class=\"matrix\"><tr><th></th>";
  for (int64_t k = 0; k < classes; ++k) page += "<th>" + class_name(k) + "</th>";
  page += "</tr>\n";
  for (int64_t truth = 0; truth < classes; ++truth) {
    page += "<tr><th class=\"name\">" + class_name(truth) + "</th>";
    for (int64_t guess = 0; guess < classes; ++guess) {
      const int64_t count = counts[size_t(truth * classes + guess)];
      const double share =
          totals[size_t(truth)] > 0 ? double(count) / double(totals[size_t(truth)]) : 0;
      page += absl::StrFormat("<td style=\"background: rgba(var(--%s), %.2f)\">%s</td>",
                              truth == guess ? "right" : "wrong", 0.75 * std::sqrt(share),
                              count == 0 ? "" : std::to_string(count));
    }
    page += "</tr>\n";
  }
  page += "</table>\n";
}

void add_samples(std::string& page, const ReportOptions& options, bool right,
                 const Classes& class_name) {
  const NoGrad no_grad;
  const Evaluation& result = *options.evaluation;
  page += std::string("<h2>") + (right ? "Right" : "Wrong") + "</h2>\n<div class=\"samples\">\n";
  int64_t shown = 0;
  for (size_t i = 0; i < result.labels.size() && shown < options.samples; ++i) {
    if ((result.labels[i] == result.predictions[i]) != right) continue;
    ++shown;
    const std::string png = encode_png(picture_of(select(options.images.detach(), 0, int64_t(i))));
    page += "<figure><img alt=\"\" src=\"data:image/png;base64," + absl::Base64Escape(png) +
            "\"><figcaption>" + class_name(result.labels[i]);
    if (!right) page += " as " + class_name(result.predictions[i]);
    page += "</figcaption></figure>\n";
  }
  page += "</div>\n";
}

struct Bar {
  std::string name;
  double value;
};

void add_bars(std::string& page, const char* heading, const char* unit, int digits,
              const std::vector<Bar>& bars) {
  double largest = 0, total = 0;
  for (const Bar& bar : bars) {
    largest = std::max(largest, bar.value);
    total += bar.value;
  }
  add_heading(page, heading);
  page += absl::StrFormat(
      "<table><tr><th class=\"name\"></th><th>%s</th><th>share</th><th></th></tr>\n", unit);
  for (const Bar& bar : bars)
    page += absl::StrFormat(
        "<tr><td class=\"name\">%s</td><td>%.*f</td><td>%.1f %%</td><td class=\"bar\"><div "
        "style=\"width: %.1f%%\"></div></td></tr>\n",
        xml_escape(bar.name), digits, bar.value, total > 0 ? 100 * bar.value / total : 0.0,
        largest > 0 ? 100 * bar.value / largest : 0.0);
  page += "</table>\n";
}

void add_profile(std::string& page, const Profiler& profiler) {
  std::map<std::string, double> parts;
  for (const ProfileEntry& entry : profiler.entries())
    parts[entry.pass == Pass::kUpdate ? "optimizer: " + entry.op
          : entry.part.empty()        ? "outside of modules"
                                      : entry.part] += entry.seconds;
  std::vector<Bar> bars;
  for (const auto& [name, seconds] : parts) bars.push_back({name, seconds * 1e3});
  std::ranges::sort(bars, std::greater<>(), &Bar::value);
  if (bars.size() > 25) bars.resize(25);
  add_bars(page, "Time by layer", "ms", 2, bars);
}

void add_memory(std::string& page, const MemoryReport& memory) {
  constexpr double kMiB = 0x1p20;
  add_bars(page, "Memory", "MiB", 3,
           {{"weights", double(memory.weights) / kMiB},
            {"gradients", double(memory.gradients) / kMiB},
            {"optimizer state", double(memory.optimizer) / kMiB},
            {"data", double(memory.data) / kMiB},
            {"saved for backward", double(memory.saved_bytes()) / kMiB},
            {"other", double(memory.other) / kMiB}});
}

}  // namespace

std::string html_report(const ReportOptions& options, Where where) {
  const ErrorLine line(where);
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width\">\n<title>" +
      xml_escape(options.title) + "</title>\n" + kStyle + "</head><body>\n<h1>" +
      xml_escape(options.title) + "</h1>\n";
  if (options.history != nullptr) add_history(page, *options.history);
  if (options.evaluation != nullptr && !options.evaluation->labels.empty()) {
    if (options.evaluation->predictions.size() != options.evaluation->labels.size())
      fail<ShapeError>("html_report: ", options.evaluation->predictions.size(), " predictions for ",
                       options.evaluation->labels.size(), " labels");
    const Classes class_name{options.class_names};
    add_confusion(page, *options.evaluation, class_name);
    if (options.images.defined()) {
      if (options.images.rank() != 4 ||
          options.images.size(0) != int64_t(options.evaluation->labels.size()))
        fail<ShapeError>("html_report: images ", options.images.shape(), " of ",
                         options.evaluation->labels.size(), " evaluated examples");
      add_samples(page, options, /*right=*/false, class_name);
      add_samples(page, options, /*right=*/true, class_name);
    }
  }
  if (options.profiler != nullptr) add_profile(page, *options.profiler);
  if (options.memory != nullptr) add_memory(page, *options.memory);
  add_heading(page, "Environment");
  page += "<pre>";
  std::istringstream lines(runtime_info());
  for (std::string line; std::getline(lines, line);) page += xml_escape(line) + '\n';
  return page + "</pre>\n</body></html>\n";
}

void save_report(const std::string& path, const ReportOptions& options, Where where) {
  const ErrorLine line(where);
  write_file(path, html_report(options, where));
}

}  // namespace tapegrad
