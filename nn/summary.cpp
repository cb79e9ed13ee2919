#include "nn/summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "ops/create.h"

namespace tapegrad::nn {
namespace {

struct Row {
  std::string path, layer, shape;
  int64_t parameters = 0;
};

struct Rows final : MemberVisitor {
  struct Named {
    Variable parameter;
    std::vector<std::string> names;
  };
  std::vector<Row> rows;
  std::vector<Named> seen;
  int64_t trainable = 0, frozen = 0;

  void on_module(const std::string& path, Module& module) override {
    std::string shape;
    if (module.has_out_shape()) {
      shape = "[-1";
      for (const int64_t size : module.out_shape()) absl::StrAppend(&shape, ", ", size);
      shape += ']';
    }
    rows.push_back({path, path.empty() ? module.kind() : path + " (" + module.kind() + ")", shape});
  }
  void on_parameter(const std::string& path, Variable& x) override {
    for (Named& before : seen)
      if (before.parameter.is_same(x)) {
        before.names.push_back(path);
        return;
      }
    seen.push_back({x, {path}});
    (x.requires_grad() ? trainable : frozen) += x.numel();
    const size_t dot = path.rfind('.');
    const std::string owner = dot == path.npos ? "" : path.substr(0, dot);
    for (Row& row : rows)
      if (row.path == owner) row.parameters += x.numel();
  }
};

/// Formats 1199882 as 1,199,882.
std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace

std::string summary(Module& model, const Shape& input_shape) {
  return detail::summary_of(
      model, [&] { model.call(detail::sample_input(model, input_shape), Where::current()); });
}

Variable detail::sample_input(const Module& model, const Shape& input_shape) {
  struct First final : MemberVisitor {
    void on_parameter(const std::string&, Variable& x) override {
      if (!like.dtype) like = {.dtype = x.dtype(), .device = x.device()};
    }
    TensorOptions like;
  } first;
  model.visit(first);
  Shape shape{1};
  for (const int64_t size : input_shape) shape.push_back(size);
  return zeros(shape, first.like);
}

std::string detail::summary_of(Module& model, const std::function<void()>& run) {
  {
    const tapegrad::detail::Set<&tapegrad::detail::Context::is_inferring> inferring(true);
    const NoGrad no_grad;
    run();
  }
  Rows found;
  model.visit(found);
  int layer = 12, shape = 12;
  for (const Row& row : found.rows) {
    layer = std::max(layer, int(row.layer.size()));
    shape = std::max(shape, int(row.shape.size()));
  }
  layer += 2, shape += 2;
  const std::string line(size_t(layer + shape + 12), '-');
  const auto format_row = [&](std::string_view first, std::string_view second,
                              std::string_view third) {
    return absl::StrFormat("%-*s%-*s%s\n", layer, first, shape, second, third);
  };
  std::string text = format_row("Layer (kind)", "Output shape", "Parameters") + line + '\n';
  for (size_t i = found.rows.size() > 1 ? 1 : 0; i < found.rows.size(); ++i) {
    const Row& row = found.rows[i];
    text += format_row(row.layer, row.shape, grouped(row.parameters));
  }
  absl::StrAppend(&text, line, "\nTotal parameters: ", grouped(found.trainable + found.frozen),
                  "\nTrainable: ", grouped(found.trainable),
                  "\nNot trainable: ", grouped(found.frozen), "\n");
  for (const auto& [parameter, names] : found.seen)
    if (names.size() > 1)
      absl::StrAppend(&text, names.size(), " names, one parameter: ", absl::StrJoin(names, ", "),
                      "\n");
  return text;
}

}  // namespace tapegrad::nn
