// Chains of layers and elementwise ops drawn at random, run twice: as expressions, whose operands
// are given away and may be written over and become one node with their activation; and with
// another handle to each operand, which prevents both. Values and gradients are the same to the
// bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "core/autograd/checkpoint.h"
#include "core/tape/autocast.h"
#include "core/tape/recording.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/linear.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/nn/elementwise_steps.h"

namespace tapegrad {
namespace {

constexpr int64_t kWidth = 4;

/// State that the chains of one model share.
struct Parts {
  std::vector<nn::Linear> linears;
  std::vector<nn::Conv2d> convs;
  nn::ReLU relu;
  nn::GELU gelu{Gelu::kTanh};
  nn::BatchNorm2d norm{{.num_features = kWidth}};
  std::vector<Variable> leaves;
  Operands operands;

  explicit Parts(bool images)
      : operands(images ? Shape{2, kWidth, 5, 5} : Shape{3, kWidth},
                 images ? Shape{kWidth, 1, 1} : Shape{kWidth}) {
    for (int i = 0; i < 2; ++i)
      if (images)
        convs.emplace_back(nn::ConvOptions<Size2d>{
            .in_channels = kWidth, .out_channels = kWidth, .kernel_size = 3, .padding = 1});
      else
        linears.emplace_back(
            nn::LinearSettings{.in_features = kWidth, .out_features = kWidth, .bias = i == 0});
    for (const auto& layer : convs) add(layer.parameters());
    for (const auto& layer : linears) add(layer.parameters());
    if (images) add(norm.parameters());
    norm.eval();  // or the two runs would differ by its statistics
    leaves.push_back(operands.row);
    leaves.push_back(images ? randn({2, kWidth, 5, 5}) : randn({3, kWidth}));
    leaves.back().requires_grad_();
  }
  void add(const std::vector<Variable>& more) {
    leaves.insert(leaves.end(), more.begin(), more.end());
  }
};

enum class Step {
  kLayer,
  kRelu,
  kGelu,
  kOther,  // another elementwise op
  kModule,
  kEpilogue,
  kBoth,
  kSum,
  kHook,
  kRetain,
  kView,
  kTwice,
  kCheckpoint,
  kAutocast,
  kSequential,
  kConstant,
  kNorm,
  kPair,  // an elementwise op of two results
  kCount
};
enum class Pass { kPlain, kRetained, kSome, kRecorded, kCount };
struct Chain {
  bool images;
  std::vector<std::pair<Step, unsigned>> steps;
  Pass pass;
};

Chain draw(std::mt19937& bits) {
  Chain chain{bits() % 4 == 0, {}, Pass(bits() % unsigned(Pass::kCount))};
  const unsigned length = 2 + bits() % 9;
  for (unsigned i = 0; i < length; ++i) {
    // Half of the steps are layers and activations, or joining would be rare.
    const unsigned drawn = bits() % (2 * unsigned(Step::kCount));
    const Step step = drawn >= unsigned(Step::kCount) ? Step(drawn % 4) : Step(drawn);
    chain.steps.emplace_back(step, unsigned(bits()));
  }
  return chain;
}

/// One run of a chain, and the values that were observed.
class ChainRun {
 public:
  ChainRun(const Chain& chain, const Parts& parts, bool apart)
      : chain_(chain), parts_(parts), apart_(apart) {}

  std::vector<std::vector<float>> operator()() {
    Variable h = parts_.leaves.back() * 1.0;
    Variable loss = zeros({});
    for (const auto& [step, choice] : chain_.steps) h = take(step, choice, std::move(h), loss);
    see(h);
    loss = loss + sum(h * h);
    see(loss);
    h = {};
    gradients(loss);
    for (const Variable& x : retained_) {
      see(x.grad());
      x.zero_grad();  // a gradient with a history refers to the node that retains it
    }
    return std::move(seen_);
  }
  int written_over() const { return written_over_; }

 private:
  /// f(h), with h given away or not.
  template <typename F>
  Variable run(Variable&& h, const F& f) {
    if (!apart_) {
      const void* at = h.value().is_contiguous() ? h.value().storage().data() : nullptr;
      Variable y = f(std::move(h));
      written_over_ += at != nullptr && y.value().storage().data() == at && y.numel() > 0;
      return y;
    }
    kept_.push_back(h);
    return f(std::as_const(kept_.back()));
  }
  Variable layer(unsigned choice, Variable&& h) {
    return run(std::move(h), [&](auto&& x) {
      return chain_.images ? parts_.convs[choice % 2](x) : parts_.linears[choice % 2](x);
    });
  }
  Variable with_epilogue(unsigned choice, Activation activation, Variable&& h) {
    Epilogue epilogue{activation};
    if (!apart_)
      return chain_.images ? parts_.convs[choice % 2](h, epilogue)
                           : parts_.linears[choice % 2](h, epilogue);
    return activate(activation, layer(choice, std::move(h)));
  }
  Variable activate(Activation activation, Variable&& h) {
    return run(std::move(h), [&](auto&& x) {
      return activation == Activation::kRelu ? relu(std::forward<decltype(x)>(x))
                                             : gelu(std::forward<decltype(x)>(x), Gelu::kTanh);
    });
  }

  Variable take(Step step, unsigned choice, Variable&& h, Variable& loss) {
    const Activation activation = choice % 3 == 0 ? Activation::kGelu : Activation::kRelu;
    switch (step) {
      case Step::kLayer:
        return layer(choice, std::move(h));
      case Step::kRelu:
      case Step::kGelu:
        return activate(step == Step::kRelu ? Activation::kRelu : Activation::kGelu, std::move(h));
      case Step::kOther:
        return elementwise(choice, std::move(h));
      case Step::kModule:  // one object, as often as it is drawn
        return run(std::move(h), [&](auto&& x) {
          return choice % 2 == 0 ? parts_.relu(std::forward<decltype(x)>(x))
                                 : parts_.gelu(std::forward<decltype(x)>(x));
        });
      case Step::kEpilogue:
        return with_epilogue(choice, activation, std::move(h));
      case Step::kBoth:
        return activate(activation, layer(choice, std::move(h)));
      case Step::kSum: {
        const Variable before = h;
        return activate(activation, layer(choice, std::move(h))) + before;
      }
      case Step::kHook:
        if (h.requires_grad())
          h.register_hook([this](const Variable& dh) {
            see(dh);
            return Variable();
          });
        return std::move(h);
      case Step::kRetain:
        if (h.requires_grad()) {
          h.retain_grad();
          retained_.push_back(h);
        }
        return std::move(h);
      case Step::kView:
        return choice % 2 == 0 ? reshape(reshape(h, {h.numel()}), h.shape())
                               : flip_twice(std::move(h));
      case Step::kTwice:
        loss = loss + sum(h * 0.25);
        return std::move(h);
      case Step::kCheckpoint: {
        const auto part = [this, choice, activation](Variable x) {
          x = layer(choice, std::move(x));
          x = activate(activation, std::move(x));
          return activate(Activation::kRelu, layer(choice + 1, std::move(x)));
        };
        return checkpoint([part](const Variable& x) { return part(x); }, h);
      }
      case Step::kAutocast: {
        const Autocast amp(bf16);
        Variable y = activate(activation, layer(choice, std::move(h)));
        return activate(Activation::kRelu, layer(choice + 1, std::move(y))).to(f32);
      }
      case Step::kSequential: {
        if (apart_) return activate(activation, layer(choice, std::move(h)));
        const bool relu = activation == Activation::kRelu;
        const nn::AnyModule layer = chain_.images ? nn::AnyModule(parts_.convs[choice % 2])
                                                  : nn::AnyModule(parts_.linears[choice % 2]);
        return nn::Sequential{layer,
                              relu ? nn::AnyModule(parts_.relu) : nn::AnyModule(parts_.gelu)}(h);
      }
      case Step::kConstant: {
        const NoGrad off;
        if (choice % 2 == 0) return elementwise(choice / 2, std::move(h));
        return activate(activation, layer(choice, std::move(h)));
      }
      case Step::kNorm:
        if (!chain_.images) return activate(activation, std::move(h) * 2.0);
        return activate(activation, run(std::move(h), [&](auto&& x) { return parts_.norm(x); }));
      case Step::kPair: {
        Variable other = layer(choice, Variable(h));
        if (apart_) kept_.push_back(other), kept_.push_back(h);
        return choice % 2 == 0 ? std::move(h) + std::move(other) : std::move(other) - std::move(h);
      }
      case Step::kCount:
        break;
    }
    return std::move(h);
  }
  Variable elementwise(unsigned choice, Variable&& h) {
    const std::vector<ElementwiseStep>& steps = elementwise_steps();
    const auto apply = [&](unsigned number, Variable&& value) {
      return run(std::move(value), [&](auto&& x) {
        return steps[number].call(std::forward<decltype(x)>(x), parts_.operands);
      });
    };
    return apply(choice % unsigned(steps.size()), apply(0, std::move(h)));  // step 0 limits values
  }
  /// Through a view whose base lives on.
  Variable flip_twice(Variable&& h) {
    bases_.push_back(h);
    return transpose(transpose(h, 0, 1), 0, 1);
  }

  void gradients(const Variable& loss) {
    if (!loss.requires_grad()) return;
    for (const Variable& leaf : parts_.leaves) leaf.zero_grad();
    if (chain_.pass == Pass::kSome || chain_.pass == Pass::kRecorded) {
      const std::vector<Variable> some{parts_.leaves.front(), parts_.leaves.back()};
      const bool again = chain_.pass == Pass::kRecorded;
      const auto dx = grad({&loss, 1}, some, {}, {.create_graph = again, .allow_unused = true});
      for (const Variable& x : dx) see(x);
      if (!again || !dx[0].defined() || !dx[0].requires_grad()) return;
      const Variable total = sum(dx[0] * dx[0]);
      for (const Variable& x : grad({&total, 1}, some, {}, {.allow_unused = true})) see(x);
      return;
    }
    if (chain_.pass == Pass::kRetained) loss.backward({.retain_graph = true});
    loss.backward();
    for (const Variable& leaf : parts_.leaves) see(leaf.grad());
  }

  void see(const Variable& x) {
    seen_.push_back(x.defined() ? x.to_vector<float>() : std::vector<float>());
  }

  const Chain& chain_;
  const Parts& parts_;
  const bool apart_;
  int written_over_ = 0;
  std::vector<std::vector<float>> seen_;
  std::vector<Variable> kept_, bases_, retained_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

TEST(DrawnChains, AreTheSameToTheBitHoweverTheyAreJoined) {
  constexpr int kChains = 2000;
  std::mt19937 bits(11);
  int written_over = 0;
  for (int number = 0; number < kChains; ++number) {
    manual_seed(uint64_t(number));
    const Chain chain = draw(bits);
    const Parts parts(chain.images);
    ChainRun joined(chain, parts, /*apart=*/false), apart(chain, parts, /*apart=*/true);
    const auto got = joined(), expected = apart();
    written_over += joined.written_over();
    ASSERT_EQ(apart.written_over(), 0);
    std::string steps;
    for (const auto& [step, choice] : chain.steps)
      steps += ' ' + std::to_string(int(step)) + '/' + std::to_string(choice % 30);
    ASSERT_EQ(got.size(), expected.size()) << "chain " << number << steps;
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(same_bits(got[i], expected[i]))
          << "chain " << number << ", images " << chain.images << ", pass " << int(chain.pass)
          << ", value " << i << " of " << got.size() << ", steps" << steps;
  }
  EXPECT_GT(written_over, kChains);  // or nothing was tested
}

}  // namespace
}  // namespace tapegrad
