#include "train/internal/shard_files.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/base/error.h"
#include "core/dispatch/kernels.h"
#include "io/safetensors.h"

namespace tapegrad {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSave = "save";    // number of the save that wrote the files of the ranks
constexpr const char* kRanks = "ranks";  // number of these files
constexpr const char* kShape = "shape";

std::string file_of(const std::string& path, int64_t save, int64_t rank, int64_t ranks) {
  return absl::StrCat(path, ".", save, ".", rank, "-of-", ranks);
}

int64_t number(const std::map<std::string, std::string>& metadata, const char* name) {
  const auto found = metadata.find(name);
  if (found == metadata.end()) return 0;
  int64_t value = 0;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

/// Returns the number of the save that wrote an existing file; 0 if there is none.
int64_t save_of(const std::string& path) {
  try {
    return number(load_metadata(path), kSave);
  } catch (const Error&) {
    return 0;  // no such file, or one that is about to be replaced
  }
}

/// Writes a file; returns the error, empty if there is none.
std::string try_to_save(const std::string& path, const TensorMap& tensors, SaveOptions options) {
  try {
    save(path, tensors, std::move(options));
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

/// Throws on all ranks if one has an error.
void agree(const dist::Communicator& world, const std::string& error) {
  if (world.size() == 1 && !error.empty()) fail<IoError>(error);
  if (world.max(!error.empty(), "errors of the checkpoint") == 0) return;
  const std::vector<std::string> all = world.all_gather_text(error, "errors of the checkpoint");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) fail<IoError>("rank ", rank, ": ", all[rank]);
}

/// Removes the files of the ranks of all saves but one.
void remove_other_saves(const std::string& path, int64_t save) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string stem = fs::path(path).filename().string() + ".";
  const std::string kept = absl::StrCat(stem, save, ".");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!absl::StartsWith(name, stem) || absl::StartsWith(name, kept)) continue;
    const std::string rest = name.substr(stem.size());  // "12.0-of-4"
    const size_t point = rest.find('.'), of = rest.find("-of-");
    if (point == rest.npos || of == rest.npos || of < point) continue;
    const std::string digits =
        rest.substr(0, point) + rest.substr(point + 1, of - point - 1) + rest.substr(of + 4);
    if (digits.find_first_not_of("0123456789") == digits.npos) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

bool is_piece(const std::string& name) {
  const size_t at = name.rfind('@');
  return at != name.npos && name.substr(at + 1) != kShape;
}

void save_by_ranks(const std::string& path, const dist::Communicator& world,
                   const TensorMap& common, const TensorMap& own) {
  SaveOptions options;
  int64_t save = 0;
  if (!own.empty()) {
    save = world.max(world.is_first() ? save_of(path) + 1 : 0, "number of the checkpoint");
    const std::string file = file_of(path, save, world.rank(), world.size());
    const std::string error = try_to_save(file, own, {});
    try {
      agree(world, error);
    } catch (const IoError&) {
      std::error_code ignored;
      if (error.empty()) fs::remove(file, ignored);
      throw;
    }
    options.metadata = {{kSave, std::to_string(save)}, {kRanks, std::to_string(world.size())}};
  }
  agree(world, world.is_first() ? try_to_save(path, common, options) : "");
  if (world.is_first()) remove_other_saves(path, save);
}

TensorMap join_pieces(const std::string& path, TensorMap common,
                      const std::function<TensorMap(const std::string& path)>& read) {
  const std::map<std::string, std::string> metadata = load_metadata(path);
  const int64_t ranks = number(metadata, kRanks);
  if (ranks == 0) return common;
  TensorMap whole;
  std::map<std::string, int64_t> missing;  // elements
  const auto shape_of = [&](const std::string& name) {
    const auto found = common.find(absl::StrCat(name, "@", kShape));
    if (found == common.end()) fail<FormatError>(path, ": no shape of ", name);
    const Tensor& sizes = found->second;
    const auto* size = sizes.data<int64_t>();
    return Shape(std::vector<int64_t>(size, size + sizes.numel()));
  };
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::string file = file_of(path, number(metadata, kSave), rank, ranks);
    for (const auto& [piece, values] : read(file)) {
      const size_t at = piece.rfind('@');
      int64_t first = -1;
      if (is_piece(piece))
        std::from_chars(piece.data() + at + 1, piece.data() + piece.size(), first);
      const std::string name = piece.substr(0, at);
      Tensor& all = whole[name];
      if (!all) {
        all = Tensor::empty(shape_of(name), values.dtype());
        missing[name] = all.numel();
      }
      if (first < 0 || first + values.numel() > all.numel() || values.dtype() != all.dtype())
        fail<FormatError>(file, ": ", piece, " does not fit a tensor of ", all.shape());
      Tensor target = all.with_layout(StridedLayout{{values.numel()}, {1}, first});
      kernels::copy(
          values.with_layout(StridedLayout{{values.numel()}, {1}, values.layout().offset}), target);
      missing[name] -= values.numel();
    }
  }
  for (auto& [name, tensor] : common) {
    if (!absl::EndsWith(name, absl::StrCat("@", kShape))) {
      whole.emplace(name, tensor);
      continue;
    }
    const std::string piece = name.substr(0, name.rfind('@'));
    if (!missing.contains(piece) || missing[piece] != 0)
      fail<FormatError>(path, ": the files of the ranks lack elements of ", piece);
  }
  return whole;
}

}  // namespace tapegrad
