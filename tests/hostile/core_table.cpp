// Rows for the public classes and functions of core and of ops that the catalog does not have.
#include <sstream>

#include "core/autograd/anomaly.h"
#include "core/autograd/checkpoint.h"
#include "core/autograd/derivatives.h"
#include "core/autograd/gradcheck.h"
#include "core/autograd/sparse_gradient.h"
#include "core/base/allocator.h"
#include "core/base/generator.h"
#include "core/cuda.h"
#include "core/dispatch/dispatch_log.h"
#include "core/inspect/profiler.h"
#include "core/inspect/runtime_info.h"
#include "core/inspect/tape_picture.h"
#include "core/tape/autocast.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/catalog.h"
#include "ops/conv.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/sketch.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"

namespace tapegrad::testing {
namespace {

/// Uses a result as a program would: prints it and takes its gradient.
void use(const Variable& y) {
  std::ostringstream out;
  if (y.defined()) out << y;
  if (y.defined() && y.requires_grad()) sum(y).backward();
}

void add_variable_rows(Table& table) {
  table.leave_out("private", "self");
  table.leave_out("calls to_vector(), which has a row", "tolist");
  table.add(
      "Variable::Variable Variable::value Variable::shape Variable::rank Variable::numel "
      "Variable::dtype Variable::device",
      [](const Tensor& t) {
        const Variable x(t);
        x.value(), x.shape(), x.rank(), x.numel(), x.dtype();
        if (t) x.device();
      });
  table.add("Variable::size", [](const Variable& x, int dim) { x.size(dim); });
  table.add("Variable::defined Variable::requires_grad Variable::is_leaf Variable::grad_fn",
            [](const Variable& x) { x.defined(), x.requires_grad(), x.is_leaf(), x.grad_fn(); });
  table.add("Variable::bool", [](const Variable& x) { static_cast<void>(bool(x)); });
  table.add("Variable::item", [](const Variable& x) { x.item(); });
  table.add("Variable::to_vector", [](const Variable& x) { x.to_vector<double>(); });
  table.add("Variable::to_vector", [](const Variable& x) { x.to_vector<int64_t>(); });
  table.add("Variable::to", [](const Variable& x, DType dtype) { use(x.to(dtype)); });
  table.add("Variable::to Variable::cpu", [](const Variable& x, Device device) {
    use(x.to(device));
    use(x.cpu());
  });
  table.add("Variable::requires_grad_", [](Variable& x, bool on) { x.requires_grad_(on); });
  table.add("Variable::detach_", [](Variable& x) { x.detach_(); });
  table.add("Variable::grad Variable::zero_grad", [](const Variable& x) {
    x.grad();
    x.zero_grad();
  });
  table.add("Variable::retain_grad", [](const Variable& x) {
    x.retain_grad();
    use(x);
  });
  table.add("Variable::register_hook", [](const Variable& x, const Variable& gradient) {
    HookHandle handle = x.register_hook([&](const Variable&) { return gradient; });
    use(x);
    handle.remove();
  });
  table.add("Variable::register_hook",
            [](const Variable& x) { x.register_hook(GradientHook()), use(x); });
  table.add("Variable::register_post_accumulate_grad_hook", [](const Variable& x) {
    x.register_post_accumulate_grad_hook([](const Variable&) {});
    use(x);
  });
  table.add("Variable::backward", [](const Variable& x) { x.backward(); });
  table.add("Variable::backward Variable::retains_grad ChosenLeaves::ChosenLeaves",
            [](const Variable& x, const Variable& leaf, bool keeps) {
              x.backward({.retain_graph = keeps, .inputs = {leaf, leaf}});
              backward({x, leaf});
              x.retains_grad();
            });
  table.add("Variable::backward", [](const Variable& x, const Variable& seed) {
    x.backward(seed, {.retain_graph = true});
    x.backward(seed);
  });
  table.add("Variable::detach Variable::base Variable::is_same", [](const Variable& x) {
    x.detach();
    x.is_same(x.base());
  });
  table.add("Variable::rebind", [](Variable& x, const Tensor& value) { x.rebind(value); });
  table.add("grad", [](const Variable& y, const Variable& x) { grad(y, x); });
  table.add("grad", [](const Variables& ys, const Variables& xs, const Variables& seeds) {
    grad(ys, xs, seeds, {.create_graph = true, .allow_unused = true});
  });
  table.add("grad", [](const Variable& x, const Variable& seed) {
    const Variable y = exp(x);
    grad(y, {&x, 1}, seed, {.retain_graph = true});
  });
  table.add("clone cast move add_gradients", [](const Variable& x, const Variable& y, DType dtype) {
    use(clone(x));
    use(cast(x, dtype));
    use(move(x, cpu));
    use(add_gradients(x, y));
  });
  table.leave_out(
      "for the tape and for ops",
      "Variable::can_be_overwritten Variable::edge Variable::has_one_handle "
      "Variable::is_sole_owner "
      "Variable::of_result Variable::rebase Variable::set_history Variable::set_view_of "
      "Variable::value_or_empty Variable::writable Variable::State::State Variable::State::destroy "
      "Variable::State::value embed gradient_sum record_view record_view_write relative_layout "
      "send_part "
      "send_unexpanded unexpanded_shape "
      "strided");
}

void add_tensor_rows(Table& table) {
  table.add("Tensor::empty", [](const Shape& shape, DType dtype, Device device) {
    Tensor::empty(shape, dtype, device);
  });
  table.add("Tensor::full", [](const Shape& shape, Number value, DType dtype) {
    Tensor::full(shape, value, dtype);
  });
  table.add("Tensor::from", [](const std::vector<double>& values, const Shape& shape) {
    Tensor::from<double>(values, shape);
  });
  table.add("Tensor::empty_like", [](const Tensor& x, const Shape& shape) {
    x.empty_like();
    x.empty_like(shape);
  });
  table.add("Tensor::clone Tensor::contiguous", [](const Tensor& x) {
    x.contiguous();
    x.clone();
  });
  table.add("Tensor::to", [](const Tensor& x, DType dtype, Device device) {
    x.to(dtype);
    x.to(device);
  });
  table.add("sketch_of", [](const Tensor& x) { sketch_of(x); });
  table.add("Tensor::item", [](const Tensor& x) { x.item(); });
  table.add("Tensor::number", [](const Tensor& x) { x.number(); });
  table.add(
      "Tensor::Tensor Tensor::bool Tensor::layout Tensor::shape Tensor::strides Tensor::rank "
      "Tensor::numel Tensor::dtype Tensor::is_contiguous Tensor::shares_storage "
      "Tensor::device Tensor::storage Tensor::is_sole_owner Tensor::data",
      [](const Tensor& x, const Tensor& y) {
        static_cast<void>(bool(x)), x.layout(), x.shape(), x.strides(), x.rank(), x.numel();
        x.dtype(), x.is_contiguous(), x.shares_storage(y), x.device(), x.storage();
        x.is_sole_owner(), x.data<float>();
      });
  table.leave_out(
      "the caller vouches for the memory",
      "Tensor::wrap Tensor::with_layout Tensor::on_host Tensor::set_offset Tensor::hand_over");
  table.add("from_blob", [](const Shape& shape, DType dtype) {
    static double memory[64];
    if (numel(shape) <= 64) use(from_blob(memory, shape).to(dtype));
  });
}

void add_value_rows(Table& table) {
  table.add("Number::Number Number::kind Number::fits Number::real Number::saturated Number::to",
            [](Number number, DType dtype) {
              number.kind(), number.fits(dtype), number.real();
              number.saturated<int8_t>(), number.saturated<int64_t>(), number.to<float16>();
              number.to<bool>();
              number.to<int32_t>();
            });
  table.add("Number::checked", [](Number number) { number.checked<uint8_t>(); });
  table.add("Number::Number", [](uint64_t whole) { Number{whole}; });
  table.add("promote", [](DType a, DType b, Number number) {
    promote(a, b);
    promote(a, number);
  });
  table.add("Dims::Dims Dims::filled Dims::push_back Dims::rank Dims::begin Dims::end",
            [](int rank, int64_t value) {
              Dims dims = Dims::filled(rank, value);
              dims.push_back(value), dims.rank(), dims.begin(), dims.end();
            });
  table.add("numel contiguous_strides contiguous_layout", [](const Shape& shape) {
    contiguous_strides(shape);
    contiguous_layout(shape);
    numel(shape);
  });
  table.add("broadcast", [](const Shape& a, const Shape& b) { broadcast("kit", a, b); });
  table.add("normalize_dim", [](int64_t dim, int rank) { normalize_dim("kit", dim, rank); });
  table.leave_out("for ops, which check the arguments", "slice_layout");
  table.add("is_contiguous overlaps_itself broadcast_strides",
            [](const Tensor& x, const Shape& shape) {
              is_contiguous(x.layout());
              overlaps_itself(x.layout());
              broadcast("kit", x.shape(), shape);
              if (broadcast("kit", x.shape(), shape) == shape) broadcast_strides(x.layout(), shape);
            });
  table.add("parse_device to_string is_available why_unavailable device_or_cpu",
            [](const std::string& text, Device device) {
              to_string(device), is_available(device), why_unavailable(device);
              parse_device(text);
            });
  table.add("set_default_device default_device", [](Device device) {
    const Device before = default_device();
    set_default_device(device);
    set_default_device(before);
  });
  table.add("parse_dtype name size_of is_float is_integer with_type",
            [](const std::string& text, DType dtype) {
              name(dtype), size_of(dtype), is_float(dtype), is_integer(dtype);
              with_type(dtype, []<typename T>(TypeTag<T>) {});
              parse_dtype(text);
            });
  table.add("set_default_dtype default_dtype", [](DType dtype) {
    const DType before = default_dtype();
    set_default_dtype(dtype);
    set_default_dtype(before);
  });
  table.leave_out(
      "conversion of every bit pattern, tested in values_test.cpp",
      "bfloat16::bfloat16 bfloat16::bits bfloat16::encode bfloat16::float convert decode "
      "encode float16::bits float16::decode float16::encode float16::float "
      "float16::float16");
  table.add(
      "RandomGenerator::RandomGenerator RandomGenerator::draw RandomGenerator::seed "
      "RandomGenerator::state "
      "RandomGenerator::set_state manual_seed default_generator philox uniform_float "
      "uniform_double",
      [](uint64_t seed, uint64_t words) {
        RandomGenerator generator(seed);
        generator.seed(words);
        generator.set_state({seed, words}), generator.state();
        default_generator();
        philox(seed, words), uniform_float(uint32_t(seed)), uniform_double(0, uint32_t(seed));
        generator.draw(words);
      });
  table.leave_out("has no arguments, or an interface for internal code",
                  "manual_seed DrawObserver::on_draw DrawObserver::repeat standard_output");
  table.add("memory_stats reset_peak_memory empty_cache set_memory_limit allocator",
            [](Device device, int64_t bytes) {
              memory_stats(device);
              reset_peak_memory(device), empty_cache(device);
              if (device != cpu) set_memory_limit(bytes, device);
              if (device.type == DeviceType::kCpu) allocator(device.type);
            });
  table.leave_out("an interface that devices implement, tested in private_device_test.cpp",
                  "Allocator::Allocator Allocator::allocate Allocator::deallocate "
                  "Allocator::empty_cache Allocator::reset_peak Allocator::set_limit "
                  "Allocator::stats set_allocator set_backend_loader set_kernel");
  table.add("Subscript::Subscript Subscript::index Subscript::kind at",
            [](const Variable& x, int64_t index, const Variable& mask) {
              use(at(x, {index}));
              use(at(x, {Slice{index, {}, 2}, ellipsis, newaxis}));
              use(at(x, {mask}));
            });
  table.add("at index_put index_put_",
            [](Variable& x, int64_t step, const Variable& values, Number number) {
              use(index_put(x, {Slice{{}, {}, step}}, values));
              index_put_(x, {Slice{step, step, 1}}, number.real());
            });
  table.add("Operand::Operand Operand::variable Operand::number", [](const Variable& x, Number n) {
    use(add(x, n.real()));
    use(add(x, x));
  });
  table.add(
      "Size2d::Size2d Size2d::height Size2d::width Size3d::Size3d Size3d::depth Size3d::height "
      "Size3d::width Size3d::plane",
      [](const Image& x, int64_t size) {
        use(conv2d(x, x, {}, {.stride = {size, 1}, .padding = size, .dilation = size}));
        use(conv3d(x, x, {}, {.stride = Size3d(size), .groups = size}));
      });
  table.leave_out("for rules of ops, and types",
                  "fail fail_at at_line gelu_tanh_known relu_gradient piecewise "
                  "Taps::results Lambda::Variable TripletDistanceOptions::Variable");
  table.leave_out("a setting of two values",
                  "conv_algorithm conv_layout set_conv_algorithm set_conv_layout matmul_precision "
                  "set_matmul_precision");
}

void add_autograd_rows(Table& table) {
  const auto f = [](const Variable& x) { return sum(x * x); };
  table.add("checkpoint", [](const Variable& x) {
    use(checkpoint([](const Variable& x) { return exp(x) * x; }, x));
  });
  table.add("checkpoint", [](const Variables& xs) {
    use(checkpoint([](const Variables& xs) { return xs.empty() ? Variable() : exp(xs[0]); }, xs));
  });
  table.add("checkpoint", [](const Variable& x, const Variable& y) {
    use(checkpoint([&](const Variable&) { return y; }, x));
  });
  table.add("vjp jvp", [f](const Variable& x, const Variable& v) {
    vjp(f, x, v);
    jvp(f, x, v);
  });
  table.add("jacobian", [](const Variable& x) {
    if (!x.defined() || x.numel() < 100) jacobian([](const Variable& x) { return exp(x); }, x);
  });
  table.add("hessian hvp", [f](const Variable& x, const Variable& v) {
    if (!x.defined() || x.numel() < 100) hessian(f, x);
    hvp(f, x, v);
  });
  table.add("vjp jvp jacobian hessian hvp", [](const Variables& xs, const Variables& vs) {
    const auto total = [](const Variables& xs) {
      return xs.size() < 2 ? xs : Variables{sum(xs[0] * xs[1])};
    };
    vjp(total, xs, vs);
    jvp(total, xs, vs);
    hvp(total, xs, vs);
  });
  table.add("gradcheck gradcheck_outputs GradcheckResult::bool",
            [f](const Variables& xs, int order, double eps) {
              for (const Variable& x : xs)
                if (x.defined() && x.numel() > 100) return;
              static_cast<void>(bool(
                  gradcheck([f](const Variables& in) { return in.empty() ? Variable() : f(in[0]); },
                            xs, {.order = std::clamp(order, -1, 3), .eps = eps})));
            });
  table.add("gradgradcheck", [f](const Variables& xs, double eps) {
    for (const Variable& x : xs)
      if (x.defined() && x.numel() > 20) return;
    static_cast<void>(
        bool(gradgradcheck([f](const Variables& in) { return in.empty() ? Variable() : f(in[0]); },
                           xs, {.eps = eps})));
  });
  table.add("AnomalyMode::AnomalyMode", [](const Variable& x) {
    const AnomalyMode anomaly;
    use(log(x));
  });
  table.add("Autocast::Autocast autocast_dtype is_autocast_enabled",
            [](DType dtype, const Variable& x, bool on) {
              const Autocast autocast(dtype, on);
              is_autocast_enabled(), autocast_dtype();
              use(matmul(x, t(x)));
            });
  table.add(
      "Recording::Recording NoGrad::NoGrad NoGrad::Recording InferenceMode::InferenceMode "
      "is_recording is_inference_mode is_recomputing",
      [](const Variable& x, bool on) {
        const Recording recording(on);
        const InferenceMode inference(on);
        is_recording(), is_inference_mode(), is_recomputing();
        use(exp(x));
      });
  table.add("HookHandle::HookHandle HookHandle::remove", [](const Variable& x) {
    HookHandle none, handle = x.register_hook([](const Variable&) { return Variable(); });
    none.remove(), handle.remove(), handle.remove();
  });
  table.add(
      "TapeNode::register_hook TapeNode::register_prehook TapeNode::edges TapeNode::gradients "
      "TapeNode::name "
      "TapeNode::number TapeNode::is_leaf TapeNode::where TapeNode::scope TapeNode::is_freed "
      "TapeNode::output_type "
      "TapeNode::live TapeNode::has_kernel_backward describe",
      [](const Variable& x, const Variable& gradient) {
        const Variable y = exp(x);
        TapeNode* node = y.grad_fn();
        if (node == nullptr) return;
        node->register_prehook([&](std::span<Variable> all) { all[0] = gradient; });
        node->register_hook(
            [&](std::span<Variable> all, std::span<const Variable>) { all[0] = gradient; });
        node->register_hook(0, GradientHook());
        node->edges(), node->gradients(), node->name(), node->number(), node->is_leaf();
        node->where(), node->scope(), node->is_freed(), node->output_type(0), TapeNode::live();
        node->has_kernel_backward();
        describe(*node);
        use(y);
      });
  table.leave_out("for the tape and for ops",
                  "TapeNode::TapeNode TapeNode::absorb TapeNode::destroy TapeNode::epilogue_at "
                  "TapeNode::repeats_operand "
                  "TapeNode::free_saved TapeNode::run "
                  "TapeNode::visit_saved TapeEdge::bool running_node HookList::add HookList::each "
                  "HookList::empty "
                  "row_gradient send_rows takes_rows RowGradient::RowGradient RowGradient::dense "
                  "RowGradient::indices RowGradient::plus RowGradient::rows");
  table.add(
      "Profiler::Profiler Profiler::stop Profiler::entries Profiler::seconds Profiler::steps "
      "Profiler::print Profiler::save_trace ProfileEntry::gbytes_per_second "
      "ProfileEntry::gflops_per_second",
      [](const Variable& x, int64_t events, const std::string& path) {
        Profiler profiler({.max_events = events});
        try {
          use(exp(x));
        } catch (const Error&) {
        }
        profiler.stop();
        for (const ProfileEntry& entry : profiler.entries())
          entry.gbytes_per_second(), entry.gflops_per_second();
        profiler.seconds(Pass::kForward), profiler.steps();
        std::ostringstream out;
        profiler.print(out, {.steps_per_epoch = events});
        const TempDir dir;
        profiler.save_trace((dir / path).string());
      });
  table.add("tape_dot tape_svg", [](const Variable& x) {
    tape_dot(x);
    tape_svg(x);
  });
  table.add("write_dot write_svg", [](const Variable& x, const std::string& path) {
    const TempDir dir;
    write_dot(x, (dir / path).string());
    write_svg(x, (dir / path).string());
  });
  table.add("DispatchLog::DispatchLog DispatchLog::calls DispatchLog::kernels DispatchLog::explain",
            [](const std::string& kernel) {
              const DispatchLog log;
              log.calls(kernel), log.calls(), log.kernels(), log.explain();
            });
  table.add("runtime_info", [] { runtime_info(); });
  table.add("Error::locate Error::message Error::note Error::what", [](const std::string& text) {
    Error error(text);
    error.locate(text), error.note(text), error.message(), error.what();
  });
}

}  // namespace

void add_core_rows(Table& table) {
  add_variable_rows(table);
  add_tensor_rows(table);
  add_value_rows(table);
  add_autograd_rows(table);
}

}  // namespace tapegrad::testing
