// The functions of unit.h for a unit that is a C++ object: each calls the member of its name.
//
// Members of a class template are only made where they are used, so a unit needs to have only those
// calls that it puts into its table.
#pragma once

#include <cstdint>

#include "cell.hpp"
#include "solver_statistics.hpp"

namespace upbeat {

template <class Unit>
struct Calls {
  static Unit& of(void* self) { return *static_cast<Unit*>(self); }

  static int get(void* self, int port, Cell* to) { return of(self).get(port, to); }
  static int set(void* self, int port, const Cell* coefficients, int count) {
    return of(self).set(port, coefficients, count);
  }
  static int advance(void* self, double t, double to, int early, double* reached) {
    return of(self).advance(t, to, early != 0, reached);
  }
  static int jump(void* self, int* again) { return of(self).jump(again); }
  static int due(void* self, double* time) { return of(self).due(time); }
  static int save(void* self, int slot) { return of(self).save(slot); }
  static int restore(void* self, int slot) { return of(self).restore(slot); }
  static int pack(void* self, int slot, void* to, std::uint64_t* size) { return of(self).pack(slot, to, size); }
  static int unpack(void* self, int slot, const void* from, std::uint64_t size) {
    return of(self).unpack(slot, from, size);
  }
  static int slope(void* self, int output, int input, Cell* to) { return of(self).slope(output, input, to); }
  static int statistics(void* self, std::int64_t* to) {
    const SolverStatistics& statistics = of(self).statistics();
    to[0] = statistics.steps;
    to[1] = statistics.rejected;
    to[2] = statistics.stops;
    to[3] = statistics.evaluations;
    return 0;
  }
  static int reset(void* self, double start, const double* values) { return of(self).reset(start, values); }
  static const char* message(void* self) { return of(self).message(); }
  static void destroy(void* self) { delete static_cast<Unit*>(self); }

  // What every unit has ...
  static upbeat_unit table(Unit* unit) {
    upbeat_unit made{};
    made.size = sizeof made;
    made.self = unit;
    made.get = get;
    made.set = set;
    made.advance = advance;
    made.destroy = destroy;
    return made;
  }
  // ... and what some have.
  static void add_rollback(upbeat_unit& table) {
    table.save = save;
    table.restore = restore;
  }
  static void packs(upbeat_unit& table) {
    table.pack = pack;
    table.unpack = unpack;
  }
  static void add_statistics(upbeat_unit& table) { table.statistics = statistics; }
  static void has_events(upbeat_unit& table) {
    table.jump = jump;
    table.due = due;
  }
};

}  // namespace upbeat
