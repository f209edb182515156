// The inputs of an FMU for model exchange: what they are, and how the FMU follows those that move.
#pragma once

#include <algorithm>
#include <vector>

#include "fmi/entered.hpp"
#include "fmi/exchange_memory.hpp"

namespace upbeat::fmi {

// One port. Of outputs only the variable counts. Real inputs have a course, all others hold their cells.
struct Input : Variable {
  bool discrete = false;
  bool real = true;
  std::size_t number = 0;  // of its course, if it is real
  std::size_t first = 0;   // of its cells among those of all real inputs, or of all others
};

template <class F>
class ExchangeInputs {
 public:
  ExchangeInputs(F& fmu, ExchangeMemory& memory, const ExchangeTables& tables)
      : fmu_(fmu), memory_(memory), before_(widest_of(tables)), cells_(widest_of(tables)) {
    std::size_t real_cells = 0;
    std::size_t other_cells = 0;
    for (const PortTables& port : tables.ports) {
      const auto number = static_cast<std::size_t>(port.port);
      if (number >= ports_.size()) ports_.resize(number + 1);
      Input& mine = ports_[number];
      static_cast<Variable&>(mine) = port;
      if (!port.input || port.event) continue;
      mine.real = port.kind() == Kind::Real;
      mine.discrete = port.discrete || !mine.real;
      std::size_t& cell = mine.real ? real_cells : other_cells;
      mine.first = cell;
      cell += static_cast<std::size_t>(port.cells);
      if (!mine.real) continue;
      mine.number = reals_.size();
      reals_.push_back(number);
    }
  }

  // The engine asks for ports of the model only, whose numbers it has checked.
  const Input& port(int number) const { return ports_[static_cast<std::size_t>(number)]; }

  // Keeps what an input does from now on; whether it has another value now. A discrete one takes the first
  // coefficient alone.
  bool change(const Input& given, const Cell* coefficients, int count) {
    if (!given.real) return change_cells(given, coefficients);
    const double* const value = memory_.values.data() + given.first;
    std::copy_n(value, given.cells, before_.begin());
    memory_.courses.set(given.number, memory_.now, coefficients, given.discrete ? 1 : count, memory_.values.data());
    return !std::equal(value, value + given.cells, before_.begin());
  }

  // Gives the FMU the values at `t` of all that move.
  bool follow(double t) {
    if (!memory_.courses.moving()) return true;
    memory_.courses.follow(t, memory_.values.data());
    for (const std::size_t number : reals_) {
      const Input& input = ports_[number];
      if (!memory_.courses.moves(input.number)) continue;
      const double* const from = memory_.values.data() + input.first;
      std::transform(from, from + input.cells, cells_.data(), real);
      if (!fmu_.set(input, cells_.data())) return false;
    }
    return true;
  }

 private:
  bool change_cells(const Input& given, const Cell* cells) {
    Cell* const mine = memory_.held.data() + given.first;
    const bool same = std::equal(cells, cells + given.cells, mine, [](Cell a, Cell b) { return a.i == b.i; });
    std::copy_n(cells, given.cells, mine);
    return !same;
  }

  F& fmu_;
  ExchangeMemory& memory_;
  std::vector<Input> ports_;        // by number
  std::vector<std::size_t> reals_;  // the numbers of the real inputs
  std::vector<double> before_;
  std::vector<Cell> cells_;
};

}  // namespace upbeat::fmi
