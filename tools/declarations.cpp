#include "tools/declarations.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_replace.h"

namespace tapegrad::tools {
namespace {

namespace fs = std::filesystem;

/// Replaces line ends and the spaces around them by one space.
std::string in_one_line(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

/// Returns the name of a function declared as `Type name(`, or "".
std::string name_of(const std::string& declaration) {
  const size_t open = declaration.find('(');
  if (open == std::string::npos) return "";
  const size_t space = declaration.rfind(' ', open);
  if (space == std::string::npos) return "";
  const std::string name = declaration.substr(space + 1, open - space - 1);
  const bool is_identifier =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  return is_identifier ? name : "";
}

/// Adds the functions that the header declares at the start of a line.
void read_header(const fs::path& path, Declarations& found) {
  std::ifstream file(path);
  std::string space;
  for (std::string line; std::getline(file, line);) {
    if (line == "namespace linalg {" || line == "namespace fft {")
      space = line.substr(10, line.size() - 12) + '.';
    if (line == "}  // namespace linalg" || line == "}  // namespace fft") space.clear();
    const bool starts = !line.empty() && std::isalpha(static_cast<unsigned char>(line[0])) &&
                        !line.starts_with("template") && !line.starts_with("namespace") &&
                        !line.starts_with("struct") && !line.starts_with("extern") &&
                        !line.starts_with("auto ") &&  // refuses a wrong guess
                        !line.starts_with("using") && !line.starts_with("requires");
    if (!starts) continue;
    std::string text = line;
    while (text.find_first_of(";{", text.find(')')) == std::string::npos &&
           std::getline(file, line))
      text += ' ' + line;
    text = in_one_line(text);
    const std::string name = name_of(text);
    if (name.empty()) continue;
    text = absl::StrReplaceAll(text, {{", Where where = Where::current()", ""},
                                      {"Where where = Where::current()", ""},
                                      {"inline ", ""},
                                      {" D dtype", " DType dtype"},
                                      {"const V& x", "const Variable& x"},
                                      {" B unbiased", " bool unbiased"}});
    // The declaration ends at the parenthesis that closes the one after the name.
    int depth = 0;
    for (size_t i = text.find('('); i < text.size(); ++i) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (depth == 0) {
        text.resize(i + 1);
        break;
      }
    }
    found[space + name].push_back(text);
  }
}

}  // namespace

Declarations read_declarations(const fs::path& root) {
  Declarations found;
  if (!fs::exists(root / "ops")) return found;
  std::vector<fs::path> headers{root / "core/tape/view.h"};
  for (const auto& entry : fs::directory_iterator(root / "ops"))
    if (entry.path().extension() == ".h" && entry.path().filename() != "aliases.h")
      headers.push_back(entry.path());
  std::sort(headers.begin(), headers.end());
  for (const fs::path& header : headers) read_header(header, found);
  return found;
}

}  // namespace tapegrad::tools
