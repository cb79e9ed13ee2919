// The C++ declarations of ops, read from the headers for docs/ops.md.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tapegrad::tools {

/// Declarations by the name in the catalog ("softmax", "linalg.inv"), without `where`, which is the
/// last argument of every op.
using Declarations = std::map<std::string, std::vector<std::string>>;

/// Reads the headers of ops/ in the given folder; empty if there are none.
Declarations read_declarations(const std::filesystem::path& root);

}  // namespace tapegrad::tools
