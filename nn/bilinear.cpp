#include "nn/bilinear.h"

#include <cmath>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "nn/weighted.h"
#include "ops/create.h"
#include "ops/products.h"

namespace tapegrad::nn {

Bilinear::Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features, bool has_bias,
                   Where where) {
  const ErrorLine line(where);
  require_option(kName, "in1_features", in1_features);
  require_option(kName, "in2_features", in2_features);
  require_option(kName, "out_features", out_features);
  const double bound = 1 / std::sqrt(double(in1_features));
  weight = empty({out_features, in1_features, in2_features});
  init::uniform_(weight, -bound, bound).requires_grad_();
  if (!has_bias) return;
  bias = empty({out_features});
  init::uniform_(bias, -bound, bound).requires_grad_();
}

Variable Bilinear::forward(const Variable& x1, const Variable& x2) const {
  return bilinear(x1, x2, weight, bias, ModuleCall::line());
}

std::string Bilinear::options() const {
  ClassicText text;
  text << "in1_features=" << weight.size(1) << ", in2_features=" << weight.size(2)
       << ", out_features=" << weight.size(0);
  if (!bias.defined()) text << ", bias=false";
  return text.str();
}

void Bilinear::members(Members& m) { m("weight", weight)("bias", bias); }
}  // namespace tapegrad::nn
