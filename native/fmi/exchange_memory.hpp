// What a unit for model exchange remembers besides what the FMU does. As bytes it is laid out as
// upbeat.units.fmi.exchange.state says.
#pragma once

#include "courses.hpp"
#include "fmi/exchange.hpp"
#include "packing.hpp"

namespace upbeat::fmi {

class ExchangeMemory {
 public:
  enum Mode : std::int64_t { Initial = 0, Event = 1, Continuous = 2 };

  explicit ExchangeMemory(const ExchangeTables& tables);
  ExchangeMemory(const ExchangeMemory&) = delete;
  ExchangeMemory& operator=(const ExchangeMemory&) = delete;

  double now = 0.0;
  Mode mode = Initial;
  bool pending = true;
  std::int64_t count = 0;  // rounds of event iteration so far
  double next = std::numeric_limits<double>::infinity();
  double h = 0.0;
  std::vector<double> x;
  std::vector<double> z;  // of the watch, as far as they are to be kept
  Courses courses;
  std::vector<double> values;  // of the real inputs
  std::vector<Cell> held;      // of the others

  // All of that in a row, and back.
  const std::vector<Cell>& cells();
  void restore(const std::vector<Cell>& cells);

  void write(const std::vector<Cell>& cells, Bytes& to) const;
  // Why these bytes are no state of this unit, or an empty text.
  std::string read(Reader& from, std::vector<Cell>& cells) const;

 private:
  static constexpr std::size_t first_state = 6;

  std::size_t size() const { return first_state + x.size() + z.size() + courses.state().size() + held.size(); }

  std::vector<Cell> row_;
};

}  // namespace upbeat::fmi
