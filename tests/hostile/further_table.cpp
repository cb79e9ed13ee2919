// Rows for members of Variable that are no ops, functions composed of ops, loaders of any items,
// functions of parameters, reports, and the optimizers and schedules written with ops.
#include <sstream>

#include "core/tape/recording.h"
#include "data/item_loader.h"
#include "data/stream_loader.h"
#include "nn/function_transforms.h"
#include "nn/functional_call.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/weighted.h"
#include "ops/activation.h"
#include "ops/aliases.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/fft.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/linalg_composed.h"
#include "ops/loss.h"
#include "ops/polynomials.h"
#include "ops/products.h"
#include "ops/quantize.h"
#include "ops/reshape.h"
#include "ops/scatter.h"
#include "ops/signal_windows.h"
#include "ops/special_composed.h"
#include "ops/statistics_composed.h"
#include "ops/subscript.h"
#include "ops/windows.h"
#include "optim/adafactor.h"
#include "optim/adam_variants.h"
#include "optim/combined_schedulers.h"
#include "optim/lbfgs.h"
#include "optim/lion.h"
#include "optim/muon.h"
#include "optim/optimizers.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/fit.h"
#include "train/graphed_step.h"
#include "train/report.h"
#include "train/tensorboard.h"

namespace tapegrad::testing {
namespace {

/// A stream of `left` numbers.
struct Countdown : IterableDataset {
  explicit Countdown(int64_t count) : left(count) {}
  std::optional<int64_t> next() { return left > 0 ? std::optional(left--) : std::nullopt; }
  int64_t left;
};

void differentiate(const Variable& y) {
  if (y.defined() && y.requires_grad()) sum(y).backward({.retain_graph = true});
}

void add_member_rows(Table& table) {
  table.add(
      "Variable::dim Variable::ndim Variable::sizes Variable::is_contiguous Variable::nbytes "
      "Variable::element_size Variable::is_cuda Variable::is_floating_point Variable::strides "
      "is_floating_point",
      [](const Variable& x) {
        x.dim(), x.ndim(), x.sizes(), x.is_contiguous(), x.nbytes(), x.element_size();
        x.is_cuda(), x.is_floating_point(), is_floating_point(x), x.strides();
      });
  table.add("Variable::stride", [](const Variable& x, int dim) { x.stride(dim); });
  table.add("Variable::astype", [](const Variable& x, DType dtype) { x.astype(dtype); });
  table.add("Variable::type_as", [](const Variable& x, const Variable& y) { x.type_as(y); });
  table.add("Variable::clone Variable::contiguous Variable::t Variable::T", [](const Variable& x) {
    differentiate(x.clone()), differentiate(x.contiguous());
    differentiate(x.t()), differentiate(x.T());
  });
  table.add("Variable::cuda Variable::data_ptr", [](const Variable& x) {
    x.data_ptr<float>();
    x.cuda();
  });
  table.add("Variable::set_requires_grad", [](Variable& x, bool on) { x.set_requires_grad(on); });
  table.add("Variable::transpose", [](const Variable& x, int a, int b) { x.transpose(a, b); });
  table.add(
      "Variable::dot Variable::mm Variable::bmm Variable::mv Variable::outer Variable::expand_as "
      "Variable::view_as",
      [](const Variable& x, const Variable& y) {
        if (!is_small(x) || !is_small(y)) return;
        const auto each = [](const auto& call) {
          try {
            differentiate(call());
          } catch (const Error&) {
          }
        };
        each([&] { return x.dot(y); }), each([&] { return x.mm(y); });
        each([&] { return x.bmm(y); }), each([&] { return x.mv(y); });
        each([&] { return x.outer(y); }), each([&] { return x.expand_as(y); });
        each([&] { return x.view_as(y); });
      });
  table.add("Variable::Part", [](const Variable& x, const Variable& mask, const Variable& y) {
    Variable z = x.clone();
    z[mask] = y;
    z[mask] = 1.0;
    z[mask] *= 2.0;
    z[{0, mask}] -= y;
  });
  table.add("Variable::index Variable::begin Variable::end Variable::Iterator",
            [](const Variable& x, int64_t i) {
              if (!x.defined() || x.rank() == 0 || x.size(0) < 100)
                for (const Variable& row : x) differentiate(row);
              differentiate(x.index({i}));
            });
  table.add("backward", [](const Variable& y) { backward(y); });
  table.add("Device::Device Device::parse", [](const std::string& text) {
    static_cast<void>(Device(DeviceType::kCpu, 3));
    Device::parse(text);
  });
  table.add("Choice::Choice", [](const Variable& x, const std::string& text) { gelu(x, text); });
  table.add("print no_grad", [](const Variable& x) {
    no_grad([&] { return exp(x); });
    equal(x, x);
    print(nn::Linear(3, 2));
  });
  table.add("equal VariableList::VariableList", [](const Variable& x, const Variable& y) {
    equal(x, y);
    cat({x, y});
  });
  table.add("NestedValues::NestedValues NestedValues::make", [](double a, int64_t b) {
    tensor({{a, b}, {b, a}});
    tensor({{b}, {b}});
    tensor({{a, a}, {b}});
  });
  table.add("Dims::of", [](int64_t a, int64_t b) { Dims::of(a, b); });
  table.leave_out("does not compile, or says where a call is",
                  "Where::current Where::file_name "
                  "Where::function_name Where::line begin end TAPEGRAD_DOTTED Module::modules "
                  "Variable::remove_hook");
  table.leave_out("members",
                  "choice_names BatchResult::BatchResult InputShape::InputShape NamedVariable::key "
                  "NamedVariable::value NamedModule::key NamedModule::value Reduction::Reduction "
                  "Device::is_cpu Device::is_cuda ModuleDict::items MNIST::images MNIST::targets "
                  "MNIST::is_train NamedList::NamedList BatchIterator::BatchIterator");
  table.leave_out("reads files, tested in word_for_word_test.cpp",
                  "MNIST::MNIST MNIST::get MNIST::size");
}

void add_composed_rows(Table& table) {
  table.add("broadcast_shapes", [](const Shape& a, const Shape& b) { broadcast_shapes(a, b); });
  table.add("pca_lowrank", [](const Variable& x, int64_t q, bool center) {
    if (is_small(x)) pca_lowrank(x, q, center);
  });
  table.add("Variable::set_data Variable::toType", [](const Variable& x, const Variable& y) {
    x.toType(f64);
    ones({2}).set_data(y);
  });
  table.add("mode unique_consecutive", [](const Variable& x, int dim, bool keep) {
    if (!is_small(x)) return;
    differentiate(mode(x, dim, keep).values);
    unique_consecutive(x);
  });
  table.add("renorm", [](const Variable& x, double p, int dim, double most) {
    if (is_small(x)) differentiate(renorm(x, p, dim, most));
  });
  table.add("histogram average percentile digitize to_categorical",
            [](const Variable& x, int64_t bins, double low, double high) {
              if (!is_small(x) || bins > 1 << 20) return;
              average(x), percentile(x, low), digitize(x, x);
              to_categorical(x, bins);
              histogram(x, bins, low, high);
            });
  table.add("reduce_sum reduce_mean reduce_max reduce_min",
            [](const Variable& x, const Shape& dims, bool keep) {
              reduce_sum(x), reduce_mean(x), reduce_max(x), reduce_min(x);
              differentiate(reduce_sum(x, dims, keep)), differentiate(reduce_mean(x, dims, keep));
              differentiate(reduce_max(x, dims, keep)), differentiate(reduce_min(x, dims, keep));
            });
  table.add(
      "hann_window hamming_window blackman_window bartlett_window kaiser_window fftfreq rfftfreq "
      "random_normal random_uniform normal",
      [](int64_t n, double d, bool periodic, const Shape& shape) {
        if (n > 1 << 20) return;
        random_normal(shape), random_uniform(shape), normal(d, std::abs(d), shape);
        fft::fftfreq(n, d), fft::rfftfreq(n, d);
        hann_window(n, periodic), hamming_window(n, periodic);
        blackman_window(n, periodic), bartlett_window(n, periodic);
        kaiser_window(n, periodic, d);
      });
  table.add("unravel_index",
            [](const Variable& x, const Shape& shape) { unravel_index(x, shape); });
  table.add("gradient", [](const Variable& x, double spacing, int64_t order) {
    for (const Variable& slope : gradient(x, spacing, {}, int(order))) differentiate(slope);
  });
  table.add("bilinear", [](const Variable& a, const Variable& b, const Sequence& w) {
    if (is_small(a) && is_small(b) && is_small(w)) differentiate(bilinear(a, b, w));
  });
  table.add("pdist vecdot", [](const Variable& a, const Variable& b, double p, int dim) {
    if (!is_small(a) || !is_small(b)) return;
    differentiate(pdist(a, p));
    differentiate(linalg::vecdot(a, b, dim));
  });
  table.add("tensorsolve tensorinv", [](const Variable& a, const Variable& b, int ind) {
    if (!is_small(a) || !is_small(b)) return;
    linalg::tensorsolve(a, b, {ind}), linalg::tensorsolve(a, b), linalg::tensorinv(a, ind);
  });
  table.add("cholesky_inverse cond matrix_rank norm", [](const Variable& x, double r, bool upper) {
    if (!is_small(x)) return;
    linalg::norm(x), linalg::norm(x, r, -1), linalg::matrix_rank(x, r);
    linalg::cond(x), cholesky_inverse(x, upper);
  });
  table.leave_out(
      "names whose use is a compile error",
      "MNIST MemoryFormat::TAPEGRAD_REFUSED lobpcg geqrf svd_lowrank quantize_per_tensor export_ "
      "cholesky_ex inv_ex ldl_factor nested_tensor softmax TAPEGRAD_REFUSED logitcrossentropy mm "
      "onecold "
      "onehotbatch params rearrange reduce repeat resnet18 resnet50 setup Accuracy");
  table.leave_out("calls load() and save(), which have rows", "load_file save_file");
  table.add("expit gammaln psi entr ndtr ndtri log_ndtr mvlgamma",
            [](const Variable& x, int64_t p) {
              if (!is_small(x)) return;
              differentiate(expit(x)), differentiate(gammaln(x)), differentiate(psi(x));
              differentiate(entr(x)), differentiate(ndtr(x)), differentiate(ndtri(x)),
                  differentiate(log_ndtr(x));
              differentiate(mvlgamma(x, p));
            });
  table.add(
      "gammainc gammaincc modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 "
      "modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1",
      [](const Variable& a, const Variable& x) {
        if (!is_small(a) || !is_small(x)) return;
        using namespace special;
        differentiate(gammainc(a, x)), differentiate(gammaincc(a, x));
        differentiate(modified_bessel_i0(x)), differentiate(modified_bessel_i1(x));
        differentiate(modified_bessel_k0(x)), differentiate(modified_bessel_k1(x));
        differentiate(scaled_modified_bessel_k0(x));
        differentiate(scaled_modified_bessel_k1(x));
      });
}

/// Functions of torch.special and torch.signal.
void add_rare_rows(Table& table) {
  table.add(
      "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
      "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
      "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h "
      "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p spherical_bessel_j0",
      [](const Variable& x, const Variable& n) {
        if (!is_small(x) || !is_small(n)) return;
        using namespace special;
        for (const auto f : {chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v,
                             chebyshev_polynomial_w, shifted_chebyshev_polynomial_t,
                             shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
                             shifted_chebyshev_polynomial_w, hermite_polynomial_h,
                             hermite_polynomial_he, laguerre_polynomial_l, legendre_polynomial_p})
          differentiate(f(x, n));
        differentiate(spherical_bessel_j0(x));
      });
  table.add(
      "bartlett blackman cosine exponential "
      "gaussian general_cosine general_hamming hamming "
      "hann kaiser nuttall",
      [](int64_t n, double a, bool sym) {
        if (n > 1 << 20) return;
        using namespace windows;
        const Options options{.center = a, .tau = a, .std = a, .beta = a, .sym = sym};
        for (const auto f : {bartlett, blackman, cosine, general_hamming, hamming, hann, kaiser,
                             nuttall, gaussian, exponential})
          f(n, options);
        general_cosine(n, {a, 1.0}, options);
      });
  table.add("frexp fake_quantize_per_tensor_affine",
            [](const Variable& x, double scale, int64_t zero, int64_t low, int64_t high) {
              if (!is_small(x)) return;
              differentiate(frexp(x).mantissa);
              differentiate(fake_quantize_per_tensor_affine(x, scale, zero, low, high));
            });
  table.add("index_reduce", [](const Variable& x, int dim, const Labels& index,
                               const Variable& source, const std::string& name, bool self) {
    if (!is_small(x) || !is_small(source)) return;
    differentiate(index_reduce(x, dim, index, source, name, self));
    differentiate(index_reduce(x, dim, index, source, "prod", self));
  });
  table.add("householder_product", [](const Variable& x, const Variable& tau) {
    if (is_small(x) && is_small(tau)) differentiate(linalg::householder_product(x, tau));
  });
  table.add("hfft ihfft", [](const Variable& x, int64_t n, int dim) {
    if (!is_small(x) || n > 1 << 20) return;
    differentiate(fft::hfft(x, {.dim = dim})), differentiate(fft::ihfft(x, {.n = n, .dim = dim}));
  });
}

/// A data set of as many items as asked, without items.
struct Numbers {
  int64_t count;
  int64_t size() const { return count; }
  int64_t get(int64_t index) const { return index; }
};

void add_data_rows(Table& table) {
  table.add("default_collate", [](const Variables& xs) { default_collate(xs); });
  table.add(
      "ItemLoader::ItemLoader ItemLoader::begin ItemLoader::end ItemLoader::size "
      "ItemLoader::Iterator::Iterator ItemLoader::num_examples ItemLoader::seed "
      "ItemLoader::dataset_size ItemLoader::shard "
      "ItemLoader::has_examples ItemLoader::item_type Loader::item_type Loader::has_examples "
      "Loader::Iterator::item BatchStream::item",
      [](int64_t batch, int64_t count, int workers, uint64_t seed, bool last) {
        if (count > 1000) return;
        ItemLoader loader(Numbers{count}, {.batch_size = batch,
                                           .shuffle = last,
                                           .num_workers = workers,
                                           .drop_last = last,
                                           .seed = seed});
        loader.set_epoch(seed), loader.size(), loader.seed(), loader.num_examples();
        loader.has_examples(), loader.item_type();
        for (const Variable& numbers : loader) sum(numbers);
      });
  table.add(
      "StreamLoader::StreamLoader StreamLoader::begin StreamLoader::end "
      "StreamLoader::Iterator::Iterator",
      [](int64_t batch, int64_t count, bool last) {
        if (count > 1000) return;
        const StreamLoader loader(Countdown(count), {.batch_size = batch, .drop_last = last});
        for (const Variable& numbers : loader) sum(numbers);
        StreamLoader(Countdown(count), batch).begin();
      });
  table.add("functional_call parameter_map ReplacedParameters::ReplacedParameters",
            [](const Variable& x, const Variable& weight) {
              nn::Linear model(3, 2);
              VariableMap map = nn::parameter_map(model);
              map["weight"] = weight;
              differentiate(nn::functional_call(model, map, x));
            });
  table.add("vmap", [](const Variable& x, const Variable& y) {
    if (is_small(x) && is_small(y))
      differentiate(vmap([](const Variable& a, const Variable& b) { return a * b; }, x, y));
  });
  table.add("per_sample_gradients", [](const Variable& x, const Labels& y) {
    nn::Linear model(3, 2);
    const auto loss = [](const Variable& a, const Variable& b) { return cross_entropy(a, b); };
    if (is_small(x)) nn::per_sample_gradients(model, loss, x, y);
  });
  table.add("parameters_to_vector vector_to_parameters",
            [](const Variables& xs, const Variable& v) {
              for (const Variable& x : xs)
                if (!is_small(x)) return;
              nn::utils::parameters_to_vector(xs);
              nn::utils::vector_to_parameters(v, nn::Linear(3, 2).parameters());
            });
  table.add("Sequential::append Sequential::add", [](bool any) {
    nn::Sequential net;
    net.append(nn::Linear(3, 2));
    net.add(any ? nn::AnyModule(nn::Linear(2, 2)) : nn::AnyModule());
    net(ones({2, 3}));
  });
  table.add("init::trunc_normal_ init::eye_", [](Variable& x, double mean, double std, double b) {
    if (!is_small(x)) return;
    nn::init::trunc_normal_(x, mean, std, mean - b, b);
  });
  table.add("require_share require_not_negative require_positive", [](double value) {
    nn::require_positive("kit", "value", value);
    nn::require_share("kit", "value", value);
    nn::require_not_negative("kit", "value", value);
  });
  table.add("init::sparse_",
            [](Variable& x, double sparsity, double std) { nn::init::sparse_(x, sparsity, std); });
  table.add("init::eye_", [](Variable& x) { nn::init::eye_(x); });
  table.add("init::dirac_", [](Variable& x, int64_t groups) { nn::init::dirac_(x, groups); });
  table.add("init::calculate_gain init::kaiming_options",
            [](const std::string& name, double slope) {
              nn::init::kaiming_options(slope, "fan_in", "relu");
              nn::init::calculate_gain(name, slope);
              nn::init::kaiming_options(slope, name, name);
            });
}

void add_report_rows(Table& table) {
  table.add(
      "TensorBoard::TensorBoard TensorBoard::scalar TensorBoard::text TensorBoard::path "
      "TensorBoard::hyper_parameters",
      [](const std::string& text, double value, int64_t step) {
        const TempDir dir;
        TensorBoard board((dir / "runs").string(), step);
        board.path(), board.scalar(text, value, step), board.text(text, text, step);
        board.hyper_parameters({{text, value}}, {{text, text}}, {text});
        TensorBoard other((dir / text).string());
      });
  table.add("TensorBoard::image TensorBoard::histogram TensorBoard::histograms TensorBoard::graph",
            [](const Image& image, const Variable& x, int64_t step) {
              const TempDir dir;
              TensorBoard board((dir / "runs").string());
              board.histograms(nn::Linear(3, 2), step);
              if (is_small(x)) board.histogram("x", x, step);
              if (is_small(image)) board.image("image", image, step);
              board.graph(x);
            });
  table.add("log_to", [](bool histograms) {
    const TempDir dir;
    TensorBoard board((dir / "runs").string());
    nn::Linear net(3, 3);
    optim::SGD optimizer(net, 0.01);
    DataLoader loader(TensorDataset(ones({4, 3}), ones({4, 3})), {.batch_size = 2});
    std::ostringstream out;
    fit(net, loader, optimizer,
        {.loss = [](const Variable& x, const Variable& y) { return mean(x - y); },
         .accuracy = false,
         .progress = {.out = &out},
         .callbacks = {log_to(board, {.histograms = histograms})}});
  });
  table.add("html_report save_report", [](const std::string& text, const Image& images,
                                          int64_t samples, const std::vector<int64_t>& labels) {
    if (!is_small(images)) return;
    Evaluation result;
    result.labels = labels;
    result.predictions = labels.size() % 2 == 0 ? labels : std::vector<int64_t>{0};
    const ReportOptions options = {.title = text,
                                   .evaluation = &result,
                                   .images = images,
                                   .samples = samples,
                                   .class_names = {text}};
    html_report({.title = text});
    const TempDir dir;
    save_report((dir / text).string(), options);
  });
  table.add("GraphedStep::explain GraphedStep::check_next", [](const Variable& x, int64_t warmup) {
    if (!is_small(x)) return;
    GraphedStep step([](const Variable& v) { return exp(v) * 2; }, {}, {.warmup = warmup});
    for (int i = 0; i < 6; ++i) step(x);
    step.explain();
    step.check_next();
    step(x);
  });
}

void add_optimizer_rows(Table& table) {
  const auto step = [](const Variables& params, auto&& opt) {
    for (const Variable& p : params)
      if (p.requires_grad()) sum(p * p).backward();
    opt.step();
    opt.load_state_dict(opt.state_dict());
    opt.kind();
  };
  table.add(
      "NAdam::NAdam RAdam::RAdam Adamax::Adamax AdamVariant::AdamVariant Optimizer::kind "
      "Muon::Muon Adafactor::Adafactor Lion::Lion",
      [step](Variables params, double lr, double beta, double eps) {
        for (const Variable& p : params)
          if (!is_small(p)) return;
        const auto attempt = [&](const auto& make) {
          try {
            step(params, make());
          } catch (const Error&) {
          }
        };
        using namespace optim;
        attempt([&] { return NAdam(params, {.lr = lr, .betas = {beta, 0.9}, .eps = eps}); });
        attempt([&] {
          return RAdam(params, {.lr = lr, .betas = {0.9, beta}, .weight_decay = eps});
        });
        attempt([&] { return Adamax(params, {.lr = lr, .betas = {beta, 0.9}, .eps = eps}); });
        attempt([&] {
          return Lion(params, {.lr = lr, .betas = {beta, 0.9}, .weight_decay = eps});
        });
        attempt(
            [&] { return Muon(params, {.lr = lr, .momentum = beta, .eps = eps, .ns_steps = 2}); });
        attempt([&] {
          return Adafactor(params, {.lr = lr, .beta2_decay = beta, .eps = {eps, lr}, .d = eps});
        });
      });
  table.add("LBFGS::LBFGS LBFGS::step LBFGS::state_dict",
            [](Variables params, double lr, int64_t most, double tolerance) {
              for (const Variable& p : params)
                if (!is_small(p)) return;
              optim::LBFGS opt(params, {.lr = lr,
                                        .max_iter = most > 100 ? most % 7 : most,
                                        .tolerance_grad = tolerance,
                                        .line_search_fn = lr > 1 ? "strong_wolfe" : ""});
              opt.step([&] {
                opt.zero_grad();
                Variable loss = sum(exp(params.at(0)));
                loss.backward();
                return loss;
              });
              opt.load_state_dict(opt.state_dict());
            });
  table.add("LBFGS::load_state_dict", [](const TensorMap& state) {
    optim::LBFGS opt(nn::Linear(3, 2));
    TensorMap all = opt.state_dict();
    for (const auto& [name, value] : state) all["lbfgs." + name] = value;
    opt.load_state_dict(all);
  });
  table.add(
      "ConstantLR::ConstantLR PolynomialLR::PolynomialLR MultiplicativeLR::MultiplicativeLR "
      "CyclicLR::CyclicLR SequentialLR::SequentialLR ChainedScheduler::ChainedScheduler",
      [](double factor, int64_t count, double high) {
        const auto attempt = [&](const auto& make) {
          optim::SGD opt(nn::Linear(3, 2), 0.1);
          try {
            auto schedule = make(opt);
            for (int i = 0; i < 5; ++i) schedule.step();
          } catch (const Error&) {
          }
        };
        using namespace optim;
        attempt([&](Optimizer& o) { return ConstantLR(o, factor, count); });
        attempt([&](Optimizer& o) {
          return OneCycleLR(o, {.max_lr = high,
                                .epochs = count,
                                .steps_per_epoch = count,
                                .base_momentum = factor,
                                .three_phase = true});
        });
        attempt([&](Optimizer& o) { return PolynomialLR(o, count, factor); });
        attempt([&](Optimizer& o) { return CyclicLR(o, factor, high, count); });
        attempt([&](Optimizer& o) {
          return MultiplicativeLR(o, [factor](int64_t) { return factor; });
        });
        attempt([&](Optimizer& o) { return MultiplicativeLR(o, {}); });
        optim::SGD opt(nn::Linear(3, 2), 0.1);
        ConstantLR first(opt, 0.5), second(opt, 0.5);
        attempt([&](Optimizer& o) { return SequentialLR(o, {&first, nullptr}, {count}); });
        attempt([&](Optimizer&) { return ChainedScheduler({&first, nullptr}); });
        attempt([&](Optimizer&) { return ChainedScheduler({&first, &second}); });
        SequentialLR all(opt, {&first, &second}, {count});
        all.step();
      });
}

}  // namespace

void add_further_rows(Table& table) {
  add_member_rows(table);
  add_composed_rows(table);
  add_rare_rows(table);
  add_data_rows(table);
  add_report_rows(table);
  add_optimizer_rows(table);
}

}  // namespace tapegrad::testing
