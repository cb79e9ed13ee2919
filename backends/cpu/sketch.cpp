// Sketches of results: threads share the tensor in chunks of a fixed size, so a sketch does not
// depend on their number.
#include "ops/sketch.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/pieces.h"
#include "backends/joint_layout.h"
#include "ops/internal/sketch_signs.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kSketchTile = kSketchRows * kSketchLanes;
constexpr int64_t kSketchChunk = 16 * kSketchTile;

// g++ warns that vectors of 64 bytes are passed differently with and without AVX-512. All functions
// that take them are local to this file.
#pragma GCC diagnostic ignored "-Wpsabi"

// A lane adds the same values in the same order for registers of each size.
constexpr int kRegister = XSIMD_WITH_AVX512F ? 64 : 32;  // bytes
using WordRegister [[gnu::vector_size(kRegister)]] = uint32_t;
using FloatRegister [[gnu::vector_size(kRegister)]] = float;
using DoubleRegister [[gnu::vector_size(kRegister)]] = double;
using HalfFloats [[gnu::vector_size(kRegister / 2)]] = float;
/// Number of registers for `lanes` values of a type.
template <typename T>
constexpr int registers(int lanes) {
  return lanes * int(sizeof(T)) / kRegister;
}
constexpr int64_t kRound =
    kSketchLanes * int64_t(sizeof(uint32_t));  // bytes of a round of the hash

template <typename Vector>
Vector load_register(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

/// Returns a register of words. With AVX-512, the register is used for all that follows: g++ would
/// read the memory for each use, and a Zen 4 reads only 64 bytes per cycle.
inline WordRegister load_words(const std::byte* from) {
  auto words = load_register<WordRegister>(from);
#if XSIMD_WITH_AVX512F
  asm("" : "+v"(words));
#endif
  return words;
}

inline DoubleRegister widen_floats(const float* from) {
#if XSIMD_WITH_AVX512F  // g++ 12 converts halves and joins them
  return std::bit_cast<DoubleRegister>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(from)));
#else
  return __builtin_convertvector(load_register<HalfFloats>(from), DoubleRegister);
#endif
}

/// Returns a * b + c, where the product is exact. The library is compiled without contraction to
/// fused operations, which would change results with inexact products.
inline DoubleRegister add_exact_product(DoubleRegister a, DoubleRegister b, DoubleRegister c) {
#if XSIMD_WITH_AVX512F
  return std::bit_cast<DoubleRegister>(_mm512_fmadd_pd(
      std::bit_cast<__m512d>(a), std::bit_cast<__m512d>(b), std::bit_cast<__m512d>(c)));
#elif defined(__FMA__)
  return std::bit_cast<DoubleRegister>(_mm256_fmadd_pd(
      std::bit_cast<__m256d>(a), std::bit_cast<__m256d>(b), std::bit_cast<__m256d>(c)));
#else
  return a * b + c;
#endif
}

/// Halves of two registers of words, a and b: `first` has the lower halves of a and the upper
/// halves of b, `second` has the upper halves of a (as lower halves) and the lower halves of b.
struct WordHalves {
  WordRegister first, second;

  WordHalves(WordRegister a, WordRegister b) : first(blend(a, b)), second(swap(a, b)) {}

 private:
  static WordRegister blend(WordRegister a, WordRegister b) {
#if defined(__AVX512BW__) && XSIMD_WITH_AVX512F
    return std::bit_cast<WordRegister>(
        _mm512_mask_blend_epi16(0xAAAAAAAA, std::bit_cast<__m512i>(a), std::bit_cast<__m512i>(b)));
#elif defined(__AVX2__)
    return std::bit_cast<WordRegister>(
        _mm256_blend_epi16(std::bit_cast<__m256i>(a), std::bit_cast<__m256i>(b), 0xAA));
#else
    return (a & 0xFFFF) | (b & 0xFFFF0000);
#endif
  }
  static WordRegister swap(WordRegister a, WordRegister b) {
#if defined(__AVX512VBMI2__) && XSIMD_WITH_AVX512F
    return std::bit_cast<WordRegister>(
        _mm512_shldi_epi32(std::bit_cast<__m512i>(b), std::bit_cast<__m512i>(a), 16));
#else
    return b << 16 | a >> 16;
#endif
  }
};

/// Adds the product of the lower halves and that of the upper halves, as signed numbers, of a and
/// b.
inline WordRegister add_half_products(WordRegister sum, WordRegister a, WordRegister b) {
#if defined(__AVX512VNNI__) && XSIMD_WITH_AVX512F
  return std::bit_cast<WordRegister>(_mm512_dpwssd_epi32(
      std::bit_cast<__m512i>(sum), std::bit_cast<__m512i>(a), std::bit_cast<__m512i>(b)));
#elif defined(__AVX512BW__) && XSIMD_WITH_AVX512F
  return sum + std::bit_cast<WordRegister>(
                   _mm512_madd_epi16(std::bit_cast<__m512i>(a), std::bit_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return sum + std::bit_cast<WordRegister>(
                   _mm256_madd_epi16(std::bit_cast<__m256i>(a), std::bit_cast<__m256i>(b)));
#else
  using Signed [[gnu::vector_size(kRegister)]] = int32_t;
  const auto upper = [](WordRegister w) { return std::bit_cast<Signed>(w) >> 16; };
  return sum + std::bit_cast<WordRegister>(upper(a) * upper(b) + upper(a << 16) * upper(b << 16));
#endif
}

/// Returns a bijection of each lane for given words, and of each word for a given lane.
inline WordRegister mix(WordRegister lanes, WordRegister words) {
  const WordRegister mixed = (lanes ^ words) * 0x9E3779B1;
  return mixed ^ (mixed >> 15);
}

template <typename Number, typename Make>
constexpr auto per_lane(const Make& make) {
  std::array<Number, kSketchLanes> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = Number(make(int64_t(i)));
  return values;
}
constexpr auto kFirstWords = per_lane<uint32_t>([](int64_t i) { return mix_bits(uint64_t(i)); });
constexpr std::array kLaneSigns = {
    per_lane<double>([](int64_t lane) { return sketch_lane_sign(0, lane); }),
    per_lane<double>([](int64_t lane) { return sketch_lane_sign(1, lane); })};
/// Signs of the words and of their products, which have half as many lanes: both words of a product
/// have its sign.
constexpr auto kProductSigns = [] {
  std::array<uint32_t, kSketchLanes / 2> signs{};
  for (size_t i = 0; i < signs.size(); ++i)
    signs[i] = uint32_t(int32_t(sketch_lane_sign(0, int64_t(i))));
  return signs;
}();
constexpr auto kWordSigns = per_lane<uint32_t>(
    [](int64_t lane) { return kProductSigns[size_t(lane / 32 * 16 + lane % 16)]; });
/// Factors of the rounds in the order of a hash. Both halves of a factor are odd.
constexpr auto kRoundFactors = [] {
  std::array<uint32_t, kSketchRows> factors{};
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = uint32_t(mix_bits(i)) | 0x10001;
  return factors;
}();

/// Hash of rounds of 64 words, which form blocks of kSketchRows rounds. `sums` adds the words of
/// each lane, so one changed word always changes the hash. `orders` has 16 lanes and depends on the
/// order of the rounds, because it multiplies the words of each round by a factor. `products` adds
/// the products of the halves of the words.
struct Hash {
  static constexpr int kSums = registers<uint32_t>(64), kOrders = kSums / 4;
  WordRegister sums[kSums] = {}, products[kSums / 2] = {}, orders[kOrders] = {};

  /// Adds the round with the number `round` of its block, and returns the words.
  [[gnu::always_inline]] std::array<WordRegister, kSums> add(const std::byte* bytes, size_t round) {
    std::array<WordRegister, kSums> words;
    unrolled<kSums>([&](auto i) {
      words[i] = load_words(bytes + i * kRegister);
      sums[i] += words[i];
    });
    unrolled<kOrders>([&](auto i) {
      const WordRegister a = words[i], b = words[i + kOrders];
      const WordHalves ab(a, b), cd(words[i + 2 * kOrders], words[i + 3 * kOrders]);
      products[i] = add_half_products(products[i], ab.first, ab.second);
      products[i + kOrders] = add_half_products(products[i + kOrders], cd.first, cd.second);
      // The halves of cd, because the words would cancel in rounds of equal words.
      orders[i] = add_half_products(orders[i], a ^ b ^ cd.first ^ cd.second,
                                    WordRegister{} + kRoundFactors[round]);
    });
    return words;
  }
  void end_block() {
    for (int i = 0; i < kOrders; ++i) orders[i] = mix(orders[i], sums[i]);
  }
  uint64_t value() const {
    std::array<uint64_t, 8> words;
    for (int i = 0; i < kOrders; ++i) {
      WordRegister all =
          mix(load_register<WordRegister>(&kFirstWords[size_t(i * kRegister / 4)]), orders[i]);
      for (int k = 0; k < 4; ++k) all = mix(all, sums[i + k * kOrders]);
      std::memcpy(&words[size_t(i * kRegister / 8)], &all, sizeof all);
    }
    uint64_t hash = 0;  // a sum of bijections
    for (const uint64_t word : words) hash += mix_bits(word);
    return hash;
  }
};

/// Returns the sum of all lanes, each with its sign.
template <size_t kLanes>
uint32_t signed_sum(const WordRegister* registers, const std::array<uint32_t, kLanes>& signs) {
  std::array<uint32_t, kLanes> lanes;
  std::memcpy(lanes.data(), registers, sizeof lanes);
  uint32_t sum = 0;
  for (size_t i = 0; i < kLanes; ++i) sum += lanes[i] * signs[i];
  return sum;
}

/// Sums of the lanes of a chunk, and 16 sums of squares.
struct SketchSums {
  static constexpr int kLanes = registers<double>(kSketchLanes), kSquares = registers<double>(16);
  DoubleRegister lanes[kLanes] = {}, squares[kSquares] = {};
};

/// Signed sums of the rows of a tile, by lane; Vector is FloatRegister or DoubleRegister.
template <typename Vector>
struct TileLanes {
  using Number = std::remove_cvref_t<decltype(Vector()[0])>;
  static constexpr int kVectors = registers<Number>(kSketchLanes);
  static constexpr int64_t kWidth = kRegister / sizeof(Number);
  Vector lanes[kVectors] = {};

  [[gnu::always_inline]] void add(size_t row, const std::array<Vector, kVectors>& x) {
    // A fused multiplication by the sign would compete with the hash for the multipliers.
    if (sketch_row_sign(int64_t(row)) > 0)
      unrolled<kVectors>([&](auto i) { lanes[i] += x[i]; });
    else
      unrolled<kVectors>([&](auto i) { lanes[i] -= x[i]; });
  }
  [[gnu::always_inline]] void add(size_t row, const Number* x) {
    std::array<Vector, kVectors> vectors;
    std::memcpy(vectors.data(), x, sizeof vectors);
    add(row, vectors);
  }
  [[gnu::always_inline]] void add_to(SketchSums& sums, double sign) const {
    alignas(64) Number values[kSketchLanes];
    std::memcpy(values, lanes, sizeof values);
    unrolled<SketchSums::kLanes>([&](auto i) {
      const Number* from = values + i * (kRegister / int64_t(sizeof(double)));
      DoubleRegister &lane = sums.lanes[i], &square = sums.squares[i % SketchSums::kSquares];
      if constexpr (std::is_same_v<Number, float>) {
        const DoubleRegister wide = widen_floats(from);
        lane = add_exact_product(wide, DoubleRegister{} + sign, lane);
        square = add_exact_product(wide, wide, square);
      } else {
        const auto wide = load_register<DoubleRegister>(from);
        lane += wide * sign;
        square += wide * wide;
      }
    });
  }
};

/// Sketch of a chunk.
struct ChunkSketch {
  uint64_t hash = 0;
  double sums[2] = {0, 0}, squares = 0;
  uint32_t words = 0, products = 0;
};

ChunkSketch part_of(const Hash& hash, const SketchSums& sums) {
  ChunkSketch part;
  part.hash = hash.value();
  part.words = signed_sum(hash.sums, kWordSigns);
  part.products = signed_sum(hash.products, kProductSigns);
  constexpr int kEight = registers<double>(8);
  for (size_t k = 0; k < 2; ++k) {
    DoubleRegister eight[kEight] = {};
    for (int i = 0; i < SketchSums::kLanes; ++i)
      eight[i % kEight] +=
          sums.lanes[i] * load_register<DoubleRegister>(&kLaneSigns[k][size_t(i * kRegister / 8)]);
    double lanes[8];
    std::memcpy(lanes, eight, sizeof lanes);
    for (const double lane : lanes) part.sums[k] += lane;
  }
  double squares[16];
  std::memcpy(squares, sums.squares, sizeof squares);
  for (const double lane : squares) part.squares += lane;
  return part;
}

/// Elements of a chunk, contiguous in row-major order.
struct SketchedChunk {
  const std::byte* data;
  int64_t count, first_tile;  // number of elements; index of the first tile in the tensor
};

/// Type of elements of any tensor.
struct SketchedType {
  int64_t bytes;
  void (*convert)(const std::byte* from, int64_t count, void* to);  // to Number<T>
};

/// The type in which elements are summed: float for halves and floats, else double.
template <typename T>
using Number = std::conditional_t<kIsHalf<T> || std::is_same_v<T, float>, float, double>;

ChunkSketch sketch_floats(const SketchedChunk& chunk, const SketchedType&) {
  Hash hash;
  SketchSums sums;
  using Row = std::array<FloatRegister, registers<float>(kSketchLanes)>;
  const auto add = [&](auto& tile, size_t row, const float* from) __attribute__((always_inline)) {
    tile.add(row, std::bit_cast<Row>(hash.add(reinterpret_cast<const std::byte*>(from), row)));
  };
  const auto* x = reinterpret_cast<const float*>(chunk.data);
  int64_t tile_index = chunk.first_tile;
  for (int64_t left = chunk.count; left > 0; left -= kSketchTile) {
    TileLanes<FloatRegister> tile;
    const auto rows = size_t(std::min(left, kSketchTile) / kSketchLanes);
    for (size_t row = 0; row < rows; ++row, x += kSketchLanes) add(tile, row, x);
    if (left < kSketchTile && left % kSketchLanes > 0) {
      float last[kSketchLanes] = {};
      std::memcpy(last, x, size_t(left % kSketchLanes) * sizeof(float));
      add(tile, rows, last);
    }
    hash.end_block();
    tile.add_to(sums, sketch_tile_sign(tile_index++));
  }
  return part_of(hash, sums);
}

/// Sketches elements that are converted to `Value` for the sums, in vectors of type Vector.
template <typename Value, typename Vector>
ChunkSketch sketch_others(const SketchedChunk& chunk, const SketchedType& type) {
  Hash hash;
  SketchSums sums;
  for (int64_t at = 0; at < chunk.count; at += kSketchTile) {
    const int64_t count = std::min(kSketchTile, chunk.count - at),
                  rows = (count + kSketchLanes - 1) / kSketchLanes;
    alignas(64) Value values[kSketchTile];
    type.convert(chunk.data + at * type.bytes, count, values);
    std::fill(values + count, values + rows * kSketchLanes, Value(0));
    TileLanes<Vector> tile;
    for (int64_t row = 0; row < rows; ++row) tile.add(size_t(row), values + row * kSketchLanes);
    tile.add_to(sums, sketch_tile_sign(chunk.first_tile + at / kSketchTile));
  }
  constexpr int64_t kBlock = kSketchRows * kRound;
  const std::byte* bytes = chunk.data;
  for (int64_t left = chunk.count * type.bytes; left > 0; left -= kBlock, bytes += kBlock) {
    const auto rounds = size_t(std::min(left, kBlock) / kRound);
    for (size_t i = 0; i < rounds; ++i) hash.add(bytes + int64_t(i) * kRound, i);
    if (left < kBlock && left % kRound > 0) {
      std::byte last[kRound] = {};
      std::memcpy(last, bytes + int64_t(rounds) * kRound, size_t(left % kRound));
      hash.add(last, rounds);
    }
    hash.end_block();
  }
  return part_of(hash, sums);
}

/// Calls f(i) for i from n - 1 to 0: a kernel has left the end of its result in the cache, and the
/// next one begins to read at the front. Threads share the calls.
template <typename F>
void for_each_from_the_end(int64_t n, const F& f) {
  if (n == 1 || omp_get_max_threads() == 1) {  // a region of OpenMP would cost 0.3 us
    while (n-- > 0) f(n);
    return;
  }
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();
    for (int64_t i = n * (thread + 1) / threads; i-- > n * thread / threads;) f(i);
  }
}

using SketchChunk = ChunkSketch (*)(const SketchedChunk& chunk, const SketchedType& type);

void sketch(const Tensor& x, const std::byte* data, const SketchedType& type,
            SketchChunk sketch_chunk, ResultSketch& result) {
  JointLayout<1> layout;
  const bool is_contiguous = x.is_contiguous();
  if (!is_contiguous)
    for (int dim = 0; dim < x.rank(); ++dim) layout.add_dim(x.shape()[dim], {x.strides()[dim]});
  const int64_t count = x.numel(), chunks = (count + kSketchChunk - 1) / kSketchChunk;
  ChunkSketch alone;
  std::vector<ChunkSketch> several(size_t(chunks > 1 ? chunks : 0));
  ChunkSketch* parts = chunks > 1 ? several.data() : &alone;
  for_each_from_the_end(chunks, [&](int64_t i) {
    const int64_t begin = i * kSketchChunk;
    SketchedChunk chunk{data + begin * type.bytes, std::min(count - begin, kSketchChunk),
                        begin / kSketchTile};
    std::unique_ptr<std::byte[]> gathered;
    if (!is_contiguous) {
      gathered = std::make_unique_for_overwrite<std::byte[]>(size_t(chunk.count * type.bytes));
      gather(gathered.get(), data, type.bytes, layout.sizes.data(), layout.strides[0].data(),
             layout.rank, begin, chunk.count);
      chunk.data = gathered.get();
    }
    parts[i] = sketch_chunk(chunk, type);
  });
  result = {.hash = uint64_t(count)};
  double squares = 0;
  uint32_t words = 0, products = 0;
  for (const ChunkSketch* part = parts; part != parts + chunks; ++part) {
    result.hash = mix_bits(result.hash ^ part->hash);
    for (int k = 0; k < 2; ++k) result.sums[k] += part->sums[k];
    squares += part->squares;
    words += part->words;
    products += part->products;
  }
  result.norm = std::sqrt(squares);
  result.words = int32_t(words);
  result.products = int32_t(products);
}

template <typename T>
void sketch(const Tensor& x, ResultSketch& result) {
  SketchedType type{sizeof(T), nullptr};
  SketchChunk sketch_chunk = sketch_floats;
  if constexpr (!std::is_same_v<T, float>) {
    type.convert = [](const std::byte* from, int64_t n, void* to) {
      for (int64_t i = 0; i < n; ++i)
        static_cast<Number<T>*>(to)[i] = Number<T>(Compute<T>(reinterpret_cast<const T*>(from)[i]));
    };
    constexpr bool kIsNarrow = std::is_same_v<Number<T>, float>;
    sketch_chunk =
        sketch_others<Number<T>, std::conditional_t<kIsNarrow, FloatRegister, DoubleRegister>>;
  }
  sketch(x, reinterpret_cast<const std::byte*>(x.data<T>()), type, sketch_chunk, result);
}

}  // namespace

void register_sketch() {
  set<kernels::sketch>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { sketch<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
