#include "dist/internal/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"

#include "core/base/internal/clock.h"
#include "dist/communicator.h"
#include "dist/internal/connection.h"

namespace tapegrad::dist {
namespace {

std::string text_of(int error) { return std::strerror(error); }

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Throws Error if there is no such host.
Addresses resolve(const std::string& host, int port, bool listens) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = listens ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                                &hints, &found);
  if (error != 0) fail<Error>("dist: the address \"", host, "\": ", gai_strerror(error));
  return {found, freeaddrinfo};
}

Socket open(const addrinfo& address) {
  Socket made(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (made) setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

/// Returns whether the socket is ready.
bool wait_for(int fd, short events, const Deadline& deadline) {
  pollfd one{fd, events, 0};
  const int milliseconds = int(std::min(deadline.left() * 1e3 + 1, 1e6));
  return ::poll(&one, 1, deadline.has_passed() ? 0 : milliseconds) > 0;
}

/// Listens on the first address that can be used; returns the error otherwise.
int try_to_listen(const std::string& host, int port, Socket& made) {
  int error = EADDRNOTAVAIL;
  const Addresses all = resolve(host, port, /*listens=*/true);
  for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
    made = open(*each);
    const int on = 1;
    if (made && setsockopt(made.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(made.fd(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(made.fd(), SOMAXCONN) == 0)
      return 0;
    error = errno;
  }
  return error;
}

std::pair<std::string, int> address_of(int fd, decltype(getsockname)* get) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  if (get(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    fail<PeerError>("dist: a connection without an address: ", text_of(errno));
  return {host, std::atoi(port)};
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Deadline Deadline::in(double seconds) { return {detail::steady_seconds() + seconds}; }
double Deadline::left() const { return std::max(end - detail::steady_seconds(), 0.0); }

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Socket Socket::listen(const std::string& host, int port) {
  Socket made;
  int error = try_to_listen(host, port, made);
  if (error == EADDRNOTAVAIL && !host.empty()) error = try_to_listen("", port, made);
  if (error != 0) fail<Error>("dist: cannot listen on ", host, ":", port, ": ", text_of(error));
  return made;
}

Socket Socket::connect(const std::string& host, int port, const Deadline& deadline) {
  for (int error = ETIMEDOUT;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const Addresses all = resolve(host, port, /*listens=*/false);
    for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
      Socket made = open(*each);
      if (!made) continue;
      if (::connect(made.fd(), each->ai_addr, each->ai_addrlen) == 0) return made;
      error = errno;
      if (error != EINPROGRESS || !wait_for(made.fd(), POLLOUT, deadline)) continue;
      socklen_t length = sizeof error;
      getsockopt(made.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0) return made;
    }
    if (deadline.has_passed())
      fail<TimeoutError>("dist: no answer from ", host, ":", port, ": ", text_of(error));
  }
}

Socket Socket::accept(const Deadline& deadline) const {
  while (true) {
    Socket made(::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int on = 1, error = errno;
    if (made) setsockopt(made.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (made || deadline.has_passed()) return made;
    if (!would_block(error) && error != ECONNABORTED)
      fail<Error>("dist: cannot accept a connection: ", text_of(error));
    wait_for(fd_, POLLIN, deadline);
  }
}

std::pair<std::string, int> Socket::own_address() const { return address_of(fd_, getsockname); }
std::pair<std::string, int> Socket::peer_address() const { return address_of(fd_, getpeername); }

size_t Socket::send_some(const void* data, size_t bytes) const {
  const ssize_t count = ::send(fd_, data, bytes, MSG_NOSIGNAL);
  if (count >= 0) return size_t(count);
  if (would_block(errno)) return 0;
  fail<PeerError>("the connection has ended: ", text_of(errno));
}

size_t Socket::receive_some(void* data, size_t bytes) const {
  const ssize_t count = ::recv(fd_, data, bytes, 0);
  if (count > 0) return size_t(count);
  if (count < 0 && would_block(errno)) return 0;
  fail<PeerError>("the connection has ended: ", count == 0 ? "closed" : text_of(errno));
}

void Socket::send_all(const void* data, size_t bytes, const Deadline& deadline) const {
  const auto* at = static_cast<const char*>(data);
  for (const char* const end = at + bytes; at < end;) {
    const size_t count = send_some(at, size_t(end - at));
    at += count;
    if (count > 0) continue;
    if (deadline.has_passed()) fail<TimeoutError>("the other side does not receive");
    wait_for(fd_, POLLOUT, deadline);
  }
}

void Socket::receive_all(void* data, size_t bytes, const Deadline& deadline) const {
  auto* at = static_cast<char*>(data);
  for (char* const end = at + bytes; at < end;) {
    const size_t count = receive_some(at, size_t(end - at));
    at += count;
    if (count > 0) continue;
    if (deadline.has_passed()) fail<TimeoutError>("the other side does not send");
    wait_for(fd_, POLLIN, deadline);
  }
}

}  // namespace tapegrad::dist
