// See exchange_memory.hpp.
#include "fmi/exchange_memory.hpp"

#include <algorithm>

#include "text.hpp"

namespace upbeat::fmi {

namespace {

std::vector<upbeat::PortTables> real_inputs(const ExchangeTables& tables) {
  std::vector<upbeat::PortTables> found;
  for (const PortTables& port : tables.ports) {
    if (port.input && !port.event && port.kind() == Kind::Real) found.push_back({port.cells, Kind::Real, port.port});
  }
  return found;
}

}  // namespace

std::string problem_in(const ExchangeTables& tables) {
  std::string problem = problem_in(static_cast<const FmuTables&>(tables));
  if (!problem.empty()) return problem;
  std::size_t real = 0;
  std::size_t others = 0;
  for (const PortTables& port : tables.ports) {
    if (port.input && !port.event) (port.kind() == Kind::Real ? real : others) += static_cast<std::size_t>(port.cells);
  }
  if (real != tables.input_start.size() || others != tables.held_start.size()) return "start values do not fit the inputs";
  return problem_in(tables.solver);
}

ExchangeMemory::ExchangeMemory(const ExchangeTables& tables)
    : now(tables.start),
      x(tables.states),
      z(tables.indicators),
      courses(real_inputs(tables), tables.input_start, tables.start),
      values(tables.input_start) {
  for (const std::int64_t start : tables.held_start) held.push_back(integer(start));
  row_.resize(size());
}

const std::vector<Cell>& ExchangeMemory::cells() {
  row_[0].r = now;
  row_[1].i = mode;
  row_[2].i = pending ? 1 : 0;
  row_[3].i = count;
  row_[4].r = next;
  row_[5].r = h;
  auto to = row_.begin() + first_state;
  const std::vector<double>* const all[] = {&x, &z, &courses.state()};
  for (const std::vector<double>* numbers : all) to = std::transform(numbers->begin(), numbers->end(), to, real);
  std::copy(held.begin(), held.end(), to);
  return row_;
}

void ExchangeMemory::restore(const std::vector<Cell>& cells) {
  now = cells[0].r;
  mode = static_cast<Mode>(cells[1].i);
  pending = cells[2].i != 0;
  count = cells[3].i;
  next = cells[4].r;
  h = cells[5].r;
  const Cell* from = cells.data() + first_state;
  for (auto* const numbers : {&x, &z}) {
    for (double& number : *numbers) number = (from++)->r;
  }
  std::vector<double> kept(courses.state().size());
  for (double& number : kept) number = (from++)->r;
  courses.restore(kept.data(), now, values.data());
  std::copy_n(from, held.size(), held.begin());
}

void ExchangeMemory::write(const std::vector<Cell>& cells, Bytes& to) const {
  for (const Cell& cell : cells) append_word(to, static_cast<std::uint64_t>(cell.i));
}

std::string ExchangeMemory::read(Reader& from, std::vector<Cell>& cells) const {
  cells.assign(size(), integer(0));
  for (Cell& cell : cells) cell.i = static_cast<std::int64_t>(from.word());
  if (!from.sound()) return "they end too early";
  if (cells[1].i < Initial || cells[1].i > Continuous || cells[2].i < 0 || cells[2].i > 1) {
    return "there is no mode " + std::to_string(cells[1].i);
  }
  std::vector<double> kept;
  const std::size_t first = first_state + x.size() + z.size();
  for (std::size_t i = 0; i < courses.state().size(); ++i) kept.push_back(cells[first + i].r);
  for (const double count : courses.impossible(kept.data())) return "an input with " + shortest(count) + " coefficients";
  return "";
}

}  // namespace upbeat::fmi
