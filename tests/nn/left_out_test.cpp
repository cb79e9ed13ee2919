// Modules and parameters that members() leaves out.
#include <gtest/gtest.h>

#include "core/tape/recording.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/summary.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "optim/optimizers.h"

namespace tapegrad::nn {
namespace {

template <typename F>
std::string error_of(F f) {
  try {
    f();
  } catch (const ArgumentError& error) {
    return error.message();
  }
  return "no error";
}

struct LeavesOutALayer : Model<LeavesOutALayer> {
  Linear fc1{4, 4};
  Linear fc2{4, 4};
  void members(Members& m) override { m("fc1", fc1); }
  Variable forward(const Variable& x) const { return fc2(fc1(x)); }
};

TEST(LeftOut, AModuleIsAnErrorAtTheFirstUse) {
  const std::string text =
      "LeavesOutALayer: members() leaves out a Linear (" +
      std::to_string(sizeof(Module) + sizeof(Linear)) +
      " bytes into LeavesOutALayer, behind \"fc1\"); write m(\"name\", member) "
      "for it";
  LeavesOutALayer model;
  EXPECT_EQ(error_of([&] { model(ones({1, 4})); }), text);
  EXPECT_EQ(error_of([&] { LeavesOutALayer().parameters(); }), text);
  EXPECT_EQ(error_of([&] { LeavesOutALayer().parameter_count(); }), text);
  EXPECT_EQ(error_of([&] { LeavesOutALayer().state_dict(); }), text);
  EXPECT_EQ(error_of([&] { optim::SGD(LeavesOutALayer(), 0.1); }), text);
}

// An energy model: forward() makes its input a leaf.
struct Energy : Model<Energy> {
  Linear fc{4, 1};
  void members(Members& m) override { m("fc", fc); }
  Variable forward(Variable x) const {
    x.requires_grad_();
    return sum(fc(x));
  }
};

TEST(LeftOut, AnInputThatForwardMakesALeafIsNoParameter) {
  testing::internal::CaptureStderr();
  Energy()(ones({2, 4})).backward();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

struct LeavesOutDropout : Model<LeavesOutDropout> {
  Dropout dropout{0.5};  // would stay in training mode
  void members(Members&) override {}
  Variable forward(const Variable& x) const { return dropout(x); }
};
struct Outer : Model<Outer> {
  LeavesOutDropout inner;
  void members(Members& m) override { m("inner", inner); }
  Variable forward(const Variable& x) const { return inner(x); }
};

TEST(LeftOut, DependsOnWhatTheModuleHolds) {
  Outer model;
  EXPECT_EQ(error_of([&] {
              model(ones({1, 4}));
            }),
            "LeavesOutDropout: members() leaves out a Dropout (" + std::to_string(sizeof(Module)) +
                " bytes into LeavesOutDropout); write m(\"name\", member) for it");
  struct Harmless : Model<Harmless> {
    Linear fc{4, 4};
    Linear same = fc;  // shares all with fc
    Sequential empty;
    std::optional<Linear> none;
    void members(Members& m) override { m("fc", fc); }
    Variable forward(const Variable& x) const { return same(x); }
  };
  Harmless harmless;
  EXPECT_EQ(harmless.parameter_count(), 20);
  EXPECT_EQ(harmless(ones({1, 4})).shape(), (Shape{1, 4}));
  // The clone of fc has its own weight; the clone of the layer without a name has not.
  EXPECT_NE(error_of([&] { harmless.clone().parameters(); }), "no error");
}

struct LeavesOutAParameter : Model<LeavesOutAParameter> {
  Linear fc{4, 4};
  Variable scale = ones({4}, {.requires_grad = true});
  void members(Members& m) override { m("fc", fc); }
  Variable forward(const Variable& x) const { return fc(x) * scale; }
};

/// Returns the text that f prints to stderr.
template <typename F>
std::string warning_of(F f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

TEST(LeftOut, AParameterIsOneWarningAtTheFirstRecordedCall) {
  LeavesOutAParameter model;
  const Variable x = ones({1, 4});
  {
    const NoGrad no_grad;
    EXPECT_EQ(warning_of([&] { model(x); }), "");
  }
  const std::string text = warning_of([&] { model(x); });
  EXPECT_NE(text.find("LeavesOutAParameter: members() leaves out a parameter [4] float32"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("left_out_test.cpp:"), std::string::npos) << text;
  EXPECT_EQ(warning_of([&] { model(x); }), "");
}

TEST(LeftOut, LeavesOfOthersAreNoParameters) {
  const Variable x = ones({1, 4}, {.requires_grad = true}),
                 shift = ones({4}, {.requires_grad = true});
  Linear fc(4, 4);
  EXPECT_EQ(warning_of([&] { fc(x); }), "");
  EXPECT_EQ(warning_of([&] { Linear(4, 4)(x + shift); }), "");
  LeavesOutAParameter known;
  std::vector<Variable> parameters = known.parameters();
  parameters.push_back(known.scale);
  const optim::SGD sgd(parameters, 0.1);
  EXPECT_EQ(warning_of([&] { known(x); }), "");
}

TEST(LeftOut, SummaryNamesSharedParameters) {
  struct Shared : Model<Shared> {
    std::vector<Linear> layers = std::vector<Linear>(3, Linear(4, 4, false));
    void members(Members& m) override { m("layers", layers); }
    Variable forward(const Variable& x) const { return layers[2](layers[1](layers[0](x))); }
  };
  Shared model;
  EXPECT_EQ(model.parameters().size(), 1u);
  EXPECT_NE(summary(model, {4})
                .find("3 names, one parameter: layers.0.weight, layers.1.weight, layers.2.weight"),
            std::string::npos);
}

// Types of a user's program that have the names of a module's private parts.
struct State {
  int64_t steps = 0;
};
struct Hooks {
  int64_t count = 0;
};
struct CountsItsSteps : Model<CountsItsSteps> {
  State state;
  Hooks hooks;
  void members(Members&) override {}
  Variable forward(const Variable& x) {
    ++state.steps;
    return x;
  }
};

TEST(Module, HidesNoTypeOfAUser) {
  CountsItsSteps model;
  model(zeros({1}));
  EXPECT_EQ(model.state.steps, 1);
}

}  // namespace
}  // namespace tapegrad::nn
