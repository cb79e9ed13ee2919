// A training step of each of the examples char_gpt, lstm_lm, vae and cartpole, whose models are
// those of the example's folder. benchmarks/steps.h describes the command line;
// benchmarks/peers/torch_examples.py has the same steps in PyTorch.
#include "benchmarks/steps.h"
#include "examples/cartpole/policy.h"
#include "examples/char_gpt/model.h"
#include "examples/lstm_lm/model.h"
#include "examples/vae/model.h"

namespace tapegrad::bench {
namespace {

Step step_of_char_gpt(bool is_bf16) {
  constexpr int64_t kBatch = 16, kLetters = 86;
  auto net = std::make_shared<char_gpt::Gpt>(char_gpt::GptOptions{.letters = kLetters});
  net->to(default_device());
  auto optimizer = std::make_shared<optim::AdamW>(*net, optim::AdamWOptions{.weight_decay = 0.1});
  const Variable x = randint(0, kLetters, {kBatch, net->options.length});
  const Variable y = randint(0, kLetters, {kBatch * net->options.length});
  return [=] {
    optimizer->zero_grad();
    Variable loss;
    {
      const Autocast amp(bf16, is_bf16);
      loss = cross_entropy(flatten((*net)(x), 0, 1), y);
    }
    loss.backward();
    optim::clip_grad_norm_(*net, 1.0);
    optimizer->step();
    return loss;
  };
}

Step step_of_lstm_lm() {
  constexpr int64_t kBatch = 20, kSteps = 20, kWords = 3000;
  auto net =
      std::make_shared<lstm_lm::LanguageModel>(lstm_lm::LanguageModelOptions{.words = kWords});
  net->to(default_device());
  auto optimizer = std::make_shared<optim::SGD>(*net, 1.0);
  auto state = std::make_shared<lstm_lm::LstmState>();
  const Variable x = randint(0, kWords, {kSteps, kBatch});
  const Variable y = randint(0, kWords, {kSteps * kBatch});
  return [=] {
    if (state->h.defined()) *state = state->detach();
    optimizer->zero_grad();
    const Variable loss = cross_entropy(net->forward(x, *state), y);
    loss.backward();
    optim::clip_grad_norm_(*net, 5.0);
    optimizer->step();
    return loss;
  };
}

Step step_of_vae() {
  const Variable x = rand({128, 784});
  return training<optim::Adam>(vae::Vae(784, 400, 20), [=](auto& net) { return net(x); });
}

/// Fifty steps of the task, and one update.
Step step_of_cartpole() {
  auto task = std::make_shared<cartpole::CartPole>();
  task->reset(1);
  auto policy = std::make_shared<cartpole::Policy>(128);
  policy->to(default_device());
  auto optimizer = std::make_shared<optim::Adam>(*policy, 5e-3);
  return [=] {
    cartpole::Episode episode;
    for (int i = 0; i < 50; ++i)
      if (!task->push(cartpole::act(*policy, task->state(), episode))) task->reset(1);
    optimizer->zero_grad();
    const Variable loss = cartpole::loss_of(episode, 0.99);
    loss.backward();
    optimizer->step();
    return loss;
  };
}

}  // namespace
}  // namespace tapegrad::bench

int main(int argc, char** argv) {
  using namespace tapegrad::bench;
  return run_networks(
      {{"char_gpt", "char_gpt, 16 x 128 letters", [] { return step_of_char_gpt(false); }},
       {"char_gpt_amp", "the same with --amp", [] { return step_of_char_gpt(true); }},
       {"lstm_lm", "lstm_lm, 3000 words, 20 x 20", step_of_lstm_lm},
       {"vae", "vae, batch 128", step_of_vae},
       {"cartpole", "cartpole, 50 steps and an update", step_of_cartpole}},
      argc, argv);
}
