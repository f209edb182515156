// A machine as Python holds it: units entered, cells in and out, and one caller at a time.
#pragma once

#include <atomic>

#include "entrance.hpp"

namespace upbeat {

// The machine is in use: by another thread, or the very unit that asks.
struct Busy : std::runtime_error {
  Busy() : std::runtime_error("this machine is at work for another caller; wait until it has come back") {}
};
struct Closed : std::runtime_error {
  Closed() : std::runtime_error("this machine is closed") {}
};

// A program that has been read and checked, for as many machines as are made of it.
struct Program {
  std::shared_ptr<const ProgramTables> tables;
  std::vector<std::string> strings;
  std::size_t units;

  Program(nb::handle given, const std::vector<Kernel>& kernels) 
      : strings(nb::cast<std::vector<std::string>>(given.attr("strings"))), units(nb::len(nb::object(given.attr("units")))) {
    ProgramTables read = read_program(given, kernels);
    require(problem_in(read, units));
    tables = std::make_shared<const ProgramTables>(std::move(read));
  }
};

// A machine and what only Python needs: the strings, and what went wrong in a callback.
//
// The core works without the GIL, so other threads may call while it does. Every call enters by a `Visit`:
// a second one is refused, and `close` leaves a machine that is at work to its visitor, who is asked to
// come back soon and lets go of it then.
class Host {
 public:
  // `calls`: the functions of Python that the program calls, with one that reads cells, one that writes them, and the
  // numbers of the events that have fired.
  Host(const Program& program, nb::list units, double start, nb::list calls) {
    if (units.size() != program.units) throw std::invalid_argument("this program is for another number of units");
    for (const std::string& text : program.strings) entrance_.strings.intern(text);
    machine_ = std::make_unique<Machine>(program.tables, entrance_.enter_all(units, start), start);
    if (calls.size() > 0) {
      entrance_.needs_gil = true;
      take_calls(calls);
    }
    // Units in Python are called by this thread alone, and with the GIL. Other cores may need it as well: an FMU
    // that logs, a process that has died.
    if (entrance_.needs_gil) {
      machine_->set_pause({[]() -> void* { return PyEval_SaveThread(); },
                           [](void* left) { PyEval_RestoreThread(static_cast<PyThreadState*>(left)); }});
    }
  }

  class Visit {
   public:
    explicit Visit(Host& host) : host_(host) {
      if (host_.busy_.exchange(true)) throw Busy();
      if (host_.machine_ && !host_.closing_) return;
      host_.busy_ = false;
      throw Closed();
    }
    ~Visit() {
      host_.busy_ = false;
      if (host_.closing_) host_.let_go();
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

    Machine& machine() { return *host_.machine_; }

    // Without the GIL, unless a unit needs it. `body` says whether all went well.
    template <class Body>
    auto work(Body body) -> decltype(body()) {
      const Working working(machine().stop_flag());
      if (host_.entrance_.needs_gil) return body();
      nb::gil_scoped_release release;
      return body();
    }
    bool checked(bool done) {
      if (!done) host_.error_ = machine().error();
      return done;
    }
    std::size_t cell(std::int32_t number) {
      const std::size_t cells = machine().tables().start.size();
      if (number < 0 || static_cast<std::size_t>(number) >= cells) throw std::out_of_range("there is no such cell");
      return static_cast<std::size_t>(number);
    }

   private:
    Host& host_;
  };

  // What happens at the start time inside the units that are scenarios themselves.
  bool begin_units() {
    Visit visit(*this);
    return visit.checked(visit.work([&] { return visit.machine().begin_units(); }));
  }
  // Whether all units can begin again, for many runs on one machine.
  bool resets() {
    Visit visit(*this);
    return visit.machine().resets();
  }
  bool execute(std::int32_t block) {
    Visit visit(*this);
    const std::size_t blocks = visit.machine().tables().entries.size();
    if (block < 0 || static_cast<std::size_t>(block) >= blocks) throw std::out_of_range("there is no such block");
    return visit.checked(visit.work([&] { return visit.machine().execute(block); }));
  }
  bool save(std::int32_t place) {
    Visit visit(*this);
    if (place < 0) throw std::out_of_range("places are counted from 0");
    return visit.checked(visit.work([&] { return visit.machine().save(place); }));
  }
  bool restore(std::int32_t place) {
    Visit visit(*this);
    if (place < 0) throw std::out_of_range("places are counted from 0");
    return visit.checked(visit.work([&] { return visit.machine().restore(place); }));
  }

  // The units that are being advanced just now, whoever is in the machine.
  std::vector<std::int32_t> advancing() const { return machine_ ? machine_->advancing() : std::vector<std::int32_t>(); }

  // For each unit how hard its solver has worked, or nothing.
  std::vector<std::vector<std::int64_t>> solver_statistics() {
    Visit visit(*this);
    std::vector<std::vector<std::int64_t>> found;
    const auto units = static_cast<std::int32_t>(visit.machine().units());
    for (std::int32_t unit = 0; unit < units; ++unit) {
      found.emplace_back(UPBEAT_STATISTICS);
      if (!visit.machine().statistics(unit, found.back().data())) found.back().clear();
    }
    return found;
  }

  // The bytes of a place, or none if that failed.
  nb::object pack(std::int32_t place) {
    Visit visit(*this);
    if (place < 0) throw std::out_of_range("places are counted from 0");
    Bytes bytes;
    if (!visit.checked(visit.work([&] { return visit.machine().pack(place, entrance_.strings, bytes); }))) return nb::none();
    return nb::bytes(bytes.data(), bytes.size());
  }
  bool unpack(std::int32_t place, nb::bytes from) {
    Visit visit(*this);
    if (place < 0) throw std::out_of_range("places are counted from 0");
    return visit.checked(visit.work([&] { return visit.machine().unpack(place, entrance_.strings, from.data(), from.size()); }));
  }

  bool set_input(std::int32_t unit, std::int32_t port, std::int32_t kind, nb::list values, std::int32_t count) {
    Visit visit(*this);
    std::vector<Cell> cells(values.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (!from_python(values[i], static_cast<Kind>(kind), entrance_.strings, &cells[i])) throw nb::python_error();
    }
    return visit.checked(visit.machine().set_input(unit, port, cells.data(), count));
  }

  nb::object read(std::int32_t cell) {
    Visit visit(*this);
    const std::size_t index = visit.cell(cell);
    return to_python(visit.machine().cells()[index], visit.machine().tables().kinds[index], entrance_.strings);
  }
  // A real cell of the scenario that is nested in a unit, in a unit of that one, and so on.
  double read_inside(const std::vector<std::int32_t>& path, std::int32_t cell) {
    Visit visit(*this);
    Machine* machine = &visit.machine();
    for (const std::int32_t unit : path) {
      if (unit < 0 || static_cast<std::size_t>(unit) >= machine->units()) throw std::out_of_range("there is no such unit");
      Nested* inside = Nested::behind(machine->unit(unit));
      if (inside == nullptr) throw std::invalid_argument("the unit is no nested scenario");
      machine = &inside->machine();
    }
    const ProgramTables& tables = machine->tables();
    const auto index = static_cast<std::size_t>(cell);
    if (cell < 0 || index >= tables.kinds.size() || tables.kinds[index] != Kind::Real) {
      throw std::out_of_range("there is no such real cell");
    }
    return to_double(machine->cells()[index], Kind::Real);
  }
  void write(std::int32_t cell, nb::handle value) {
    Visit visit(*this);
    const std::size_t index = visit.cell(cell);
    Cell written;
    if (!from_python(value, visit.machine().tables().kinds[index], entrance_.strings, &written)) throw nb::python_error();
    visit.machine().cells()[index] = written;
  }

  // What ended the run. The exception is handed over and not kept: through its traceback it may refer
  // to this very machine, which Python's collector could not see.
  nb::tuple take_error() {
    const Trouble trouble = std::exchange(entrance_.trouble, {});
    return shown(error_, trouble);
  }

  // Every event since the last call, committed or not.
  nb::tuple take_fired() {
    Visit visit(*this);
    return taken(visit.machine().fired(), visit.machine().fired().size());
  }

  // The first `count` events of a log, which forgets them: numbers of the events, times, indices (as many of each),
  // and the cells of all values in a row, each as raw bytes.
  static nb::tuple taken(FiredLog& fired, std::size_t count) {
    std::vector<std::int32_t> events(count), indices(count);
    std::vector<double> times(count);
    for (std::size_t i = 0; i < count; ++i) {
      events[i] = fired.data()[i].event;
      indices[i] = fired.data()[i].index;
      times[i] = fired.data()[i].time;
    }
    nb::tuple left = nb::make_tuple(bytes(events.data(), count), bytes(times.data(), count), bytes(indices.data(), count),
                                    bytes(fired.values(), fired.first(count)));
    fired.drop(count);
    return left;
  }

  // The texts with these numbers and above: a pool only grows.
  std::vector<std::string> strings(std::size_t from) const {
    std::vector<std::string> texts;
    for (std::size_t i = from; i < entrance_.strings.size(); ++i) texts.push_back(entrance_.strings.text(static_cast<std::int64_t>(i)));
    return texts;
  }

  void share(bool on) {
    Visit visit(*this);
    visit.machine().share(on);
  }

  void try_cores() {
    Visit visit(*this);
    visit.machine().try_cores();
  }
  // For each block for which it was found out: how long it took several cores and one (medians), and whether several do it.
  nb::dict tried() {
    Visit visit(*this);
    nb::dict found;
    for (std::size_t block = 0; block < visit.machine().tables().entries.size(); ++block) {
      const Trial* const trial = visit.machine().tried(block);
      if (trial) found[nb::int_(block)] = nb::make_tuple(trial->median(true), trial->median(false), trial->several());
    }
    return found;
  }

  // Whether Ctrl-C ends what this machine does, wherever it is.
  void heed_interrupts(bool on) {
    Visit visit(*this);
    visit.machine().stop_flag().interruptible = on;
  }

  // Lets go of the units, and then calls `then`: at once, or as soon as the machine is free.
  void close(nb::object then) {
    if (!machine_ || closing_.exchange(true)) return;
    then_ = std::move(then);
    machine_->ask_to_stop();
    if (!busy_) let_go();
  }

 private:
  // A function may keep what it is given to read and write with: that looks at the machine only as long as there is one.
  void take_calls(nb::list calls) {
    calls_ = calls;
    alive_ = std::make_shared<Host*>(this);
    const auto place = [alive = alive_](std::int32_t cell) -> std::pair<Host*, std::size_t> {
      Host* const host = *alive;
      if (!host || !host->machine_) throw Closed();
      if (cell < 0 || static_cast<std::size_t>(cell) >= host->machine_->tables().start.size()) throw std::out_of_range("there is no such cell");
      return {host, static_cast<std::size_t>(cell)};
    };
    read_ = nb::cpp_function([place](std::int32_t cell) {
      const auto [host, index] = place(cell);
      return to_python(host->machine_->cells()[index], host->machine_->tables().kinds[index], host->entrance_.strings);
    });
    write_ = nb::cpp_function([place](std::int32_t cell, nb::handle value) {
      const auto [host, index] = place(cell);
      Cell written;
      if (!from_python(value, host->machine_->tables().kinds[index], host->entrance_.strings, &written)) throw nb::python_error();
      host->machine_->cells()[index] = written;
    });
    machine_->set_call([this](std::int32_t number) {
      try {
        const std::int32_t counted = machine_->tables().pace.fired;
        FiredLog& fired = machine_->fired();
        const std::size_t last = counted < 0 ? 0 : static_cast<std::size_t>(machine_->cells()[counted].r);
        nb::list events;
        for (std::size_t i = fired.size() - std::min(last, fired.size()); i < fired.size(); ++i) events.append(fired.data()[i].event);
        calls_[static_cast<std::size_t>(number)](read_, write_, events);
        return true;
      } catch (nb::python_error& error) {
        entrance_.trouble.exception = nb::borrow(error.value());
        entrance_.trouble.message.clear();
        return false;
      }
    });
  }

  // A failure, and those inside it, down to the unit that `trouble` comes from if it comes from one.
  static nb::tuple shown(const Error& error, const Trouble& trouble) {
    nb::object inside = nb::none();
    if (error.inside) {
      inside = nb::make_tuple(shown(error.inside->error, trouble), error.inside->cells);
    }
    return nb::make_tuple(static_cast<int>(error.fault), static_cast<int>(error.call), error.row, error.unit,
                          error.cell, error.time, error.start, error.until, error.value, error.status,
                          trouble.message.empty() ? error.message : trouble.message,
                          trouble.exception.is_valid() ? trouble.exception : nb::none(), inside);
  }

  template <class T>
  static nb::bytes bytes(const T* from, std::size_t count) {
    return nb::bytes(reinterpret_cast<const char*>(from), count * sizeof(T));
  }

  void let_go() {
    if (alive_) *alive_ = nullptr;
    std::unique_ptr<Machine> machine = std::move(machine_);  // gone for everybody before anything else runs
    const nb::object then = std::exchange(then_, {});
    machine.reset();
    entrance_.keepers.let_go();
    if (!then.is_valid() || then.is_none()) return;
    try {
      then();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("closing a machine");
    }
  }

  Entrance entrance_;
  Error error_;  // a copy, which outlives the machine
  std::atomic<bool> busy_{false};
  std::atomic<bool> closing_{false};
  nb::object then_;
  nb::list calls_;
  nb::object read_, write_;
  std::shared_ptr<Host*> alive_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace upbeat
