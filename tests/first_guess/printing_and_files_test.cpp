// First guesses about dtypes of layers, optimizers in lists, NumPy's files, callbacks of
// Keras, and results that are printed.
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;

namespace {

struct Net : nn::Model<Net> {
  nn::Linear fc{2, 3};
  void members(nn::Members& m) override { m("fc", fc); }
  Variable forward(const Variable& x) const {
    return nn::functional::relu(fc(x.to(fc.weight.dtype())));
  }
};

TEST(PrintingAndFiles, DtypesOfLayers) {
  Net net;
  GUESS("float32", net.fc.dtype());
  GUESS("float32", net.fc.weight.dtype());
  net.to(f64);
  GUESS("float64", net.dtype());
  GUESS("float64", net(ones({1, 2})).dtype());
  GUESS("float32", nn::BatchNorm2d(3, {.affine = false}).dtype());
  GUESS("float32", nn::Linear({.out_features = 3}).dtype());
  EXPECT_THROW(nn::ReLU().dtype(), ArgumentError);
}

TEST(PrintingAndFiles, ParametersOfListsAndDicts) {
  nn::ModuleDict heads;
  heads["a"] = nn::Linear(4, 2);
  heads["b"] = nn::Linear(4, 3);
  GUESS("4", heads.parameters().size());
  nn::Linear shared(2, 2);
  nn::ModuleList blocks{shared, nn::ReLU(), shared};
  GUESS("2", blocks.parameters().size());
  optim::SGD sgd({{.params = heads.parameters()}, {.params = blocks.parameters(), .lr = 0.01}},
                 {.lr = 0.1});
  GUESS("0.01", sgd.lr(1));
}

TEST(PrintingAndFiles, CanCast) {
  GUESS("true", can_cast(i64, f32));
  GUESS("false", can_cast(torch::kFloat32, torch::kInt64));
  GUESS("true", torch::can_cast(f64, f16));
  GUESS("true", can_cast(i64, u8));
  GUESS("true", can_cast(boolean, f32));
  GUESS("false", can_cast(u8, boolean));
}

TEST(PrintingAndFiles, RangesOfADtype) {
  GUESS("float32", arange(0, 10, 2, f32).dtype());
  GUESS("[0, 2, 4, 6, 8]", arange(0, 10, 2, kInt64));
  GUESS("float64", torch::arange(0, 10, 2, torch::kFloat64).dtype());
}

TEST(PrintingAndFiles, OptimizersInLists) {
  std::vector<nn::Linear> parts{nn::Linear(2, 2), nn::Linear(2, 2)};
  std::vector<optim::Adam> optimizers;
  for (auto& part : parts) optimizers.push_back(optim::Adam(part.parameters(), 1e-3));
  std::map<std::string, optim::SGD> named;
  named.emplace("body", optim::SGD(parts[0], 0.1));
  for (auto& optimizer : optimizers) optimizer.step();
  optim::Adam optimizer(parts[0], 1e-3);
  optimizer = optim::Adam(parts[1], 1e-2);  // a new one for the next phase
  GUESS("0.01", optimizer.lr());
  auto make = [](nn::Linear& part) { return optim::AdamW(part.parameters(), {.lr = 1e-4}); };
  optim::AdamW made = make(parts[0]);
  GUESS("0.0001", made.lr());
}

TEST(PrintingAndFiles, FilesOfNumPy) {
  const tapegrad::testing::TempDir dir;
  const std::string path = dir.path() / "x.npy", both = dir.path() / "both.npz";
  const Variable x = tensor({{1, 2}, {3, 4}});
  write_npy(path, x);
  GUESS("[[1, 2], [3, 4]]", read_npy(path));
  write_npz(both, {{"x", x}, {"y", x.t()}});
  auto arrays = read_npz(both);
  GUESS("[[1, 3], [2, 4]]", arrays["y"]);
  EXPECT_THROW(save(path, x), ArgumentError);  // names write_npy
}

TEST(PrintingAndFiles, CallbacksAndResults) {
  manual_seed(0);
  nn::Linear net(3, 2);
  optim::SGD sgd(net, 0.1);
  const Variable x = randn({20, 3}), y = randint(0, 2, {20});
  fit(net, x, y, sgd,
      {.epochs = 2,
       .verbose = 0,
       .callbacks = {ReduceLROnPlateau({.monitor = "loss", .factor = 0.5, .patience = 1})}});
  std::ostringstream out;
  out << evaluate(net, x, y);
  GUESS("(20 examples)", out.str().substr(out.str().find('(')));
  GUESS("loss", out.str().substr(0, 4));
}

}  // namespace
