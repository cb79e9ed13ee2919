// Where a tensor lives: `cpu`, `cuda:1`, or a device from outside the library.
//
// The one-line switch of a whole program is set_default_device(), the environment variable
// TAPEGRAD_DEVICE, or `x | gpu` and `model | gpu`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace tapegrad {

enum class DeviceType : uint8_t { kCpu, kCuda, kPrivate1 };
inline constexpr int kDeviceTypeCount = 3;
inline constexpr std::string_view kDeviceTypeNames[kDeviceTypeCount] = {"cpu", "cuda", "private1"};

constexpr std::string_view name(DeviceType type) { return kDeviceTypeNames[int(type)]; }

struct Device {
  DeviceType type = DeviceType::kCpu;
  int8_t index = 0;

  bool operator==(const Device&) const = default;
};
inline constexpr Device cpu{};
inline constexpr Device gpu{DeviceType::kCuda, 0};

std::string to_string(Device device);  // "cpu", "cuda:1"
std::ostream& operator<<(std::ostream& out, Device device);

/// From "cpu", "cuda", "gpu" or "cuda:1". ArgumentError for anything else.
Device parse_device(std::string_view text);

/// Whether tensors can be made there, and if not, why: "built without CUDA", say.
bool is_available(Device device);
std::string why_unavailable(Device device);  // empty when it is available

/// Where creation functions put tensors when no device is given: TAPEGRAD_DEVICE when it is set,
/// else the CPU. DeviceError when the device cannot be used.
Device default_device();
void set_default_device(Device device);

/// The device itself, or the CPU with one notice on stderr when there is no such device: what
/// `x | gpu` moves to.
Device device_or_cpu(Device device);

}  // namespace tapegrad
