// A scenario as a unit: a machine and a loop of its own, driven by the run of the one around it. The twin of
// NestedUnit in upbeat.engine.nesting.model, bit for bit.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "loop.hpp"

namespace upbeat {

// What a port of the nested unit is inside.
struct NestedPort {
  std::int32_t unit = -1;   // of an input: whose input it is inside; -1: the port is an output
  std::int32_t place = 0;   // the number of that input, or the first cell of the output
  std::int32_t cells = 1;
};

struct NestedTables {
  std::vector<NestedPort> ports;   // by their numbers
  std::vector<std::string> units;  // the names of the units inside
  std::int32_t exchange = -1;      // the block that exchanges values at the present time
  bool takes_inputs = false;       // whether a step takes new inputs by itself, and needs no exchange before it
};

// Why these do not fit a machine inside, or an empty text.
std::string problem_in(const NestedTables& tables, const ProgramTables& program, std::size_t units);

class Nested {
 public:
  // `strings`: the pool of the run, without which states cannot be turned into bytes.
  Nested(std::unique_ptr<Machine> machine, NestedTables tables, double start, Strings* strings = nullptr);

  // Everything that happens inside at the start time; once, before any other call. `length`: how long the run will be, if that is
  // known here. False: see `failure`.
  bool begin(double length = std::numeric_limits<double>::infinity());

  int get(int port, Cell* to);
  int set(int port, const Cell* coefficients, int count);
  int advance(double, double to, bool early, double* reached) { return advance(to, early, reached, nullptr); }
  int advance(double to, bool early, double* reached, Before* before);
  int due(double* time);
  // After `set`: everybody inside sees the new trajectory. False: see `failure`.
  bool refresh();
  int save(int slot);
  int restore(int slot);
  int reset(double start, const double* values);

  // [time, whether an input has changed], then the machine inside (see packing.cpp).
  int pack(int slot, void* to, std::uint64_t* size);
  int unpack(int slot, const void* from, std::uint64_t size);

  // What failed inside, with what its words are made of: the host may have better ones than `message`.
  std::shared_ptr<const Inside> failure() const;
  const char* message();

  Machine& machine() { return *machine_; }

  // A unit as the engine enters it; the table owns the unit.
  static upbeat_unit make(std::unique_ptr<Machine> machine, NestedTables tables, double start, Strings* strings = nullptr);

  // The nested scenario behind a table, or null if it is any other unit.
  static Nested* behind(const upbeat_unit& table);

 private:
  struct Snapshot {
    bool stale = false;
    double time = 0.0;
  };

  std::unique_ptr<Machine> machine_;
  Memory memory_;
  NestedTables tables_;
  double start_;
  bool stale_ = false;  // an input was set, and not seen inside yet
  std::vector<Snapshot> kept_;
  Strings* strings_;
  std::string foreign_;  // why bytes were refused by the nested unit itself
  std::string message_;
};

}  // namespace upbeat
