// Writes one of everything for reader_test.py: write_events FOLDER
#include <cmath>

#include "nn/activation.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "train/fit.h"
#include "train/tensorboard.h"

using namespace tapegrad;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  TensorBoard board(argv[1]);
  manual_seed(1);
  nn::Sequential model({nn::Linear({.in_features = 4, .out_features = 8}), nn::ReLU(),
                        nn::Linear({.in_features = 8, .out_features = 3})});
  board.hyper_parameters({{"lr", 0.01}, {"depth", 2}}, {{"optimizer", "adam"}}, {"val_loss"});
  const Variable x = randn({32, 4}), y = randint(0, 3, {32});
  board.graph(cross_entropy(model(x), y));
  optim::Adam adam(model, {.lr = 0.01});
  DataLoader batches(TensorDataset(x, y), {.batch_size = 8});
  fit(model, batches, adam,
      {.epochs = 3,
       .validation = &batches,
       .progress = {.style = ProgressStyle::kNone},
       .callbacks = {log_to(board)}});
  board.histogram("known", tensor({-1.0, 0.0, 0.5, 0.5, double(INFINITY)}), 7);
  board.image("grey", reshape(arange(6).to(f32) / 5, {2, 3}), 1);
  board.image("grid", rand({5, 3, 4, 4}), 2);
  board.text("notes", "**no** dropout", 3);
  return 0;
}
