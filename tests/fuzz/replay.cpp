// Runs a fuzz target without libFuzzer, with reproducible inputs:
//
//   fuzz_idx_replay <changed inputs to run> <files and folders>...
//   fuzz_tape_replay <random inputs to run>
//
// First the files unchanged, then mutations: bytes set, removed, copied and inserted. Without
// files, every input is random bytes. After a crash it prints the number of the input.
// --minutes=N runs inputs for N minutes, --from=K starts with input K.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> read_corpus(int count, char** paths) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i]))
      files.emplace_back(paths[i]);
    else
      for (const auto& entry : std::filesystem::directory_iterator(paths[i]))
        files.push_back(entry);
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

/// A uniform distribution that is equal in all standard libraries, unlike
/// std::uniform_int_distribution.
class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  size_t below(size_t count) { return count == 0 ? 0 : size_t(bits_() % count); }

 private:
  std::mt19937_64 bits_;
};

void change(Bytes& bytes, const std::vector<Bytes>& corpus, Random& random) {
  const size_t at = random.below(bytes.size() + 1), length = random.below(16);
  const auto begin = bytes.begin() + std::ptrdiff_t(at);
  const auto end = bytes.begin() + std::ptrdiff_t(std::min(at + length, bytes.size()));
  switch (random.below(7)) {
    case 0:
      if (begin != end) *begin = uint8_t(random.below(256));
      break;
    case 1:
      if (begin != end) *begin ^= uint8_t(1 << random.below(8));
      break;
    case 2:
      bytes.erase(begin, end);
      break;
    case 3: {
      const Bytes copy(begin, end);
      const size_t to = random.below(bytes.size() + 1);
      bytes.insert(bytes.begin() + std::ptrdiff_t(to), copy.begin(), copy.end());
      break;
    }
    case 4:
      for (auto byte = begin; byte != end; ++byte) *byte = uint8_t(random.below(256));
      break;
    case 5:
      std::fill(begin, end, uint8_t(random.below(2) * 255));
      break;
    case 6: {
      const Bytes& other = corpus[random.below(corpus.size())];
      const size_t from = random.below(other.size());
      bytes.resize(at);
      bytes.insert(bytes.end(), other.begin() + std::ptrdiff_t(from), other.end());
      break;
    }
  }
}

/// Number of the current input; files have negative numbers.
volatile int running = 0;

void say_which(int signal) {
  std::fprintf(stderr, "with %s %d\n", running < 0 ? "file" : "change",
               running < 0 ? ~running : running);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Returns N of an argument `--name=N`, or -1.
int option(std::string_view argument, std::string_view name) {
  if (!argument.starts_with("--") || !argument.substr(2).starts_with(name)) return -1;
  return std::atoi(argument.substr(3 + name.size()).data());
}

}  // namespace

int main(int argc, char** argv) {
  int minutes = 0, from = 0, first = 1;
  for (; first < argc && argv[first][0] == '-'; ++first) {
    const int m = option(argv[first], "minutes"), k = option(argv[first], "from");
    if (m >= 0) minutes = m;
    if (k >= 0) from = k;
  }
  if (first >= argc) {
    std::cerr << "usage: " << argv[0]
              << " [--minutes=N] [--from=K] <count> <files and folders>...\n";
    return 2;
  }
  const std::vector<Bytes> corpus = read_corpus(argc - first - 1, argv + first + 1);
  if (corpus.empty() && argc > first + 1) {
    std::cerr << "the corpus is empty\n";
    return 1;
  }
  for (int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, say_which);
  for (size_t i = 0; i < corpus.size() && from == 0; ++i) {
    running = ~int(i);
    LLVMFuzzerTestOneInput(corpus[i].data(), corpus[i].size());
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(minutes);
  const int count = std::atoi(argv[first]);
  int i = from;
  for (; i - from < count || (minutes > 0 && std::chrono::steady_clock::now() < end); ++i) {
    running = i;
    Random random{uint64_t(i)};
    Bytes bytes;
    if (corpus.empty()) {
      bytes.resize(16 + random.below(600));
      for (uint8_t& byte : bytes) byte = uint8_t(random.below(256));
    } else {
      bytes = corpus[random.below(corpus.size())];
      for (size_t changes = 1 + random.below(4); changes > 0; --changes)
        change(bytes, corpus, random);
    }
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cout << corpus.size() << " files and " << i - from
            << (corpus.empty() ? " random inputs" : " changes of them") << ": no finding\n";
}
