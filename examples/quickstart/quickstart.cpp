// Arrays as in NumPy, then a perceptron that learns the logical AND.
#include <iostream>
#include <string>

#include <tapegrad/tapegrad.h>

#include "absl/flags/flag.h"
#include "flags.h"

ABSL_FLAG(std::string, device, "", "cpu or cuda; if empty, TAPEGRAD_DEVICE or else the CPU");
ABSL_FLAG(int, epochs, 500, "steps of gradient descent");
ABSL_FLAG(double, lr, 1.0, "learning rate");
ABSL_FLAG(uint64_t, seed, 0, "seed of the random weights");
ABSL_FLAG(std::string, out, "", "folder for the state of the run; if empty, nothing is written");
ABSL_FLAG(bool, resume, false, "continue the run whose state is in --out");

namespace tg = tapegrad;

void run() {
  const int epochs = examples::in_range("--epochs", absl::GetFlag(FLAGS_epochs), 0);
  const double lr = examples::in_range("--lr", absl::GetFlag(FLAGS_lr), 0.0);
  const auto out = examples::writable_folder("--out", absl::GetFlag(FLAGS_out));
  const std::string file = examples::run_file(out, absl::GetFlag(FLAGS_resume));
  examples::use_device(absl::GetFlag(FLAGS_device));
  tg::manual_seed(absl::GetFlag(FLAGS_seed));

  tg::Variable x = tg::reshape(tg::arange(6), {2, 3}).to(tg::f32);
  std::cout << "x =\n" << x << "\nsum over axis 1 = " << tg::sum(x, {1}) << "\n\n";

  // y = sigmoid(inputs w + b), trained by gradient descent.
  const tg::Variable inputs = tg::tensor({0., 0., 0., 1., 1., 0., 1., 1.}, {4, 2});
  const tg::Variable labels = tg::tensor({0., 0., 0., 1.}, {4, 1});
  tg::Variable w = tg::randn({2, 1}, {.requires_grad = true});
  tg::Variable b = tg::zeros({1}, {.requires_grad = true});

  int64_t epoch = 0;
  tg::TrainingState state;
  state("w", w)("b", b)("epoch", epoch);
  examples::resume_run(state, file, absl::GetFlag(FLAGS_resume));
  while (epoch++ < epochs) {
    tg::Variable logits = tg::matmul(inputs, w) + b;
    tg::Variable loss = tg::binary_cross_entropy_with_logits(logits, labels);
    loss.backward();
    for (tg::Variable* p : {&w, &b}) {
      tg::NoGrad off;
      *p -= lr * p->grad();
      p->zero_grad();
    }
    if (epoch % std::max(1, epochs / 5) != 0) continue;
    std::cout << "step " << epoch << ": loss " << loss.item() << '\n';
    if (!file.empty()) state.save(file);
  }
  std::cout << "0 0, 0 1, 1 0, 1 1 -> " << tg::flatten(tg::sigmoid(tg::matmul(inputs, w) + b))
            << '\n';
}

int main(int argc, char** argv) {
  return examples::run_example("quickstart", "Arrays, gradients and a perceptron.", argc, argv,
                               run);
}
