#include "io/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/error.h"

namespace tapegrad {
namespace {

/// Resolves symbolic links, also if the final target does not exist yet.
std::string follow_links(const std::string& path) {
  std::filesystem::path target = path;
  for (int links = 0; links < 40; ++links) {
    std::error_code error;
    if (!std::filesystem::is_symlink(target, error)) return target.string();
    const auto next = std::filesystem::read_symlink(target, error);
    if (error) return target.string();
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  fail<IoError>("save: too many levels of symbolic links: ", path);
}

std::string folder_of(const std::string& target) {
  const std::string folder = std::filesystem::path(target).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Common prefix of all temporary files of a target. Long names are cut, since a file name holds at
/// most 255 bytes.
std::string temporary_stem(const std::string& target) {
  std::string stem = std::filesystem::path(target).filename().string().substr(0, 200);
  stem.insert(stem.begin(), '.');
  return stem += '.';
}

bool is_temporary(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem) || !name.ends_with(".tmp")) return false;
  name.remove_prefix(stem.size());
  name.remove_suffix(std::min<size_t>(4, name.size()));
  return !name.empty() && name.find_first_not_of("0123456789-") == name.npos;
}

/// Removes temporary files of processes that ended. A writer holds a lock on its temporary file,
/// which the system releases when the process ends; so a file that can be locked is abandoned.
void remove_abandoned(const std::string& folder, const std::string& stem) {
  DIR* entries = opendir(folder.c_str());
  if (!entries) return;
  while (const dirent* entry = readdir(entries)) {
    if (!is_temporary(entry->d_name, stem)) continue;
    const int file = openat(dirfd(entries), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) unlinkat(dirfd(entries), entry->d_name, 0);
    close(file);
  }
  closedir(entries);
}

/// Blocks SIGXFSZ on this thread, so that a write past RLIMIT_FSIZE fails with EFBIG.
class HoldSizeSignal {
 public:
  HoldSizeSignal() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~HoldSizeSignal() {
    if (arrived_ && !sigismember(&before_, SIGXFSZ)) {
      const timespec at_once{};
      sigtimedwait(&set_, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void note_arrival() { arrived_ = true; }

 private:
  sigset_t set_, before_;
  bool arrived_ = false;
};

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(follow_links(path)) {
  if (path_.find('\0') != path_.npos)  // the system would end the name there
    fail<IoError>("save: a NUL in the name of a file: '", path_, "'");
  struct stat old {};
  const bool exists = stat(target_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) fail<IoError>("save: not a regular file: ", path_);
  if (std::filesystem::path(target_).filename().empty())
    fail<IoError>("save: not the name of a file: '", path_, "'");

  const std::string folder = folder_of(target_), stem = temporary_stem(target_);
  remove_abandoned(folder, stem);
  static std::atomic<uint64_t> number{0};
  while (file_ < 0) {
    temporary_ = folder + "/" + stem + std::to_string(getpid()) + "-" +
                 std::to_string(number.fetch_add(1)) + ".tmp";
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno == EEXIST) continue;
    if (file_ < 0) fail_io("cannot create a file beside", errno);
    flock(file_, LOCK_EX);
    struct stat now {};
    // Another process may have removed the file as abandoned before the lock was taken.
    if (fstat(file_, &now) == 0 && now.st_nlink == 0) {
      close(file_);
      file_ = -1;
    }
  }
  if (!exists) return;
  // Changes the owner first, since this may clear mode bits. Only a privileged process can change
  // it.
  if ((old.st_uid != geteuid() || old.st_gid != getegid()) &&
      fchown(file_, old.st_uid, old.st_gid) != 0)
    errno = 0;
  if (fchmod(file_, old.st_mode & 07777) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    close(file_);
    fail_io("cannot keep the permissions of", error);
  }
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  unlink(temporary_.c_str());
  close(file_);
}

void AtomicFile::fail_io(const char* what, int error) const {
  fail<IoError>("save: ", what, " ", path_, ": ", std::strerror(error));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  HoldSizeSignal hold;
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), 1 << 26));
    if (count < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EFBIG) hold.note_arrival();
      fail_io("cannot write", error);
    }
    bytes = bytes.subspan(size_t(count));
  }
}

void AtomicFile::commit() {
  if (file_ < 0) fail<IoError>("save: ", path_, " was committed already");
  if (fsync(file_) != 0) fail_io("cannot flush", errno);
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_io("cannot replace", errno);
  const int closed = close(file_);
  const int error = errno;
  file_ = -1;
  if (closed != 0) fail_io("cannot close", error);
  // Flushes the folder, which holds the new name. Without this, a power failure may restore the old
  // file.
  const int folder = open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // the folder is not readable, so it cannot be flushed
  const int flushed = fsync(folder);
  const int fault = errno;
  close(folder);
  if (flushed != 0 && fault != EINVAL) fail_io("cannot flush the folder of", fault);
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}
}  // namespace tapegrad
