// Counts the memory accesses of the warps of a kernel. Kernels are compiled by clang++ with calls
// before their loads and stores (-fsanitize-coverage=func,trace-loads,trace-stores), which
// counter.cpp defines.
//
// An access is one execution of an instruction by the lanes of a warp. The n-th execution of an
// instruction (its return address) by a lane is paired with the n-th of the other lanes. If lanes
// diverge inside of a loop, a GPU may need more accesses than are counted.
//
// Known differences to a GPU: only aligned powers of two up to 16 bytes and copies of a Pack are
// one instruction; clang++ may keep other loads than nvcc; caches are not modelled.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../state.h"

namespace coh {

/// Bytes of a sector, the unit in which a GPU transfers memory.
inline constexpr int kSector = 32;

/// Accesses of warps to one kind of memory.
struct Accesses {
  std::int64_t count = 0, lanes = 0;   // lanes: sum of the active ones, of 32 per access
  std::int64_t units = 0, fewest = 0;  // device memory: sectors; shared memory: passes through the
                                       // banks. fewest: for the bytes asked for, in any order
  Accesses& operator+=(const Accesses& other);
};

/// An instruction of a kernel.
struct InstructionTraffic {
  const void* pc = nullptr;
  bool is_shared = false, is_store = false;
  Accesses accesses = {};
};

struct Traffic {
  Accesses device, shared;
  std::int64_t read = 0, written = 0;  // bytes of distinct sectors of device memory
  std::vector<InstructionTraffic> instructions = {};
};

/// Counts the accesses of the kernel that runs from begin_counting() to end_counting().
void begin_counting(std::size_t dynamic_shared_bytes);
Traffic end_counting();

/// Counts an access by the instruction at `pc`, if the memory is the device's or a block's.
void count_access(const void* p, unsigned bytes, bool is_store, const void* pc);

}  // namespace coh
