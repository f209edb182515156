// FMUs as Python holds them: an instance, to make and to ask it, and a unit made of it, to call it (the interpreter) or
// until a machine takes it over. And their log as Python hears it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callback.hpp"
#include "fmi/units.hpp"

namespace upbeat {

namespace nb = nanobind;

// The keepers of units that run: each is called once its unit is gone, with the GIL held.
class Keepers {
 public:
  Keepers() = default;
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;
  ~Keepers() { let_go(); }

  void add(nb::object keeper) { held_.push_back(std::move(keeper)); }
  void let_go() {
    for (const nb::object& keeper : std::exchange(held_, {})) {
      try {
        keeper();
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("closing an FMU");
      }
    }
  }

 private:
  std::vector<nb::object> held_;
};

// One instance. What the FMU refuses is raised: `refusal(status, message, discarded)` gives the exception.
class FmuInstance {
 public:
  FmuInstance(fmi::InstanceTables tables, nb::object refusal);

  // False: the FMU gave no instance, without a word.
  bool instantiate(const fmi::Birth& birth);
  nb::list get(const fmi::Variable& variable);
  void set(const fmi::Variable& variable, nb::handle values);

  // Calls it without the GIL: its log may need that, on any thread. `call` says whether it went well.
  template <class Call>
  void ask(Call call);

  const fmi::InstanceTables& tables() const { return tables_; }
  const fmi::AnyFmu& fmu() const { return fmu_; }
  const nb::object& refusal() const { return refusal_; }

 private:
  fmi::InstanceTables tables_;
  fmi::AnyFmu fmu_;
  Strings strings_;
  nb::object refusal_;
};

// One unit. It belongs to this object until a machine takes it over, so that the FMU is freed also when no machine
// comes about. `keeper` is called when it is gone, and gives what the FMU said of late about something that went wrong.
class FmuEntry {
 public:
  FmuEntry(FmuInstance& instance, nb::handle tables, std::vector<Callback::Port> ports, nb::object keeper);
  FmuEntry(const FmuEntry&) = delete;
  FmuEntry& operator=(const FmuEntry&) = delete;
  ~FmuEntry() { close(); }

  upbeat_unit release(Keepers& keepers, Strings& strings);
  void close();
  nb::object complaints() const { return keeper_.attr("complaints")(); }

  nb::object get(int port);
  void set(int port, nb::sequence coefficients);
  double advance(double t, double to, bool early);
  bool jump();
  double due();
  nb::list slope(int output, int input);
  void save(int slot);
  void restore(int slot);
  nb::bytes pack(int slot);
  void unpack(int slot, nb::bytes from);
  nb::object statistics();

  // What is asked of FMUs only; raises if the unit is closed.
  fmi::Face& face();
  fmi::System& system();
  // Calls it without the GIL; `call` gives a status of the unit, or (asked) whether it went well.
  template <class Call>
  void checked(Call call);
  template <class Call>
  void asked(Call call);

 private:
  // A pool only grows: from time to time another one takes over what is still in use.
  void forget_old_texts();

  upbeat_unit unit_{};
  fmi::Face* face_ = nullptr;
  std::vector<Callback::Port> ports_;
  std::unique_ptr<Strings> strings_ = std::make_unique<Strings>();
  Trouble trouble_;  // what a solver in Python raised
  std::vector<Cell> cells_;
  std::size_t kept_ = 0;  // texts that were in use when the pool was made
  nb::object keeper_, refusal_;
};

void bind_fmus(nb::module_& module);

}  // namespace upbeat
