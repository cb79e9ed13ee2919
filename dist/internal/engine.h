// Engine: the communication that a Communicator needs, implemented by a message library (MPI), by
// sockets, or by threads of one process. Includes only the standard library, because the MPI engine
// is a separate module that does not link with tapegrad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tapegrad::dist {

/// Description of the next collective of a rank. Ranks exchange headers before each collective, to
/// check that all call the same one.
struct Header {
  uint64_t sequence = 0;   // number of the collective, from 1
  uint64_t signature = 0;  // hash of kind, dtype, number of elements, options and name
  int64_t note = 0;        // see ReduceOptions::note; may differ between ranks
  char text[232] = {};     // kind and name, for error messages
};

/// Called repeatedly while an engine waits. pause() yields the processor, and throws if the wait
/// has lasted too long or the program is to end.
class Waiting {
 public:
  virtual void pause() = 0;

 protected:
  ~Waiting() = default;
};

/// Collectives on bytes. All functions except rank() and size() are called by one thread, the
/// communication thread of the Communicator, which also makes and destroys the engine.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Sends `own` to all ranks. Fills all[r], and sets arrived[r] to 1, when the header of rank r
  /// arrives.
  virtual void exchange(const Header& own, std::span<Header> all, std::span<char> arrived,
                        Waiting& waiting) = 0;
  /// Sends part r of `in` to rank r, and receives part r of `out` from rank r. A part has `bytes`
  /// bytes.
  virtual void all_to_all(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) = 0;
  /// Copies `in` of rank r to part r of `out` on all ranks.
  virtual void all_gather(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) = 0;
  virtual void broadcast(std::byte* data, size_t bytes, int root, Waiting& waiting) = 0;
  /// Returns an engine of some of the ranks, in ascending order and including this one. All ranks
  /// call split(), each with the members of its own new engine, which must not outlive this one.
  virtual std::unique_ptr<Engine> split(std::span<const int> members, Waiting& waiting) = 0;

  /// Returns whether an error of one rank ends the processes of all of them.
  virtual bool ends_processes() const = 0;
  /// Ends all ranks: with ends_processes() by abort and status `status`, else by making their
  /// running and later calls throw.
  virtual void abort(int status) = 0;
  /// Disconnects from the message library, after a last collective of all ranks.
  virtual void finalize() = 0;
};

/// Version of this file. A module of another version is rejected.
inline constexpr int kEngineVersion = 3;
/// Type of the function of a module: `extern "C" Engine* tapegrad_make_engine(int version, const
/// char** error)`. Returns null and sets `error` if it cannot make an engine.
using MakeEngine = Engine* (*)(int version, const char** error);
inline constexpr const char* kMakeEngine = "tapegrad_make_engine";

}  // namespace tapegrad::dist
