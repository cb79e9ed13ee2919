#include "counter.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

extern "C" {
extern char __start_coh_shared[] __attribute__((weak));
extern char __stop_coh_shared[] __attribute__((weak));
}

namespace coh {
namespace {

constexpr int kLanes = 32, kBanks = 32, kWord = 4;  // kWord: bytes of a word of a bank
constexpr std::uintptr_t kPage = 4096;
using Address = std::uintptr_t;

/// One execution of an instruction by the lanes of a warp.
struct Execution {
  std::uint32_t mask = 0;  // lanes that came to it
  Address at[kLanes];
};

/// The executions of an instruction that some lanes of a warp have still to come to.
struct Pending {
  std::vector<Execution> accesses;  // number `first` and the following
  std::size_t first = 0;
  std::size_t come[kLanes] = {};  // executions by each lane
};

struct Instruction {
  InstructionTraffic traffic;
  unsigned bytes = 0;
  std::vector<Pending> warps;
};

/// The sectors of a buffer that were read and written.
struct Buffer {
  Address begin = 0, end = 0;
  std::vector<std::uint64_t> touched[2];  // bits, by is_store
  Buffer(Address b, Address e) : begin(b), end(e) {
    for (auto& bits : touched) bits.resize((e / kSector - b / kSector) / 64 + 1);
  }
};

enum class Place : std::uint8_t { kNone, kDevice, kShared };

/// Properties of a page of the address space.
struct Page {
  Address number = 0;
  int buffer = -1;  // -1: it is not the device's
};

struct Counter {
  bool is_on = false;
  std::vector<Instruction> instructions;
  std::unordered_map<Address, std::size_t> numbers;  // of instructions, by pc, place and kind
  struct Known {
    Address key = 0;
    std::size_t number = 0;
  } known[1024];
  std::vector<Buffer> buffers;
  Page pages[1024];
  uint3 block{~0u, 0, 0};
  Address dynamic_begin = 0;
  std::size_t dynamic_bytes = 0;
};
Counter c;

int buffer_at(Address at) {
  Page& page = c.pages[at / kPage % std::size(c.pages)];
  if (page.number == at / kPage) return page.buffer;
  page = {at / kPage, -1};
  const std::span<const char> found = buffer_of(reinterpret_cast<const void*>(at));
  if (found.empty()) return -1;
  const Address begin = reinterpret_cast<Address>(found.data());
  for (std::size_t i = 0; i < c.buffers.size(); ++i)
    if (c.buffers[i].begin == begin) return page.buffer = int(i);
  c.buffers.emplace_back(begin, begin + found.size());
  return page.buffer = int(c.buffers.size()) - 1;
}

Place place_of(Address at) {
  const Address shared = reinterpret_cast<Address>(__start_coh_shared);
  if (at - shared < reinterpret_cast<Address>(__stop_coh_shared) - shared ||
      at - c.dynamic_begin < c.dynamic_bytes)
    return Place::kShared;
  return buffer_at(at) >= 0 ? Place::kDevice : Place::kNone;
}

/// Adds the sectors of an access; distinct bytes need at least fewest sectors.
void add_sectors(const Execution& access, unsigned bytes, bool is_store, Accesses& sum) {
  struct Sector {
    Address number;
    std::uint32_t bytes;  // bits
  } sectors[2 * kLanes];
  int count = 0;
  const auto touch = [&](Address number, std::uint32_t bits) {
    for (int i = count - 1; i >= 0; --i)
      if (sectors[i].number == number) {
        sectors[i].bytes |= bits;
        return;
      }
    sectors[count++] = {number, bits};
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!(access.mask >> lane & 1)) continue;
    const Address at = access.at[lane];
    const std::uint64_t bits = ((std::uint64_t{1} << bytes) - 1) << at % kSector;
    touch(at / kSector, std::uint32_t(bits));
    if (bits >> kSector) touch(at / kSector + 1, std::uint32_t(bits >> kSector));
  }
  int distinct = 0;
  for (int i = 0; i < count; ++i) {
    distinct += std::popcount(sectors[i].bytes);
    const int b = buffer_at(sectors[i].number * kSector);
    if (b < 0) continue;
    Buffer& buffer = c.buffers[std::size_t(b)];
    const Address bit = sectors[i].number - buffer.begin / kSector;
    buffer.touched[is_store][bit / 64] |= std::uint64_t{1} << bit % 64;
  }
  sum.units += count;
  sum.fewest += (distinct + kSector - 1) / kSector;
}

/// Adds the passes of an access through the banks of shared memory. Accesses of 8 and 16 bytes are
/// made by half and quarter warps. A word that several lanes read counts once.
void add_passes(const Execution& access, unsigned bytes, Accesses& sum) {
  const int together = bytes <= 4 ? kLanes : bytes == 8 ? kLanes / 2 : kLanes / 4;
  for (int first = 0; first < kLanes; first += together) {
    Address words[kLanes];
    int count = 0, in_bank[kBanks] = {};
    for (int lane = first; lane < first + together; ++lane) {
      if (!(access.mask >> lane & 1)) continue;
      for (Address w = access.at[lane] / kWord; w <= (access.at[lane] + bytes - 1) / kWord; ++w) {
        if (std::find(words, words + count, w) != words + count) continue;
        words[count++] = w;
        ++in_bank[w % kBanks];
      }
    }
    if (count == 0) continue;
    sum.units += *std::max_element(in_bank, in_bank + kBanks);
    ++sum.fewest;
  }
}

void finish(Instruction& instruction, const Execution& access) {
  Accesses& sum = instruction.traffic.accesses;
  ++sum.count;
  sum.lanes += std::popcount(access.mask);
  if (instruction.traffic.is_shared)
    add_passes(access, instruction.bytes, sum);
  else
    add_sectors(access, instruction.bytes, instruction.traffic.is_store, sum);
}

/// Finishes the accesses of a block that has ended.
void finish_block() {
  for (Instruction& instruction : c.instructions)
    for (Pending& warp : instruction.warps) {
      for (std::size_t i = 0; i < warp.accesses.size(); ++i)
        if (warp.accesses[i].mask != 0) finish(instruction, warp.accesses[i]);
      warp.accesses.clear();
      warp.first = 0;
      std::fill(std::begin(warp.come), std::end(warp.come), 0);
    }
}

Instruction& instruction_at(const void* pc, Place place, bool is_store, unsigned bytes) {
  const Address key =
      reinterpret_cast<Address>(pc) * 4 + Address{place == Place::kShared} * 2 + Address{is_store};
  Counter::Known& known = c.known[key / 4 % std::size(c.known)];
  if (known.key != key) {
    const auto [found, is_new] = c.numbers.try_emplace(key, c.instructions.size());
    if (is_new) c.instructions.push_back({{pc, place == Place::kShared, is_store}, bytes, {}});
    known = {key, found->second};
  }
  return c.instructions[known.number];
}

}  // namespace

Accesses& Accesses::operator+=(const Accesses& other) {
  count += other.count;
  lanes += other.lanes;
  units += other.units;
  fewest += other.fewest;
  return *this;
}

void begin_counting(std::size_t dynamic_shared_bytes) {
  c.instructions.clear();
  c.numbers.clear();
  std::fill(std::begin(c.known), std::end(c.known), Counter::Known{});
  std::fill(std::begin(c.pages), std::end(c.pages), Page{});
  c.buffers.clear();
  c.block = {~0u, 0, 0};
  c.dynamic_bytes = dynamic_shared_bytes;
  c.is_on = true;
}

Traffic end_counting() {
  c.is_on = false;
  finish_block();
  Traffic traffic;
  for (const Instruction& instruction : c.instructions) {
    (instruction.traffic.is_shared ? traffic.shared : traffic.device) +=
        instruction.traffic.accesses;
    traffic.instructions.push_back(instruction.traffic);
  }
  for (const Buffer& buffer : c.buffers) {
    const auto bytes = [](const std::vector<std::uint64_t>& bits) {
      std::int64_t count = 0;
      for (const std::uint64_t word : bits) count += std::popcount(word);
      return count * kSector;
    };
    traffic.read += bytes(buffer.touched[false]);
    traffic.written += bytes(buffer.touched[true]);
  }
  return traffic;
}

void count_access(const void* p, unsigned bytes, bool is_store, const void* pc) {
  if (!c.is_on) return;
  if (blockIdx.x != c.block.x || blockIdx.y != c.block.y || blockIdx.z != c.block.z) {
    finish_block();
    c.block = blockIdx;
    c.dynamic_begin = reinterpret_cast<Address>(dynamic_shared_memory());
  }
  const Address at = reinterpret_cast<Address>(p);
  const Place place = place_of(at);
  if (place == Place::kNone) return;
  Instruction& instruction = instruction_at(pc, place, is_store, bytes);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned number = thread / kLanes, lane = thread % kLanes;
  if (instruction.warps.size() <= number) instruction.warps.resize(number + 1);
  Pending& warp = instruction.warps[number];
  const std::size_t turn = warp.come[lane]++ - warp.first;
  if (warp.accesses.size() <= turn) warp.accesses.resize(turn + 1);
  Execution& access = warp.accesses[turn];
  access.mask |= 1u << lane;
  access.at[lane] = at;
  const unsigned absent = number * kLanes + kLanes > threads ? kLanes - threads % kLanes : 0;
  if (access.mask != ~0u >> absent) return;
  finish(instruction, access);
  access.mask = 0;
  // Each lane that came to this access came to the earlier ones, so they are finished, too.
  if (turn + 1 == warp.accesses.size()) {
    warp.first += warp.accesses.size();
    warp.accesses.clear();
  }
}

}  // namespace coh

// Called by instrumented code before each load and store.
extern "C" {
void __sanitizer_cov_load1(std::uint8_t* p) {
  coh::count_access(p, 1, false, __builtin_return_address(0));
}
void __sanitizer_cov_load2(std::uint16_t* p) {
  coh::count_access(p, 2, false, __builtin_return_address(0));
}
void __sanitizer_cov_load4(std::uint32_t* p) {
  coh::count_access(p, 4, false, __builtin_return_address(0));
}
void __sanitizer_cov_load8(std::uint64_t* p) {
  coh::count_access(p, 8, false, __builtin_return_address(0));
}
void __sanitizer_cov_load16(unsigned __int128* p) {
  coh::count_access(p, 16, false, __builtin_return_address(0));
}
void __sanitizer_cov_store1(std::uint8_t* p) {
  coh::count_access(p, 1, true, __builtin_return_address(0));
}
void __sanitizer_cov_store2(std::uint16_t* p) {
  coh::count_access(p, 2, true, __builtin_return_address(0));
}
void __sanitizer_cov_store4(std::uint32_t* p) {
  coh::count_access(p, 4, true, __builtin_return_address(0));
}
void __sanitizer_cov_store8(std::uint64_t* p) {
  coh::count_access(p, 8, true, __builtin_return_address(0));
}
void __sanitizer_cov_store16(unsigned __int128* p) {
  coh::count_access(p, 16, true, __builtin_return_address(0));
}
}
