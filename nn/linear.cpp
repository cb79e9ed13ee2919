#include "nn/linear.h"

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "ops/linear.h"

namespace tapegrad::nn {

Linear::Linear(LinearSettings options) : Model(options.bias), out_features_(options.out_features) {
  const ErrorLine line(options.by_name.where);
  require_option(kName, ".out_features", options.out_features);
  if (options.dtype) Module::to(*options.dtype);
  if (options.in_features == 0) return;
  require_option(kName, ".in_features", options.in_features);
  allocate({options.out_features, options.in_features});
}

Linear::Linear(int64_t in_features, int64_t out_features, bool bias, Where where)
    : Linear(LinearSettings{{where}, in_features, out_features, bias}) {}
Linear::Linear(int64_t in_features, int64_t out_features, LinearSettings options)
    : Linear((options.in_features = in_features, options.out_features = out_features, options)) {}

Variable Linear::forward(const Variable& x, Where where) const { return forward(x, {}, where); }

Variable Linear::forward(const Variable& x, Epilogue epilogue, Where where) const {
  infer_once([&] { allocate({out_features_, x.size(-1)}); });
  Variable computed;
  return linear(x, used_weight(computed), bias, epilogue, where);
}

int64_t Linear::in_features() const { return is_inferred() ? weight.size(1) : 0; }

std::string Linear::options() const {
  ClassicText text;
  if (is_inferred()) text << "in_features=" << weight.size(1) << ", ";
  text << "out_features=" << out_features_;
  if (!bias.defined()) text << ", bias=false";
  return text.str();
}

template class Model<Linear, Weighted, false>;

}  // namespace tapegrad::nn
