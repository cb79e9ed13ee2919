// Captured steps whose ops decide by values, such as the size of a result: a replay gives the bits
// of the function, or the step is recorded again. The values differ from call to call.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/autograd/derivatives.h"
#include "core/base/error.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/adaptive_softmax.h"
#include "nn/distributions/distributions.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/packed_sequence.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/ctc_loss.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "ops/scatter.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/cases/operand.h"
#include "train/fit.h"
#include "train/graphed_step.h"

namespace tapegrad::testing {
namespace {

using Variables = std::vector<Variable>;
using Function = std::function<Variable(const Variables& x)>;
using Inputs = std::function<Variables(int call)>;  // the first input gets a gradient

/// Expected outcome of a captured step.
enum class Fate {
  kReplayed,  // recorded once
  kRenewed,   // replayed, and recorded again when a value changes
  kEager,     // not replayed
};

/// Returns fn(x) and its gradient.
Variables with_gradient(const Function& fn, GraphedStep::Inputs given) {
  Variables x(given.begin(), given.end());
  x[0] = x[0].detach().requires_grad_();
  const Variable y = fn(x);
  if (!y.requires_grad()) return {y};
  const Variable weights = reshape(linspace(0.5, 1.5, y.numel(), {.dtype = y.dtype()}), y.shape());
  return {y, grad(sum(y * weights), x[0])};
}

/// Compares 14 calls of a captured step with calls of its function, bit by bit.
void compare(const char* name, const Function& fn, const Inputs& inputs, Fate fate) {
  SCOPED_TRACE(name);
  GraphedStep step([&](GraphedStep::Inputs given) { return with_gradient(fn, given); });
  int replays = 0, last_replays = 0;
  for (int call = 0; call < 14; ++call) {
    const Variables given = inputs(call);
    manual_seed(uint64_t(call));
    const Variables expected = with_gradient(fn, given);
    const RandomState state = default_generator().state();
    manual_seed(uint64_t(call));
    const Variables got = step.run_all(given);
    EXPECT_EQ(default_generator().state().offset, state.offset) << call;
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape(), expected[i].shape()) << call;
      EXPECT_TRUE(same_bits(got[i].value(), expected[i].value()))
          << "result " << i << " of call " << call << ' ' << step.reason();
    }
    replays += step.is_graphed();
    last_replays = step.is_graphed();
  }
  if (fate == Fate::kEager)
    EXPECT_EQ(last_replays, 0);
  else
    EXPECT_GE(replays, fate == Fate::kReplayed ? 11 : 3) << step.reason();
}

RandomGenerator numbers_of(int call) { return RandomGenerator{uint64_t(100 + call)}; }

/// Returns a tensor and a mask of this share of its elements.
Variables with_mask(int call, double share) {
  RandomGenerator numbers = numbers_of(call);
  const Variable x = randn({6, 5}, {}, numbers);
  return {x, rand({6, 5}, {}, numbers) < share};
}
/// Returns a tensor and a mask of `count` of its elements.
Variables with_count(int call, int64_t count) {
  RandomGenerator numbers = numbers_of(call);
  const Variable x = randn({6, 5}, {}, numbers);
  return {x, reshape(randperm(30, {}, numbers) < count, {6, 5})};
}

TEST(GraphedValues, AssignmentsByMask) {
  const auto half = [](int call) { return with_mask(call, 0.5); };
  compare(
      "a number",
      [](const Variables& x) {
        Variable y = x[0] * 2.0;
        y[x[1]] = 0.5;
        return y;
      },
      half, Fate::kReplayed);
  compare(
      "a row",
      [](const Variables& x) {
        Variable y = x[0] * 2.0;
        y[any(x[1], {1})] = mean(x[0], {0});
        y[{Ellipsis, any(x[1], {0})}] = sum(y[0]);
        return y;
      },
      half, Fate::kReplayed);
  compare(
      "columns",
      [](const Variables& x) {
        return index_put(x[0] * 2.0, {Slice(), any(x[1], {0})}, x[0].select(1, 0).unsqueeze(1));
      },
      half, Fate::kReplayed);
  compare(
      "a sum", [](const Variables& x) { return index_put(x[0] * 2.0, {x[1]}, sum(x[0]), true); },
      half, Fate::kReplayed);
}

TEST(GraphedValues, IndexTensorsWithoutDimensions) {
  const auto inputs = [](int call) -> Variables {
    RandomGenerator numbers = numbers_of(call);
    return {randn({6, 5}, {}, numbers), scalar(call / 5)};
  };
  compare(
      "a write to a part",
      [](const Variables& x) {
        Variable y = x[0] * 2.0;
        y[x[1]][0] = 5;
        y[x[1]].slice(0, 2).mul_(3);
        return y;
      },
      inputs, Fate::kRenewed);
  compare(
      "a row", [](const Variables& x) { return square(x[0][x[1] + 1]); }, inputs, Fate::kRenewed);
}

TEST(GraphedValues, SelectionsByMask) {
  const Function selected = [](const Variables& x) { return square(masked_select(x[0], x[1])); };
  const Function means = [](const Variables& x) { return mean(square(x[0] * 3.0)[x[1]]); };
  const Function own = [](const Variables& x) {
    const Variable y = tanh(x[0]);
    return mean(y[y > 0.0]);
  };
  const auto same = [](int call) { return with_count(call, 12); };
  const auto other = [](int call) { return with_count(call, 3 + call); };
  const auto twice = [](int call) { return with_count(call, call < 8 ? 12 : 7); };
  compare("of one size", selected, same, Fate::kReplayed);
  compare("of one size, a mean", means, same, Fate::kReplayed);
  compare("of other sizes", selected, other, Fate::kEager);
  compare("of other sizes, a mean", means, other, Fate::kEager);
  compare("of two sizes", means, twice, Fate::kRenewed);
  compare("by values of the step", own, other, Fate::kEager);
  compare(
      "no elements", means, [](int call) { return with_count(call, 0); }, Fate::kReplayed);
  compare(
      "several",
      [](const Variables& x) {
        Variable y = x[0] * 2.0, total = zeros({});
        for (int i = 0; i < 4; ++i) {
          const Variable rows = squeeze(nonzero(any(x[1], {1})), 1);
          y = index_add(y, 0, rows, tanh(index_select(x[0], 0, rows)));
          total = total + mean(y[x[1]]);
        }
        return total;
      },
      [](int call) {
        Variables x = with_count(call, 12);
        x[1] = reshape((arange(30) + call) % 6 < 3, {6, 5});
        return x;
      },
      Fate::kReplayed);
}

TEST(GraphedValues, CountsAndBins) {
  const auto whole = [](int call) {
    RandomGenerator numbers = numbers_of(call);
    return Variables{randn({20}, {}, numbers), randint(0, 8, {20}, {}, numbers)};
  };
  compare(
      "bincount with minlength",
      [](const Variables& x) { return bincount(x[1], x[0].detach(), 10); }, whole, Fate::kReplayed);
  compare(
      "bincount with too small a minlength",
      [](const Variables& x) { return bincount(x[1] * x[1], {}, 2); }, whole, Fate::kEager);
  compare(
      "histc", [](const Variables& x) { return histc(x[0], 5); }, whole, Fate::kReplayed);
  compare(
      "histc of equal numbers", [](const Variables& x) { return histc(x[0] * 0.0, 5); }, whole,
      Fate::kReplayed);
  compare(
      "histc of a range", [](const Variables& x) { return histc(x[0], 5, -1, 1); }, whole,
      Fate::kReplayed);
  compare(
      "quantile",
      [](const Variables& x) {
        return quantile(x[0], {0.25, 0.5, 0.9});
      },
      whole, Fate::kReplayed);
  compare(
      "repeat_interleave", [](const Variables& x) { return repeat_interleave(x[0], x[1]); },
      [&](int call) {
        Variables x = whole(call);
        x[1] = arange(20) % (call < 8 ? 3 : 4);
        return x;
      },
      Fate::kRenewed);
}

TEST(GraphedValues, LinearAlgebra) {
  const auto matrices = [](int call) {
    RandomGenerator numbers = numbers_of(call);
    Variable x = randn({2, 3, 3}, {.dtype = f64}, numbers);
    if (call == 9) x = x * reshape(arange(3).to(f64), {3, 1});  // a row of zeros
    return Variables{x};
  };
  compare(
      "det", [](const Variables& x) { return linalg::det(x[0]); }, matrices, Fate::kRenewed);
  compare(
      "matrix_exp", [](const Variables& x) { return linalg::matrix_exp(x[0]); },
      [&](int call) { return Variables{matrices(0)[0] * (call == 9 ? 40.0 : 1.0)}; },
      Fate::kRenewed);
  const auto regular = [&](int call) { return matrices(call % 9); };
  compare(
      "slogdet", [](const Variables& x) { return linalg::slogdet(x[0]).logabsdet; }, regular,
      Fate::kReplayed);
}

TEST(GraphedValues, Distributions) {
  namespace d = distributions;
  const auto positive = [](int call) {
    RandomGenerator numbers = numbers_of(call);
    return Variables{rand({3}, {}, numbers) * 2.0 + 0.5};
  };
  const std::pair<const char*, Function> cases[] = {
      {"Gamma", [](auto& x) { return d::Gamma(x[0], 2.0).rsample(); }},
      {"Beta", [](auto& x) { return d::Beta(x[0], x[0] + 1.0).rsample(); }},
      {"Dirichlet", [](auto& x) { return d::Dirichlet(x[0]).rsample(); }},
      {"StudentT", [](auto& x) { return d::StudentT(x[0] + 2.0).rsample(); }},
  };
  for (const auto& [name, fn] : cases) compare(name, fn, positive, Fate::kReplayed);
  // The number of rounds of the rejection differs.
  compare(
      "VonMises", [](const Variables& x) { return d::VonMises(0.0, x[0]).sample(); }, positive,
      Fate::kRenewed);
}

TEST(GraphedValues, LengthsOfSequences) {
  const auto batch = [](int call) {
    RandomGenerator numbers = numbers_of(call);
    const int64_t two = call < 8 ? 4 : 3;
    return Variables{randn({5, 3, 2}, {}, numbers), tensor({two, int64_t(5), int64_t(2)})};
  };
  const nn::LSTM lstm(2, 4, {.bidirectional = true});
  const nn::GRU gru(2, 4);
  compare(
      "LSTM",
      [&](const Variables& x) {
        const auto [y, h, c] = lstm(nn::pack_padded_sequence(x[0], x[1]));
        return nn::pad_packed_sequence(y).first;
      },
      batch, Fate::kRenewed);
  compare(
      "GRU",
      [&](const Variables& x) {
        const auto [y, h] = gru(nn::pack_padded_sequence(x[0], x[1]));
        return sum(h) + sum(nn::pad_packed_sequence(y).first);
      },
      batch, Fate::kRenewed);
  compare(
      "ctc_loss",
      [&](const Variables& x) { return ctc_loss(log_softmax(x[0], 2), x[2], x[1], x[3]); },
      [&](int call) {
        Variables x = batch(call);
        RandomGenerator numbers = numbers_of(call);
        x[0] = randn({5, 3, 4}, {}, numbers);
        x.push_back(randint(1, 4, {3, 2}, {}, numbers));
        x.push_back(call == 11 ? tensor({1, 2, 1}) : tensor({2, 2, 1}));
        return x;
      },
      Fate::kRenewed);
  nn::AdaptiveLogSoftmaxWithLoss loss(4, 10, {3, 6}, {.div_value = 2});
  compare(
      "AdaptiveLogSoftmaxWithLoss", [&](const Variables& x) { return loss(x[0], x[1]).loss; },
      [](int call) {
        RandomGenerator numbers = numbers_of(call);
        return Variables{randn({6, 4}, {}, numbers),
                         call < 9 ? (arange(6) + call % 2) % 3 * 3 : arange(6)};
      },
      Fate::kRenewed);
}

/// Batch norm whose statistics have no momentum.
TEST(GraphedValues, AveragesOfAllBatches) {
  const auto statistics = [](bool enabled) {
    nn::BatchNorm1d norm(nn::BatchNormOptions{.num_features = 3, .momentum = std::nullopt});
    GraphedStep step([&](const Variable& x) { return sum(square(norm(x))); }, {},
                     {.enabled = enabled});
    Variable all;
    for (int call = 0; call < 8; ++call) {
      RandomGenerator numbers = numbers_of(call);
      const Variable x = randn({5, 3}, {}, numbers);
      all = all.defined() ? cat({all, unsqueeze(mean(x, {0}), 0)}) : unsqueeze(mean(x, {0}), 0);
      step(x);
    }
    EXPECT_EQ(step.is_graphed(), enabled) << step.reason();
    EXPECT_EQ(norm.num_batches_tracked.item(), 8);
    EXPECT_LT(max(abs(norm.running_mean - mean(all, {0}))).item(), 1e-6);
    std::vector<double> values = norm.running_mean.to_vector<double>();
    for (const double value : norm.running_var.to_vector<double>()) values.push_back(value);
    return values;
  };
  EXPECT_EQ(statistics(true), statistics(false));
}

// A replay that is abandoned restores the small tensors to which it has written.
TEST(GraphedValues, ReadsAfterWritesToSmallTensors) {
  const auto values = [](bool enabled) {
    manual_seed(2);
    nn::Sequential model{nn::Linear(5, 6), nn::BatchNorm1d(6), nn::Dropout(0.3)};
    optim::SGD sgd(model, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    GraphedStep step(
        [&](const Variable& x, const Variable& mask) {
          sgd.zero_grad();
          const Variable loss = mean(square(model(x))[mask]);
          loss.backward();
          sgd.step();
          return loss;
        },
        {}, {.enabled = enabled});
    std::vector<double> found;
    int replays = 0;
    for (int call = 0; call < 16; ++call) {
      RandomGenerator numbers = numbers_of(call);
      const Variable x = randn({8, 5}, {}, numbers);
      const int64_t count = call == 7 || call > 11 ? 9 : 20;
      const Variable mask = reshape(randperm(48, {}, numbers) < count, {8, 6});
      found.push_back(step(x, mask).item());
      replays += step.is_graphed();
    }
    EXPECT_GE(replays, enabled ? 6 : 0) << step.reason();
    for (const auto& [name, tensor] : model.state_dict())
      for (const double value : Variable(tensor).to_vector<double>()) found.push_back(value);
    found.push_back(double(default_generator().state().offset));
    return found;
  };
  EXPECT_EQ(values(true), values(false));
}

// Large tensors are not saved in each replay.
TEST(GraphedValues, ReadsAfterWritesToLargeTensorsEndTheRecording) {
  Variable total = zeros({1 << 19});
  GraphedStep step([&](const Variable& x) {
    add_(total, 1.0);
    return sum(masked_select(x, x > 0.0)) * total[7];
  });
  for (int call = 0; call < 8; ++call)
    EXPECT_EQ(step(tensor({1.0, -1.0, double(call)})).item(), double((call + 1) * (call + 1)));
  EXPECT_FALSE(step.is_graphed());
  EXPECT_NE(step.reason().find("the host needs a value"), std::string::npos) << step.reason();
  EXPECT_NE(step.reason().find("graphed_values_test.cpp"), std::string::npos) << step.reason();
}

// The write follows the read, but its segment might begin before.
TEST(GraphedValues, AnAbandonedReplayWritesNothing) {
  constexpr int64_t kRows = 1 << 16;
  Variable total = zeros({kRows});
  GraphedStep step([&](const Variable& x) {
    const Variable y = tanh(x) * 2.0;
    const Variable chosen = masked_select(x, x > 0.0);
    add_(total, square(y) + 1.0);
    return sum(chosen) + sum(y);
  });
  Variable expected = zeros({kRows});
  for (int call = 0; call < 12; ++call) {
    RandomGenerator numbers = numbers_of(call < 8 ? 0 : call);
    const Variable x = randn({kRows}, {}, numbers);
    step(x);
    expected = expected + (square(tanh(x) * 2.0) + 1.0);
    if (call <= 8) {
      EXPECT_EQ(step.is_graphed(), call >= 3 && call < 8) << call << step.reason();
    }
    EXPECT_EQ(max(abs(total - expected)).item(), 0) << call;
  }
}

TEST(GraphedValues, NumbersThatChangeAreNoticedByACheck) {
  double factor = 1;
  GraphedStep step([&](const Variable& x) { return sum(x * factor); });
  for (int call = 0; call < 16; ++call) {
    if (call == 6) step.check_next();  // finds no change
    if (call == 10) {
      factor = 3;
      step.check_next();
    }
    EXPECT_EQ(step(full({2}, double(call))).item(), 2 * call * factor);
    EXPECT_EQ(step.is_graphed(), call >= 3 && call != 6 && call != 10) << call << step.reason();
  }
}

TEST(GraphedValues, NumbersThatChangeBetweenEpochs) {
  const auto losses = [](bool graph) {
    manual_seed(1);
    nn::Sequential model{nn::Linear(4, 8), nn::Tanh(), nn::Dropout(0.2), nn::Linear(8, 3)};
    optim::Adam adam(model, 0.01);
    const TensorDataset set(randn({48, 4}), randint(0, 3, {48}));
    DeviceLoader loader(set, {.batch_size = 8, .shuffle = true});
    double factor = 1;
    FitOptions options{
        .epochs = 5,
        .loss = [&](const Variable& y,
                    const Variable& target) { return cross_entropy(y, target) * factor; },
        .graph = graph,
        .progress = {.style = ProgressStyle::kNone}};
    options.callbacks.push_back({.before_epoch = [&](Training&) { factor *= 0.5; }});
    const History history = fit(model, loader, adam, options);
    EXPECT_EQ(history.not_graphed, "");
    std::vector<double> values;
    for (const EpochResult& epoch : history.epochs) values.push_back(epoch.loss);
    for (const Variable& p : model.parameters())
      for (const double value : p.to_vector<double>()) values.push_back(value);
    return values;
  };
  EXPECT_EQ(losses(true), losses(false));
}

}  // namespace
}  // namespace tapegrad::testing
