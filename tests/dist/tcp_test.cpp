// Ranks that find each other by TCP. Here each rank is a thread with an engine of its own; dist_tcp
// runs all checks on processes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "dist/communicator.h"
#include "dist/init.h"
#include "dist/internal/socket.h"
#include "dist/internal/tcp_engine.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad::dist {
namespace {

using ::tapegrad::testing::message_of;

/// Returns a port that is free, and probably stays so for a moment.
int free_port() { return Socket::listen("127.0.0.1", 0).own_address().second; }

struct NeverLate final : Waiting {
  void pause() override { std::this_thread::yield(); }
};

/// Runs each place on a thread of its own; returns the errors, in the order of the places.
template <typename Run>
std::vector<std::string> errors_of(const std::vector<Rendezvous>& places, double timeout, Run run) {
  std::vector<std::string> errors(places.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        const auto engine = make_tcp_engine(places[i], timeout);
        run(*engine);
      } catch (const TimeoutError& error) {
        errors[i] = std::string("TimeoutError: ") + error.what();
      } catch (const ArgumentError& error) {
        errors[i] = std::string("ArgumentError: ") + error.what();
      } catch (const PeerError& error) {
        errors[i] = std::string("PeerError: ") + error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<Rendezvous> places_of(std::vector<int> ranks, int size) {
  const int port = free_port();
  std::vector<Rendezvous> places;
  for (const int rank : ranks) places.push_back({rank, size, "127.0.0.1", port});
  return places;
}

TEST(Tcp, MovesBytes) {
  for (const int size : {1, 2, 3, 4, 5}) {
    std::vector<int> ranks;
    for (int r = size; r-- > 0;) ranks.push_back(r);  // rank 0 comes last
    const auto errors = errors_of(places_of(ranks, size), 20, [&](Engine& engine) {
      NeverLate waiting;
      const size_t bytes = 1 << 20;  // more than a socket takes at once
      std::vector<std::byte> own(bytes, std::byte(engine.rank() + 1)), all(bytes * size_t(size));
      engine.all_gather(own.data(), all.data(), bytes, waiting);
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[size_t(r) * bytes + 77], std::byte(r + 1));
      std::vector<std::byte> back(all.size());
      engine.all_to_all(all.data(), back.data(), bytes, waiting);
      for (int r = 0; r < size; ++r)
        EXPECT_EQ(back[size_t(r) * bytes], std::byte(engine.rank() + 1));
      engine.broadcast(own.data(), bytes, size - 1, waiting);
      EXPECT_EQ(own[bytes - 1], std::byte(size));
      std::vector<Header> headers(static_cast<size_t>(size));
      std::vector<char> arrived(static_cast<size_t>(size));
      engine.exchange({.sequence = uint64_t(engine.rank())}, headers, arrived, waiting);
      EXPECT_EQ(headers[size_t(size - 1)].sequence, uint64_t(size - 1));
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }
}

TEST(Tcp, RanksThatAreMissingAreNamed) {
  const auto nothing = [](Engine&) { FAIL(); };
  const auto errors = errors_of(places_of({0, 2}, 4), 0.5, nothing);
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("TimeoutError: dist::init: rank 0 of 4"), error.npos) << error;
    EXPECT_NE(error.find("missing: 1, 3"), error.npos) << error;
  }
  const std::string alone = errors_of(places_of({1}, 2), 0.3, nothing)[0];
  EXPECT_NE(alone.find("TimeoutError: dist: no answer from 127.0.0.1:"), alone.npos) << alone;
}

TEST(Tcp, RanksThatDisagreeAreRefused) {
  const auto nothing = [](Engine&) { FAIL(); };
  for (const std::string& error : errors_of(places_of({0, 1, 1}, 3), 20, nothing))
    EXPECT_NE(error.find("ArgumentError: dist::init: two processes are rank 1"), error.npos)
        << error;
  std::vector<Rendezvous> places = places_of({0, 1}, 2);
  places[1].size = 3;
  for (const std::string& error : errors_of(places, 20, nothing))
    EXPECT_NE(error.find("ArgumentError: dist::init: rank 1 expects 3 ranks, rank 0 2"), error.npos)
        << error;
}

TEST(Tcp, WrongPlacesAreRefused) {
  EXPECT_THROW(make_tcp_engine({.rank = 2, .size = 2}, 1), ArgumentError);
  EXPECT_THROW(make_tcp_engine({.rank = -1, .size = 2}, 1), ArgumentError);
  EXPECT_THROW(make_tcp_engine({.rank = 0, .size = 2, .port = 70'000}, 1), ArgumentError);
  const Socket taken = Socket::listen("127.0.0.1", 0);
  const int port = taken.own_address().second;
  const std::string message =
      message_of<Error>([&] { make_tcp_engine({.rank = 0, .size = 2, .port = port}, 1); });
  EXPECT_NE(message.find("cannot listen on 127.0.0.1:" + std::to_string(port)), message.npos)
      << message;
  const std::string host = message_of<Error>(
      [] { make_tcp_engine({.rank = 1, .size = 2, .address = "no.such.host.invalid"}, 1); });
  EXPECT_NE(host.find("no.such.host.invalid"), host.npos) << host;
}

/// An unknown peer that connects to the port does not disturb the ranks.
TEST(Tcp, StrangersAreIgnored) {
  std::vector<Rendezvous> places = places_of({0, 1}, 2);
  std::thread stranger([&] {
    const Deadline soon = Deadline::in(20);
    const Socket socket = Socket::connect("127.0.0.1", places[0].port, soon);
    const std::string text = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.send_all(text.data(), text.size(), soon);
    // The second rank comes when the stranger has spoken.
    const auto errors = errors_of({places[1]}, 20, [](Engine& engine) {
      NeverLate waiting;
      engine.broadcast(nullptr, 0, 0, waiting);
    });
    EXPECT_EQ(errors[0], "");
  });
  EXPECT_EQ(errors_of({places[0]}, 20, [](Engine&) {})[0], "");
  stranger.join();
}

TEST(Tcp, ARankThatHasGoneIsNamed) {
  const auto errors = errors_of(places_of({0, 1, 2}, 3), 20, [](Engine& engine) {
    if (engine.rank() == 1) return;
    NeverLate waiting;
    std::byte own{}, all[3];
    engine.all_gather(&own, all, 1, waiting);
  });
  EXPECT_EQ(errors[1], "");
  for (const size_t i : {0, 2}) EXPECT_TRUE(errors[i].starts_with("PeerError: rank ")) << errors[i];
}

TEST(Tcp, VariablesAreChecked) {
  const auto set = [](const char* rank, const char* size, const char* port) {
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", size, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    port == nullptr ? unsetenv("MASTER_PORT") : setenv("MASTER_PORT", port, 1);
  };
  const auto error = [] { return message_of<ArgumentError>([] { (void)init({.timeout = 0.2}); }); };
  set("first", "2", "29500");
  EXPECT_NE(error().find("RANK is \"first\", not an integer"), std::string::npos) << error();
  set("0", "2", nullptr);
  EXPECT_NE(error().find("RANK and WORLD_SIZE are set, but not MASTER_PORT"), std::string::npos);
  set("3", "2", "29500");
  EXPECT_NE(error().find("rank 3 of 2"), std::string::npos) << error();
  set("0", "1", nullptr);
  EXPECT_EQ(init().size(), 1);
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

}  // namespace
}  // namespace tapegrad::dist
