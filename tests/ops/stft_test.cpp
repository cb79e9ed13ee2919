// Short-time Fourier transforms, compared with values that PyTorch 2.15 printed (CPU, float64).
#include "ops/stft.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/autograd/gradcheck.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "ops/windows.h"

namespace tapegrad {
namespace {

Variable window(int64_t n) { return hann_window(n, true, {.dtype = f64}); }

void expect_near(const Variable& got, const std::vector<double>& expected) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-13) << i;
}

TEST(Stft, EqualsPyTorch) {
  const Variable t = arange(20).to(f64), wave = sin(t * 0.7) + 0.1 * t;
  const Variable centred = stft(wave, 8, {.hop_length = 3, .win_length = 8, .window = window(8)});
  ASSERT_EQ(centred.shape(), (Shape{5, 7, 2}));
  expect_near(select(centred, 1, 2),
              {0.37117343543844789, 0, 0.56738417740816183, -0.56917800085491899,
               -0.72343652855537943, 0.33236908653335284, -0.024232632580986513,
               -0.0029232128266923341, -0.01060346798203976, 0});
  const Variable plain =
      stft(wave, 8, {.hop_length = 2, .win_length = 6, .center = false, .normalized = true});
  ASSERT_EQ(plain.shape(), (Shape{5, 7, 2}));
  expect_near(select(plain, 1, 3), {2.3344594360953441, 0, -1.4076919168910649, 1.0302058944816521,
                                    -0.20023343240564914, -0.31427421728183436, 0.23602545660177651,
                                    -0.30330242147316067, 0.40934034929453089, 0});
  EXPECT_TRUE(stft(wave, 8, 3, 8, window(8)).equal(centred));
}

TEST(Stft, PadsInEachMode) {
  const Variable x = (arange(12) * 7).remainder(5).to(f64);
  const auto ends = [&](PadMode mode) {  // frequency 1 of the first and the last frame
    const Variable frames = select(stft(x, 8, {.hop_length = 4, .pad_mode = mode}), 0, 1);
    return index_select(frames, 0, tensor({0, 3}));
  };
  expect_near(ends(PadMode::kReflect),
              {1.5857864376269049, 0, 2.414213562373095, 2.414213562373095});
  expect_near(ends(PadMode::kConstant),
              {-0.7071067811865476, 6.121320343559643, 1.7071067811865475, -3.5355339059327378});
  expect_near(ends(PadMode::kReplicate),
              {-0.7071067811865476, 6.121320343559643, -0.2928932188134524, 1.2928932188134525});
  expect_near(ends(PadMode::kCircular), {1, 2.585786437626905, 1, 2.585786437626905});
}

TEST(Stft, TheInverseGivesTheSignal) {
  const Variable wave = randn({2, 100}, f64);
  for (const int64_t n : {16, 15, 8})
    for (const bool center : {true, false}) {
      const Variable w = center ? window(n) : Variable();
      const Variable y = stft(wave, n, {.hop_length = 4, .window = w, .center = center});
      const Variable back = istft(y, n, {.hop_length = 4, .window = w, .center = center});
      const int64_t known = std::min<int64_t>(back.size(1), 100);
      ASSERT_GT(known, 90);
      EXPECT_LT(amax(abs(narrow(back, 1, 0, known) - narrow(wave, 1, 0, known))).item(), 1e-12);
      EXPECT_EQ(
          istft(y, n, {.hop_length = 4, .window = w, .center = center, .length = 120}).shape(),
          (Shape{2, 120}));
    }
}

TEST(Stft, Gradients) {
  const auto power = [](const auto& in) {
    return sum(square(stft(in[0], 8, {.hop_length = 3, .window = window(8)})));
  };
  const GradcheckResult result =
      gradcheck(power, {randn({12}, f64).requires_grad_()}, {.order = 2});
  EXPECT_TRUE(bool(result)) << result.message;
  const auto signal = [](const auto& in) {
    return sum(pow(istft(in[0], 8, {.hop_length = 2, .window = window(8)}), 3));
  };
  const GradcheckResult inverse = gradcheck(signal, {randn({5, 6, 2}, f64).requires_grad_()});
  EXPECT_TRUE(bool(inverse)) << inverse.message;
}

TEST(Stft, Errors) {
  const Variable wave = ones({64});
  EXPECT_THROW(stft(wave, 0), ArgumentError);
  EXPECT_THROW(stft(wave, -4), ArgumentError);
  EXPECT_THROW(stft(wave, 16, {.hop_length = 0}), ArgumentError);
  EXPECT_THROW(stft(wave, 16, {.win_length = 17}), ArgumentError);
  EXPECT_THROW(stft(wave, 16, {.window = ones({3})}), ShapeError);
  EXPECT_THROW(stft(ones({3}), 16), ShapeError);
  EXPECT_THROW(stft(ones({3}), 16, {.center = false}), ShapeError);
  EXPECT_THROW(stft(ones({}), 16), ShapeError);
  EXPECT_THROW(stft(Variable(), 16), ArgumentError);
  EXPECT_THROW(istft(ones({9, 4, 3}), 16), Error);
  EXPECT_THROW(istft(ones({8, 4, 2}), 16), ShapeError);
  EXPECT_THROW(istft(ones({9, 4, 2}), 16, {.window = zeros({16})}), ArgumentError);
  EXPECT_THROW(istft(ones({9, 4, 2}), 16, {.length = -5}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
