#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "io/safetensors.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::contents;
using testing::message_of;
using testing::put;
using testing::TempDir;

size_t entries(const TempDir& dir) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir.path()))
    ++count;
  return count;
}

mode_t mode_of(const std::filesystem::path& path) {
  struct stat about {};
  stat(path.c_str(), &about);
  return about.st_mode & 07777;
}

TEST(AtomicFile, T54_OldContentUntilCommit) {
  const TempDir dir;
  put(dir / "file", "old");
  {
    AtomicFile file(dir / "file");
    file.write("new");
    EXPECT_EQ(contents(dir / "file"), "old");
  }
  EXPECT_EQ(contents(dir / "file"), "old") << "given up";
  EXPECT_EQ(entries(dir), 1u);
  write_file(dir / "file", "new");
  EXPECT_EQ(contents(dir / "file"), "new");
  EXPECT_EQ(entries(dir), 1u);
}

TEST(AtomicFile, T54_PermissionsStay) {
  const TempDir dir;
  const mode_t mask = umask(027);
  write_file(dir / "fresh", "1");
  umask(mask);
  EXPECT_EQ(mode_of(dir / "fresh"), mode_t(0640)) << "a new file follows the umask";
  for (mode_t mode : {0600, 0644, 0664, 0400}) {
    chmod((dir / "fresh").c_str(), mode);
    write_file(dir / "fresh", "2");
    EXPECT_EQ(mode_of(dir / "fresh"), mode);
  }
}

TEST(AtomicFile, T54_LinksStay) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "store");
  put(dir / "store/real", "old");
  std::filesystem::create_symlink("store/real", dir / "link");
  std::filesystem::create_symlink("link", dir / "link2");
  write_file(dir / "link2", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link2"));
  EXPECT_EQ(contents(dir / "store/real"), "new");
  std::filesystem::create_symlink("store/other", dir / "dangling");
  write_file(dir / "dangling", "made");
  EXPECT_EQ(contents(dir / "store/other"), "made");
  std::filesystem::create_symlink("loop", dir / "loop");
  EXPECT_THROW(write_file(dir / "loop", "x"), IoError);
}

TEST(AtomicFile, SaysWhereItCannotWrite) {
  const TempDir dir;
  EXPECT_NE(message_of<IoError>([&] { write_file(dir / "none/file", "x"); }).find("none/file"),
            std::string::npos);
  EXPECT_THROW(write_file(dir.path(), "x"), IoError);
  EXPECT_THROW(write_file("", "x"), IoError);
  EXPECT_THROW(write_file("/dev/null", "x"), IoError);
  write_file(dir / "file", "old");
  EXPECT_THROW(write_file((dir / "file").string() + '\0' + ".new", "x"), IoError);
  EXPECT_THROW(load((dir / "file").string() + '\0' + ".new"), IoError);
  EXPECT_EQ(contents(dir / "file"), "old");
}

TEST(AtomicFile, T54_FullDiskKeepsTheOldFile) {
  const TempDir dir;
  save(dir / "model", TensorMap{{"w", Tensor::full({4}, 1.0, f32)}});
  const std::string old = contents(dir / "model");
  const TensorMap large{{"w", Tensor::full({100'000}, 2.0, f32)}};
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{65536, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = message_of<IoError>([&] { save(dir / "model", large); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  EXPECT_EQ(contents(dir / "model"), old);
  EXPECT_EQ(entries(dir), 1u) << "the temporary file is gone";
  sigset_t pending;
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGXFSZ));
  EXPECT_NO_THROW(save(dir / "model", large));
}

TEST(AtomicFile, T54_FullFileSystemKeepsTheOldFile) {
  // Mounts a file system of 64 KiB, if the system permits it.
  const TempDir dir;
  const std::string command =
      "mount -t tmpfs -o size=64k none " + dir.path().string() + " 2>/dev/null";
  if (geteuid() != 0 || std::system(command.c_str()) != 0) GTEST_SKIP() << "cannot mount a tmpfs";
  write_file(dir / "file", "old");
  const std::string text =
      message_of<IoError>([&] { write_file(dir / "file", std::string(100'000, 'x')); });
  const std::string kept = contents(dir / "file");
  const size_t count = entries(dir);
  EXPECT_EQ(std::system(("umount " + dir.path().string()).c_str()), 0);
  EXPECT_NE(text.find("No space left"), std::string::npos) << text;
  EXPECT_EQ(kept, "old");
  EXPECT_EQ(count, 1u);
}

TEST(AtomicFile, ConcurrentWritersDoNotMix) {
  const TempDir dir;
  std::vector<std::thread> threads;
  for (char letter = 'a'; letter < 'e'; ++letter)
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) write_file(dir / "file", std::string(5000, letter));
    });
  for (std::thread& thread : threads) thread.join();
  const std::string content = contents(dir / "file");
  EXPECT_EQ(content.size(), 5000u);
  EXPECT_EQ(std::set<char>(content.begin(), content.end()).size(), 1u);
  EXPECT_EQ(entries(dir), 1u);
}

TEST(AtomicFile, T54_KilledAtAnyInstantLeavesOldOrNew) {
  const TempDir dir;
  const std::string states[2] = {std::string(300'000, 'a'), std::string(200'000, 'b')};
  write_file(dir / "file", states[0]);
  uint32_t chance = 12345;
  int abandoned = 0;
  for (int round = 0; round < 200; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i) write_file(dir / "file", states[i % 2]);
    }
    chance = chance * 1664525u + 1013904223u;
    usleep(500 + (chance >> 16) % 6000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string content = contents(dir / "file");
    ASSERT_TRUE(content == states[0] || content == states[1]) << content.size();
    abandoned += entries(dir) > 1;
  }
  EXPECT_GT(abandoned, 0) << "some were killed while they wrote";
  write_file(dir / "file", "end");
  EXPECT_EQ(entries(dir), 1u) << "what they left is removed by the next writer";
}

}  // namespace
}  // namespace tapegrad
