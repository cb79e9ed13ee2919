// Rows for metrics, callbacks, averages of weights, histories, splits and files of data.
#include <fstream>
#include <sstream>

#include "data/item_loader.h"
#include "data/loader.h"
#include "data/mnist.h"
#include "data/npz.h"
#include "data/split.h"
#include "io/numpy_file.h"
#include "io/text_table.h"
#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"
#include "optim/scheduler.h"
#include "tests/hostile/kit.h"
#include "tests/temp_dir.h"
#include "train/callback.h"
#include "train/classification_metrics.h"
#include "train/fit.h"
#include "train/interrupt.h"
#include "train/regression_metrics.h"
#include "train/run_ledger.h"
#include "train/training_state.h"
#include "train/weight_average.h"

namespace tapegrad::testing {
namespace {

void use(Metric&& metric, const Variable& output, const Variable& target) {
  metric.name(), metric.value();
  metric.add(output, target);
  metric.value();
  const TensorMap state = metric.state_dict();
  metric.reset(), metric.load_state_dict(state), metric.value();
}

void add_metric_rows(Table& table) {
  table.add(
      "Accuracy::Accuracy Accuracy::add Accuracy::name Accuracy::value Metric::Metric Metric::add "
      "Metric::name Metric::value Metric::reset Metric::state_dict",
      [](const Variable& x, const Labels& y) { use(Accuracy({.task = "multiclass"}), x, y); });
  table.add("Metric::load_state_dict RunningMean::load_state_dict RunningMean::state_dict",
            [](const TensorMap& state) {
              RunningMean mean;
              const TensorMap before = mean.state_dict();
              mean.load_state_dict(before);
              Accuracy accuracy;
              accuracy.load_state_dict(state);
              accuracy.value();
              mean.load_state_dict(state);
            });
  table.add("TopK::TopK TopK::add TopK::name TopK::value",
            [](const Variable& x, const Labels& y, int64_t k) { use(TopK(k), x, y); });
  table.add(
      "ConfusionMatrix::ConfusionMatrix ConfusionMatrix::add ConfusionMatrix::name "
      "ConfusionMatrix::value ConfusionMatrix::classes ConfusionMatrix::counts "
      "ConfusionMatrix::compute",
      [](const Variable& x, const Labels& y, int64_t classes) {
        ConfusionMatrix matrix(classes);
        matrix.classes(), matrix.add(x, y), matrix.counts(), matrix.compute();
        use(ConfusionMatrix(classes), x, y);
      });
  table.add(
      "Precision::Precision Recall::Recall F1::F1 ClassScore::name ClassScore::value "
      "ClassScore::per_class ClassScore::compute",
      [](const Variable& x, const Labels& y, int64_t classes, int average) {
        const Average how = Average(uint32_t(average) % 3);
        use(Precision(classes, how), x, y), use(Recall(classes, how), x, y);
        F1 score(classes, how);
        score.add(x, y), score.per_class(), score.compute();
      });
  table.add("RocAuc::add RocAuc::name RocAuc::value",
            [](const Labels& x, const Labels& y) { use(RocAuc(), x, y); });
  table.add("RocAuc::add", [](const Variable& x, const Variable& y) { use(RocAuc(), x, y); });
  table.add("Perplexity::add Perplexity::name Perplexity::value",
            [](const Variable& x, const Labels& y) { use(Perplexity(), x, y); });
  table.add(
      "MeanAbsoluteError::add MeanAbsoluteError::name MeanAbsoluteError::value "
      "MeanSquaredError::add MeanSquaredError::name MeanSquaredError::value R2::add R2::name "
      "R2::value",
      [](const Variable& x, const Variable& y) {
        use(MeanAbsoluteError(), x, y);
        use(MeanSquaredError(), x, y);
        use(R2(), x, y);
      });
  table.add("MetricRef::MetricRef MetricRef::is_owned LossFn::LossFn",
            [](const std::string& name, const Variable& x, const Variable& y) {
              attempt([&] { LossFn{name}(x, y); },
                      [&] {
                        MetricRef metric(name);
                        metric.is_owned(), metric->add(x, y), metric->value();
                      });
              for (const char* loss : {"mse", "cross_entropy", "categorical_crossentropy",
                                       "sparse_categorical_crossentropy", "bce", "nll_loss"})
                attempt([&] { LossFn{loss}(x, y); });
            });
}

nn::Linear model() { return nn::Linear({.in_features = 3, .out_features = 3}); }

/// Two epochs of four batches with a callback.
void run(const Callback& callback, FitOptions options = {}) {
  nn::Linear net = model();
  optim::SGD optimizer(net, 0.01);
  DataLoader loader(TensorDataset(ones({8, 3}), ones({8, 3})), {.batch_size = 2});
  std::ostringstream out;
  options.epochs = 2;
  options.loss = [](const Variable& x, const Variable& y) { return mean(x - y); };
  options.accuracy = false;
  options.progress = {.out = &out};
  options.callbacks = {callback};
  fit(net, loader, optimizer, options);
}

void add_callback_rows(Table& table) {
  table.add("early_stop", [](const std::string& monitor, int64_t patience, double delta) {
    run(early_stop({.monitor = monitor, .patience = patience, .min_delta = delta}));
  });
  table.add("stop_at smaller_is_better", [](const std::string& monitor, double value) {
    run(stop_at("loss", value));
    smaller_is_better(monitor);
    run(stop_at(monitor, value));
  });
  table.add("save_best save_every", [](const std::string& name, int64_t n) {
    const TempDir dir;
    const std::string path = (dir / name).string();
    run(save_every(path, n));
    run(save_best(path, "loss"));
    run(save_best(path, name));
  });
  table.add("log_csv log_jsonl", [](const std::string& name) {
    const TempDir dir;
    run(log_jsonl((dir / (name + "l")).string()));
    run(log_csv((dir / name).string()));
  });
  table.add("per_step per_epoch", [](double gamma, const std::string& monitor) {
    optim::SGD optimizer(model(), 0.01);
    optim::ExponentialLR schedule(optimizer, gamma);
    optim::ReduceLROnPlateau plateau(optimizer);
    run(per_step(schedule)), run(per_epoch(schedule)), run(per_epoch(plateau));
    run(per_epoch(plateau, monitor));
  });
  table.add("Training::stop Training::save_model", [](const std::string& text) {
    const TempDir dir;
    run({.after_step = [&](Training& training) {
      training.stop(text);
      training.save_model((dir / text).string());
    }});
  });
  table.add(
      "RunLedger::RunLedger RunLedger::note RunLedger::save RunLedger::size RunLedger::stop "
      "RunLedger::end_step compare_runs record",
      [](const Variable& x, const std::string& name, int64_t every, double tolerance) {
        const TempDir dir;
        const std::string path = (dir / name).string();
        {
          RunLedger ledger({.every = every});
          run(record(ledger));
          ledger.note(name, x), ledger.note(model()), ledger.end_step();
          ledger.size(), ledger.stop();
          ledger.save(path);
        }
        std::ostringstream out;
        out << compare_runs(path, path, {.tolerance = tolerance});
        compare_runs(path, "/proc/nowhere/x");
      });
  table.add("fit", [](int64_t accumulate, double clip, DType amp, const std::string& checkpoint) {
    const TempDir dir;
    run({}, {.amp = amp, .accumulate = accumulate});
    run({}, {.clip_norm = clip, .clip_value = clip});
    run({}, {.checkpoint = (dir / checkpoint).string(), .checkpoint_steps = accumulate});
  });
  table.add(
      "EpochResult::value EpochResult::at EpochResult::values History::save_csv "
      "History::save_jsonl "
      "History::state_dict History::load_state_dict History::series",
      [](const std::string& name, const TensorMap& state) {
        History history;
        history.epochs.emplace_back();
        const TensorMap before = history.state_dict();
        history.load_state_dict(before);
        history.epochs[0].values();
        const TempDir dir;
        history.save_jsonl((dir / name).string()), history.save_csv((dir / name).string());
        history.load_state_dict(state);
        history.series(name, name);
        history.epochs.emplace_back().value(name);
      });
  table.add("Interrupt::Interrupt Interrupt::signal signal_name", [](int signal) {
    const Interrupt interrupt;
    interrupt.signal();
    signal_name(signal);
  });
  table.add(
      "WeightAverage::WeightAverage WeightAverage::update WeightAverage::copy_to_model "
      "WeightAverage::updates WeightAverage::state_dict WeightAverage::load_state_dict "
      "Ema::Ema Swa::Swa UseAverage::UseAverage",
      [](double decay, int64_t start, int64_t every, const TensorMap& state) {
        nn::Linear net = model();
        const auto use = [&](WeightAverage&& average) {
          average.update(), average.update(), average.updates();
          { const UseAverage scope(average); }
          const TensorMap own = average.state_dict();
          average.load_state_dict(own), average.copy_to_model();
          average.load_state_dict(state);
        };
        try {
          use(Swa(net, {.start = start, .every = every}));
        } catch (const Error&) {
        }
        use(Ema(net, {.decay = decay}));
      });
}

}  // namespace

void add_fit_rows(Table& table) {
  add_metric_rows(table);
  add_callback_rows(table);
  table.add("split_dataset", [](const Variable& x, double share, uint64_t seed) {
    split_dataset(TensorDataset(x), share, seed);
    const auto parts = split_dataset(std::make_shared<const TensorDataset>(x), share, seed);
    for (const int64_t index : {int64_t(0), int64_t(-1), INT64_MAX}) {
      parts.first->gather(std::vector<int64_t>(), {});
      if (parts.first->size() > index) parts.first->get(index);
    }
  });
  table.add("split_dataset",
            [](double share) { split_dataset(std::shared_ptr<const Dataset>(), share); });
  table.leave_out("members",
                  "Callback::string Callback::void TrainingState::Part::void "
                  "F1::ClassScore Precision::ClassScore Recall::ClassScore");
  table.add("Subset::Subset Subset::get Subset::gather Subset::size",
            [](const Variable& x, const std::vector<int64_t>& indices, int64_t index) {
              const Subset part(TensorDataset(x), indices);
              part.size(), part.gather(indices, {});
              part.get(index);
            });
  table.add("Subset::Subset", [](const Variable& x, const Variable& indices) {
    Subset(TensorDataset(x), indices).get(0);
  });
  table.add("StackDataset::StackDataset StackDataset::get StackDataset::size",
            [](const Variable& x, const Variable& y, int64_t index) {
              const StackDataset data(x, y, x);
              attempt([&] { data.get(index); });
              data.size(), random_split(data, {0.5, 0.5});
            });
  table.add("random_split", [](const Variable& x, const std::vector<double>& shares) {
    random_split(TensorDataset(x), {0.5, 0.5000009});
    random_split(TensorDataset(x), shares);
    random_split(TensorDataset(x), {double(x.defined() ? x.numel() : 1), 1e300});
    random_split(std::shared_ptr<const Dataset>(), shares);
  });
  table.add(
      "ConcatDataset::ConcatDataset ConcatDataset::get ConcatDataset::size "
      "DataLoader::dataset",
      [](const Variable& x, const Variable& y, int64_t index) {
        const ConcatDataset all{TensorDataset(x), TensorDataset(y)};
        all.size(), all.get(index);
        ConcatDataset(std::vector<std::shared_ptr<const Dataset>>{nullptr});
      });
  table.add(
      "LambdaLR::LambdaLR CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts "
      "CosineAnnealingWarmRestarts::step "
      "Scheduler::get_last_lr Optimizer::add_param_group",
      [](const Variables& params, int64_t first, int64_t factor, double lr) {
        optim::SGD optimizer(model(), 0.01);
        optim::CosineAnnealingWarmRestarts schedule(optimizer, first, factor, lr);
        for (int i = 0; i < 5; ++i) schedule.step();
        schedule.step(lr);
        schedule.get_last_lr();
        optim::LambdaLR lambda(optimizer, [lr](int64_t) { return lr; });
        lambda.step();
        optimizer.add_param_group({params, lr, lr});
        optimizer.step();
        optim::LambdaLR(optimizer, {}).step();
      });
  table.add("read_npz load_mnist_npz load_digits", [](const std::string& name) {
    const TempDir dir;
    const std::string path = (dir / name).string();
    for (const auto& load : {+[](const std::string& path) { read_npz(path); },
                             +[](const std::string& path) { load_mnist_npz(path); }}) {
      try {
        load(path);
      } catch (const Error&) {
      }
    }
    load_digits(path);
  });
  table.add("write_npy read_npy", [](const Variable& x, const std::string& name) {
    const TempDir dir;
    const std::string path = (dir / name).string();
    attempt([&] { read_npy(path); });
    write_npy(path, x);
    read_npy(path);
  });
  table.add("save_npy load_npy save_npz load_npz", [](const Variable& x, const std::string& name) {
    const TempDir dir;
    const std::string path = (dir / name).string(), archive = (dir / "x.npz").string();
    attempt([&] { load_npy(path); }, [&] { load_npz(path); },
            [&] {
              save_npz(archive, {{name, x}}), load_npz(archive);
            });
    save_npy(path, x);
    load_npy(path);
  });
  table.add(
      "loadtxt read_csv", [](const std::string& text, int64_t skip, int64_t column, DType dtype) {
        const TempDir dir;
        const std::string path = (dir / "table.csv").string();
        std::ofstream(path) << "1, 2, " << text << "\n" << text << ",-3e400,nan\n" << '\0';
        attempt([&] { loadtxt(path, {.delimiter = ",", .skiprows = skip, .usecols = {column}}); },
                [&] { loadtxt(path, {.dtype = dtype, .comments = text, .delimiter = text}); },
                [&] { loadtxt(path, {.dtype = dtype, .delimiter = ","}); });
        loadtxt(path);
      });
  table.add("write_npz", [](const Variable& x, const std::string& name) {
    const TempDir dir;
    const std::string path = (dir / "x.npz").string();
    write_npz(path, {{name, x}, {"y", x}});
    read_npz(path);
  });
  table.add("ModuleList::parameters ModuleDict::parameters", [](const std::string& name) {
    nn::ModuleDict heads;
    attempt([&] { heads[name], heads.parameters(); });
    nn::ModuleList({nn::Linear({.out_features = 3})}).parameters();
  });
  table.add("Module::dtype", [](const std::string& name) {
    attempt([] { nn::ReLU().dtype(); });
    nn::Linear({.out_features = 3}).dtype(), nn::Linear(2, 3).to(parse_dtype(name)).dtype();
  });
  table.add("TrainingState::resume", [](const std::string& name) {
    const TempDir dir;
    TrainingState().resume((dir / name).string());
  });
  table.add("Progress::note count_text", [](int64_t examples, int64_t bytes, double count) {
    std::ostringstream out;
    count_text(count);
    Progress progress(4, {.out = &out, .live = true});
    progress.note(examples, bytes), progress.update(1, {}), progress.finish(4, {});
  });
}

}  // namespace tapegrad::testing
