// Rows for the public classes and functions of optim, data, io and train.
#include <sstream>

#include "data/idx.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "io/atomic_file.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/distance.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/clip.h"
#include "optim/combined_schedulers.h"
#include "optim/grad_scaler.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/fit.h"
#include "train/graphed_step.h"
#include "train/memory_report.h"
#include "train/plot.h"
#include "train/training_state.h"

namespace tapegrad::testing {
namespace {

using namespace optim;

Variable weight() { return ones({2, 3}, {.requires_grad = true}); }

/// Gradients of the parameters that can have them.
void make_gradients(const Variables& params) {
  for (const Variable& x : params)
    if (x.defined() && x.requires_grad() && x.is_leaf() && x.numel() < 100) sum(x * x).backward();
}

/// Two steps, with the state saved and loaded between them.
void use(Optimizer&& optimizer, const Variables& params) {
  make_gradients(params);
  optimizer.step();
  const TensorMap state = optimizer.state_dict();
  optimizer.load_state_dict(state);
  optimizer.zero_grad(), optimizer.parameters(), optimizer.state(), optimizer.id();
  optimizer.step();
}

void add_optimizer_rows(Table& table) {
  table.add(
      "SGD::SGD Params::Params Params::groups Params::where Optimizer::Optimizer Optimizer::step "
      "Optimizer::zero_grad Optimizer::parameters Optimizer::state Optimizer::id "
      "Optimizer::state_dict",
      [](Variables params, double lr, double momentum, double decay, bool nesterov) {
        use(SGD(params, lr), params);
        use(SGD(params, {.lr = lr,
                         .momentum = momentum,
                         .dampening = 0,
                         .weight_decay = decay,
                         .nesterov = nesterov}),
            params);
      });
  table.add("Adam::Adam AdamW::AdamW SparseAdam::SparseAdam",
            [](Variables params, double lr, double beta1, double beta2, double eps) {
              use(Adam(params, {.lr = lr, .betas = {beta1, beta2}, .eps = eps}), params);
              use(AdamW(params, {.lr = lr, .betas = {beta1, beta2}, .weight_decay = eps}), params);
              use(SparseAdam(params, {.lr = lr, .betas = {beta1, beta2}, .eps = eps}), params);
            });
  table.add(
      "Adagrad::Adagrad RMSprop::RMSprop Adadelta::Adadelta Adadelta::keras "
      "AdadeltaOptions::keras",
      [](Variables params, double lr, double a, double b) {
        use(Adadelta(params, AdadeltaOptions::keras()), params);
        use(Adagrad(params, {.lr = lr, .lr_decay = a, .initial_accumulator_value = b}), params);
        use(RMSprop(params, {.lr = lr, .alpha = a, .momentum = b, .centered = true}), params);
        use(Adadelta(params, {.lr = lr, .rho = a, .eps = b}), params);
      });
  table.add("Params::Params Optimizer::set_lr Optimizer::lr Optimizer::group_count",
            [](Variables params, double lr, int64_t group) {
              SGD optimizer({ParamGroup{params, lr, {}}, ParamGroup{{weight()}, {}, lr}});
              optimizer.group_count();
              optimizer.set_lr(lr), optimizer.lr(group), optimizer.set_lr(group, lr);
            });
  table.add("Optimizer::load_state_dict",
            [](const TensorMap& state) { Adam(Variables{weight()}, 0.1).load_state_dict(state); });
  table.add("Optimizer::load_state_dict", [](const Tensor& value, int64_t which) {
    const Variables params = {weight()};
    Adam optimizer(params, 0.1);
    make_gradients(params);
    optimizer.step();
    TensorMap state = optimizer.state_dict();
    auto place = state.begin();
    std::advance(place, uint64_t(which) % state.size());
    place->second = value;
    optimizer.load_state_dict(state);
    optimizer.step();
  });
  table.add("check_range", [](double value) { check_range("kit", "option", value, 0, 1); });
  table.add("clip_grad_norm_ clip_grad_value_ get_total_norm",
            [](const Variables& params, double limit, double norm, bool error) {
              make_gradients(params);
              clip_grad_norm_(params, limit, norm, error);
              clip_grad_value_(params, limit);
              optim::get_total_norm(params, norm, error);
            });
  table.add(
      "GradScaler::GradScaler GradScaler::scale GradScaler::unscale_ GradScaler::step "
      "GradScaler::update GradScaler::get_scale GradScaler::is_enabled "
      "GradScaler::state_dict GradScaler::load_state_dict",
      [](const Variable& loss, double scale, double factor, int64_t interval) {
        GradScaler scaler({.init_scale = scale,
                           .growth_factor = factor + 1,
                           .backoff_factor = factor,
                           .growth_interval = interval});
        scaler.get_scale(), scaler.is_enabled(), scaler.update();
        const TensorMap state = scaler.state_dict();
        scaler.load_state_dict(state);
        const Variables params = {weight()};
        SGD optimizer(params, 0.1);
        scaler.scale(sum(params[0] * loss)).backward();
        scaler.unscale_(optimizer), scaler.step(optimizer), scaler.update();
      });
  table.add("GradScaler::load_state_dict", [](const TensorMap& state, const Tensor& value) {
    GradScaler scaler;
    scaler.load_state_dict({{"scale", value}, {"growth_tracker", value}});
    scaler.load_state_dict(state);
  });
}

void use(Scheduler&& schedule) {
  for (int i = 0; i < 5; ++i) schedule.step();
  const TensorMap state = schedule.state_dict();
  schedule.load_state_dict(state);
  schedule.steps();
}

void add_schedule_rows(Table& table) {
  table.add(
      "StepLR::StepLR ExponentialLR::ExponentialLR CosineAnnealingLR::CosineAnnealingLR "
      "LinearLR::LinearLR Scheduler::Scheduler Scheduler::step Scheduler::steps "
      "Scheduler::state_dict",
      [](int64_t steps, double a, double b) {
        SGD optimizer({weight()}, 0.1);
        use(LinearLR(optimizer, {.start_factor = a, .end_factor = b, .total_iters = steps}));
        use(StepLR(optimizer, {.step_size = steps, .gamma = a}));
        use(CosineAnnealingLR(optimizer, {.T_max = steps, .eta_min = a}));
        use(ExponentialLR(optimizer, a));
      });
  table.add("MultiStepLR::MultiStepLR", [](const std::vector<int64_t>& milestones, double gamma) {
    SGD optimizer({weight()}, 0.1);
    use(MultiStepLR(optimizer, {.milestones = milestones, .gamma = gamma}));
  });
  table.add("OneCycleLR::OneCycleLR", [](int64_t steps, double lr, double start, double factor) {
    SGD optimizer({weight()}, 0.1);
    use(OneCycleLR(optimizer, {.max_lr = lr,
                               .total_steps = steps,
                               .pct_start = start,
                               .div_factor = factor,
                               .final_div_factor = factor}));
  });
  table.add("WarmupLR::WarmupLR", [](int64_t steps, double factor) {
    SGD optimizer({weight()}, 0.1);
    ExponentialLR after(optimizer, 0.5);
    use(WarmupLR(optimizer, after, {.warmup_steps = steps, .start_factor = factor}));
  });
  table.add("Scheduler::load_state_dict ReduceLROnPlateau::load_state_dict",
            [](const TensorMap& state, const Tensor& value) {
              SGD optimizer({weight()}, 0.1);
              StepLR schedule(optimizer, {.step_size = 2});
              optim::ReduceLROnPlateau plateau(optimizer);
              for (const auto& entry : schedule.state_dict())
                schedule.load_state_dict({{entry.first, value}});
              schedule.load_state_dict(state), plateau.load_state_dict(state);
            });
  table.add(
      "ReduceLROnPlateau::ReduceLROnPlateau ReduceLROnPlateau::step ReduceLROnPlateau::best "
      "ReduceLROnPlateau::state_dict",
      [](double factor, int64_t patience, double threshold, double measure) {
        SGD optimizer({weight()}, 0.1);
        optim::ReduceLROnPlateau plateau(
            optimizer,
            {.factor = factor, .patience = patience, .threshold = threshold, .min_lr = 0});
        for (int i = 0; i < 5; ++i) plateau.step(measure);
        plateau.best(), plateau.load_state_dict(plateau.state_dict());
      });
}

/// One loop of at most 50 batches.
void use(Loader& loader) {
  int left = 50;
  for (auto batch = loader.begin(); batch != loader.end() && left > 0; ++batch) --left;
  loader.size(), loader.batch_size(), loader.num_examples(), loader.seed(), loader.end();
}

void add_data_rows(Table& table) {
  table.add(
      "TensorDataset::TensorDataset TensorDataset::data TensorDataset::target "
      "TensorDataset::size TensorDataset::get TensorDataset::take Dataset::Dataset "
      "Dataset::get Dataset::size",
      [](const Variable& x, const Variable& y, int64_t index) {
        const TensorDataset data(x, y);
        data.data(), data.target(), data.size();
        data.take(index).size();
        data.get(index);
      });
  table.add("TensorDataset::gather Dataset::gather SampleRandom::at map_dataset",
            [](const Variable& x, const std::vector<int64_t>& indices, uint64_t seed) {
              const auto mapped =
                  map_dataset(TensorDataset(x), [](Example e, RandomGenerator&) { return e; });
              SampleRandom{seed, seed}.at(-1);
              mapped->size();
              TensorDataset(x).gather(indices, {seed, seed});
              mapped->gather(indices, {seed, seed});
            });
  table.add("map_dataset", [](const Variable& x) { map_dataset(TensorDataset(x), {})->get(0); });
  table.add(
      "DataLoader::DataLoader DataLoader::num_examples DataLoader::seed Loader::Loader "
      "Loader::begin Loader::end Loader::size Loader::batch_size Loader::num_examples "
      "Loader::seed Loader::Iterator::Iterator",
      [](const Variable& x, int64_t batch, uint64_t seed, int workers, int prefetch) {
        DataLoader loader(TensorDataset(x), {.batch_size = batch,
                                             .shuffle = true,
                                             .num_workers = std::min(workers, 3),
                                             .seed = seed,
                                             .prefetch_factor = prefetch});
        use(loader);
      });
  table.add("DataLoader::DataLoader", [](int64_t batch) {
    DataLoader loader(std::shared_ptr<const Dataset>(), {.batch_size = batch});
    use(loader);
  });
  table.add("DeviceLoader::DeviceLoader DeviceLoader::num_examples DeviceLoader::seed",
            [](const Variable& x, const Variable& y, int64_t batch, Device device) {
              DeviceLoader loader(TensorDataset(x, y),
                                  {.batch_size = batch, .shuffle = true, .device = device});
              use(loader);
            });
  table.add("Loader::set_state Loader::set_epoch Loader::state", [](uint64_t epoch, int64_t at) {
    DataLoader loader(TensorDataset(arange(10)), {.batch_size = 3, .shuffle = true});
    loader.set_epoch(epoch), loader.state();
    loader.set_state({epoch, at});
    use(loader);
  });
  table.leave_out("an interface for loaders", "BatchStream::BatchStream BatchStream::next");
  table.add(
      "Shard::count Shard::check Shard::take order_of_epoch Loader::shard "
      "Loader::dataset_size DataLoader::shard DataLoader::dataset_size DeviceLoader::shard "
      "DeviceLoader::dataset_size",
      [](int rank, int size, int64_t n) {
        const Shard shard{rank, size};
        shard.count(n, true);
        shard.take({3, 4, 5}, false);
        const TensorDataset data(arange(10));
        DataLoader loader(data, {.batch_size = 2, .shard = shard});
        DeviceLoader other(data, {.batch_size = 2, .shard = shard});
        for (auto& [x, y] : loader) sum(x);
        for (auto& [x, y] : other) sum(x);
        order_of_epoch(loader.dataset_size(), {.shard = loader.shard()}, 0);
        order_of_epoch(other.dataset_size(), {.shard = other.shard()}, 0);
        if (n != int64_t(1) << 31) order_of_epoch(n, {.shard = shard}, 0);  // 16 GB
      });
  table.add("distance", [](const Variable& a, const Variable& b, double p) { distance(a, b, p); });
  table.add("shuffled_order", [](uint64_t seed, int64_t n) {
    if (n != int64_t(1) << 31) shuffled_order(n, seed, seed);  // 16 GB
  });
  table.add("read_idx load_mnist", [](const std::string& path) {
    const TempDir dir;
    try {
      read_idx((dir / path).string());
    } catch (const Error&) {
    }
    load_mnist((dir / path).string());
  });
  table.add("make_digits", [](int64_t train, int64_t test, uint64_t seed) {
    make_digits(
        {.train = std::min<int64_t>(train, 20), .test = std::min<int64_t>(test, 20), .seed = seed});
  });
  table.add("fashion_mnist_class", [](int64_t id) { fashion_mnist_class(id); });
  table.add("scale_pixels one_hot_targets", [](const Variable& x, double by, int64_t classes) {
    scale_pixels(x, by);
    one_hot_targets(x, classes);
  });
  table.add("AtomicFile::AtomicFile AtomicFile::write AtomicFile::commit write_file",
            [](const std::string& path, const std::string& text) {
              const TempDir dir;
              AtomicFile file((dir / path).string());
              file.write(text), file.commit(), file.commit();
              write_file((dir / path).string(), text);
            });
  table.add("save load load_metadata convert_like",
            [](const TensorMap& tensors, const std::string& name, DType dtype) {
              const TempDir dir;
              const std::string path = (dir / name).string();
              save(path, tensors, {.dtype = dtype, .metadata = {{name, name}}});
              load_metadata(path);
              convert_like(load(path), {{name, Tensor::full({}, 1, f32)}});
            });
  table.add("convert_like", [](const TensorMap& a, const TensorMap& b) { convert_like(a, b); });
  table.add("part_of", [](const TensorMap& tensors, const std::string& state) {
    const TempDir dir;
    save((dir / "x").string(), {{state, tensors}, {"x", tensors}});
    part_of(tensors, state);
  });
}

void add_train_class_rows(Table& table) {
  table.add(
      "fit FitOptions::bool History::save_error_curves evaluate predict EvalMode::EvalMode "
      "Evaluation::print",
      [](const Variable& x, const Variable& y, int64_t epochs, const std::string& path) {
        nn::Linear model({.in_features = 3, .out_features = 3});
        SGD optimizer(model, 0.01);
        DataLoader loader(TensorDataset(x, y), {.batch_size = 2});
        std::ostringstream out;
        const auto loss = [](const Variable& a, const Variable& b) { return sum(a * b); };
        const EvalMode eval(model);
        evaluate(model, loader, {.loss = loss}).print(path, out);
        predict(model, loader);
        const History history =
            fit(model, loader, optimizer,
                {.epochs = std::min<int64_t>(epochs, 2), .loss = loss, .progress = {.out = &out}});
        const TempDir dir;
        history.save_error_curves((dir / path).string());
      });
  table.add("fit evaluate", [](const Variable& output) {
    nn::Lambda model([&](const Variable&) { return output; });
    DataLoader loader(TensorDataset(ones({4, 3}), zeros({4}, {.dtype = i64})), {.batch_size = 2});
    evaluate(model, loader, {});
    SGD optimizer({weight()}, 0.01);
    std::ostringstream out;
    fit(model, loader, optimizer, {.progress = {.out = &out}});
  });
  table.add("ValidationData::ValidationData", [](const Variable& x, const Variable& y,
                                                 bool batches) {
    nn::Linear model({.in_features = 3, .out_features = 3});
    SGD optimizer(model, 0.01);
    DataLoader loader(TensorDataset(ones({4, 3}), zeros({4}, {.dtype = i64})), {.batch_size = 2});
    DataLoader held_out(TensorDataset(x, y), {.batch_size = 2});
    std::ostringstream out;
    const ValidationData data = batches ? ValidationData(held_out) : ValidationData(x, y);
    fit(model, loader, optimizer, {.validation_data = data, .progress = {.out = &out}});
  });
  table.add("predict", [](const Variable& x, int64_t batch) {
    nn::Linear model({.in_features = 3, .out_features = 3});
    predict(model, x, batch);
  });
  table.add("train", [](const Variable& loss) {
    nn::Linear model({.in_features = 3, .out_features = 3});
    SGD optimizer(model, 0.01);
    DataLoader loader(TensorDataset(ones({4, 3}), ones({4, 3})), {.batch_size = 2});
    train(model, loader, optimizer,
          [&](nn::Linear&, const Variable&, const Variable&) { return loss; });
  });
  table.add(
      "GraphedStep::GraphedStep GraphedStep::run_all GraphedStep::is_graphed "
      "GraphedStep::reason",
      [](const Variable& x, const Variable& y, int64_t warmup) {
        GraphedStep step([](const Variable& a) { return exp(a); }, {x},
                         {.warmup = warmup, .max_graphs = warmup});
        step.is_graphed(), step.reason();
        step(x);
        step(y);
        step.run_all(Variables{x, y});
      });
  table.add("memory_report MemoryReport::saved_bytes", [](const Variable& x, Device device) {
    std::ostringstream out;
    out << memory_report({.tape = x, .data = {x}, .device = device});
    memory_report().saved_bytes();
  });
  table.add("RunningMean::add RunningMean::value RunningMean::weight",
            [](const Variable& x, double weight) {
              RunningMean mean;
              mean.value(), mean.weight();
              mean.add(x, weight), mean.add(x, weight);
              mean.value();
            });
  table.add("predicted_classes target_classes count_correct print_predictions",
            [](const Variable& output, const Labels& target) {
              std::ostringstream out;
              predicted_classes(output);
              target_classes(target);
              count_correct(output, target);
              print_predictions("kit", target, output, out);
            });
  table.add("print_predictions",
            [](const std::vector<int64_t>& labels, const std::vector<int64_t>& predictions) {
              std::ostringstream out;
              print_predictions("kit", labels, predictions, out);
            });
  table.add(
      "line_chart save_line_chart", [](const std::vector<double>& x, const std::vector<double>& y,
                                       int size, bool log, const std::string& text) {
        const std::vector<PlotSeries> curves = {{text, x, y}};
        const ChartOptions options = {.title = text, .width = size, .log_x = log, .log_y = log};
        line_chart(curves, options);
        line_chart({}, options);
        const TempDir dir;
        save_line_chart((dir / text).string(), curves, options);
      });
  table.add("surface_plot save_surfaces", [](const Variable& x, const Variable& z, int size,
                                             double angle, const std::string& text) {
    const std::vector<Surface> panels = {{text, x, x, z}};
    surface_plot(panels, {.width = size, .azimuth = angle, .elevation = angle});
    surface_plot({}, {});
    const TempDir dir;
    save_surfaces((dir / text).string(), panels, {});
  });
  table.add(
      "Progress::Progress Progress::is_live Progress::line Progress::seconds "
      "Progress::stop_clock Progress::update Progress::wants_update Progress::finish",
      [](int64_t steps, int64_t at, double value, int columns) {
        std::ostringstream out;
        Progress progress(steps, {.out = &out, .live = true, .columns = columns});
        progress.wants_update(), progress.update(at, {{"loss", value}});
        progress.line(at, {{"loss", value}}, value, false);
        progress.is_live(), progress.stop_clock(), progress.finish(at, {}), progress.seconds();
      });
  table.add("duration_text step_time_text", [](double seconds) {
    duration_text(seconds);
    step_time_text(seconds);
  });
  table.add(
      "StepTimer::StepTimer StepTimer::mark StepTimer::skip StepTimer::end_step "
      "StepTimer::seconds StepTimer::total StepTimer::steps StepTimer::print steady_seconds "
      "Moment::Moment Moment::query Moment::seconds_since",
      [](int64_t steps) {
        StepTimer timer;
        const Moment begin, end(default_device());
        end.query(), end.seconds_since(begin);
        std::ostringstream out;
        timer.mark(StepPhase::kForward), timer.skip(), timer.print(out, steps), timer.end_step();
        timer.seconds(StepPhase::kData), timer.total(), timer.steps(), timer.print(out, steps);
        steady_seconds();
      });
  table.add("time_calls TimeReport::first_share timeit",
            [](int64_t calls, double seconds, Device device) {
              if (calls > 1 << 20) return;
              time_calls([] {}, calls, device).first_share();
              timeit([] {}, {.runs = calls % 3,
                             .loops = calls % 3,
                             .min_seconds = std::min(seconds, 0.01),
                             .device = device});
            });
  table.add("TrainingState::TrainingState TrainingState::save TrainingState::load",
            [](const std::string& name, const std::string& path) {
              nn::Linear model({.in_features = 3, .out_features = 3});
              SGD optimizer(model, {.lr = 0.1, .momentum = 0.9});
              DataLoader loader(TensorDataset(arange(10)), {.batch_size = 3, .shuffle = true});
              TrainingState state;
              state(name, model)(path, optimizer)("loader", loader);
              const TempDir dir;
              state.save((dir / path).string());
              state.load((dir / path).string());
              TrainingState().load((dir / path).string());
            });
  table.leave_out("not callable by a user", "TrainingState::Part::TensorMap");
}

}  // namespace

void add_train_rows(Table& table) {
  add_optimizer_rows(table);
  add_schedule_rows(table);
  add_data_rows(table);
  add_train_class_rows(table);
}

}  // namespace tapegrad::testing
