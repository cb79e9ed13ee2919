// Replaces a file atomically: the path always has either the old or the new content, even if the
// write fails, or the process or the machine stops.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tapegrad {

/// Writes to a temporary file beside the target, ".<name>.<process>-<number>.tmp". commit() flushes
/// it to disk and renames it over the target. If the target is a symbolic link, the link stays and
/// the file it points to is replaced. An existing file's permissions are kept. Temporary files that
/// a killed process left beside the target are removed.
class AtomicFile {
 public:
  /// Throws IoError if the folder cannot be written or the target is not a regular file.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // removes the temporary file unless commit() was called
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws IoError if the disk is full or the process's file size limit is reached. SIGXFSZ, which
  /// would end the process, is blocked.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Flushes the file to disk and renames it to the target. On return the new content is durable.
  void commit();

 private:
  [[noreturn]] void fail_io(const char* what, int error) const;

  std::string path_;    // as given, for error messages
  std::string target_;  // with links resolved
  std::string temporary_;
  int file_ = -1;
};

/// Writes the whole content at once, atomically.
void write_file(const std::string& path, std::string_view content);

}  // namespace tapegrad
