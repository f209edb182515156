// See nested.hpp.
#include "nested.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "calls.hpp"
#include "loop.hpp"

namespace upbeat {

namespace {

std::string shown(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// What went wrong, without saying where.
std::string what(const Error& error) {
  switch (error.fault) {
    case Fault::NotFinite: return "a value is " + shown(error.value);
    case Fault::NotReached: return "it stopped at " + shown(error.value) + " instead of " + shown(error.until);
    case Fault::Unable: return "it cannot be set back to an earlier state";
    case Fault::Exhausted: return "an iteration did not end";
    case Fault::EmptySlot: return "nothing was saved";
    case Fault::NoProgress: return "the step from t = " + shown(error.time) + " did not move on";
    case Fault::BadStep:
    case Fault::Rejected: return "the step from t = " + shown(error.time) + " cannot be made";
    case Fault::BadBytes: return "these bytes are not a state of it";
    case Fault::Chattering: {
      std::string which = error.message;
      std::replace(which.begin(), which.end(), '\n', ' ');
      return "events follow each other without end at t = " + shown(error.time) + ": " + which;
    }
    case Fault::Stopped: return "the run was closed while it was at work";
    default: return error.message.empty() ? "no message" : error.message;
  }
}

}  // namespace

std::string problem_in(const NestedTables& tables, const ProgramTables& program, std::size_t units) {
  const auto cells = static_cast<std::int64_t>(program.start.size());
  for (const NestedPort& port : tables.ports) {
    if (port.unit >= static_cast<std::int32_t>(units) || port.place < 0 || port.cells < 1) return "a port of a nested unit is nowhere inside";
    if (port.unit < 0 && std::int64_t{port.place} + port.cells > cells) return "an output of a nested unit has no cells";
  }
  if (tables.units.size() != units) return "every unit inside a nested one needs a name";
  const bool block = tables.exchange >= 0 && static_cast<std::size_t>(tables.exchange) < program.entries.size();
  return block ? "" : "a nested unit needs a block to exchange values";
}

Nested::Nested(std::unique_ptr<Machine> machine, NestedTables tables, double start, Strings* strings)
    : machine_(std::move(machine)),
      tables_(std::move(tables)),
      start_(start),
      strings_(strings) {}

bool Nested::begin(double length) {
  const ProgramTables& program = machine_->tables();
  machine_->cells()[program.now].r = start_;
  machine_->cells()[program.next].r = start_;
  if (!machine_->begin_units() || !upbeat::begin(*machine_, memory_, nullptr, start_ + length)) return false;
  machine_->fired().cut(0);
  return true;
}

// After `set`, exchange again at the present time, so that everybody inside sees the new trajectory; and what
// follows from that at the same instant happens.
bool Nested::refresh() {
  if (!stale_) return true;
  stale_ = false;
  const std::int32_t instant = machine_->tables().instant_block;
  const bool done = machine_->execute(tables_.exchange) && (instant < 0 || machine_->execute(instant)) && hear_of_change(*machine_);
  machine_->fired().cut(0);
  return done;
}

int Nested::get(int port, Cell* to) {
  if (!refresh()) return 1;
  const NestedPort& output = tables_.ports[static_cast<std::size_t>(port)];
  std::copy_n(machine_->cells() + output.place, output.cells, to);
  return 0;
}

int Nested::set(int port, const Cell* coefficients, int count) {
  const NestedPort& input = tables_.ports[static_cast<std::size_t>(port)];
  stale_ = true;
  return machine_->set_input(input.unit, input.place, coefficients, count) ? 0 : 1;
}

int Nested::advance(double to, bool early, double* reached, Before* before) {
  if (tables_.takes_inputs) stale_ = false;
  if (!refresh()) return 1;
  const Status status = follow(*machine_, memory_, to, early, before);
  if (status == Status::Stopped) {
    Error error;
    error.fault = Fault::Stopped;
    machine_->stop(error);
  }
  *reached = machine_->cells()[machine_->tables().now].r;
  return status == Status::Finished ? 0 : 1;
}

int Nested::due(double* time) {
  if (!refresh()) return 1;
  const std::int32_t cell = machine_->tables().due;
  *time = cell < 0 ? std::numeric_limits<double>::infinity() : machine_->cells()[cell].r;
  return 0;
}

int Nested::save(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (!machine_->save(slot)) return 1;
  if (index >= kept_.size()) kept_.resize(index + 1);
  kept_[index].stale = stale_;
  kept_[index].time = machine_->cells()[machine_->tables().now].r;
  return 0;
}

int Nested::restore(int slot) {
  if (!machine_->restore(slot)) return 1;
  const Snapshot& snapshot = kept_[static_cast<std::size_t>(slot)];
  stale_ = snapshot.stale;
  return 0;
}

// The units inside keep the numbers that they have: others may be written into the program inside.
int Nested::reset(double start, const double*) {
  start_ = start;
  stale_ = false;
  memory_ = {};
  return machine_->reset(start) ? 0 : 1;
}

int Nested::pack(int slot, void* to, std::uint64_t* size) {
  Bytes inside;
  if (!machine_->pack(slot, *strings_, inside)) return 1;
  const Snapshot& snapshot = kept_[static_cast<std::size_t>(slot)];
  const std::uint64_t room = *size;
  *size = 16 + inside.size();
  if (room < *size) return 0;
  auto* next = static_cast<unsigned char*>(to);
  write_word(next, bits_of(snapshot.time));
  write_word(next + 8, snapshot.stale ? 1 : 0);
  next += 16;
  std::copy(inside.begin(), inside.end(), next);
  return 0;
}

int Nested::unpack(int slot, const void* from, std::uint64_t size) {
  foreign_.clear();
  Reader reader(from, size);
  Snapshot snapshot;
  snapshot.time = double_of(reader.word());
  snapshot.stale = reader.word() != 0;
  if (!reader.sound()) {
    foreign_ = "not a state of this nested scenario: it is too short";
    return 1;
  }
  const std::uint64_t left = reader.left();
  if (!machine_->unpack(slot, *strings_, reader.bytes(left), left)) return 1;
  const auto index = static_cast<std::size_t>(slot);
  if (index >= kept_.size()) kept_.resize(index + 1);
  kept_[index] = std::move(snapshot);
  return 0;
}

std::shared_ptr<const Inside> Nested::failure() const {
  auto found = std::make_shared<Inside>();
  found->error = machine_->error();
  const ProgramTables& program = machine_->tables();
  for (std::size_t i = 0; i < program.kinds.size(); ++i) {
    found->cells.push_back(to_double(machine_->cells()[i], program.kinds[i]));
  }
  const Error& error = found->error;
  if (error.unit >= 0) {
    found->way = tables_.units[static_cast<std::size_t>(error.unit)];
    if (error.inside && !error.inside->way.empty()) found->way += "." + error.inside->way;
  }
  return found;
}

const char* Nested::message() {
  if (!foreign_.empty()) return foreign_.c_str();
  const std::shared_ptr<const Inside> found = failure();
  const Error* innermost = &found->error;
  while (innermost->inside) innermost = &innermost->inside->error;
  message_ = what(*innermost);
  if (!found->way.empty()) message_ = "'" + found->way + "' failed at t = " + shown(innermost->time) + ": " + message_;
  return message_.c_str();
}

upbeat_unit Nested::make(std::unique_ptr<Machine> machine, NestedTables tables, double start, Strings* strings) {
  const bool rollback = machine->has_rollback();
  const bool packs = rollback && strings && machine->packs();
  const bool resets = machine->resets();
  upbeat_unit table = Calls<Nested>::table(new Nested(std::move(machine), std::move(tables), start, strings));
  if (rollback) Calls<Nested>::add_rollback(table);
  if (packs) Calls<Nested>::packs(table);
  table.due = Calls<Nested>::due;
  table.message = Calls<Nested>::message;
  if (resets) table.reset = Calls<Nested>::reset;
  return table;
}

Nested* Nested::behind(const upbeat_unit& table) {
  return table.destroy == &Calls<Nested>::destroy ? static_cast<Nested*>(table.self) : nullptr;
}

}  // namespace upbeat
