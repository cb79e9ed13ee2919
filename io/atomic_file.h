// Writing a file so that its path always holds either the old content or the new one: whatever
// fails, and whenever the process or the machine stops.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tapegrad {

/// A temporary file beside the target, ".<name>.<process>-<number>.tmp", is written and flushed to
/// disk; commit() renames it over the target. A symbolic link stays, and the file it points to is
/// replaced; an existing file's permissions stay. Temporary files that a killed process left beside
/// the target are removed.
class AtomicFile {
 public:
  /// IoError when the folder cannot be written, or the target is not a regular file.
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();  // without commit(): removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// IoError when the disk is full or the process's file size limit is reached; SIGXFSZ, which
  /// would end the process, is held back.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// The new content is on disk and in place when this returns.
  void commit();

 private:
  [[noreturn]] void fail_io(const char* what, int error) const;

  std::string path_;    // as given, for messages
  std::string target_;  // with links followed
  std::string temporary_;
  int file_ = -1;
};

/// The whole content at once.
void write_file(const std::string& path, std::string_view content);

}  // namespace tapegrad
