// Every kernel file of this backend ends in a register function; register.cpp calls them all.
#pragma once

namespace tapegrad::backends::cpu {

void register_kernels();  // all of the below; the dispatcher calls it on first use
void register_memory();

}  // namespace tapegrad::backends::cpu
