// What a co-simulation unit remembers besides what the FMU does, in one row of cells, so that keeping it is a copy.
//
// As bytes, everything little-endian. A word has eight bytes: a double for a real cell, an integer for the others; a
// text is a chunk (its length in bytes as a word, then UTF-8).
//
//   time · mode (0 initialization, 1 step, 2 event) · whether an event waits (0, 1) · next event time
//   what has happened inside so far (integer)
//   of each clock that ticks by itself: next tick · ticks so far (integer)
//   of each event input: whether it has been set (0, 1)
//   of each event output: whether it is being sent (0, 1)
//   of each other input: number of coefficients kept; if any: origin · coefficients, each of all cells
//   of each other input: whether it has been handed over as an event (0, 1); if so: its cells
//   of each other output with a clock, or that is a derivative: its cells as they were last seen
//
// The FMU's own bytes follow, as a chunk.
#pragma once

#include <string>
#include <vector>

#include "fmi/fmu.hpp"
#include "packing.hpp"

namespace upbeat::fmi {

struct Port : Variable {
  enum Role : std::int32_t {
    None,
    Plain,     // handed over at once; or an output that is simply asked for
    Followed,  // … and its polynomial, too:        [number of coefficients, origin, coefficients]
    Clocked,   // waits for one of its clocks:      the same, of one coefficient
    Discrete,  // leads to event mode:              [whether it has been given, cells]
    Heard,     // a clock that is ticked from outside: [whether it has been set]
    Sent,      // an output clock:                  [whether it is being sent]
    Seen,      // an output with a clock:           [cells as they were at the last tick]; or a derivative
    Counted,   // what has happened inside, among the first cells
  } role = None;
  bool input = false;
  std::size_t at = 0;                 // where its own cells, as said above, begin
  std::vector<std::uint32_t> clocks;  // references
  std::int32_t order = 0;             // which derivative of the variable it is

  std::int64_t max_rows() const { return role == Followed ? UPBEAT_MAX_DEGREE + 1 : role == Clocked ? 1 : 0; }
};

class Memory {
 public:
  enum Mode : std::int64_t { Initialization = 0, Stepping = 1, Event = 2 };

  explicit Memory(const FmuTables& tables);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  double& now() { return cells_[0].r; }
  std::int64_t& mode() { return cells_[1].i; }
  std::int64_t& pending() { return cells_[2].i; }
  double& next_event() { return cells_[3].r; }
  std::int64_t& count() { return cells_[counting].i; }  // of what has happened inside

  // Of each clock that the unit ticks by itself: next tick, ticks so far.
  Cell* clocks() { return cells_.data() + first_clock; }

  // By number. The engine asks for ports of the model only.
  const Port& port(int number) const { return ports_[static_cast<std::size_t>(number)]; }
  const std::vector<Port>& ports() const { return ports_; }
  Cell* own(const Port& port) { return cells_.data() + port.at; }
  const std::vector<std::int32_t>& all(Port::Role role) const { return by_role_[role]; }
  bool any(Port::Role role) const;  // whether a port of this role has its flag up

  void keep(const Port& input, const Cell* coefficients, int count);  // what it does from now on; count 0: nothing

  void forget_rates();  // derivatives of outputs are unknown: NaN

  // The pool that texts are numbers of from now on; cells like these that others keep are to be translated.
  void use(Strings& strings);
  const Strings* strings() const { return strings_; }
  void translate(Cell* cells, const Strings* from, Strings& to) const;

  const std::vector<Cell>& cells() const { return cells_; }
  void restore(const std::vector<Cell>& cells);  // into the memory that is there: others hold pointers to it

  void write(const std::vector<Cell>& cells, Bytes& to) const;
  // Why these bytes are no state of this unit, or an empty text.
  std::string read(Reader& from, std::vector<Cell>& cells) const;

 private:
  static constexpr std::size_t counting = 4;
  static constexpr std::size_t first_clock = 5;
  static constexpr std::size_t roles = Port::Counted + 1;

  std::vector<Port> ports_;
  std::vector<std::int32_t> by_role_[roles];  // the numbers of the ports
  std::size_t own_clocks_;
  bool event_mode_;
  std::vector<Cell> cells_;
  Strings* strings_ = nullptr;
};

// Texts of one pool, or of none, as those of another.
void translate(Cell* cells, std::size_t count, const Strings* from, Strings& to);

// Cells of one kind as bytes, and back; texts are numbers of the pool.
void append_cells(Bytes& to, Kind kind, const Cell* from, std::size_t count, const Strings* strings);
void take_cells(Reader& from, Kind kind, Cell* to, std::size_t count, Strings* strings);

}  // namespace upbeat::fmi
