// The parts of the program `gpu`. They print lines of name, value and unit.
#pragma once

#include <functional>
#include <string>

namespace tapegrad::bench {

/// Returns the median milliseconds of 20 calls on the device, after 5 warm-up calls.
double device_ms(const std::function<void()>& call);

void measure_bandwidth();
void measure_products();
void measure_attention();
void measure_loading();
bool is_workload(const std::string& name);
/// Prints the milliseconds of a training step.
void measure_steps(const std::string& workload, bool graph);

}  // namespace tapegrad::bench
