#include "nn/bilinear.h"

#include <cmath>

#include "core/base/internal/classic_text.h"
#include "nn/weighted.h"
#include "ops/binary.h"
#include "ops/composed.h"
#include "ops/create.h"
#include "ops/random.h"

namespace tapegrad {

Variable rrelu(const Variable& x, double lower, double upper, bool training,
               RandomGenerator& generator, Where where) {
  if (!(lower <= upper))
    fail<ArgumentError>("rrelu: lower ", lower, " is not at most upper ", upper);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  const Variable slope = training ? lower + (upper - lower) * rand(x.shape(), like, generator)
                                  : full({}, (lower + upper) / 2, like);
  return tapegrad::where(x >= 0, {x, where}, x * slope);
}

}  // namespace tapegrad

namespace tapegrad::nn {

Bilinear::Bilinear(int64_t in1_features, int64_t in2_features, int64_t out_features,
                   bool has_bias) {
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

RReLU::RReLU(double lower, double upper, bool) : lower_(lower), upper_(upper) { note_mode(); }
Variable RReLU::forward(const Variable& x, Where where) const {
  return rrelu(x, lower_, upper_, is_training(), default_generator(), where);
}
std::string RReLU::options() const {
  ClassicText text;
  text << "lower=" << lower_ << ", upper=" << upper_;
  return text.str();
}

}  // namespace tapegrad::nn
