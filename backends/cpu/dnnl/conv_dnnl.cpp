#include "backends/cpu/dnnl/conv_dnnl.h"

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

/// Everything that a primitive depends on; the key of the cache.
struct Problem {
  Pass pass;
  int64_t bias;  // 1 if there is a bias or its gradient
  int64_t threads;
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  int64_t stride_height, stride_width, padding_height, padding_width;
  int64_t dilation_height, dilation_width, groups;
  bool winograd;  // whether Winograd's algorithm is allowed
  bool is_short;  // bfloat16 rather than float32

  auto operator<=>(const Problem&) const = default;
};

bool allows_winograd(const Shape& w, const Conv2dOptions& o) {
  return conv_algorithm() == ConvAlgorithm::kAuto && w[0] >= 32 && w[1] >= 32 && w[2] == 3 &&
         w[3] == 3 && o.stride == Size2d(1) && o.dilation == Size2d(1) && o.groups == 1;
}

Problem problem(Pass pass, bool bias, DType dtype, const Shape& x, const Shape& w, const Shape& y,
                const Conv2dOptions& o) {
  return {pass,
          bias,
          omp_get_max_threads(),
          x[0],
          x[1],
          x[2],
          x[3],
          w[0],
          w[2],
          w[3],
          y[2],
          y[3],
          o.stride.height,
          o.stride.width,
          o.padding.height,
          o.padding.width,
          o.dilation.height,
          o.dilation.width,
          o.groups,
          allows_winograd(w, o),
          dtype == bf16};
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
  /// For images or their gradients.
  static Port of_images(const memory::desc& plain, const memory::desc& chosen, bool input) {
    Port port(plain, chosen, input);
    const memory::dims sizes = plain.dims();
    for (const auto& [block, tag] : {std::pair(16, Tag::nChw16c), std::pair(8, Tag::nChw8c)})
      if (sizes[1] % block == 0 && chosen == memory::desc(sizes, plain.data_type(), tag))
        port.block = block;
    return port;
  }
};

}  // namespace

/// Threads share a plan: running it does not change it.
struct ConvPlan {
  Port x, weight, y;
  memory::desc bias;
  dnnl::primitive primitive;  // unset if oneDNN has none
  memory::desc scratch;
};

namespace {

ConvPlanRef make_plan(const Problem& p) {
  auto plan = std::make_shared<ConvPlan>();
  const auto type = p.is_short ? memory::data_type::bf16 : memory::data_type::f32;
  const memory::dims xs{p.batch, p.in, p.height, p.width};
  const memory::dims ys{p.batch, p.out, p.out_height, p.out_width};
  const memory::dims ws = p.groups == 1 ? memory::dims{p.out, p.in, p.kernel_height, p.kernel_width}
                                        : memory::dims{p.groups, p.out / p.groups, p.in / p.groups,
                                                       p.kernel_height, p.kernel_width};
  const memory::desc x(xs, type, Tag::nchw), y(ys, type, Tag::nchw);
  const memory::desc w(ws, type, p.groups == 1 ? Tag::oihw : Tag::goihw);
  if (p.bias != 0) plan->bias = memory::desc({p.out}, type, Tag::x);

  // The blocked layouts of "any" are faster in spite of the reorders, except for the gradient of an
  // image with few channels, which a blocked layout would pad to 16.
  const bool plain = p.pass == Pass::kBackwardInput && p.in / p.groups <= 4;
  const memory::desc any_x = plain ? x : memory::desc(xs, type, Tag::any);
  const memory::desc any_y = plain ? y : memory::desc(ys, type, Tag::any);
  const memory::desc any_w(ws, type, Tag::any);

  const memory::dims strides{p.stride_height, p.stride_width};
  const memory::dims padding{p.padding_height, p.padding_width};
  const memory::dims dilation{p.dilation_height - 1, p.dilation_width - 1};
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
ConvPlanRef plan_for(const Problem& problem) {
  static PlanCache<Problem, ConvPlan> cache;
  return with_dnnl("conv2d", [&] {
    ConvPlanRef plan = cache.find(problem, make_plan);
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

memory memory_of(const memory::desc& desc, const Tensor& tensor) {
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
    inner_ = memory_of(port.plain, x);
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
        plain_(memory_of(port.plain, y)) {
    if (stays_packed_)
      inner_ = memory_of(port.chosen, y);
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

void forward(const ConvPlan& plan, const Tensor& x, const Tensor& weight, const Tensor& bias,
             Tensor& y) {
  const Input from(plan.x, x), weights(plan.weight, weight);
  Output to(plan.y, y);
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, from.inner()},
                                            {DNNL_ARG_WEIGHTS, weights.inner()},
                                            {DNNL_ARG_DST, to.inner()}};
  if (bias) arguments.emplace(DNNL_ARG_BIAS, memory_of(plan.bias, bias));
  execute(plan, std::move(arguments));
  to.finish();
}

void backward(const ConvBackwardDnnl::Plans& plans, const Tensor& dy, const Tensor& x,
              const Tensor& weight, Tensor& dx, Tensor& dw, Tensor& db) {
  const ConvPlan *input = plans.input.get(), *weights = plans.weight.get();
  std::optional<Input> gradient;
  if (input != nullptr) {
    gradient.emplace(input->y, dy);
    const Input from(input->weight, weight);
    Output to(input->x, dx);
    execute(*input, {{DNNL_ARG_DIFF_DST, gradient->inner()},
                     {DNNL_ARG_WEIGHTS, from.inner()},
                     {DNNL_ARG_DIFF_SRC, to.inner()}});
    to.finish();
  }
  if (weights != nullptr) {
    if (!gradient || input->y.chosen != weights->y.chosen) gradient.emplace(weights->y, dy);
    const Input from(weights->x, x);
    Output to(weights->weight, dw);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_DIFF_DST, gradient->inner()},
                                              {DNNL_ARG_SRC, from.inner()},
                                              {DNNL_ARG_DIFF_WEIGHTS, to.inner()}};
    if (db) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(weights->bias, db));
    execute(*weights, std::move(arguments));
    to.finish();
  }
}

bool is_fast(DType dtype) { return dtype == f32 || multiplies_bfloat16(); }

}  // namespace

ConvPlanRef ConvDnnl::accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0 || !is_fast(x.dtype())) return nullptr;
  return plan_for(problem(Pass::kForward, bool(bias), x.dtype(), x.shape(), weight.shape(),
                          y.shape(), options));
}

void ConvDnnl::run(OneOf<float, bfloat16>, const ConvPlan& plan, const Tensor& x,
                   const Tensor& weight, const Tensor& bias, const Conv2dOptions&,
                   const Epilogue& epilogue, Tensor& y) {
  with_dnnl("conv2d", [&] { forward(plan, x, weight, bias, y); });
  kernels::run_epilogue(epilogue, y, y);  // not oneDNN's ReLU, which turns NaN into 0
}

std::optional<ConvBackwardDnnl::Plans> ConvBackwardDnnl::accepts(
    const Tensor& dy, const Epilogue&, const Tensor& x, const Tensor& weight,
    const Conv2dOptions& options, const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const bool empty = dy.numel() == 0 || (dx && dx.numel() == 0) || (dw && dw.numel() == 0);
  if (empty || !(dx || dw) || !is_fast(dy.dtype())) return {};
  if (db && !dw && dy.dtype() != f32) return {};
  Plans plans;
  if (dx) {
    plans.input = plan_for(problem(Pass::kBackwardInput, false, dy.dtype(), dx.shape(),
                                   weight.shape(), dy.shape(), options));
    if (!plans.input) return {};
  }
  if (dw) {
    plans.weight = plan_for(problem(Pass::kBackwardWeight, bool(db), dy.dtype(), x.shape(),
                                    dw.shape(), dy.shape(), options));
    if (!plans.weight) return {};
  }
  return plans;
}

void ConvBackwardDnnl::run(OneOf<float, bfloat16>, const Plans& plans, const Tensor& dy,
                           const Epilogue& behind, const Tensor& x, const Tensor& weight,
                           const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db) {
  Tensor dz = dy, none;
  kernels::run_epilogue_backward(behind, dy, dz);
  with_dnnl("conv2d", [&] { backward(plans, dz, x, weight, dx, dw, db); });
  if (db && !dw) kernels::conv2d_backward(dz, {}, x, weight, options, none, none, db);
}

}  // namespace tapegrad::backends::cpu
