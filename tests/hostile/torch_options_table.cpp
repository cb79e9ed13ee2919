// Rows for averaged models, Keras's callbacks and forms, and further methods of layers.
#include <algorithm>
#include <sstream>

#include "nn/fractional_pool.h"
#include "nn/function_transforms.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/aliases.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "optim/optimizers.h"
#include "optim/swa_utils.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/callback.h"
#include "train/fit.h"
#include "train/libtorch/libtorch_names.h"
#include "train/tensorboard.h"

namespace tapegrad::testing {
namespace {

void add_layer_rows(Table& table) {
  table.add(
      "MaxPool1d::forward_with_indices MaxPool2d::forward_with_indices "
      "MaxPool3d::forward_with_indices AdaptiveMaxPool1d::forward_with_indices "
      "AdaptiveMaxPool2d::forward_with_indices AdaptiveMaxPool3d::forward_with_indices",
      [](const Variable& x, int64_t size) {
        if (!is_small(x) || size > 1000) return;
        attempt([&] { nn::MaxPool1d(size).forward_with_indices(x); },
                [&] { nn::MaxPool2d(size).forward_with_indices(x); },
                [&] { nn::MaxPool3d(size).forward_with_indices(x); },
                [&] { nn::AdaptiveMaxPool1d(size).forward_with_indices(x); },
                [&] { nn::AdaptiveMaxPool2d(size).forward_with_indices(x); },
                [&] { nn::AdaptiveMaxPool3d(size).forward_with_indices(x); });
      });
  table.add(
      "fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices "
      "fractional_max_pool3d_with_indices FractionalMaxPool::FractionalMaxPool "
      "FractionalMaxPool::forward FractionalMaxPool::forward_with_indices",
      [](const Image& image, const Variable& samples, int64_t kernel, int64_t size, double ratio) {
        const Variable& x = image;
        if (!is_small(x)) return;
        attempt(
            [&] { fractional_max_pool2d(x, {.kernel_size = kernel, .output_size = size}); },
            [&] { fractional_max_pool2d(x, 2, {.output_size = 2, ._random_samples = samples}); },
            [&] { nn::FractionalMaxPool2d(kernel, {.output_ratio = ratio})(x); },
            [&] { nn::FractionalMaxPool2d(2, size).forward_with_indices(x); },
            [&] {
              fractional_max_pool3d(x, kernel, {.output_size = {1, size, 2}});
            },
            [&] {
              nn::FractionalMaxPool3d(2, {.output_ratio = {ratio, 0.5}})(unsqueeze(x, 2));
            });
      });
  table.add("Conv::Conv", [](const Variable& x, int64_t padding, const std::string& mode) {
    if (!is_small(x) || padding > 1000) return;
    const auto conv = [&](auto how) {
      nn::Conv2d(1, 1, 3, {.padding = padding, .padding_mode = how})(x);
    };
    attempt([&] { conv("reflect"); }, [&] { conv("circular"); }, [&] { conv(mode); });
  });
  table.add("BatchNorm::momentum BatchNorm::set_momentum BatchNorm::reset_running_stats",
            [](double momentum) {
              nn::BatchNorm1d norm(3);
              norm.reset_running_stats();
              norm.set_momentum(momentum);
              norm.momentum(), norm(ones({4, 3}));
            });
  table.add("Module::build", [](const Shape& shape) {
    if (shape.rank() > 0 && shape[-1] > 1000) return;
    nn::Linear({.out_features = 3}).build(shape);
  });
  table.add("stack_module_state", [](bool trains, int64_t size) {
    std::vector<nn::Linear> nets;
    for (int64_t i = 0; i < std::min<int64_t>(size, 4); ++i) nets.emplace_back(2, 2);
    if (!nets.empty()) nets.back().train(trains);
    func::stack_module_state(nets);
  });
  table.add("squeeze linear", [](const Variable& x, const Variable& w, const Shape& dims) {
    if (!is_small(x) || !is_small(w)) return;
    attempt([&] { squeeze(x, dims); }, [&] { linear(x, w); });
  });
}

void add_average_rows(Table& table) {
  using namespace optim::swa_utils;
  table.add(
      "AveragedModel::AveragedModel AveragedModel::update_parameters AveragedModel::forward "
      "AveragedModel::members get_ema_avg_fn "
      "get_ema_multi_avg_fn get_swa_avg_fn get_swa_multi_avg_fn update_bn",
      [](const Variable& x, double decay, bool with_buffers) {
        if (!is_small(x)) return;
        nn::BatchNorm1d net(3);
        AveragedModel average(net, {.avg_fn = get_swa_multi_avg_fn(), .use_buffers = with_buffers});
        average.update_parameters(net);
        attempt([&] { update_bn(std::vector<Variable>{x}, average); });
        average.update_parameters(net);
        AveragedModel ema(net, {.avg_fn = get_ema_multi_avg_fn(decay)});
        ema.update_parameters(net), ema.update_parameters(net);
        ema.update_parameters(nn::Linear(2, 2));
      });
  table.add("SWALR::SWALR ReduceLROnPlateau::get_last_lr", [](double lr, int64_t epochs) {
    nn::Linear net(1, 1);
    optim::SGD sgd(net, 0.1);
    optim::ReduceLROnPlateau(sgd, "min").get_last_lr();
    optim::SWALR schedule(sgd, lr, epochs, "linear");
    for (int i = 0; i < 3; ++i) schedule.step();
  });
}

void add_keras_rows(Table& table) {
  table.leave_out("a base class", "KerasCallback::KerasCallback");
  table.add("ReduceLROnPlateau ReduceLROnPlateau::ReduceLROnPlateau",
            [](const std::string& monitor, double factor, int64_t patience, double least) {
              ReduceLROnPlateau({.monitor = monitor,
                                 .factor = factor,
                                 .patience = patience,
                                 .min_delta = least,
                                 .cooldown = patience,
                                 .min_lr = least});
            });
  table.add(
      "EarlyStopping::EarlyStopping ModelCheckpoint::ModelCheckpoint CSVLogger::CSVLogger fit "
      "evaluate "
      "Evaluation::get",
      [](const Variable& x, const std::string& name, double number, int64_t count) {
        if (!is_small(x) || count > 1000) return;
        const TempDir dir;
        nn::Linear net(3, 3);
        optim::SGD sgd(net, 0.01);
        std::ostringstream out;
        FitOptions options{.epochs = 2, .accuracy = false, .progress = {.out = &out}};
        options.loss = [](const Variable& a, const Variable& b) { return mse_loss(a, b); };
        options.validation_split = number, options.batch_size = count;
        const std::string path = (dir / name).string();
        attempt(
            [&] {
              options.callbacks = {EarlyStopping({.monitor = name,
                                                  .min_delta = number,
                                                  .patience = count,
                                                  .restore_best_weights = true})};
            },
            [&] { options.callbacks.push_back(ModelCheckpoint(path, {.monitor = name})); },
            [&] { options.callbacks.push_back(CSVLogger(path)); });
        attempt([&] { fit(net, x, x, sgd, options); },
                [&] {
                  fit(net, ones({4, 3}), ones({4, 3}), sgd, options);
                },
                [&] {
                  evaluate(net, x, x,
                           {.batch_size = count, .loss = options.loss, .accuracy = false});
                },
                [&] { predict(net, x, {.batch_size = count}); });
      });
  table.add(
      "LearningRateScheduler::LearningRateScheduler LambdaCallback::LambdaCallback "
      "TerminateOnNaN::TerminateOnNaN",
      [](double lr, int64_t epochs) {
        if (epochs > 10) return;
        nn::Linear net(1, 1);
        optim::SGD sgd(net, 0.01);
        fit(net, ones({2, 1}), ones({2, 1}), sgd,
            {.epochs = epochs,
             .loss = [](const Variable& a, const Variable& b) { return mse_loss(a, b); },
             .verbose = 0,
             .accuracy = false,
             .callbacks = {LearningRateScheduler([lr](int64_t, double) { return lr; }),
                           LambdaCallback({.on_epoch_end = [](int64_t, const EpochResult&) {}}),
                           LambdaCallback({}), TerminateOnNaN()}});
      });
  table.add(
      "SummaryWriter::SummaryWriter SummaryWriter::add_scalar SummaryWriter::add_scalars "
      "SummaryWriter::add_histogram SummaryWriter::add_image SummaryWriter::add_images "
      "SummaryWriter::add_text SummaryWriter::flush SummaryWriter::close",
      [](const Variable& x, const std::string& tag, int64_t step) {
        if (!is_small(x)) return;
        const TempDir dir;
        SummaryWriter writer((dir / "runs").string());
        attempt([&] { writer.add_scalar(tag, x, step); },
                [&] {
                  writer.add_scalars(tag, {{tag, 1.0}}, step);
                },
                [&] { writer.add_histogram(tag, x, step); },
                [&] { writer.add_image(tag, x, step); }, [&] { writer.add_images(tag, x, step); },
                [&] { writer.add_text(tag, tag, step); });
        writer.flush(), writer.close();
      });
}

void add_libtorch_rows(Table& table) {
  table.add("Dims::size Dims::empty Dims::front Dims::back Dims::vec", [](const Shape& shape) {
    shape.size(), shape.empty(), shape.vec();
    if (!shape.empty()) shape.front(), shape.back();
  });
  table.add(
      "Variable::scalar_type Variable::accessor Accessor::Accessor Accessor::size "
      "Accessor::stride Accessor::data",
      [](const Variable& x, int64_t i) {
        attempt([&] { x.scalar_type(); });
        const auto values = x.accessor<float, 2>();
        values.size(1), values.stride(1), values.data();
        values[i][-std::max(i, -INT64_MAX)];
      });
  table.add("set_printoptions", [](const Variable& x, int64_t digits, int64_t count, bool on) {
    if (!is_small(x)) return;
    attempt([&] {
      set_printoptions({.precision = int(std::clamp<int64_t>(digits, -1, 100)),
                        .threshold = count,
                        .edgeitems = digits,
                        .sci_mode = on});
      to_string(x);
    });
    set_printoptions();
  });
  table.add(
      "TensorOptions::TensorOptions TensorOptions::dtype TensorOptions::device "
      "TensorOptions::layout TensorOptions::requires_grad Chained::Chained",
      [](DType dtype, bool on) {
        torch::TensorOptions options(dtype);
        zeros({2}, options.dtype(dtype).device(cpu).layout(torch::kStrided).requires_grad(on));
      });
  table.add("Sequential::extend Sequential::begin Sequential::end ListOf::append",
            [](const std::string& name, int64_t index) {
              nn::Sequential net({{name, nn::Linear(2, 2)}});
              attempt([&] { net.push_back(name, nn::Linear(2, 2)); });
              net.extend({nn::Linear(2, 2), nn::AnyModule()});
              for (const nn::AnyModule& layer : net[Slice(index, -std::max(index, -INT64_MAX))])
                layer(ones({1, 2}));
              nn::ModuleList list;
              list.append(nn::Linear(2, 2));
              list[index](ones({1, 2}));
            });
  table.add("Optimizer::set_weight_decay Optimizer::weight_decay", [](double decay, int64_t group) {
    optim::SGD sgd(nn::Linear(1, 1), 0.1);
    sgd.set_weight_decay(group, decay), sgd.weight_decay(group);
  });
  table.add("multigammaln", [](const Variable& x, int64_t p) { special::multigammaln(x, p); });
  table.add(
      "Dataset::map MapDataset::MapDataset MapDataset::get MapDataset::size Normalize::Normalize "
      "make_data_loader",
      [](const Image& x, double mean, int64_t batch_size) {
        struct One : torch::data::datasets::Dataset<One> {
          Variable x;
          torch::data::Example<> get(size_t) override { return {x, x}; }
          torch::optional<size_t> size() const override { return 2; }
        };
        One one;
        one.x = x;
        auto set = one.map(torch::data::transforms::Normalize<>({mean, 1.0}, {1.0, mean}));
        const auto loader = torch::data::make_data_loader(set, batch_size);
        for (auto& batch : *loader) batch.data.sum();
      });
}

}  // namespace

void add_torch_options_rows(Table& table) {
  add_layer_rows(table);
  add_average_rows(table);
  add_keras_rows(table);
  add_libtorch_rows(table);
}

}  // namespace tapegrad::testing
