#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/tape/variable.h"
#include "ops/create.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

std::string print(const Variable& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

TEST(Print, AFirstProgram) {
  const Variable x = reshape(arange(6), {2, 3}).to(f32);
  EXPECT_EQ(print(x), "[[0., 1., 2.],\n [3., 4., 5.]]");
  EXPECT_EQ(print(sum(x, {1})), "[ 3., 12.]");
}

TEST(Print, NumbersOfEveryKind) {
  EXPECT_EQ(print(scalar(2.5)), "2.5");
  EXPECT_EQ(print(scalar(3)), "3");
  EXPECT_EQ(print(tensor({1, -20, 300})), "[  1, -20, 300]");
  EXPECT_EQ(print(tensor({true, false})), "[ true, false]");
  EXPECT_EQ(print(tensor(std::vector<uint8_t>{65, 200})), "[ 65, 200]");
  EXPECT_EQ(print(tensor(std::vector<int8_t>{65, -1})), "[65, -1]");
  EXPECT_EQ(print(tensor({0.5, -1.25, 3.0})), "[  0.5, -1.25,    3.]");
  EXPECT_EQ(print(tensor({1e-9, 1.0})), "[1e-09,    1.]");
  EXPECT_EQ(print(tensor({INFINITY, -INFINITY})), "[ inf, -inf]");
  EXPECT_EQ(print(tensor({double(NAN)})), "[nan]");
  EXPECT_EQ(print(tensor({0.5}, {.dtype = bf16})), "[0.5]");
}

TEST(Print, ShapesWithoutElements) {
  EXPECT_EQ(print(zeros({0})), "[]");
  EXPECT_EQ(print(zeros({2, 0})), "[[],\n []]");
  EXPECT_EQ(print(Variable()), "(empty)");
}

TEST(Print, BlocksAndStrides) {
  EXPECT_EQ(print(reshape(arange(8), {2, 2, 2})), "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
  EXPECT_EQ(print(transpose(reshape(arange(6), {2, 3}), 0, 1)), "[[0, 3],\n [1, 4],\n [2, 5]]");
  EXPECT_EQ(print(slice(arange(6), 0, 1, kEnd, 2)), "[1, 3, 5]");
  EXPECT_EQ(print(expand(scalar(7), {3})), "[7, 7, 7]");
}

TEST(Print, LongAxesAreAbbreviated) {
  EXPECT_EQ(print(arange(2000)), "[   0,    1,    2, ..., 1997, 1998, 1999]");
  const std::string text = print(reshape(arange(10000), {100, 100}));
  EXPECT_EQ(text.substr(0, text.find('\n')), "[[   0,    1,    2, ...,   97,   98,   99],");
  EXPECT_NE(text.find("\n ...,\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_EQ(print(arange(1000)).find("..."), std::string::npos);
}

}  // namespace
}  // namespace tapegrad
