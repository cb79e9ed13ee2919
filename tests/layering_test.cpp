// Reads the source files: includes point in one direction, vendor headers stay in backends/, files
// stay small. The rules are those of docs/architecture.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

const fs::path kRoot = TAPEGRAD_SOURCE_DIR;
const std::vector<std::string> kFolders = {"core", "ops", "backends", "nn",    "optim",
                                           "data", "io",  "dist",     "train", "tools"};

/// The folders that each folder may include. "ops" means the headers of ops/; no folder includes
/// sources.
const std::map<std::string, Names> kAllowed = {
    {"core", {"core"}},
    {"ops", {"core", "ops"}},
    {"backends", {"core", "ops", "backends", "dist"}},  // dist/internal/engine.h
    {"nn", {"core", "ops", "nn"}},
    {"optim", {"core", "ops", "nn", "optim"}},
    {"data", {"core", "ops", "data", "io"}},
    {"io", {"core", "ops", "nn", "io"}},
    {"dist", {"core", "ops", "nn", "optim", "data", "io", "dist"}},
    {"train", {"core", "ops", "nn", "optim", "data", "io", "dist", "train"}},
    {"tools", {"tools"}}};  // and the public headers, <tapegrad/...>

/// The folders of core, lowest first. A folder may include itself and lower folders. core/cuda.h
/// may include all of them.
const std::vector<std::string> kWings = {"base", "dispatch", "tape", "autograd", "inspect"};

/// Number of units of the tape that include each other, such as node, variable, grad, view and op.
constexpr size_t kTapeUnits = 7;

/// The permitted includes of a higher folder; docs/architecture.md gives the reasons.
const std::set<std::pair<std::string, std::string>> kUpward = {
    {"core/base/allocator.cpp", "core/dispatch/internal/backends.h"},
    {"core/inspect/moment.cpp", "core/cuda.h"}};

struct Source {
  fs::path path;  // relative to the root
  std::vector<std::string> lines;

  std::string folder() const { return path.begin()->string(); }
  bool is_header() const { return path.extension() == ".h" || path.extension() == ".cuh"; }
  /// Returns the operands of the #include lines, with their brackets or quotes.
  std::vector<std::string> includes() const {
    std::vector<std::string> found;
    for (const std::string& line : lines)
      if (line.starts_with("#include ")) found.push_back(line.substr(9));
    return found;
  }
};

const std::vector<Source>& sources() {
  static const std::vector<Source> all = [] {
    std::vector<Source> found;
    for (const std::string& folder : kFolders) {
      if (!fs::exists(kRoot / folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
        const std::string extension = entry.path().extension().string();
        if (!Names{".h", ".cpp", ".cu", ".cuh"}.contains(extension)) continue;
        Source source{fs::relative(entry.path(), kRoot), {}};
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) source.lines.push_back(line);
        found.push_back(std::move(source));
      }
    }
    return found;
  }();
  return all;
}

TEST(Layering, SourcesAreFound) {
  Names folders;
  for (const Source& source : sources()) folders.insert(source.folder());
  EXPECT_TRUE(folders.contains("core") && folders.contains("ops") && folders.contains("backends"));
  EXPECT_GT(sources().size(), 80u);
}

TEST(Layering, ImportsPointOneWay) {
  for (const Source& source : sources())
    for (const std::string& include : source.includes()) {
      if (include[0] != '"' || include.starts_with("\"absl/")) continue;
      const std::string target = include.substr(1, include.find('/') - 1);
      EXPECT_TRUE(kAllowed.at(source.folder()).contains(target))
          << source.path << " includes " << include;
      EXPECT_TRUE(fs::exists(kRoot / include.substr(1, include.find('"', 1) - 1)))
          << source.path << " includes " << include << ", not written from the root";
    }
}

TEST(Layering, WingsOfCoreStandOnEachOther) {
  const auto wing_of = [](const fs::path& path) {
    const auto part = std::next(path.begin());
    const auto found = std::find(kWings.begin(), kWings.end(), part->string());
    EXPECT_TRUE(found != kWings.end() || path == "core/cuda.h") << path << " is in no wing of core";
    return found - kWings.begin();
  };
  std::set<std::pair<std::string, std::string>> upward;
  for (const Source& source : sources()) {
    if (source.folder() != "core") continue;
    for (const std::string& include : source.includes()) {
      if (!include.starts_with("\"core/")) continue;
      const std::string target = include.substr(1, include.size() - 2);
      if (wing_of(target) > wing_of(source.path)) upward.emplace(source.path.string(), target);
    }
  }
  EXPECT_EQ(upward, kUpward);
}

/// Units of core (a header with its source) with circular includes form small groups.
TEST(Layering, CirclesInCoreStaySmall) {
  std::map<std::string, Names> reached;  // direct includes of a unit, then all reachable units
  const auto unit_of = [](const fs::path& path) {
    std::string unit = fs::path(path).replace_extension().string();
    return unit.ends_with("_impl") ? unit.substr(0, unit.size() - 5) : unit;
  };
  for (const Source& source : sources()) {
    if (source.folder() != "core") continue;
    Names& includes = reached[unit_of(source.path)];
    for (const std::string& include : source.includes())
      if (include.starts_with("\"core/"))
        includes.insert(unit_of(include.substr(1, include.size() - 2)));
  }
  for (const auto& [middle, unused] : reached)
    for (auto& [unit, leads_to] : reached)
      if (leads_to.contains(middle))
        leads_to.insert(reached[middle].begin(), reached[middle].end());
  for (const auto& [unit, leads_to] : reached) {
    Names circle;
    for (const std::string& other : leads_to)
      if (reached[other].contains(unit)) circle.insert(other);
    std::string members;
    for (const std::string& member : circle) members += ' ' + member;
    EXPECT_LE(circle.size(), kTapeUnits) << members;
  }
}

/// Modes of a thread are fields of Context. The files below have other variables of a thread: free
/// lists, node numbers, the number of passes within one another, buffers of exchanges, and the data
/// set whose get() runs.
TEST(Layering, ModesOfAThreadAreFieldsOfContext) {
  const Names permitted = {"core/base/context.cpp",
                           "core/base/context.h",
                           "core/base/free_list.cpp",
                           "core/base/free_list.h",
                           "core/tape/internal/backward.cpp",
                           "core/tape/node.cpp",
                           "data/dataset.cpp",
                           "dist/collectives.cpp"};
  Names found;
  for (const Source& source : sources())
    for (const std::string& line : source.lines)
      if (source.folder() != "backends" && line.find("thread_local ") < line.find("//"))
        found.insert(source.path.string());
  EXPECT_EQ(found, permitted);
}

TEST(Layering, SourcesOfPrivateHeadersAreBesideThem) {
  for (const Source& source : sources()) {
    const fs::path header =
        source.path.parent_path() / "internal" / source.path.filename().replace_extension(".h");
    if (source.is_header() || fs::exists((kRoot / source.path).replace_extension(".h"))) continue;
    EXPECT_FALSE(fs::exists(kRoot / header)) << source.path << " defines what is in " << header;
  }
}

TEST(Layering, PrivateHeadersAreIncludedByPrivateFilesOnly) {
  for (const Source& source : sources()) {
    const std::string path = source.path.string();
    if (source.folder() == "backends" || source.folder() == "tools" || !source.is_header() ||
        path.find("/internal/") != path.npos)
      continue;
    for (const std::string& include : source.includes())
      EXPECT_EQ(include.find("/internal/"), include.npos) << path << " includes " << include;
  }
}

TEST(Layering, VendorHeadersStayInBackends) {
  for (const Source& source : sources()) {
    if (source.folder() == "backends") continue;
    for (const std::string& include : source.includes())
      for (const char* vendor : {"dnnl", "cblas", "xsimd", "omp.h", "openblas", "cuda_runtime",
                                 "cublas", "cudnn", "cub/", "sleef", "mpi.h"})
        EXPECT_EQ(include.find(vendor), std::string::npos)
            << source.path << " includes " << include;
  }
}

/// Returns whether a file, or one that it includes, includes Abseil.
bool reaches_abseil(const std::string& path) {
  static std::map<std::string, bool> known;
  if (const auto found = known.find(path); found != known.end()) return found->second;
  known[path] = false;
  const auto source = std::find_if(sources().begin(), sources().end(),
                                   [&](const Source& each) { return each.path == path; });
  if (source == sources().end()) return path.starts_with("absl/");
  for (const std::string& include : source->includes())
    known[path] |= reaches_abseil(include.substr(1, include.size() - 2));
  return known[path];
}

TEST(Layering, PublicHeadersAndCudaSourcesDoNotReachAbseil) {
  EXPECT_TRUE(reaches_abseil("core/base/allocator.cpp"));
  for (const Source& source : sources()) {
    const bool is_private = source.path.string().find("/internal/") != std::string::npos ||
                            Names{"backends", "tools"}.contains(source.folder());
    const bool is_cuda = Names{".cu", ".cuh"}.contains(source.path.extension().string());
    if (is_cuda || (source.is_header() && !is_private)) {
      EXPECT_FALSE(reaches_abseil(source.path.string())) << source.path;
    }
  }
}

TEST(Layering, FilesStaySmall) {
  for (const Source& source : sources()) EXPECT_LE(source.lines.size(), 600u) << source.path;
}

TEST(Layering, HeadersBeginWithACommentAndPragmaOnce) {
  for (const Source& source : sources()) {
    if (!source.is_header()) continue;
    ASSERT_FALSE(source.lines.empty()) << source.path;
    EXPECT_TRUE(source.lines[0].starts_with("// ")) << source.path << ": what is it for?";
    bool once = false;
    for (const std::string& line : source.lines) once |= line == "#pragma once";
    EXPECT_TRUE(once) << source.path;
  }
}

}  // namespace
