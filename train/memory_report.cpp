#include "train/memory_report.h"

#include <algorithm>
#include <ostream>
#include <unordered_set>

#include "absl/strings/str_format.h"

#include "core/autograd/sparse_gradient.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/inspect/internal/tape_graph.h"
#include "core/tape/op.h"
#include "nn/module.h"
#include "optim/optimizer.h"

namespace tapegrad {
namespace {

/// Assigns each buffer of the device to the first claimant.
class Claims {
 public:
  explicit Claims(Device device) : device_(device) {}

  /// Returns the bytes of the tensor's buffer, or 0 if it was claimed before.
  int64_t claim(const Tensor& x) {
    if (!x || x.device() != device_ || !seen_.insert(&x.storage()).second) return 0;
    const auto bytes = int64_t(x.storage().bytes());
    if (x.storage().is_inline() || x.storage().is_wrapped()) outside_ += bytes;
    return bytes;
  }
  int64_t claim(const Variable& x) { return claim(x.value_or_empty()); }
  int64_t outside() const { return outside_; }

 private:
  Device device_;
  std::unordered_set<const TensorStorage*> seen_;
  int64_t outside_ = 0;
};

std::vector<MemoryReport::Part> saved_by_part(const TapeNode& root, Claims& claims) {
  struct Saved final : SavedVisitor {
    explicit Saved(Claims& claims) : claims(claims) {}
    void on_saved(const Tensor& value) override { bytes += claims.claim(value); }
    Claims& claims;
    int64_t bytes = 0;
  };
  std::vector<MemoryReport::Part> parts;
  for (const TapeNode* node : reach(root)) {
    Saved saved(claims);
    node->visit_saved(saved);
    if (saved.bytes == 0) continue;
    const std::string name = node->scope() == nullptr ? "" : *node->scope();
    const auto part =
        std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.name == name; });
    if (part == parts.end())
      parts.push_back({name, saved.bytes});
    else
      part->bytes += saved.bytes;
  }
  return parts;
}

}  // namespace

int64_t MemoryReport::saved_bytes() const {
  int64_t sum = 0;
  for (const Part& part : saved) sum += part.bytes;
  return sum;
}

MemoryReport memory_report(const MemoryReportOptions& options) {
  if (options.tape.defined() && !options.tape.edge())
    fail<AutogradError>("memory_report: the tape is a variable without history");
  const MemoryStats stats = memory_stats(options.device);
  Claims claims(options.device);
  MemoryReport report;
  if (options.model != nullptr) {
    const std::vector<nn::NamedVariable> parameters = options.model->named_parameters();
    for (const auto& parameter : parameters) report.weights += claims.claim(parameter.variable);
    for (const auto& buffer : options.model->named_buffers())
      report.weights += claims.claim(buffer.variable);
    for (const auto& parameter : parameters)
      report.gradients += claims.claim(gradient_values(parameter.variable));
  }
  if (options.optimizer != nullptr)
    for (const Tensor& state : options.optimizer->state()) report.optimizer += claims.claim(state);
  for (const Variable& data : options.data) report.data += claims.claim(data);
  if (options.tape.defined()) report.saved = saved_by_part(*options.tape.edge().node, claims);
  report.outside = claims.outside();
  report.in_use = stats.in_use + report.outside;
  report.other = report.in_use - report.weights - report.gradients - report.optimizer -
                 report.data - report.saved_bytes();
  report.workspace = stats.peak - stats.in_use;
  report.cached = stats.cached;
  return report;
}

std::ostream& operator<<(std::ostream& out, const MemoryReport& report) {
  const auto mebibytes = [](int64_t bytes) { return double(bytes) / double(1 << 20); };
  const auto row = [&](const std::string& name, int64_t bytes) {
    out << absl::StreamFormat(
        "%-28s %11.3f %6.1f%%\n", name, mebibytes(bytes),
        report.in_use > 0 ? 100 * double(bytes) / double(report.in_use) : 0.0);
  };
  out << absl::StreamFormat("%-28s %11s %7s\n", "", "MiB", "share");
  row("weights", report.weights);
  row("gradients", report.gradients);
  row("optimizer state", report.optimizer);
  row("data", report.data);
  row("saved for backward", report.saved_bytes());
  for (const MemoryReport::Part& part : report.saved)
    row("  " + (part.name.empty() ? "(outside of modules)" : part.name), part.bytes);
  row("other", report.other);
  row("in use", report.in_use);
  return out << absl::StreamFormat(
             "workspace: %.3f MiB more at the peak; cached for reuse: %.3f MiB\n",
             mebibytes(report.workspace), mebibytes(report.cached));
}

}  // namespace tapegrad
