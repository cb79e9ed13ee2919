#include "dist/init.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>

#include "absl/strings/str_cat.h"

#include "dist/internal/connection.h"
#include "dist/internal/tcp_engine.h"
#include "dist/world.h"

namespace tapegrad::dist {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModule = "libtapegrad_mpi.so";

/// Variables in which launchers set the number of processes.
constexpr const char* kSizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS",
                                  "SLURM_NTASKS"};

/// Variables in which launchers set the number of a process on its host.
constexpr const char* kLocalRanks[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                       "SLURM_LOCALID", "LOCAL_RANK"};

/// Number of processes that a launcher started, and the variable that contains it.
struct Launch {
  int size = 1;
  const char* variable = "";
};

Launch find_launch() {
  for (const char* variable : kSizes) {
    const char* text = std::getenv(variable);
    if (text == nullptr) continue;
    // A shell of a Slurm job has SLURM_NTASKS, too; only srun sets the rank of a process.
    if (std::strcmp(variable, "SLURM_NTASKS") == 0 && std::getenv("SLURM_PROCID") == nullptr)
      continue;
    int size = 0;
    std::from_chars(text, text + std::strlen(text), size);
    if (size >= 1) return {size, variable};
  }
  return {};
}

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  const char* const end = text + std::strlen(text);
  int value = 0;
  const auto [point, error] = std::from_chars(text, end, value);
  if (error != std::errc() || point != end)
    fail<ArgumentError>("dist::init: ", variable, " is \"", text, "\", not an integer");
  return value;
}

/// Values of PyTorch's variables. Without MASTER_ADDR or MASTER_PORT they are used only if there is
/// no MPI launcher.
std::optional<Rendezvous> rendezvous_of_variables(const Launch& launch) {
  if (std::getenv("RANK") == nullptr || std::getenv("WORLD_SIZE") == nullptr) return {};
  for (const char* variable : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (std::getenv(variable) != nullptr) continue;
    if (launch.size > 1 || number_in("WORLD_SIZE") == 1) return {};
    fail<ArgumentError>("dist::init: RANK and WORLD_SIZE are set, but not ", variable);
  }
  Rendezvous place{number_in("RANK"), number_in("WORLD_SIZE"), std::getenv("MASTER_ADDR"),
                   number_in("MASTER_PORT")};
  // torchrun itself listens at the port.
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::strcmp(agent, "True") == 0) ++place.port;
  return place;
}

double timeout_from(const InitOptions& options) {
  double seconds = 300;
  if (options.timeout) {
    seconds = *options.timeout;
  } else if (const char* text = std::getenv("TAPEGRAD_DIST_TIMEOUT")) {
    char* end = nullptr;
    seconds = std::strtod(text, &end);
    if (end == text || *end != '\0')
      fail<ArgumentError>("TAPEGRAD_DIST_TIMEOUT: \"", text, "\" is not a number of seconds");
  }
  check_timeout(seconds);
  return seconds;
}

/// Files that may be the module: TAPEGRAD_MPI_MODULE if it is set, else beside the library, beside
/// the program and where it was built or installed.
std::vector<fs::path> module_files() {
  if (const char* path = std::getenv("TAPEGRAD_MPI_MODULE")) return {path};
  std::vector<fs::path> files;
  Dl_info library{};
  if (dladdr(reinterpret_cast<void*>(&module_files), &library) != 0 && library.dli_fname != nullptr)
    files.push_back(fs::path(library.dli_fname).parent_path() / kModule);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : {".", "../lib", "../lib/x86_64-linux-gnu", "../lib64"})
    files.push_back(program / folder / kModule);
#ifdef TAPEGRAD_MPI_FOLDERS
  const std::string folders = TAPEGRAD_MPI_FOLDERS;
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    files.push_back(fs::path(folders.substr(begin, end - begin)) / kModule);
    begin = end + 1;
  }
#endif
  return files;
}

std::unique_ptr<Engine> make_mpi_engine(const Launch& launch) {
  const std::string started =
      absl::StrCat("dist::init: a launcher started ", launch.size, " processes (", launch.variable,
                   "), but this tapegrad cannot use MPI: ");
  for (const fs::path& file : module_files()) {
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    // Global symbols, because the plugins of Open MPI refer to those of its library.
    void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) fail<Error>(started, dlerror());
    const auto make = reinterpret_cast<MakeEngine>(dlsym(module, kMakeEngine));
    if (make == nullptr) fail<Error>(started, dlerror());
    const char* error = "no reason given";
    if (Engine* engine = make(kEngineVersion, &error)) return std::unique_ptr<Engine>(engine);
    fail<Error>(started, file.string(), ": ", error);
  }
  fail<Error>(
      started, "the module ", kModule,
      " was not found. Install libopenmpi-dev (Debian) and build tapegrad again, set "
      "TAPEGRAD_MPI_MODULE to the file, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
      "to connect the ranks by TCP");
}

// The connection of this process.
struct Process {
  std::mutex mutex;
  std::weak_ptr<Connection> connection;
  Connection* open = nullptr;  // remains valid after the last owner was destroyed
  bool is_initialized = false;
  std::shared_ptr<Connection> kept;  // by init_process_group()
};
Process& process() {
  static Process* const one = new Process;
  return *one;
}

std::terminate_handler before = nullptr;

/// Prints the uncaught exception with the rank and ends all ranks.
[[noreturn]] void end_after_exception() {
  Connection* connection = process().open;
  if (connection != nullptr && connection->is_open()) {
    std::string what = "terminated without an exception";
    if (const std::exception_ptr error = std::current_exception()) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& known) {
        what = known.what();
      } catch (...) {
        what = "an exception that is no std::exception";
      }
    }
    connection->end_all(absl::StrCat(connection->who(), ": ", what));
  }
  if (before != nullptr) before();
  std::abort();
}

/// Called at exit, because other ranks would wait for this one.
void end_at_exit() {
  if (process().kept) return process().kept->leave();
  Connection* connection = process().open;
  if (connection != nullptr && connection->is_open())
    connection->end_all(connection->who() +
                        ": this rank ended after an error, by exit(), or with a communicator in a "
                        "global variable");
}

}  // namespace

std::string with_rank(const std::string& message) {
  Process& one = process();
  const std::lock_guard lock(one.mutex);
  if (one.open == nullptr) return message;
  const std::string rank = one.open->who() + ": ";
  return message.starts_with(rank) ? message : rank + message;
}

int local_rank() {
  for (const char* variable : kLocalRanks)
    if (const char* text = std::getenv(variable)) return std::max(std::atoi(text), 0);
  return 0;
}

Communicator init(InitOptions options) {
  Process& one = process();
  const std::lock_guard lock(one.mutex);
  if (auto connection = one.connection.lock()) return Connections::wrap(connection);
  const double timeout = timeout_from(options);
  const Launch launch = find_launch();
  const std::optional<Rendezvous> place =
      options.rendezvous ? options.rendezvous : rendezvous_of_variables(launch);
  one.is_initialized = true;
  if (place ? place->size == 1 && place->rank == 0 : launch.size == 1) return {};
  if (one.open != nullptr)
    fail<Error>(
        "dist::init: this program has closed its connections; keep what the first init() "
        "returned");
  const auto connection = Connection::open(
      [&] { return place ? make_tcp_engine(*place, timeout) : make_mpi_engine(launch); }, timeout);
  if (!place && connection->all().size() != launch.size)
    fail<Error>("dist::init: a launcher started ", launch.size, " processes (", launch.variable,
                "), but MPI connects ", connection->all().size(),
                ": the launcher and this MPI do not know each other (with Slurm: srun --mpi=pmix)");
  one.connection = connection;
  one.open = connection.get();
  before = std::set_terminate(end_after_exception);
  std::atexit(end_at_exit);
  return Connections::wrap(connection);
}

void init_process_group(InitOptions options) {
  const Communicator made = init(std::move(options));
  process().kept = process().connection.lock();
}

void destroy_process_group() {
  process().kept.reset();
  process().is_initialized = false;
}

bool is_initialized() { return process().is_initialized; }

Communicator world() {
  Process& one = process();
  if (auto connection = one.connection.lock()) return Connections::wrap(connection);
  if (!one.is_initialized) fail<Error>("dist: call dist::init() first");
  if (one.open != nullptr)
    fail<Error>("dist: what dist::init() returned is gone; keep it until the end of main()");
  return {};
}

}  // namespace tapegrad::dist
