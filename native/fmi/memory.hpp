// What a co-simulation unit remembers besides what the FMU does, in one row of cells, so that keeping it is a copy.
// As bytes it is laid out as upbeat.units.fmi.saved says.
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
    Heard,     // a clock that somebody else ticks: [whether it has been set]
    Sent,      // an output clock:                  [whether it is being sent]
    Seen,      // an output with a clock:           [cells as they were at the last tick]; or a derivative
    Counted,   // what has happened inside, among the first cells
  } role = None;
  bool input = false;
  std::size_t at = 0;                 // where its own cells, as said above, begin
  std::vector<std::uint32_t> clocks;  // references
  std::int32_t order = 0;             // which derivative of the variable it is

  std::int64_t most() const { return role == Followed ? UPBEAT_MAX_DEGREE + 1 : role == Clocked ? 1 : 0; }
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

  void forget_rates();  // nobody knows the derivatives of outputs: NaN

  const std::vector<Cell>& cells() const { return cells_; }
  void restore(const std::vector<Cell>& cells);  // into the memory that is there: others hold pointers to it

  void write(const std::vector<Cell>& cells, Bytes& to) const;
  // Why these bytes are no state of this unit, or an empty text.
  std::string read(Reader& from, std::vector<Cell>& cells) const;

 private:
  static constexpr std::size_t counting = 4;
  static constexpr std::size_t first_clock = 5;
  static constexpr std::size_t roles = Port::Counted + 1;

  std::string read_input(Reader& from, const Port& port, Cell* own) const;

  std::vector<Port> ports_;
  std::vector<std::int32_t> by_role_[roles];  // the numbers of the ports
  std::size_t own_clocks_;
  bool event_mode_;
  std::vector<Cell> cells_;
};

}  // namespace upbeat::fmi
