// See memory.hpp.
#include "fmi/memory.hpp"

#include <algorithm>

namespace upbeat::fmi {

namespace {

Port::Role role_of(const PortTables& port) {
  if (port.event) return port.input ? Port::Heard : Port::Sent;
  if (!port.input) return port.clocks.empty() && port.order == 0 ? Port::Plain : Port::Seen;
  if (!port.clocks.empty()) return Port::Clocked;
  return port.discrete ? Port::Discrete : port.followed ? Port::Followed : Port::Plain;
}

std::size_t words_of(const Port& port) {
  const auto cells = static_cast<std::size_t>(port.cells);
  switch (port.role) {
    case Port::Followed:
    case Port::Clocked: return 2 + static_cast<std::size_t>(port.max_rows()) * cells;
    case Port::Discrete: return 1 + cells;
    case Port::Heard:
    case Port::Sent: return 1;
    case Port::Seen: return cells;
    default: return 0;
  }
}

void append(Bytes& to, const Cell* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) append_word(to, static_cast<std::uint64_t>(from[i].i));
}

void take(Reader& from, Cell* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i].i = static_cast<std::int64_t>(from.word());
}

}  // namespace

void translate(Cell* cells, std::size_t count, const Strings* from, Strings& to) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool known = from && static_cast<std::uint64_t>(cells[i].i) < from->size();
    cells[i].i = to.intern(known ? from->text(cells[i].i) : "");
  }
}

void append_cells(Bytes& to, Kind kind, const Cell* from, std::size_t count, const Strings* strings) {
  if (kind != Kind::String) return append(to, from, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& text = strings->text(from[i].i);
    append_word(to, text.size());
    to.insert(to.end(), text.begin(), text.end());
  }
}

void take_cells(Reader& from, Kind kind, Cell* to, std::size_t count, Strings* strings) {
  if (kind != Kind::String) return take(from, to, count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t size = from.word();
    const unsigned char* const text = from.bytes(size);
    to[i].i = text ? strings->intern(std::string(reinterpret_cast<const char*>(text), size)) : 0;
  }
}

Memory::Memory(const FmuTables& tables) : own_clocks_(tables.clocks.size()), event_mode_(tables.event_mode) {
  std::size_t size = first_clock + 2 * own_clocks_;
  for (const PortTables& given : tables.ports) {
    const auto number = static_cast<std::size_t>(given.port);
    if (number >= ports_.size()) ports_.resize(number + 1);
    Port& port = ports_[number];
    static_cast<Variable&>(port) = given;
    port.input = given.input;
    port.clocks = given.clocks;
    port.order = given.order;
    port.role = role_of(given);
  }
  if (tables.counted >= 0) {
    const auto number = static_cast<std::size_t>(tables.counted);
    if (number >= ports_.size()) ports_.resize(number + 1);
    ports_[number].role = Port::Counted;
  }
  for (std::size_t number = 0; number < ports_.size(); ++number) {
    Port& port = ports_[number];
    by_role_[port.role].push_back(static_cast<std::int32_t>(number));
    port.at = port.role == Port::Counted ? counting : size;
    size += words_of(port);
  }
  cells_.assign(size, integer(0));
  forget_rates();
  now() = tables.start;
  next_event() = std::numeric_limits<double>::infinity();
}

void Memory::use(Strings& strings) {
  translate(cells_.data(), strings_, strings);
  strings_ = &strings;
}

void Memory::translate(Cell* cells, const Strings* from, Strings& to) const {
  for (const Port& port : ports_) {
    if (port.kind() != Kind::String || words_of(port) == 0) continue;
    const std::size_t first = port.at + (port.role == Port::Seen ? 0 : port.role == Port::Discrete ? 1 : 2);
    fmi::translate(cells + first, static_cast<std::size_t>(port.cells), from, to);
  }
}

bool Memory::any(Port::Role role) const {
  for (const std::int32_t number : by_role_[role]) {
    if (cells_[port(number).at].i != 0) return true;
  }
  return false;
}

void Memory::keep(const Port& input, const Cell* coefficients, int count) {
  Cell* const mine = own(input);
  const std::int64_t cells = input.max_rows() * input.cells;
  mine[0].i = count;
  mine[1].r = count > 0 ? now() : 0.0;
  for (std::int64_t i = 0; i < cells; ++i) mine[2 + i].i = i < count * input.cells ? coefficients[i].i : 0;
}

void Memory::forget_rates() {
  for (const std::int32_t number : by_role_[Port::Seen]) {
    const Port& rate = port(number);
    if (rate.order > 0) std::fill_n(own(rate), rate.cells, real(std::numeric_limits<double>::quiet_NaN()));
  }
}

void Memory::restore(const std::vector<Cell>& cells) { std::copy(cells.begin(), cells.end(), cells_.begin()); }

void Memory::write(const std::vector<Cell>& cells, Bytes& to) const {
  append(to, cells.data(), first_clock + 2 * own_clocks_);
  for (const auto role : {Port::Heard, Port::Sent}) {
    for (const std::int32_t number : by_role_[role]) append(to, &cells[port(number).at], 1);
  }
  const auto inputs = [&](auto each) {
    for (const Port& port : ports_) {
      if (port.input && port.role != Port::Heard) each(port, &cells[port.at], static_cast<std::size_t>(port.cells));
    }
  };
  inputs([&](const Port& port, const Cell* own, std::size_t width) {
    const std::int64_t count = port.max_rows() > 0 ? own[0].i : 0;
    append_word(to, static_cast<std::uint64_t>(count));
    if (count == 0) return;
    append(to, own + 1, 1);
    append_cells(to, port.kind(), own + 2, static_cast<std::size_t>(count) * width, strings_);
  });
  inputs([&](const Port& port, const Cell* own, std::size_t width) {
    const std::int64_t how = port.role == Port::Discrete ? own[0].i : 0;
    append_word(to, static_cast<std::uint64_t>(how));
    if (how > 0) append_cells(to, port.kind(), own + 1, width, strings_);
  });
  for (const std::int32_t number : by_role_[Port::Seen]) {
    const Port& seen = port(number);
    append_cells(to, seen.kind(), &cells[seen.at], static_cast<std::size_t>(seen.cells), strings_);
  }
}

std::string Memory::read(Reader& from, std::vector<Cell>& cells) const {
  cells.assign(cells_.size(), integer(0));
  take(from, cells.data(), first_clock + 2 * own_clocks_);
  const std::int64_t found = cells[1].i;
  if (found < 0 || found > 2 || (found == 2 && !event_mode_) || cells[2].i < 0 || cells[2].i > 1) {
    return "there is no mode " + std::to_string(found);
  }
  const auto flag = [](std::int64_t value, int max_rows) {
    return value >= 0 && value <= max_rows ? "" : std::to_string(value) + " where there should be " + (max_rows ? "0 or 1" : "0");
  };
  std::string problem;
  for (const auto role : {Port::Heard, Port::Sent}) {
    for (const std::int32_t number : by_role_[role]) {
      Cell* const own = &cells[port(number).at];
      take(from, own, 1);
      if (problem.empty()) problem = flag(own->i, 1);
    }
  }
  for (const Port& port : ports_) {
    if (!port.input || port.role == Port::Heard || !problem.empty()) continue;
    const auto count = static_cast<std::int64_t>(from.word());
    if (count < 0 || count > port.max_rows()) {
      problem = "an input with " + std::to_string(static_cast<std::uint64_t>(count)) + " coefficients";
    } else if (count > 0) {
      cells[port.at].i = count;
      take(from, &cells[port.at + 1], 1);
      const std::size_t all = static_cast<std::size_t>(count) * static_cast<std::size_t>(port.cells);
      take_cells(from, port.kind(), &cells[port.at + 2], all, strings_);
    }
  }
  for (const Port& port : ports_) {
    if (!port.input || port.role == Port::Heard || !problem.empty()) continue;
    const auto how = static_cast<std::int64_t>(from.word());
    problem = flag(how, port.role == Port::Discrete ? 1 : 0);
    if (how == 0 || !problem.empty()) continue;
    cells[port.at].i = how;
    take_cells(from, port.kind(), &cells[port.at + 1], static_cast<std::size_t>(port.cells), strings_);
  }
  for (const std::int32_t number : by_role_[Port::Seen]) {
    const Port& seen = port(number);
    take_cells(from, seen.kind(), &cells[seen.at], static_cast<std::size_t>(seen.cells), strings_);
  }
  return !problem.empty() ? problem : from.sound() ? "" : "it ends too early";
}

}  // namespace upbeat::fmi
