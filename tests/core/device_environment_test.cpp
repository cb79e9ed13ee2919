// TAPEGRAD_DEVICE, which a process reads once. Each case therefore runs in its own process.
#include <cstdlib>

#include <gtest/gtest.h>

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "ops/create.h"

namespace tapegrad::testing {
namespace {

struct NoMemory final : Allocator {
  void* allocate(size_t, Device) override { throw OutOfMemory("none"); }
  void deallocate(void*, size_t, Device) noexcept override {}
  MemoryStats stats(Device) const override { return {}; }
  void reset_peak(Device) override {}
  void set_limit(int64_t, Device) override {}
  void empty_cache(Device) override {}
};

/// Ends the process with status 0 if the variable selects the expected device.
[[noreturn]] void exit_with(const char* variable, Device expected) {
  static NoMemory memory;
  set_allocator(DeviceType::kPrivate1, &memory);
  setenv("TAPEGRAD_DEVICE", variable, 1);
  try {
    const Device device = default_device();
    std::exit(device == expected ? 0 : 1);
  } catch (const ArgumentError& error) {
    std::fputs(error.what(), stderr);
    std::exit(2);
  }
}

constexpr Device kPrivate{DeviceType::kPrivate1, 0};

TEST(DeviceEnvironment, NamesTheDefaultDevice) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with("private1", kPrivate), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with("cpu", cpu), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_with("", cpu), ::testing::ExitedWithCode(0), "");
}

TEST(DeviceEnvironment, FallsBackWithALineAndRefusesNonsense) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with("cuda:7", cpu), ::testing::ExitedWithCode(0), "cuda:7: .*; using the CPU");
  EXPECT_EXIT(exit_with("tpu", cpu), ::testing::ExitedWithCode(2), "\"tpu\" is not cpu, cuda");
}

TEST(DeviceEnvironment, CreationFollowsTheDefault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static NoMemory memory;
        set_allocator(DeviceType::kPrivate1, &memory);
        setenv("TAPEGRAD_DEVICE", "private1", 1);
        try {
          zeros({3});
        } catch (const OutOfMemory&) {
          std::exit(0);
        }
        std::exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tapegrad::testing
