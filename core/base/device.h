// Device: the location of a tensor, such as `cpu`, `cuda:1`, or a device from outside the library.
//
// set_default_device(), the environment variable TAPEGRAD_DEVICE, or `x | gpu` and `model | gpu`
// move a whole program to another device.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "core/base/where.h"

namespace tapegrad {

enum class DeviceType : uint8_t { kCpu, kCuda, kPrivate1 };
inline constexpr int kDeviceTypeCount = 3;
inline constexpr std::string_view kDeviceTypeNames[kDeviceTypeCount] = {"cpu", "cuda", "private1"};

constexpr std::string_view name(DeviceType type) { return kDeviceTypeNames[int(type)]; }

/// A device by type and index, or by name: "cpu", "cuda", "gpu" or "cuda:1", as in
/// `x.to("cuda")` and `zeros({2}, {.device = "cuda"})`. Throws ArgumentError for any other name.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int8_t index = 0;

  constexpr Device() = default;
  constexpr Device(DeviceType of_type, int8_t number = 0) : type(of_type), index(number) {}
  template <std::convertible_to<std::string_view> Name>
  Device(const Name& name, Where where = Where::current()) : Device(parse(name, where)) {}

  /// Parses a name. `where` is the line that an error names.
  static Device parse(std::string_view name, Where where = Where::current());

  constexpr bool is_cpu() const { return type == DeviceType::kCpu; }
  constexpr bool is_cuda() const { return type == DeviceType::kCuda; }
  bool operator==(const Device&) const = default;
};
inline constexpr Device cpu{};
inline constexpr Device gpu{DeviceType::kCuda, 0};

std::string to_string(Device device);  // "cpu", "cuda:1"
std::ostream& operator<<(std::ostream& out, Device device);

/// Parses the name of a device. Equivalent to Device::parse(text).
inline Device parse_device(std::string_view text, Where where = Where::current()) {
  return Device::parse(text, where);
}

/// Returns whether tensors can be created on the device. why_unavailable() returns the reason if
/// not, such as "built without CUDA".
bool is_available(Device device);
std::string why_unavailable(Device device);  // empty if available

/// Returns the device that creation functions use if none is given: initially TAPEGRAD_DEVICE if
/// set, else the CPU. Throws DeviceError if the device cannot be used.
Device default_device();
/// Throws DeviceError if the device cannot be used.
void set_default_device(Device device, Where where = Where::current());

/// Returns the device if it is available. Otherwise returns the CPU and prints a notice to stderr,
/// once. Used by `x | gpu`.
Device device_or_cpu(Device device);

}  // namespace tapegrad
