// Rows for averaged models, Keras's callbacks and forms, and further methods of layers.
#include <sstream>

#include "nn/conv.h"
#include "nn/func.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/create.h"
#include "ops/further_names.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/callback.h"
#include "train/fit.h"
#include "train/swa_utils.h"

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
        AveragedModel average(net, {get_swa_multi_avg_fn(), with_buffers});
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
  table.add("EarlyStopping ModelCheckpoint CSVLogger fit evaluate",
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
              attempt(
                  [&] { fit(net, x, x, sgd, options); },
                  [&] {
                    fit(net, ones({4, 3}), ones({4, 3}), sgd, options);
                  },
                  [&] { evaluate(net, x, x, {.loss = options.loss, .accuracy = false}, count); });
            });
}

}  // namespace

void add_torch_options_rows(Table& table) {
  add_layer_rows(table);
  add_average_rows(table);
  add_keras_rows(table);
}

}  // namespace tapegrad::testing
