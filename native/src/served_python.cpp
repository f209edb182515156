// The server's side of a unit in another process, for Python: the class `Server`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <utility>

#include "entrance.hpp"
#include "fmi/fmu.hpp"
#include "remote_rows.hpp"
#include "server.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace upbeat {

namespace {

// Set when the process that this one works for has ended.
std::atomic<bool> abandoned{false};

// One unit, as an engine would enter it, at the other end.
class Served {
 public:
  // `words` gives those for what Python raised; `prefix` comes before those of a unit that is none of Python, and what
  // `more` gives behind them if it is an FMU that failed.
  Served(nb::handle unit, double start, const Link& link, const std::vector<PortRow>& ports, nb::object words,
         const std::string& prefix, nb::object more) {
    const upbeat_unit table = entrance_.enter(unit, start);
    page_ = link.page;
    server_ = std::make_unique<Server>(link.page, link.room, table, remote_ports(ports_of(ports)), entrance_.strings,
                                       [this, words, table, prefix, more]() -> std::string {
                                         const std::string said = why(words);
                                         if (!said.empty() || !table.message) return said;
                                         const char* const own = table.message(table.self);
                                         return own ? prefix + own + complaints(more) : "";
                                       });
    Nested* const nested = Nested::behind(table);
    if (nested && !nested->begin()) {
      const std::string said = why(words);
      throw std::runtime_error(said.empty() ? nested->message() : said);
    }
  }

  CallRow calls() const {
    const RemoteUnit::Offered calls = server_->calls();
    return {calls.rollback, calls.pack, calls.due, calls.slope};
  }

  // Another log record has been written.
  void record() { page_->records.fetch_add(1, std::memory_order_relaxed); }

  // Until the client has asked for the end.
  void run() {
    nb::gil_scoped_release release;
    for (bool more = true; more && server_->wait(abandoned);) {
      if (entrance_.needs_gil) {
        nb::gil_scoped_acquire acquire;
        more = server_->answer();
      } else {
        more = server_->answer();
      }
    }
  }

 private:
  std::string why(const nb::object& words) {
    nb::gil_scoped_acquire acquire;
    const Trouble trouble = std::exchange(entrance_.trouble, {});
    if (!trouble.message.empty() || !trouble.exception.is_valid()) return trouble.message;
    try {
      return nb::cast<std::string>(words(trouble.exception));
    } catch (nb::python_error& error) {
      return error.what();
    }
  }

  std::string complaints(const nb::object& more) {
    if (page_->status != fmi::failed_status) return "";
    nb::gil_scoped_acquire acquire;
    try {
      return more.is_none() ? "" : nb::cast<std::string>(more());
    } catch (nb::python_error& error) {
      return error.what();
    }
  }

  Entrance entrance_;
  std::shared_ptr<SharedPage> page_;
  std::unique_ptr<Server> server_;
};

constexpr off_t most_output = 8 << 20, kept_output = 4 << 20;

// What is printed goes to a file without a name. A flood is cut: what came first stays, and what comes last.
void cut(int output) {
  struct stat found {};
  if (fstat(output, &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink != 0 || found.st_size <= most_output) return;
  if (ftruncate(output, kept_output) != 0) return;
  static constexpr char words[] = "\n... (too much output: a part was cut here) ...\n";
  if (write(output, words, sizeof words - 1) < 0) return;
}

// Whether the other end of a pipe is closed; or the parent gone, if this end was closed.
bool over(int pipe, pid_t parent) {
  pollfd looked{pipe, POLLIN, 0};
  if (poll(&looked, 1, 250) <= 0) return false;
  char byte;
  if ((looked.revents & POLLNVAL) == 0) return read(pipe, &byte, 1) == 0;
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  return getppid() != parent;
}

// Beyond those numbers that C code likes to close.
int kept(int file) { return fcntl(file, F_DUPFD_CLOEXEC, 300); }

// This process ends as soon as the other end of a pipe is closed: in good order if it can, and soon in any case,
// whatever its other threads are doing, with all processes that it has started. (The signal that Linux offers instead
// comes when the *thread* ends that started this process.)
void end_with(int given) {
  std::thread([pipe = kept(given), output = kept(1), parent = getppid()] {
    while (!over(pipe, parent)) cut(output);
    abandoned = true;
    std::this_thread::sleep_for(std::chrono::seconds(2));
    if (getpgrp() == getpid()) kill(0, SIGKILL);
    _exit(1);
  }).detach();
}

}  // namespace

void bind_server(nb::module_& module) {
  nb::class_<Link>(module, "Memory").def("__init__", [](Link* self, int file, std::uint64_t size) {
    new (self) Link(linked(file, size, 0));
  });
  nb::class_<Served>(module, "Server")
      .def(nb::init<nb::handle, double, const Link&, const std::vector<PortRow>&, nb::object, const std::string&, nb::object>(),
           "unit"_a, "start"_a, "memory"_a, "ports"_a, "words"_a, "prefix"_a, "more"_a.none() = nb::none())
      .def_prop_ro("calls", &Served::calls)
      .def("record", &Served::record)
      .def("run", &Served::run);
  module.def("end_with", &end_with);
}

}  // namespace upbeat
