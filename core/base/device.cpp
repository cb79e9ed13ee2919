#include "core/base/device.h"

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <iostream>

#include "core/base/error.h"

namespace tapegrad {
namespace {

/// Returns the default device, initialised from the environment.
std::atomic<Device>& current() {
  static std::atomic<Device> device = [] {
    const char* text = std::getenv("TAPEGRAD_DEVICE");
    return text != nullptr && *text != '\0' ? device_or_cpu(parse_device(text)) : cpu;
  }();
  return device;
}

}  // namespace

std::string to_string(Device device) {
  std::string text(name(device.type));
  if (device.index > 0) text += ':' + std::to_string(device.index);
  return text;
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

Device Device::parse(std::string_view text, Where where) {
  const size_t colon = text.find(':');
  std::string_view type = text.substr(0, colon);
  if (type == "gpu") type = "cuda";
  for (int i = 0; i < kDeviceTypeCount; ++i) {
    if (type != kDeviceTypeNames[i]) continue;
    if (colon == text.npos) return {DeviceType(i), 0};
    int index = -1;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end || index < 0 || index > 127) break;
    if (DeviceType(i) == DeviceType::kCpu && index > 0)
      fail_at<ArgumentError>(where, "parse_device: \"", text,
                             "\": ", why_unavailable({DeviceType(i), 1}));
    return {DeviceType(i), int8_t(index)};
  }
  fail_at<ArgumentError>(where, "parse_device: \"", text,
                         "\" is not cpu, cuda, cuda:<index> or private1");
}

Device default_device() { return current().load(std::memory_order_relaxed); }

void set_default_device(Device device, Where where) {
  if (!is_available(device))
    fail_at<DeviceError>(where, "set_default_device: ", device, ": ", why_unavailable(device));
  current() = device;
}

Device device_or_cpu(Device device) {
  if (is_available(device)) return device;
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    std::cerr << "tapegrad: " << device << ": " << why_unavailable(device) << "; using the CPU\n";
  return cpu;
}

}  // namespace tapegrad
