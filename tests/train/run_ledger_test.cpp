#include "train/run_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/temp_dir.h"
#include "train/fit.h"
#include "train/graphed_step.h"
#include "train/internal/ledger.h"

namespace tapegrad {

/// Changes results before a ledger sees them, as a wrong kernel would.
class LedgerFault {
 public:
  LedgerFault(RunLedger& ledger, std::function<void(int64_t, const Tensor&)> change) {
    ledger.impl_->before_entry = std::move(change);
  }
};

namespace {

struct Net : nn::Model<Net> {
  nn::Conv2d conv{{.in_channels = 1, .out_channels = 4, .kernel_size = 3, .bias = false}};
  nn::BatchNorm2d norm{{.num_features = 4}};
  nn::Linear fc1{{.in_features = 4 * 5 * 5, .out_features = 12}};
  nn::Linear fc2{{.in_features = 12, .out_features = 5}};

  void members(nn::Members& m) override { m("conv", conv)("norm", norm)("fc1", fc1)("fc2", fc2); }
  Variable forward(const Variable& x) const {
    const Variable y = max_pool2d(relu(norm(conv(x))), {.kernel_size = 2});
    const Variable h = tanh(fc1(flatten(y, 1))) * 1.5 + 0.25;
    return fc2(h / sqrt(mean(h * h, {1}, true) + 1e-5));
  }
};

/// Three steps of training; returns the ledger's file.
std::string train(const std::string& path, std::function<void(int64_t, const Tensor&)> fault = {}) {
  manual_seed(3);
  Net net;
  optim::Adam adam(net, {.lr = 0.01});
  const Variable x = randn({8, 1, 12, 12}), y = randint(0, 5, {8});
  RunLedger ledger;
  const LedgerFault planted(ledger, std::move(fault));
  for (int step = 0; step < 3; ++step) {
    adam.zero_grad();
    cross_entropy(net(x), y).backward();
    adam.step();
    ledger.note(net);
  }
  ledger.save(path);
  return path;
}

bool is_writable(const Tensor& y) { return y.dtype() == f32 && y.is_contiguous(); }

TEST(RunLedger, NamesPlantedFaults) {
  const testing::TempDir dir;
  std::vector<int64_t>
      candidates;  // results of ops and rules that can be written element by element
  const std::string clean = train(dir / "clean", [&](int64_t number, const Tensor& y) {
    if (is_writable(y)) candidates.push_back(number);
  });
  const Ledger expected = Ledger::load(clean);
  std::erase_if(candidates, [&](int64_t i) {
    const LedgerEntry& entry = expected.entries[size_t(i)];
    return entry.pass == LedgerPass::kValue || entry.sketch.norm == 0;
  });
  ASSERT_GT(candidates.size(), 100u);
  std::mt19937_64 random(1);
  std::shuffle(candidates.begin(), candidates.end(), random);
  int named = 0;
  for (int trial = 0; trial < 100; ++trial) {
    const int64_t target = candidates[size_t(trial)];
    const double size = std::pow(10.0, -7 + 6 * double(trial / 2) / 49);  // up to 10 %
    double difference = 0, norm = 0;
    const std::string faulty = train(dir / "faulty", [&](int64_t number, const Tensor& y) {
      if (number != target) return;
      Tensor written = y;  // shares the memory
      float* values = written.data<float>();
      int64_t only = int64_t(random() % uint64_t(y.numel()));
      while (values[only] == 0) only = (only + 1) % y.numel();  // next to 0 is a denormal number
      for (int64_t i = 0; i < y.numel(); ++i) {
        const float before = values[i];
        norm += double(before) * before;
        if (trial % 2 == 1)  // every element by its share, or one by a unit in the last place
          values[i] *= float(1 + size);
        else if (i == only)
          values[i] = std::nextafter(before, INFINITY);
        difference += (double(values[i]) - before) * (double(values[i]) - before);
      }
    });
    const RunDifference found = compare_runs(clean, faulty);
    const LedgerEntry& entry = expected.entries[size_t(target)];
    const double error = std::sqrt(difference / norm);
    const bool is_named =
        found.at.entry == target && found.at.op == expected.strings[size_t(entry.op)] &&
        found.at.module == expected.strings[size_t(entry.module)] && !found.at.line.empty() &&
        found.at.error > error / 30 && found.at.error < error * 30;
    named += is_named;
    if (!is_named)
      std::cout << "entry " << target << ", error " << error << ": " << found << "instead of "
                << expected.strings[size_t(entry.op)] << '\n';
  }
  EXPECT_GE(named, 98);
  std::cout << named << " of 100 planted faults were named\n";
}

TEST(RunLedger, NoFalseAlarm) {
  const testing::TempDir dir;
  const RunDifference same = compare_runs(train(dir / "a"), train(dir / "b"));
  EXPECT_TRUE(same.equal) << same;
  EXPECT_GT(same.compared, 100);
  // An entry is small. The other bytes are those of the strings.
  const Ledger ledger = Ledger::load(dir / "a");
  Ledger twice = ledger;
  twice.entries.insert(twice.entries.end(), ledger.entries.begin(), ledger.entries.end());
  twice.save(dir / "twice");
  EXPECT_LE(std::filesystem::file_size(dir / "twice") - std::filesystem::file_size(dir / "a"),
            64 * ledger.entries.size());
  std::ostringstream out;
  out << same;
  EXPECT_NE(out.str().find("the runs agree in "), std::string::npos);
}

TEST(RunLedger, ToleratesRoundingAndFindsMore) {
  const testing::TempDir dir;
  const std::string clean = train(dir / "clean");
  const auto scaled = [&](double factor) {
    return train(dir / "other", [factor](int64_t, const Tensor& y) {
      if (!is_writable(y)) return;
      Tensor written = y;  // shares the memory
      float* values = written.data<float>();
      for (int64_t i = 0; i < y.numel(); ++i) values[i] *= float(1 + factor * double(i % 2));
    });
  };
  const std::string rounded = scaled(1e-7);
  EXPECT_FALSE(compare_runs(clean, rounded).equal);
  const RunDifference close = compare_runs(clean, rounded, {.tolerance = 1e-3});
  EXPECT_TRUE(close.equal) << close;
  EXPECT_FALSE(compare_runs(clean, scaled(1e-2), {.tolerance = 1e-3}).equal);
}

TEST(RunLedger, DifferentOpsAndLengths) {
  const testing::TempDir dir;
  const auto record = [&](const char* name, auto work) {
    RunLedger ledger;
    work();
    ledger.save(dir / name);
    return std::string(dir / name);
  };
  const Variable x = tensor({1.0, 2.0}).requires_grad_();
  const std::string a = record("a", [&] { exp(x); });
  const std::string b = record("b", [&] { tanh(x); });
  const std::string c = record("c", [&] { exp(exp(x)); });
  const RunDifference ops = compare_runs(a, b);
  EXPECT_NE(ops.reason.find("one run has forward exp float32 [2], the other forward tanh"),
            std::string::npos)
      << ops.reason;
  EXPECT_EQ(compare_runs(a, c).reason, "one run ends here");
  EXPECT_NE(ops.at.line.find("run_ledger_test.cpp:"), std::string::npos);
  save(dir / "weights", TensorMap{{"w", x.value()}});
  EXPECT_THROW(compare_runs(a, dir / "weights"), FormatError);
  const Tensor hash = zeros({1}, {.dtype = i64}).value(), sum = zeros({1}, {.dtype = f64}).value();
  for (const char* sums : {"sum0", "sums"}) {
    save(dir / "earlier", TensorMap{{"hash", hash}, {sums, sum}});
    try {
      compare_runs(a, dir / "earlier");
      ADD_FAILURE() << sums;
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find("record the run again"), std::string::npos);
    }
  }
  EXPECT_THROW(compare_runs(a, b, {.tolerance = -1}), ArgumentError);
}

/// Trains for six steps, the third to fifth with a ledger. Returns the weights.
template <typename Optimizer, typename Loss>
std::vector<double> weights_after(nn::Module& net, bool records, const Loss& loss) {
  Optimizer optimizer(net, 0.1);
  std::vector<double> all;
  std::optional<RunLedger> ledger;
  for (int step = 0; step < 6; ++step) {
    if (records && step == 2) ledger.emplace();
    if (step == 5) ledger.reset();
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  for (const Variable& weight : net.parameters())
    for (const double value : weight.to_vector<double>()) all.push_back(value);
  return all;
}

TEST(RunLedger, ChangesNothing) {
  std::vector<double> weights[2], rows[2];
  for (const bool records : {false, true}) {
    manual_seed(3);
    nn::Sequential net({nn::Linear({.in_features = 4, .out_features = 8}), nn::ReLU(),
                        nn::Linear({.in_features = 8, .out_features = 2})});
    const Variable x = randn({16, 4});
    weights[records] = weights_after<optim::SGD>(
        net, records, [&] { return mean(square(tanh(net(x)))) + mean(relu(relu(x * 2.0) - 1.0)); });
    // Gradients of rows stay rows: SparseAdam changes no other row.
    nn::Embedding table({.num_embeddings = 20, .embedding_dim = 3, .sparse = true});
    rows[records] = weights_after<optim::SparseAdam>(table, records, [&] {
      return sum(square(table(tensor({3, 5, 3}))));
    });
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(rows[0], rows[1]);
}

TEST(RunLedger, SeesWhatOpsOverwriteAndAbsorb) {
  const testing::TempDir dir;
  manual_seed(3);
  nn::Linear layer({.in_features = 4, .out_features = 2});
  const Variable x = randn({3, 4});
  RunLedger ledger;
  sum(relu(layer(x))).backward();
  ledger.save(dir / "run");
  const Ledger made = Ledger::load(dir / "run");
  std::string entries;
  for (const LedgerEntry& entry : made.entries) {
    entries += std::string(kLedgerPasses[size_t(entry.pass)]) + ' ' +
               made.strings[size_t(entry.op)] + "; ";
    EXPECT_NE(made.strings[size_t(entry.line)].find("run_ledger_test.cpp:"), std::string::npos);
  }
  EXPECT_EQ(entries.find("forward linear; forward relu; forward sum; backward sum; "), 0u)
      << entries;
  EXPECT_NE(entries.find("backward linear_relu; "), std::string::npos) << entries;
}

TEST(RunLedger, SeesTheStepsOfAGraphedStep) {
  const testing::TempDir dir;
  std::string paths[2];
  for (const bool is_graphed : {false, true}) {
    manual_seed(3);
    nn::Linear layer({.in_features = 4, .out_features = 2});
    optim::SGD sgd(layer, 0.1);
    const Variable x = randn({3, 4});
    GraphedStep step(
        [&] {
          sgd.zero_grad();
          const Variable loss = sum(square(layer(x)));
          loss.backward();
          sgd.step();
          return loss;
        },
        {}, {.enabled = is_graphed});
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(step.is_graphed(), is_graphed) << step.reason();
    RunLedger ledger;
    for (int i = 0; i < 3; ++i) {
      step();
      ledger.note(layer);
    }
    ledger.stop();
    EXPECT_FALSE(step.is_graphed());
    ledger.save(paths[is_graphed] = dir / (is_graphed ? "graphed" : "alone"));
    step();
    EXPECT_EQ(step.is_graphed(), is_graphed) << "replays continue: " << step.reason();
  }
  const RunDifference found = compare_runs(paths[0], paths[1]);
  EXPECT_TRUE(found.equal) << found;
  EXPECT_GT(found.compared, 15);
}

TEST(RunLedger, RecordsFit) {
  const testing::TempDir dir;
  const auto run = [&](const char* name, uint64_t seed) {
    manual_seed(3);
    nn::Sequential net({nn::Linear({.in_features = 4, .out_features = 2})});
    optim::SGD sgd(net, 0.1);
    RandomGenerator fixed(1);
    DataLoader batches(TensorDataset(randn({16, 4}, {}, fixed), randint(0, 2, {16}, {}, fixed)),
                       {.batch_size = 8, .shuffle = true, .seed = seed});
    RunLedger ledger;
    fit(net, batches, sgd,
        {.epochs = 2, .progress = {.style = ProgressStyle::kNone}, .callbacks = {record(ledger)}});
    ledger.save(dir / name);
    return std::string(dir / name);
  };
  EXPECT_TRUE(compare_runs(run("a", 1), run("b", 1)).equal);
  const RunDifference other = compare_runs(run("a", 1), run("b", 2));
  EXPECT_EQ(other.at.pass, "value");
  EXPECT_EQ(other.at.op, "batch") << "the order of the examples";
}

TEST(RunLedger, ComparesWithOutputsOfModules) {
  const testing::TempDir dir;
  const Ledger ops = Ledger::load(train(dir / "ops"));
  // A file as written by tools/torch_ledger.py: the outputs of modules, whose names lack the root.
  Ledger modules;
  const auto number = [&](const std::string& text) {
    modules.strings.push_back(text);
    return int32_t(modules.strings.size() - 1);
  };
  for (const LedgerEntry& entry : ops.entries) {
    const std::string module = ops.strings[size_t(entry.module)],
                      op = ops.strings[size_t(entry.op)];
    if (entry.pass != LedgerPass::kForward || (op != "linear" && op != "batch_norm")) continue;
    LedgerEntry call = entry;
    call.sketch.hash = 0;
    call.pass = LedgerPass::kModule;
    call.module = number(module.substr(module.find('.') + 1));
    call.type = number(ops.strings[size_t(entry.type)]);
    call.op = call.line = number("");
    modules.entries.push_back(call);
  }
  modules.save(dir / "modules");
  const RunDifference same = compare_runs(dir / "ops", dir / "modules", {.tolerance = 1e-6});
  EXPECT_TRUE(same.equal) << same;
  EXPECT_EQ(same.compared, 9) << "three modules in three steps";
  modules.entries[4].sketch.sums[0] += 1;
  modules.save(dir / "modules");
  for (const auto& [a, b] : {std::pair("ops", "modules"), std::pair("modules", "ops")}) {
    const RunDifference found = compare_runs(dir / a, dir / b, {.tolerance = 1e-6});
    EXPECT_EQ(found.at.module, "Net.fc1") << found;
    EXPECT_EQ(found.at.op, "linear");
  }
}

TEST(RunLedger, LargeViewsHaveNoSketch) {
  const testing::TempDir dir;
  const auto record = [&](const char* name, double factor, int dim) {
    manual_seed(3);
    const Variable x = randn({200, 200}).requires_grad_();
    RunLedger ledger;
    const Variable y = square(transpose(exp(x * factor), 0, 1));
    sum(narrow(y, dim, 10, 100)).backward();
    ledger.save(dir / name);
    return std::string(dir / name);
  };
  const std::string a = record("a", 1, 1);
  const Ledger made = Ledger::load(a);
  std::string without;
  for (const LedgerEntry& entry : made.entries)
    if (!has_sketch(entry.sketch))
      without += std::string(kLedgerPasses[size_t(entry.pass)]) + ' ' +
                 made.strings[size_t(entry.op)] + "; ";
  EXPECT_EQ(without, "forward transpose; forward slice; backward transpose; ");
  EXPECT_TRUE(compare_runs(a, record("b", 1, 1)).equal);
  EXPECT_EQ(compare_runs(a, record("b", 2, 1)).at.op, "mul") << "the values of the view";
  const RunDifference other = compare_runs(a, record("b", 1, 0));
  EXPECT_NE(other.reason.find("[200, 100], the other forward slice float32 [100, 200]"),
            std::string::npos)
      << other;
}

TEST(RunLedger, EndsAStepWithoutItsWeights) {
  const Variable x = tensor({1.0, 2.0}).requires_grad_();
  const nn::Linear model({.in_features = 2, .out_features = 1});
  RunLedger ledger({.every = 2});
  std::vector<int64_t> entries;
  for (int step = 1; step <= 4; ++step) {
    exp(x);
    if (step <= 2)
      ledger.end_step();
    else
      ledger.note(model);
    entries.push_back(ledger.size());
  }
  EXPECT_EQ(entries, (std::vector<int64_t>{1, 1, 4, 4})) << "exp; nothing; exp and two weights";
}

TEST(RunLedger, RecordsSomeSteps) {
  const Variable x = tensor({1.0, 2.0}).requires_grad_();
  nn::Linear model({.in_features = 2, .out_features = 1});
  RunLedger ledger({.every = 3});
  std::string recorded;
  for (int step = 1; step <= 7; ++step) {
    const int64_t before = ledger.size();
    exp(x);
    ledger.note(model);
    recorded += ledger.size() > before ? '1' : '0';
  }
  EXPECT_EQ(recorded, "1001001");
  ledger.stop();
  const int64_t before = ledger.size();
  exp(x);
  ledger.note(model);
  exp(x);
  EXPECT_EQ(ledger.size(), before);
  EXPECT_THROW(RunLedger({.every = 0}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
