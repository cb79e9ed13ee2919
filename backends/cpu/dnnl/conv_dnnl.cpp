#include "backends/cpu/dnnl/conv_dnnl.h"

#include <array>
#include <optional>
#include <unordered_map>

#include <omp.h>

#include "backends/cpu/dnnl/dnnl.h"
#include "backends/cpu/fast/packed.h"

namespace tapegrad::backends::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

const dnnl::engine& engine() { return dnnl_engine(); }

enum class Pass : int64_t { kForward, kBackwardInput, kBackwardWeight };

using SpatialSizes = std::array<int64_t, 3>;  // depth, height, width; an image has depth 1

/// All properties that a primitive depends on; the key of the cache. Starting threads takes longer
/// than a convolution of fewer multiply-adds.
constexpr double kFewestForConvThreads = 1 << 18;

struct ConvProblem {
  Pass pass;
  int64_t bias;  // 1 if there is a bias or its gradient
  int64_t threads;
  bool is_volume;
  int64_t batch, in, out, groups;
  SpatialSizes image, kernel, result, stride, padding, dilation;
  bool winograd;  // whether Winograd's algorithm is allowed
  bool is_short;  // bfloat16 rather than float32

  auto operator<=>(const ConvProblem&) const = default;

  /// Dimensions for oneDNN: `first`, then depth, height and width, or the last two for an image.
  memory::dims dims(memory::dims first, const SpatialSizes& sizes) const {
    first.insert(first.end(), sizes.begin() + (is_volume ? 0 : 1), sizes.end());
    return first;
  }
};

bool allows_winograd(const Shape& w, const Conv2dOptions& o) {
  return conv_algorithm() == ConvAlgorithm::kAuto && w[0] >= 32 && w[1] >= 32 && w[2] == 3 &&
         w[3] == 3 && o.stride == Size2d(1) && o.dilation == Size2d(1) && o.groups == 1;
}
bool allows_winograd(const Shape&, const Conv3dOptions&) { return false; }

SpatialSizes sizes(Size2d s, int64_t depth) { return {depth, s.height, s.width}; }
SpatialSizes sizes(const Size3d& s, int64_t) { return {s.depth, s.height, s.width}; }
/// Returns the last two or three numbers of the shape of images or volumes.
SpatialSizes sizes(const Shape& s) { return {s.rank() == 5 ? s[2] : 1, s[-2], s[-1]}; }

template <typename Size>
ConvProblem problem(Pass pass, bool bias, DType dtype, const Shape& x, const Shape& w,
                    const ConvOptions<Size>& o) {
  ConvProblem p{pass,
                bias,
                omp_get_max_threads(),
                x.rank() == 5,
                x[0],
                x[1],
                w[0],
                o.groups,
                sizes(x),
                sizes(w),
                {},
                sizes(o.stride, 1),
                sizes(o.padding, 0),
                sizes(o.dilation, 1),
                allows_winograd(w, o),
                dtype == bf16};
  double products = double(p.batch) * double(p.in / p.groups) * double(p.out);
  for (size_t i = 0; i < p.result.size(); ++i) {
    p.result[i] =
        (p.image[i] + 2 * p.padding[i] - p.dilation[i] * (p.kernel[i] - 1) - 1) / p.stride[i] + 1;
    products *= double(p.result[i] * p.kernel[i]);
  }
  if (products < kFewestForConvThreads) p.threads = 1;
  return p;
}

/// One operand: its plain layout, the layout that the primitive chose, and the conversion between
/// them.
struct Port {
  memory::desc plain, chosen;
  int64_t block = 0;      // channel block size of images, if the chosen layout has one
  dnnl::reorder reorder;  // empty if the layouts are equal
  memory::desc reorder_scratch;

  Port() = default;
  Port(const memory::desc& plain, const memory::desc& chosen, bool input)
      : plain(plain), chosen(chosen) {
    if (plain == chosen) return;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc description(engine(), input ? plain : chosen, engine(),
                                                    input ? chosen : plain, attributes);
    reorder = dnnl::reorder(description);
    reorder_scratch = description.scratchpad_desc();
  }
  /// Returns the port of images or of their gradients.
  static Port of_images(const memory::desc& plain, const memory::desc& chosen, bool input) {
    Port port(plain, chosen, input);
    const memory::dims sizes = plain.dims();
    const bool is_volume = sizes.size() == 5;
    for (const int64_t block : {16, 8}) {
      const Tag tag = is_volume ? (block == 16 ? Tag::nCdhw16c : Tag::nCdhw8c)
                                : (block == 16 ? Tag::nChw16c : Tag::nChw8c);
      if (sizes[1] % block == 0 && chosen == memory::desc(sizes, plain.data_type(), tag))
        port.block = block;
    }
    return port;
  }
};

}  // namespace

/// Threads share a plan: running it does not change it.
struct ConvPlan {
  Port x, weight, y;
  memory::desc bias;
  bool has_one_thread = false;
  dnnl::primitive primitive;  // unset if oneDNN has none
  memory::desc scratch;
};

namespace {

ConvPlanRef make_conv_plan(const ConvProblem& p) {
  auto plan = std::make_shared<ConvPlan>();
  plan->has_one_thread = p.threads == 1;
  const OneThread alone(plan->has_one_thread);
  const auto type = p.is_short ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::dims xs = p.dims({p.batch, p.in}, p.image);
  const memory::dims ys = p.dims({p.batch, p.out}, p.result);
  const memory::dims ws = p.groups == 1
                              ? p.dims({p.out, p.in}, p.kernel)
                              : p.dims({p.groups, p.out / p.groups, p.in / p.groups}, p.kernel);
  const Tag images = p.is_volume ? Tag::ncdhw : Tag::nchw;
  const Tag weights = p.is_volume ? (p.groups == 1 ? Tag::oidhw : Tag::goidhw)
                                  : (p.groups == 1 ? Tag::oihw : Tag::goihw);
  const memory::desc x(xs, type, images), y(ys, type, images), w(ws, type, weights);
  if (p.bias != 0) plan->bias = memory::desc({p.out}, type, Tag::x);

  // The blocked layouts of "any" are faster in spite of the reorders, except for the gradient of an
  // image with few channels, which a blocked layout would pad to 16.
  const bool plain = p.pass == Pass::kBackwardInput && p.in / p.groups <= 4;
  const memory::desc any_x = plain ? x : memory::desc(xs, type, Tag::any);
  const memory::desc any_y = plain ? y : memory::desc(ys, type, Tag::any);
  const memory::desc any_w(ws, type, Tag::any);

  const memory::dims strides = p.dims({}, p.stride), padding = p.dims({}, p.padding);
  memory::dims dilation = p.dims({}, p.dilation);
  for (auto& step : dilation) --step;
  const auto algorithm =
      p.winograd ? dnnl::algorithm::convolution_auto : dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);

  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, algorithm, any_x, any_w,
       p.pass == Pass::kForward ? plan->bias : memory::desc(), any_y, strides, dilation, padding,
       padding},
      attributes, engine(), /*allow_empty=*/true);
  if (!forward) return plan;
  if (p.pass == Pass::kForward) {
    plan->x = Port::of_images(x, forward.src_desc(), true);
    plan->weight = Port(w, forward.weights_desc(), true);
    plan->y = Port::of_images(y, forward.dst_desc(), false);
    plan->scratch = forward.scratchpad_desc();
    plan->primitive = dnnl::convolution_forward(forward);
  } else if (p.pass == Pass::kBackwardInput) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        {algorithm, any_x, any_w, any_y, strides, dilation, padding, padding}, attributes, engine(),
        forward, /*allow_empty=*/true);
    if (!backward) return plan;
    plan->x = Port::of_images(x, backward.diff_src_desc(), false);
    plan->weight = Port(w, backward.weights_desc(), true);
    plan->y = Port::of_images(y, backward.diff_dst_desc(), true);
    plan->scratch = backward.scratchpad_desc();
    plan->primitive = dnnl::convolution_backward_data(backward);
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {algorithm, any_x, any_w, plan->bias, any_y, strides, dilation, padding, padding},
        attributes, engine(), forward, /*allow_empty=*/true);
    if (!backward) return plan;
    plan->x = Port::of_images(x, backward.src_desc(), true);
    plan->weight = Port(w, backward.diff_weights_desc(), false);
    plan->y = Port::of_images(y, backward.diff_dst_desc(), true);
    plan->scratch = backward.scratchpad_desc();
    plan->primitive = dnnl::convolution_backward_weights(backward);
  }
  return plan;
}

/// Returns null if oneDNN has no primitive.
ConvPlanRef conv_plan_for(const ConvProblem& problem) {
  static PlanCache<ConvProblem, ConvPlan> cache;
  return with_dnnl("conv2d", [&] {
    ConvPlanRef plan = cache.find(problem, make_conv_plan);
    return plan->primitive ? plan : nullptr;
  });
}

dnnl::stream& stream() { return dnnl_stream(); }

void execute_reorder(const Port& port, const memory& from, const memory& to) {
  Tensor scratch;
  port.reorder.execute(stream(),
                       {{DNNL_ARG_FROM, from},
                        {DNNL_ARG_TO, to},
                        {DNNL_ARG_SCRATCHPAD, scratch_memory(port.reorder_scratch, scratch)}});
}

memory memory_of_tensor(const memory::desc& desc, const Tensor& tensor) {
  return memory(desc, engine(),
                tensor.storage().data() + tensor.layout().offset * size_of(tensor.dtype()));
}

/// An operand in the layout that the primitive requires.
class Input {
 public:
  Input(const Port& port, const Tensor& x) {
    if (port.block != 0) packed_ = packed_values(x);
    if (packed_ && packed_->packing.block == port.block) {
      inner_ = memory(port.chosen, engine(), packed_->buffer->data());
      return;
    }
    inner_ = memory_of_tensor(port.plain, x);
    if (!port.reorder) return;
    const memory plain = std::exchange(inner_, scratch_memory(port.chosen, copy_));
    execute_reorder(port, plain, inner_);
  }
  const memory& inner() const { return inner_; }

 private:
  std::optional<PackedValues> packed_;
  Tensor copy_;
  memory inner_;
};

/// A result in the layout that the primitive writes.
class Output {
 public:
  Output(const Port& port, Tensor& y)
      : port_(port),
        y_(y),
        stays_packed_(port.block != 0 && can_be_packed(y, port.block)),
        plain_(memory_of_tensor(port.plain, y)) {
    if (stays_packed_)
      inner_ = memory_of_tensor(port.chosen, y);
    else
      inner_ = port.reorder ? scratch_memory(port.chosen, copy_) : plain_;
  }
  const memory& inner() const { return inner_; }

  /// Called after the primitive has run.
  void finish() {
    if (stays_packed_)
      y_.storage().set_packed(packing_of(y_.shape(), port_.block));
    else if (port_.reorder)
      execute_reorder(port_, inner_, plain_);
  }

 private:
  const Port& port_;
  Tensor& y_;
  const bool stays_packed_;
  Tensor copy_;
  memory plain_, inner_;
};

void execute(const ConvPlan& plan, std::unordered_map<int, memory> arguments) {
  Tensor scratch;
  arguments.emplace(DNNL_ARG_SCRATCHPAD, scratch_memory(plan.scratch, scratch));
  plan.primitive.execute(stream(), arguments);
  stream().wait();
}

void conv_forward(const ConvPlan& plan, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  Tensor& y) {
  const OneThread alone(plan.has_one_thread);
  const Input from(plan.x, x), weights(plan.weight, weight);
  Output to(plan.y, y);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, from.inner()},
                                            {DNNL_ARG_WEIGHTS, weights.inner()},
                                            {DNNL_ARG_DST, to.inner()}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, memory_of_tensor(plan.bias, bias));
  execute(plan, std::move(arguments));
  to.finish();
}

void conv_backward(const ConvBackwardPlans& plans, const Tensor& dy, const Tensor& x,
                   const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db) {
  const ConvPlan *input = plans.input.get(), *weights = plans.weight.get();
  std::optional<Input> gradient;
  if (input != nullptr) {
    const OneThread alone(input->has_one_thread);
    gradient.emplace(input->y, dy);
    const Input from(input->weight, weight);
    Output to(input->x, dx);
    execute(*input, {{DNNL_ARG_DIFF_DST, gradient->inner()},
                     {DNNL_ARG_WEIGHTS, from.inner()},
                     {DNNL_ARG_DIFF_SRC, to.inner()}});
    to.finish();
  }
  if (weights != nullptr) {
    const OneThread alone(weights->has_one_thread);
    if (!gradient || input->y.chosen != weights->y.chosen) gradient.emplace(weights->y, dy);
    const Input from(weights->x, x);
    Output to(weights->weight, dw);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_DIFF_DST, gradient->inner()},
                                              {DNNL_ARG_SRC, from.inner()},
                                              {DNNL_ARG_DIFF_WEIGHTS, to.inner()}};
    if (db) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of_tensor(weights->bias, db));
    execute(*weights, std::move(arguments));
    to.finish();
  }
}

/// Returns the plan of a forward pass of images or volumes; null if there is none.
template <typename Size>
ConvPlanRef forward_plan(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const ConvOptions<Size>& options) {
  if (!is_packable(x.dtype())) return nullptr;
  return conv_plan_for(
      problem(Pass::kForward, bool(bias), x.dtype(), x.shape(), weight.shape(), options));
}

template <typename Size>
std::optional<ConvBackwardPlans> backward_plans(const Tensor& dy, const Tensor& x,
                                                const Tensor& weight,
                                                const ConvOptions<Size>& options, const Tensor& dx,
                                                const Tensor& dw, const Tensor& db) {
  const bool empty = dy.numel() == 0 || (dx && dx.numel() == 0) || (dw && dw.numel() == 0);
  if (empty || !(dx || dw) || !is_packable(dy.dtype())) return {};
  ConvBackwardPlans plans;
  if (dx) {
    plans.input = conv_plan_for(
        problem(Pass::kBackwardInput, false, dy.dtype(), dx.shape(), weight.shape(), options));
    if (!plans.input) return {};
  }
  if (dw) {
    plans.weight = conv_plan_for(
        problem(Pass::kBackwardWeight, bool(db), dy.dtype(), x.shape(), dw.shape(), options));
    if (!plans.weight) return {};
  }
  return plans;
}

}  // namespace

ConvPlanRef ConvDnnl::accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return nullptr;
  return forward_plan(x, weight, bias, options);
}

void ConvDnnl::run(OneOf<float, bfloat16>, const ConvPlan& plan, const Tensor& x,
                   const Tensor& weight, const Tensor& bias, const Conv2dOptions&,
                   const Epilogue& epilogue, Tensor& y) {
  with_dnnl("conv2d", [&] { conv_forward(plan, x, weight, bias, y); });
  kernels::run_epilogue(epilogue, y, y);  // not oneDNN's ReLU, which turns NaN into 0
}

std::optional<ConvBackwardPlans> ConvBackwardDnnl::accepts(const Tensor& dy, const Epilogue&,
                                                           const Tensor& x, const Tensor& weight,
                                                           const Conv2dOptions& options,
                                                           const Tensor& dx, const Tensor& dw,
                                                           const Tensor& db) {
  if (db && !dw && dy.dtype() != f32) return {};
  return backward_plans(dy, x, weight, options, dx, dw, db);
}

void ConvBackwardDnnl::run(OneOf<float, bfloat16>, const ConvBackwardPlans& plans, const Tensor& dy,
                           const Epilogue& behind, const Tensor& x, const Tensor& weight,
                           const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor dz = dy, none;
  kernels::run_epilogue_backward(behind, dy, dz);
  with_dnnl("conv2d", [&] { conv_backward(plans, dz, x, weight, dx, dw, db); });
  if (db && !dw) kernels::conv2d_backward(dz, {}, x, weight, options, none, none, db);
}

/// Volumes with few channels per group are faster as images, for which there are other kernels.
static bool has_large_groups(const Shape& weight, int64_t groups) {
  return groups == 1 || weight[1] > 8;
}

ConvPlanRef ConvVolumeDnnl::accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Conv3dOptions& options, const Tensor&) {
  if (!has_large_groups(weight.shape(), options.groups)) return nullptr;
  return forward_plan(x, weight, bias, options);
}

void ConvVolumeDnnl::run(OneOf<float, bfloat16>, const ConvPlan& plan, const Tensor& x,
                         const Tensor& weight, const Tensor& bias, const Conv3dOptions&,
                         Tensor& y) {
  with_dnnl("conv3d", [&] { conv_forward(plan, x, weight, bias, y); });
}

std::optional<ConvBackwardPlans> ConvVolumeBackwardDnnl::accepts(const Tensor& dy, const Tensor& x,
                                                                 const Tensor& weight,
                                                                 const Conv3dOptions& options,
                                                                 const Tensor& dx, const Tensor& dw,
                                                                 const Tensor& db) {
  return backward_plans(dy, x, weight, options, dx, dw, db);
}

void ConvVolumeBackwardDnnl::run(OneOf<float, bfloat16>, const ConvBackwardPlans& plans,
                                 const Tensor& dy, const Tensor& x, const Tensor& weight,
                                 const Conv3dOptions&, Tensor& dx, Tensor& dw, Tensor& db) {
  with_dnnl("conv3d", [&] { conv_backward(plans, dy, x, weight, dx, dw, db); });
}

}  // namespace tapegrad::backends::cpu
