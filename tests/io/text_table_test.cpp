#include "io/text_table.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

class TextTable : public ::testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = (dir_ / "table.csv").string();
    std::ofstream(path) << text;
    return path;
  }
  /// Returns the message of the error.
  std::string error_of(const std::string& text, const LoadTextOptions& options) {
    return testing::message_of<FormatError>([&] { loadtxt(file(text), options); });
  }

 private:
  testing::TempDir dir_;
};

TEST_F(TextTable, ReadsAsNumPy) {
  // numpy.loadtxt(io.StringIO(text), delimiter=",", skiprows=1)
  const std::string path = file("a,b,label\r\n1,2,0\r\n\n+3.5,-4e1,1 # last\n\"5\", 0.25 ,0");
  const Variable x = loadtxt(path, {.delimiter = ",", .skiprows = 1});
  EXPECT_EQ(x.shape(), (Shape{3, 3}));
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 0, 3.5, -40, 1, 5, 0.25, 0}));
  const Variable y =
      loadtxt(path, {.dtype = i64, .delimiter = ",", .skiprows = 1, .usecols = {-1}});
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(loadtxt(file("1 2\t3\n")).shape(), (Shape{3}));
  EXPECT_EQ(loadtxt(file(" 1\n 2\n")).shape(), (Shape{2}));
  EXPECT_EQ(loadtxt(file("1;2\n3;4\n"), {.delimiter = ";"}).shape(), (Shape{2, 2}));
}

TEST_F(TextTable, NamesTheLineOfAnError) {
  EXPECT_NE(
      error_of("a,b\n1,2\n", {.delimiter = ","}).find("line 1: not a number: \"a\"; {.skiprows"),
      std::string::npos);
  EXPECT_NE(error_of("1,2\n", {}).find("write {.delimiter = \",\"}"), std::string::npos);
  EXPECT_NE(error_of("1,2\n3\n", {.delimiter = ","}).find("line 2: 1 numbers; the first row has 2"),
            std::string::npos);
  EXPECT_NE(error_of("1,2\n3,\n", {.delimiter = ","}).find("line 2: not a number: \"\""),
            std::string::npos);
  EXPECT_NE(error_of("1\n2.5\n", {.dtype = i64}).find("line 2: for int64, whole numbers"),
            std::string::npos);
  EXPECT_NE(error_of("9007199254740993\n", {.dtype = i64}).find("2^53"), std::string::npos);
  EXPECT_NE(error_of("# only\n\n", {}).find("no numbers"), std::string::npos);
  EXPECT_THROW(loadtxt(file("1,2\n"), {.delimiter = ",", .usecols = {2}}), ArgumentError);
  EXPECT_THROW(loadtxt("/nonexistent.csv"), IoError);
}

}  // namespace
}  // namespace tapegrad
