// Checks that docs/names.md lists the public names of every installed header.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/hostile/public_names.h"

namespace tapegrad::testing {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the comment at the top of a header, on one line, up to its first full stop.
std::string title_of(const std::string& header) {
  std::istringstream lines(header);
  std::string line, title;
  while (std::getline(lines, line) && line.starts_with("// ")) title += line.substr(2);
  const size_t stop = std::min(title.find(". "), title.find_last_of('.'));
  return title.substr(0, stop).substr(title.empty() ? 0 : 1);
}

std::string page() {
  const std::filesystem::path root = TAPEGRAD_SOURCE_DIR;
  std::map<std::string, std::string> sections;  // by path
  for (const char* folder : {"core", "ops", "nn", "optim", "data", "io", "dist", "train"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = entry.path().lexically_relative(root);
      if (entry.path().extension() != ".h" || path.find("/internal/") != std::string::npos)
        continue;
      const std::string header = read(entry.path());
      std::string names;
      for (const std::string& name : public_names(header))
        if (!name.starts_with("catalog_") && name != "choice_names" && name.find("TAPEGRAD_") != 0)
          names += (names.empty() ? "`" : ", `") + name + '`';
      if (!names.empty())
        sections[path] =
            "**[" + path + "](../" + path + ")**: " + title_of(header) + "\n\n" + names;
    }
  std::string text =
      "# Public names\n\n"
      "Functions and methods of every header, for searching. `names_test` compares the page with "
      "the\n"
      "headers, and writes a new page to `build/names.md` if they differ. [ops.md](ops.md) "
      "describes the\n"
      "ops, [from_pytorch.md](from_pytorch.md) shows spellings.\n";
  for (const auto& [path, section] : sections) text += '\n' + section + '\n';
  return text;
}

TEST(Names, ThePageListsThePublicNames) {
  const std::string expected = page();
  if (read(TAPEGRAD_SOURCE_DIR "/docs/names.md") == expected) return;
  std::ofstream(TAPEGRAD_BINARY_DIR "/names.md") << expected;
  FAIL() << "run: cp " TAPEGRAD_BINARY_DIR "/names.md " TAPEGRAD_SOURCE_DIR "/docs/names.md";
}

}  // namespace
}  // namespace tapegrad::testing
