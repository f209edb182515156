// Making a machine: linking a program to its units, keeping and restoring, and what failed.
#include "machine.hpp"

#include <algorithm>
#include <chrono>

#include "linked.hpp"
#include "nested.hpp"

namespace upbeat {

Machine::Machine(std::shared_ptr<const ProgramTables> program, std::vector<upbeat_unit> units, double start)
    : program_(std::move(program)),
      tables_(*program_),
      units_(std::move(units)),
      clocks_(units_.size(), start),
      cells_(tables_.start),
      loops_(static_cast<std::size_t>(tables_.loops)),
      slots_(static_cast<std::size_t>(tables_.slots)) {
  link();
}

Machine::~Machine() {
  workers_.reset();  // no thread is in a unit when it is destroyed
  for (const upbeat_unit& unit : units_) {
    if (unit.destroy) unit.destroy(unit.self);
  }
}

void Machine::link() {
  const auto is_real = [this](std::int32_t cell) { return tables_.kinds[cell] == Kind::Real; };
  expressions_.reserve(tables_.expressions.size());
  for (const CellKernel& table : tables_.expressions) {
    const KernelTables& kernel = tables_.kernels[table.kernel];
    const bool plain = std::all_of(table.from.begin(), table.from.end(), is_real) &&
                       std::all_of(table.to.begin(), table.to.end(), is_real);
    expressions_.push_back({&kernel, kernel.workspace(), table.from, table.to, plain});
  }
  std::size_t widest = 0, room = 0;
  steps_.reserve(tables_.code.size());
  for (const Row& row : tables_.code) {
    Step step;
    step.code = row[0];
    const auto enter = [&]() -> const upbeat_unit& {
      const upbeat_unit& unit = units_[row[1]];
      step.unit = row[1];
      step.self = unit.self;
      return unit;
    };
    const auto operands = [&](std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t d = 0) {
      step.a = a;
      step.b = b;
      step.c = c;
      step.d = d;
    };
    switch (static_cast<Op>(row[0])) {
      case Op::Get:
        step.get = enter().get;
        operands(row[2], row[3], row[4]);
        if (static_cast<Kind>(row[5]) == Kind::Real) step.code = row[4] == 1 ? Step::GetReal : Step::GetReals;
        break;
      case Op::Gather:
        widest = std::max(widest, static_cast<std::size_t>(row[3]) * static_cast<std::size_t>(row[4]));
        [[fallthrough]];
      case Op::Set:
        step.set = enter().set;
        operands(row[2], row[5], row[3], row[4]);
        if (row[6] != 0 && row[0] == static_cast<std::int32_t>(Op::Set)) step.code = Step::CheckedSet;
        break;
#define UPBEAT_ROOM(name, number)                                                   \
  case Op::name:                                                                    \
    operands(row[1], row[2], row[3], row[4]);                                       \
    room = std::max(room, computations::name::room({step.a, step.b, step.c, step.d})); \
    break;
      UPBEAT_COMPUTATIONS(UPBEAT_ROOM)
#undef UPBEAT_ROOM
      case Op::Advance:
        step.advance = enter().advance;
        operands(row[2], row[3], row[4], row[5]);
        break;
      case Op::GetEvent:
        step.get = enter().get;
        operands(row[2], row[3], row[4], row[5]);
        break;
      case Op::Due:
        step.due = enter().due;
        operands(row[2], 0, 0);
        break;
      case Op::Jump:
        step.jump = enter().jump;
        operands(row[2], row[3], 0);
        break;
      case Op::Slope:
        step.slope = enter().slope;
        operands(row[2], row[3], row[4]);
        break;
      case Op::Compute:
      case Op::Unless:
        step.expression = &expressions_[row[1]];
        operands(row[2], 0, 0);
        break;
      case Op::Until:
        step.expression = &expressions_[row[2]];
        operands(row[1], row[3], row[4], row[5]);
        break;
      case Op::Save: {
        Slot& slot = slots_[row[1]];
        slot.clocks.resize(std::max(slot.clocks.size(), static_cast<std::size_t>(row[3])));
        slot.cells.resize(std::max(slot.cells.size(), static_cast<std::size_t>(row[4])));
        break;
      }
      default: operands(row[1], row[2], row[3], row[4]); break;
    }
    steps_.push_back(step);
  }
  std::size_t cores = 1;
  std::size_t loose = 0;
  for (const Shares& shares : tables_.shares) {
    cores = std::max(cores, shares.size());
    for (const auto& list : shares) loose = std::max(loose, loose_in(list));
  }
  if (cores > 1) {
    const auto work = [](void* self, std::size_t lane, std::int32_t row) {
      auto& machine = *static_cast<Machine*>(self);
      const Working working(machine.stop_);
      return machine.work(row, machine.lanes_[lane]);
    };
    workers_ = std::make_unique<Workers>(cores, loose, work, this);
    sharing_ = true;
    trials_.resize(tables_.shares.size());
  }
  lanes_.resize(workers_ ? workers_->lanes() : 1);
  for (Lane& lane : lanes_) {
    lane.gathered.resize(widest);
    lane.room.resize(room);
  }
}

bool Machine::save_unit(std::int32_t unit, std::int32_t slot, std::int32_t row, Lane& lane) {
  const upbeat_unit& table = units_[unit];
  if (!table.save) return fail(lane, Fault::Unable, Call::Save, unit, row);
  lane.error.status = table.save(table.self, slot);
  return lane.error.status == 0 || fail(lane, Fault::Refused, Call::Save, unit, row);
}

bool Machine::restore_unit(std::int32_t unit, std::int32_t slot, std::int32_t row, Lane& lane) {
  const upbeat_unit& table = units_[unit];
  if (!table.restore) return fail(lane, Fault::Unable, Call::Restore, unit, row);
  lane.error.status = table.restore(table.self, slot);
  return lane.error.status == 0 || fail(lane, Fault::Refused, Call::Restore, unit, row);
}

bool Machine::save_slot(std::int32_t row, Lane& lane) {
  const Row& save = tables_.code[row];
  const std::int32_t* const units = tables_.operands.data() + save[2];
  const std::int32_t* const cells = units + save[3];
  Slot& slot = slots_[save[1]];
  for (std::int32_t i = 0; i < save[3]; ++i) {
    if (!save_unit(units[i], save[1], row, lane)) return false;
    slot.clocks[i] = clocks_[units[i]];
  }
  for (std::int32_t i = 0; i < save[4]; ++i) slot.cells[i] = cells_[cells[i]];
  slot.row = row;
  return true;
}

bool Machine::restore_slot(std::int32_t row, Lane& lane) {
  const Slot& slot = slots_[tables_.code[row][1]];
  if (slot.row < 0) return fail(lane, Fault::EmptySlot, Call::None, -1, row);
  const Row& save = tables_.code[slot.row];
  const std::int32_t* const units = tables_.operands.data() + save[2];
  const std::int32_t* const cells = units + save[3];
  for (std::int32_t i = 0; i < save[3]; ++i) {
    if (!restore_unit(units[i], save[1], row, lane)) return false;
    clocks_[units[i]] = slot.clocks[i];
  }
  for (std::int32_t i = 0; i < save[4]; ++i) cells_[cells[i]] = slot.cells[i];
  return true;
}

// The units know the machine's own places by the numbers after those of the program.
bool Machine::save(std::int32_t place) {
  const auto index = static_cast<std::size_t>(place);
  if (index >= kept_.size()) kept_.resize(index + 1);
  Kept& kept = kept_[index];
  kept.filled = false;
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!save_unit(static_cast<std::int32_t>(unit), tables_.slots + place, -1, lanes_.front())) return false;
  }
  kept.cells = cells_;
  kept.clocks = clocks_;
  kept.filled = true;
  return true;
}

bool Machine::restore(std::int32_t place) {
  const auto index = static_cast<std::size_t>(place);
  if (index >= kept_.size() || !kept_[index].filled) return fail(lanes_.front(), Fault::EmptySlot, Call::None, -1, -1);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!restore_unit(static_cast<std::int32_t>(unit), tables_.slots + place, -1, lanes_.front())) return false;
  }
  // Element by element into the memory that is there: others hold pointers to it.
  std::copy(kept_[index].cells.begin(), kept_[index].cells.end(), cells_.begin());
  std::copy(kept_[index].clocks.begin(), kept_[index].clocks.end(), clocks_.begin());
  return true;
}

bool Machine::resets() const {
  return std::all_of(units_.begin(), units_.end(), [](const upbeat_unit& unit) { return unit.reset != nullptr; });
}

bool Machine::reset(double start, const double* const* values) {
  std::copy(tables_.start.begin(), tables_.start.end(), cells_.begin());
  std::fill(clocks_.begin(), clocks_.end(), start);
  for (Slot& slot : slots_) slot.row = -1;
  for (Kept& kept : kept_) kept.filled = false;
  fired_.cut(0);
  Lane& lane = lanes_.front();
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const upbeat_unit& table = units_[unit];
    if (!table.reset) return fail(lane, Fault::Unable, Call::Begin, static_cast<std::int32_t>(unit), -1);
    lane.error.status = table.reset(table.self, start, values ? values[unit] : nullptr);
    if (lane.error.status != 0) return fail(lane, Fault::Refused, Call::Begin, static_cast<std::int32_t>(unit), -1);
  }
  return true;
}

bool Machine::set_input(std::int32_t unit, std::int32_t port, const Cell* coefficients, std::int32_t count) {
  const upbeat_unit& table = units_[unit];
  Lane& lane = lanes_.front();
  lane.error.status = table.set(table.self, port, coefficients, count);
  lane.error.cell = port;
  return lane.error.status == 0 || fail(lane, Fault::Refused, Call::Set, unit, -1);
}

bool Machine::has_rollback() const {
  return std::all_of(units_.begin(), units_.end(), [](const upbeat_unit& unit) { return unit.save && unit.restore; });
}

bool Machine::packs() const {
  return std::all_of(units_.begin(), units_.end(), [](const upbeat_unit& unit) { return unit.pack && unit.unpack; });
}

bool Machine::statistics(std::int32_t unit, std::int64_t* to) const {
  const upbeat_unit& table = units_[static_cast<std::size_t>(unit)];
  return table.statistics && table.statistics(table.self, to) == 0;
}

bool Machine::begin_units() {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    Nested* const nested = Nested::behind(units_[unit]);
    if (nested && !nested->begin()) {
      return fail(lanes_.front(), Fault::Refused, Call::Begin, static_cast<std::int32_t>(unit), -1);
    }
  }
  return true;
}

void Machine::ask_to_stop() {
  stop_.asked.store(true, std::memory_order_relaxed);
  for (const upbeat_unit& unit : units_) {
    if (Nested* const nested = Nested::behind(unit)) nested->machine().ask_to_stop();
  }
}

void Machine::set_pause(const Pause& pause) {
  if (workers_) workers_->set_pause(pause);
}

void Machine::try_cores() {
  for (std::size_t block = 0; block < trials_.size(); ++block) {
    if (!tables_.shares[block].empty()) trials_[block].begin();
  }
}

const Trial* Machine::tried(std::size_t block) const {
  if (block >= trials_.size() || !trials_[block].over() || trials_[block].median(true) == 0.0) return nullptr;
  return &trials_[block];
}

// By several cores, by one if that is quicker, or in turns as long as that is unknown.
bool Machine::share(std::int32_t block) {
  const auto number = static_cast<std::size_t>(block);
  const auto made = [&](bool several) {
    return several ? spread(tables_.shares[number]) : work(tables_.entries[number], lanes_.front());
  };
  Trial& trial = trials_[number];
  if (trial.over()) return made(trial.several());
  const auto began = std::chrono::steady_clock::now();
  const bool done = made(trial.several());
  trial.took(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return done;
}

// All cores do what they can. Where several failed, the first of them is told of, whatever the timing; of one that was not
// tried because another had failed for good, only if there is nothing else.
bool Machine::spread(const Shares& shares) {
  if (workers_->run(shares)) return true;
  const std::vector<std::size_t> failed = workers_->failures(shares);
  const auto itself = [this](std::size_t lane) { return !is_aftermath(lanes_[lane].error); };
  const auto first = std::find_if(failed.begin(), failed.end(), itself);
  const std::size_t told = first != failed.end() ? *first : failed.front();
  if (told > 0) lanes_.front().error = std::move(lanes_[told].error);
  return false;
}

bool Machine::stop(const Error& error) {
  lanes_.front().error = error;
  return false;
}

bool Machine::fail(Lane& lane, Fault fault, Call call, std::int32_t unit, std::int32_t row) {
  Error& error = lane.error;
  error.fault = fault;
  error.call = call;
  error.unit = unit;
  error.row = row;
  error.time = unit < 0 ? cells_[tables_.now].r : clocks_[unit];
  error.message.clear();
  error.inside.reset();
  if (fault == Fault::Refused) {
    const upbeat_unit& table = units_[unit];
    if (const Nested* const nested = Nested::behind(table)) error.inside = nested->failure();
    const char* const text = table.message ? table.message(table.self) : nullptr;
    if (text) error.message = text;
  }
  return false;
}

}  // namespace upbeat
