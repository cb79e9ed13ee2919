// First guesses of programs translated from tutorials: Q-learning by index tensors, PPO, k-fold
// cross-validation of a data set of the program, triplet losses, Flux's gradient.
#include "tests/first_guess/guess.h"

using namespace tapegrad;
namespace F = nn::functional;

namespace {

// q[state, action] += lr * (reward + gamma * q[next].max() - q[state, action])
TEST(Tutorials, QTableByTensors) {
  Variable q = zeros({3, 2});
  const Variable state = tensor(1), next = tensor(2), action = randint(1, 2, {1})[0];
  q[state][action] += 0.5 * (1.0 + 0.9 * q[next].max() - q[state][action]);
  GUESS("[0, 0.5]", q[1]);
  q[state][0] = 4;
  q[next].fill_(4);
  GUESS("[[0, 0], [4, 0.5], [4, 4]]", q);
}

// CleanRL: next_value.reshape(1, -1), then advantages[t] = lastgaelam = ...
TEST(Tutorials, RowsWithLeadingOnes) {
  Variable advantages = zeros({3, 2}), last = zeros({2});
  const Variable next_value = tensor({0.5, 1.5}).reshape(1, -1);
  advantages[2] = last = next_value - last;
  GUESS("[0.5, 1.5]", advantages[2]);
  advantages.index({Slice(0, 1)}) = last.unsqueeze(0);
  GUESS("[0.5, 1.5]", advantages[0]);
}

struct Points {
  int64_t size() const { return 10; }
  auto get(int64_t i) const { return std::tuple(tensor(i), tensor(2.0 * i)); }
};
// for train_ids, test_ids in KFold(5, shuffle=True).split(dataset)
TEST(Tutorials, FoldsOfItems) {
  const Points points;
  for (const auto& [train, test] : KFold(5, {.shuffle = true}).split(points)) {
    GUESS("8", train.size());
    GUESS("2", test.size());
  }
}

// nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: 1.0 - F.cosine_similarity(x, y));
// the numbers are PyTorch's
TEST(Tutorials, TripletLossWithADistance) {
  const Variable a = sin(arange(12, kFloat)).view(3, 4), p = cos(arange(12, kFloat)).view(3, 4);
  const auto cosine = [](const Variable& x, const Variable& y) {
    return 1.0 - F::cosine_similarity(x, y);
  };
  nn::TripletMarginWithDistanceLoss by_cosine(cosine, {.margin = 0.3});
  EXPECT_NEAR(by_cosine(a, p, a.flip(0)).item(), 0.481928, 1e-5);
  nn::TripletMarginWithDistanceLoss by_distance(nn::PairwiseDistance{});
  EXPECT_NEAR(by_distance(a, p, a.flip(0)).item(), 1.515590, 1e-5);
  EXPECT_NEAR(nn::TripletMarginWithDistanceLoss()(a, p, a.flip(0)).item(), 1.515590, 1e-5);
}

// values, counts = torch.unique(x, return_counts=True): the result has all three parts
TEST(Tutorials, OptionsOfUnique) {
  auto [values, inverse, counts] = unique(tensor({3, 1, 3}), {.return_counts = true});
  GUESS("[1, 3]", values);
  GUESS("[1, 2]", counts);
  GUESS("[[1, 2]]", unique(tensor({{1, 2}, {1, 2}}), {.return_inverse = true, .dim = 0}).values);
}

// Flux: dW, db = gradient(loss, W, b)
TEST(Tutorials, GradientOfSeveralArguments) {
  const Variable x = tensor({1.0, 2.0}), w = tensor({3.0, 4.0}), b = tensor(5.0);
  const auto loss = [&](const Variable& w, const Variable& b) { return square(dot(w, x) + b); };
  const auto [dw, db] = gradient(loss, w, b);
  GUESS("[32, 64]", dw);
  GUESS("32", db);
  GUESS("false", w.requires_grad());
}

// OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=5); the rates are PyTorch's
TEST(Tutorials, OneCycleOfEpochs) {
  nn::Linear fc(2, 2);
  optim::SGD sgd(fc.parameters(), 0.1, 0.9);
  optim::lr_scheduler::OneCycleLR cycle(sgd, 0.1, {.epochs = 2, .steps_per_epoch = 5});
  EXPECT_NEAR(cycle.get_last_lr()[0], 0.004, 1e-9);
  for (int i = 0; i < 4; ++i) {
    sgd.step();
    cycle.step();
  }
  EXPECT_NEAR(cycle.get_last_lr()[0], 0.0811745653949763, 1e-9);
}

// nn.MaxPool2d((3, 2)), nn.AdaptiveAvgPool2d((None, 7))
TEST(Tutorials, SizesInBraces) {
  const Variable x = ones({1, 2, 6, 14});
  GUESS("[1, 2, 2, 7]", nn::MaxPool2d{{3, 2}}(x).shape());
  GUESS("[1, 2, 6, 7]", nn::AdaptiveAvgPool2d({None, 7})(x).shape());
}

}  // namespace
