// A report on a training run as one HTML file without external references. The page follows the
// reader's preference for light or dark colours.
//
//   Profiler profiler;
//   History history = fit(model, train, adam, {.validation = &test});
//   profiler.stop();
//   const MemoryReport memory = memory_report({.model = &model, .optimizer = &adam});
//   const Evaluation result = evaluate(model, test);
//   save_report("report.html", {.title = "Fashion-MNIST", .history = &history,
//                               .evaluation = &result, .images = data.test.data(),
//                               .profiler = &profiler, .memory = &memory});
#pragma once

#include <string>
#include <vector>

#include "core/inspect/profiler.h"
#include "core/tape/variable.h"
#include "train/evaluate.h"
#include "train/history.h"
#include "train/memory_report.h"

namespace tapegrad {

/// Parts of a report. A part that is not set has no section.
struct ReportOptions {
  std::string title = "Training";
  const History* history = nullptr;        // curves, and a table of the epochs
  const Evaluation* evaluation = nullptr;  // confusion matrix, of up to 1000 classes
  /// The evaluated images, [N, 1, H, W] or [N, 3, H, W] with values in [0, 1], in the order of the
  /// evaluation. The report shows some with correct and some with wrong predictions.
  Variable images = {};
  int64_t samples = 20;                       // number of images shown of each kind
  std::vector<std::string> class_names = {};  // default: the ids
  const Profiler* profiler = nullptr;         // time by layer
  const MemoryReport* memory = nullptr;       // memory by category
};

/// Returns the page, which ends with a description of build and machine (runtime_info()). Throws
/// ShapeError if the images do not fit the evaluation.
std::string html_report(const ReportOptions& options, Where where = Where::current());
/// Writes the page, atomically. Throws IoError if the file cannot be written.
void save_report(const std::string& path, const ReportOptions& options,
                 Where where = Where::current());

}  // namespace tapegrad
