// TCP sockets with deadlines, for dist/internal/tcp_engine.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace tapegrad::dist {

/// A time of the steady clock, in seconds.
struct Deadline {
  double end;

  static Deadline in(double seconds);
  double left() const;  // remaining seconds, 0 if it has passed
  bool has_passed() const { return left() <= 0; }
};

/// A socket that never blocks. Functions that wait throw TimeoutError at the deadline, and
/// PeerError if the other side has closed the connection.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  /// Listens on a port of a host's addresses, or on any free port of the address if port is 0. If
  /// the address does not belong to this machine, listens on all addresses of the machine. Throws
  /// Error.
  static Socket listen(const std::string& host, int port);
  /// Connects; tries again until the deadline, because the other process may not have started.
  /// Throws TimeoutError with the last error.
  static Socket connect(const std::string& host, int port, const Deadline& deadline);
  /// Returns the next connection, or an empty socket at the deadline.
  Socket accept(const Deadline& deadline) const;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();
  /// Return the numeric address and the port of this side and of the other side.
  std::pair<std::string, int> own_address() const;
  std::pair<std::string, int> peer_address() const;

  void send_all(const void* data, size_t bytes, const Deadline& deadline) const;
  void receive_all(void* data, size_t bytes, const Deadline& deadline) const;

  /// Send or receive as many bytes as possible without waiting; return the number of bytes. Throw
  /// PeerError if the connection has ended.
  size_t send_some(const void* data, size_t bytes) const;
  size_t receive_some(void* data, size_t bytes) const;

 private:
  int fd_ = -1;
};

}  // namespace tapegrad::dist
