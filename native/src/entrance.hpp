// The ways in which units of Python become tables of functions.
#pragma once

#include "callback.hpp"
#include "discrete.hpp"
#include "fmu_python.hpp"
#include "inner.hpp"
#include "machine.hpp"
#include "hybrid.hpp"
#include "read.hpp"
#include "remote_python.hpp"
#include "table.hpp"

namespace upbeat {

// A unit entered by a table of functions. It belongs to this object until a machine takes it over, so that
// it is destroyed also when no machine comes about.
class Addresses {
 public:
  explicit Addresses(const upbeat_unit& table) : table_(table) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { close(); }

  upbeat_unit release() {
    if (!owned_) throw std::invalid_argument("this unit belongs to another machine already");
    owned_ = false;
    return table_;
  }
  void close() {
    if (std::exchange(owned_, false) && table_.destroy) table_.destroy(table_.self);
  }

 private:
  upbeat_unit table_;
  bool owned_ = true;
};

// A unit written in Python, and what the engine must know of its ports: name, kind, size (-1: scalar).
struct Python {
  nb::object unit;
  std::vector<Callback::Port> ports;
};

// What units that enter together share: the strings of a run, and what went wrong in a callback.
struct Entrance {
  Strings strings;
  Trouble trouble;
  bool needs_gil = false;
  Keepers keepers;  // which let go after the units are gone

  upbeat_unit enter(nb::handle unit, double start) {
    if (nb::isinstance<OdeTables>(unit)) return Ode::make(nb::cast<const OdeTables&>(unit), start);
    if (nb::isinstance<HybridTables>(unit)) return Hybrid::make(nb::cast<const HybridTables&>(unit), start);
    if (nb::isinstance<DiscreteTables>(unit)) return Discrete::make(nb::cast<const DiscreteTables&>(unit), start);
    if (nb::isinstance<FmuEntry>(unit)) return nb::cast<FmuEntry&>(unit).release(keepers, strings);
    if (nb::isinstance<Addresses>(unit)) return nb::cast<Addresses&>(unit).release();
    if (nb::isinstance<Remote>(unit)) return nb::cast<Remote&>(unit).release(strings, trouble);
    if (nb::isinstance<Inner>(unit)) {
      const Inner& inner = nb::cast<const Inner&>(unit);
      return inner.made(enter_all(inner.units, start), strings, start);
    }
    const Python& python = nb::cast<const Python&>(unit);
    needs_gil = true;
    return Callback::make(python.unit, python.ports, strings, trouble);
  }

  std::vector<upbeat_unit> enter_all(const nb::list& units, double start) {
    std::vector<upbeat_unit> made;
    made.reserve(units.size());
    try {
      for (const nb::handle unit : units) made.push_back(enter(unit, start));
    } catch (...) {
      for (const upbeat_unit& unit : made) {
        if (unit.destroy) unit.destroy(unit.self);
      }
      throw;
    }
    return made;
  }
};

// Units that generated code calls through their tables: they belong to this object. FMUs, units by address, units in other
// processes, scenarios with some of these inside; what needs the lock of Python has no business there.
class Attached {
 public:
  Attached(const nb::list& units, double start, const std::vector<std::string>& strings) {
    for (const std::string& text : strings) entrance_.strings.intern(text);
    units_ = entrance_.enter_all(units, start);
    if (!entrance_.needs_gil) return;
    close();
    throw std::invalid_argument("a unit in Python cannot be called without its lock");
  }
  ~Attached() { close(); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  std::vector<std::uintptr_t> tables() const {
    std::vector<std::uintptr_t> found;
    for (const upbeat_unit& unit : units_) found.push_back(reinterpret_cast<std::uintptr_t>(&unit));
    return found;
  }
  // What happens at the start inside those that are scenarios. The place of the one that failed, or -1.
  std::int64_t begin() {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      Nested* const nested = Nested::behind(units_[i]);
      if (nested && !nested->begin()) return static_cast<std::int64_t>(i);
    }
    return -1;
  }
  std::int64_t intern(const std::string& text) { return entrance_.strings.intern(text); }
  std::vector<std::string> strings(std::size_t from) const {
    std::vector<std::string> found;
    for (std::size_t i = from; i < entrance_.strings.size(); ++i) found.push_back(entrance_.strings.text(static_cast<std::int64_t>(i)));
    return found;
  }
  // What a unit in another process has said or raised since the call before.
  nb::tuple take_trouble() {
    const Trouble trouble = std::exchange(entrance_.trouble, {});
    return nb::make_tuple(trouble.message, trouble.exception.is_valid() ? trouble.exception : nb::none());
  }
  void close() {
    for (const upbeat_unit& unit : std::exchange(units_, {})) {
      if (unit.destroy) unit.destroy(unit.self);
    }
  }

 private:
  Entrance entrance_;
  std::vector<upbeat_unit> units_;
};

}  // namespace upbeat
