#include "dist/internal/tcp_engine.h"

#include <cstring>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "dist/internal/socket.h"

namespace tapegrad::dist {
namespace {

constexpr double kHelloSeconds = 5;  // within which a new connection must identify itself
constexpr double kGraceSeconds = 2;  // within which rank 0 reports the timeout to the others

/// Message of a rank to rank 0.
struct Hello {
  char magic[8] = {'t', 'a', 'p', 'e', 'd', 'i', 's', 't'};
  int32_t version = kEngineVersion;
  int32_t size = 0, rank = 0;
  int32_t port = 0;  // at which it listens

  bool is_ours() const { return std::memcmp(magic, Hello().magic, sizeof magic) == 0; }
};

/// Message of a rank other than 0 to a lower rank.
struct Greeting {
  uint64_t run = 0;  // drawn by rank 0
  int32_t rank = 0;
};

/// Answer of rank 0: an error, or the addresses of all ranks.
enum class Answer : int32_t { kAddresses, kArgumentError, kTimeoutError };

void send_answer(const Socket& to, Answer kind, const std::string& text) {
  const Deadline deadline = Deadline::in(kGraceSeconds);
  const uint64_t length = text.size();
  to.send_all(&kind, sizeof kind, deadline);
  to.send_all(&length, sizeof length, deadline);
  to.send_all(text.data(), text.size(), deadline);
}

[[noreturn]] void throw_as(Answer kind, const std::string& text) {
  if (kind == Answer::kTimeoutError) throw TimeoutError(text);
  throw ArgumentError(text);
}

/// Sends an error to all connected ranks, and throws it.
[[noreturn]] void refuse(const std::vector<Socket>& ranks, Answer kind, const std::string& text) {
  for (const Socket& rank : ranks) {
    if (!rank) continue;
    try {
      send_answer(rank, kind, text);
    } catch (const Error&) {  // that rank has disconnected
    }
  }
  throw_as(kind, text);
}

/// For rank 0: waits for the other ranks and sends them all addresses. Returns a connection to
/// each.
std::vector<Socket> introduce(const Rendezvous& place, double timeout) {
  const Deadline deadline = Deadline::in(timeout);
  const Socket door = Socket::listen(place.address, place.port);
  std::vector<Socket> ranks(static_cast<size_t>(place.size));
  std::string addresses = std::to_string(std::random_device()() * uint64_t(0x9e3779b97f4a7c15));
  std::vector<std::string> lines(static_cast<size_t>(place.size), "-");
  for (int missing = place.size - 1; missing > 0;) {
    Socket next = door.accept(deadline);
    if (!next) {
      std::vector<int> absent;
      for (int r = 1; r < place.size; ++r)
        if (!ranks[size_t(r)]) absent.push_back(r);
      refuse(
          ranks, Answer::kTimeoutError,
          absl::StrCat("dist::init: rank 0 of ", place.size, " at ", place.address, ":", place.port,
                       " has waited for ", timeout, " s; missing: ", absl::StrJoin(absent, ", ")));
    }
    Hello hello;
    try {
      next.receive_all(&hello, sizeof hello, Deadline::in(kHelloSeconds));
    } catch (const Error&) {
      continue;  // an unknown peer, or a rank that has disconnected
    }
    if (!hello.is_ours()) continue;
    std::string error;
    if (hello.version != kEngineVersion)
      error = absl::StrCat("rank ", hello.rank, " has another version of tapegrad");
    else if (hello.size != place.size)
      error =
          absl::StrCat("rank ", hello.rank, " expects ", hello.size, " ranks, rank 0 ", place.size);
    else if (hello.rank <= 0 || hello.rank >= place.size || ranks[size_t(hello.rank)])
      error = absl::StrCat("two processes are rank ", hello.rank);
    if (!error.empty()) {
      ranks.push_back(std::move(next));
      refuse(ranks, Answer::kArgumentError, "dist::init: " + error);
    }
    lines[size_t(hello.rank)] = absl::StrCat(next.peer_address().first, " ", hello.port);
    ranks[size_t(hello.rank)] = std::move(next);
    --missing;
  }
  for (const std::string& line : lines) absl::StrAppend(&addresses, "\n", line);
  for (int r = 1; r < place.size; ++r) send_answer(ranks[size_t(r)], Answer::kAddresses, addresses);
  return ranks;
}

/// For the other ranks: connects to all lower ranks.
std::vector<Socket> join(const Rendezvous& place, double timeout) {
  const Deadline deadline = Deadline::in(timeout + kGraceSeconds);
  std::vector<Socket> ranks(static_cast<size_t>(place.size));
  ranks[0] = Socket::connect(place.address, place.port, Deadline::in(timeout));
  const Socket door = Socket::listen(ranks[0].own_address().first, 0);
  Hello hello;
  hello.size = place.size;
  hello.rank = place.rank;
  hello.port = door.own_address().second;
  Answer kind{};
  uint64_t length = 0;
  std::string text;
  try {
    ranks[0].send_all(&hello, sizeof hello, deadline);
    ranks[0].receive_all(&kind, sizeof kind, deadline);
    ranks[0].receive_all(&length, sizeof length, deadline);
    text.resize(length);
    ranks[0].receive_all(text.data(), length, deadline);
  } catch (const Error& error) {
    fail<TimeoutError>("dist::init: rank ", place.rank, " of ", place.size, ": rank 0 at ",
                       place.address, ":", place.port, " has not answered: ", error.message());
  }
  if (kind != Answer::kAddresses) throw_as(kind, text);
  std::istringstream lines(text);
  Greeting own{.rank = place.rank};
  std::string none, host;
  int port = 0;
  lines >> own.run >> none;
  for (int r = 1; r < place.rank; ++r) {
    lines >> host >> port;
    ranks[size_t(r)] = Socket::connect(host, port, deadline);
    ranks[size_t(r)].send_all(&own, sizeof own, deadline);
  }
  for (int missing = place.size - 1 - place.rank; missing > 0;) {
    Socket next = door.accept(deadline);
    if (!next)
      fail<TimeoutError>("dist::init: rank ", place.rank, " of ", place.size, ": ", missing,
                         " higher ranks have not connected");
    Greeting other;
    try {
      next.receive_all(&other, sizeof other, Deadline::in(kHelloSeconds));
    } catch (const Error&) {
      continue;
    }
    if (other.run != own.run || other.rank <= place.rank || other.rank >= place.size) continue;
    ranks[size_t(other.rank)] = std::move(next);
    --missing;
  }
  return ranks;
}

/// Connections to all ranks but this one.
struct Mesh {
  std::vector<Socket> ranks;
};

class TcpEngine final : public Engine {
 public:
  TcpEngine(std::shared_ptr<Mesh> mesh, std::vector<int> members, int rank)
      : mesh_(std::move(mesh)), members_(std::move(members)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return int(members_.size()); }

  void exchange(const Header& own, std::span<Header> all, std::span<char> arrived,
                Waiting& waiting) override {
    std::vector<Transfer> transfers = each_other([&](int r) {
      return Transfer{bytes_of(&own), sizeof own, bytes_of(&all[size_t(r)]), sizeof own};
    });
    all[size_t(rank_)] = own;
    arrived[size_t(rank_)] = 1;
    move(transfers, waiting, [&](size_t r) { arrived[r] = 1; });
  }
  void all_to_all(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override {
    std::vector<Transfer> transfers = each_other([&](int r) {
      return Transfer{in + size_t(r) * bytes, bytes, out + size_t(r) * bytes, bytes};
    });
    copy(out + size_t(rank_) * bytes, in + size_t(rank_) * bytes, bytes);
    move(transfers, waiting);
  }
  void all_gather(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override {
    std::vector<Transfer> transfers = each_other([&](int r) {
      return Transfer{in, bytes, out + size_t(r) * bytes, bytes};
    });
    copy(out + size_t(rank_) * bytes, in, bytes);
    move(transfers, waiting);
  }
  void broadcast(std::byte* data, size_t bytes, int root, Waiting& waiting) override {
    std::vector<Transfer> transfers = each_other([&](int r) {
      return Transfer{data, rank_ == root ? bytes : 0, data, r == root ? bytes : 0};
    });
    move(transfers, waiting);
  }
  std::unique_ptr<Engine> split(std::span<const int> members, Waiting&) override {
    std::vector<int> ranks;
    int own = 0;
    for (const int r : members) {
      if (r == rank_) own = int(ranks.size());
      ranks.push_back(members_[size_t(r)]);
    }
    return std::make_unique<TcpEngine>(mesh_, std::move(ranks), own);
  }

  bool ends_processes() const override { return true; }
  void abort(int) override { mesh_->ranks.clear(); }  // which the others see
  void finalize() override { mesh_->ranks.clear(); }

 private:
  struct Transfer {
    const std::byte* out;
    size_t to_send;
    std::byte* in;
    size_t to_receive;
  };

  static std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }
  static const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }
  static void copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memmove(to, from, bytes);
  }

  /// One for each rank, empty for this one.
  template <typename Make>
  std::vector<Transfer> each_other(Make make) const {
    std::vector<Transfer> all;
    for (int r = 0; r < size(); ++r)
      all.push_back(r == rank_ ? Transfer{nullptr, 0, nullptr, 0} : make(r));
    return all;
  }

  /// Moves the bytes. Calls arrived(r) when all bytes of rank r have arrived.
  template <typename Arrived>
  void move(std::vector<Transfer>& transfers, Waiting& waiting, Arrived arrived) {
    for (bool is_open = true; is_open;) {
      is_open = false;
      bool has_moved = false;
      for (size_t i = 1; i < transfers.size(); ++i) {
        const size_t r = (size_t(rank_) + i) % transfers.size();  // not all to rank 0 first
        Transfer& each = transfers[r];
        if (each.to_send == 0 && each.to_receive == 0) continue;
        const size_t before = each.to_receive;
        has_moved |= move_some(members_[r], each);
        if (before > 0 && each.to_receive == 0) arrived(r);
        is_open |= each.to_send > 0 || each.to_receive > 0;
      }
      if (is_open && !has_moved) waiting.pause();
    }
  }
  void move(std::vector<Transfer>& transfers, Waiting& waiting) {
    move(transfers, waiting, [](size_t) {});
  }
  bool move_some(int rank, Transfer& each) const {
    const Socket& socket = mesh_->ranks[size_t(rank)];
    try {
      const size_t sent = each.to_send > 0 ? socket.send_some(each.out, each.to_send) : 0;
      each.out += sent;
      each.to_send -= sent;
      const size_t received =
          each.to_receive > 0 ? socket.receive_some(each.in, each.to_receive) : 0;
      each.in += received;
      each.to_receive -= received;
      return sent + received > 0;
    } catch (const PeerError& error) {
      fail<PeerError>("rank ", rank, ": ", error.message());
    }
  }

  std::shared_ptr<Mesh> mesh_;
  std::vector<int> members_;  // numbers among all ranks
  int rank_;
};

}  // namespace

std::unique_ptr<Engine> make_tcp_engine(const Rendezvous& place, double timeout) {
  if (place.size < 1 || place.rank < 0 || place.rank >= place.size)
    fail<ArgumentError>("dist::init: rank ", place.rank, " of ", place.size);
  if (place.port < 1 || place.port > 65535)
    fail<ArgumentError>("dist::init: the port ", place.port, " is not from 1 to 65535");
  auto mesh = std::make_shared<Mesh>();
  mesh->ranks = place.rank == 0 ? introduce(place, timeout) : join(place, timeout);
  std::vector<int> members;
  for (int r = 0; r < place.size; ++r) members.push_back(r);
  return std::make_unique<TcpEngine>(std::move(mesh), std::move(members), place.rank);
}

}  // namespace tapegrad::dist
