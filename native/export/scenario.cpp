// A scenario whose program lies as tables in the resources of an FMU, behind the functions of scenario.h: the native core
// without Python. What generated code has in scenario.c.
#include "scenario.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fmi/callbacks.hpp"
#include "tables.hpp"

namespace upbeat {
namespace {

// The unit of one beginning. States that were kept of it can be set back as long as there are such.
class Life {
 public:
  virtual ~Life() = default;
  virtual bool begin() = 0;
  virtual int get(int port, Cell* to) = 0;
  virtual int set(int port, const Cell* coefficients, int count) = 0;
  virtual int advance(double to, bool early, double* reached) = 0;
  virtual int jump() = 0;
  virtual int due(double* time) = 0;
  virtual int slope(int output, int input, Cell* to) = 0;
  virtual int save(int slot) = 0;
  virtual int restore(int slot) = 0;
  virtual int pack(int slot, void* to, std::uint64_t* size) = 0;
  virtual int unpack(int slot, const void* from, std::uint64_t size) = 0;
  virtual std::string message() = 0;
  virtual Ode* equations() { return nullptr; }
  virtual bool over() { return false; }
  virtual void tell(void (*say)(void*, std::int32_t, double), void* to) = 0;
};

// A program. What has happened at the end of a step waits to be seen, if a step ends there: until then, what is shown is what
// it was before.
class Program final : public Life {
 public:
  Program(const ScenarioTables& tables, std::unique_ptr<Machine> machine, double start, Strings& strings)
      : tables_(tables), ports_(tables.inside->tables.ports), nested_(std::move(machine), tables.inside->tables, start, &strings) {
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      first_.push_back(before_.cells.size());
      if (ports_[i].unit >= 0 || tables.blocks[i] >= 0) continue;
      for (std::int32_t k = 0; k < ports_[i].cells; ++k) before_.cells.push_back(ports_[i].place + k);
    }
    before_.values.resize(before_.cells.size());
  }

  bool begin() override { return nested_.begin(tables_.length); }
  int get(int port, Cell* to) override {
    const auto number = static_cast<std::size_t>(port);
    if (pending_ && tables_.blocks[number] < 0) {
      std::copy_n(before_.values.begin() + static_cast<std::ptrdiff_t>(first_[number]), ports_[number].cells, to);
      return 0;
    }
    if (tables_.blocks[number] >= 0 && !(nested_.refresh() && nested_.machine().execute(tables_.blocks[number]))) return 1;
    return nested_.get(port, to);
  }
  int set(int port, const Cell* coefficients, int count) override { return nested_.set(port, coefficients, count); }
  int advance(double to, bool early, double* reached) override {
    pending_ = false;
    if (const int status = nested_.advance(to, early, reached, early || before_.say ? &before_ : nullptr)) return status;
    pending_ = early && before_.happened;
    return 0;
  }
  int jump() override {
    pending_ = false;
    return 0;
  }
  int due(double* time) override {
    if (pending_) {
      *time = nested_.machine().cells()[nested_.machine().tables().now].r;
      return 0;
    }
    return nested_.due(time);
  }
  bool over() override { return upbeat::over(nested_.machine()); }
  int slope(int output, int input, Cell* to) override {
    const std::int32_t cells = ports_[static_cast<std::size_t>(output)].cells * ports_[static_cast<std::size_t>(input)].cells;
    if (tables_.slopes_block >= 0 && !(nested_.refresh() && nested_.machine().execute(tables_.slopes_block))) return 1;
    std::fill_n(to, cells, real(0.0));
    for (const ScenarioTables::Slope& slope : tables_.slopes) {
      if (slope.output == output && slope.input == input) std::copy_n(nested_.machine().cells() + slope.cell, std::min(slope.cells, cells), to);
    }
    return 0;
  }
  int save(int slot) override {
    const auto index = static_cast<std::size_t>(slot);
    if (index >= kept_.size()) kept_.resize(index + 1);
    kept_[index] = {pending_, before_.values};
    return nested_.machine().has_rollback() ? nested_.save(slot) : 1;
  }
  int restore(int slot) override {
    if (nested_.restore(slot)) return 1;
    const Kept& kept = kept_[static_cast<std::size_t>(slot)];
    pending_ = kept.pending;
    before_.values = kept.values;
    return 0;
  }
  // Whether something waits to be seen, what was before, and the program.
  int pack(int slot, void* to, std::uint64_t* size) override {
    const Kept& kept = kept_[static_cast<std::size_t>(slot)];
    const std::uint64_t own = 8 + 8 * kept.values.size();
    std::uint64_t rest = *size > own ? *size - own : 0;
    auto* next = static_cast<unsigned char*>(to);
    const std::uint64_t room = *size;
    if (const int status = nested_.pack(slot, room > own ? next + own : nullptr, &rest)) return status;
    *size = own + rest;
    if (room < *size) return 0;
    write_word(next, kept.pending ? 1 : 0);
    for (const Cell& cell : kept.values) write_word(next += 8, static_cast<std::uint64_t>(cell.i));
    return 0;
  }
  int unpack(int slot, const void* from, std::uint64_t size) override {
    Reader reader(from, size);
    Kept kept;
    kept.pending = reader.word() != 0;
    for (std::size_t i = 0; i < before_.cells.size(); ++i) kept.values.push_back(integer(static_cast<std::int64_t>(reader.word())));
    if (!reader.sound()) return 1;
    const std::uint64_t left = reader.left();
    if (nested_.unpack(slot, reader.bytes(left), left)) return 1;
    const auto index = static_cast<std::size_t>(slot);
    if (index >= kept_.size()) kept_.resize(index + 1);
    kept_[index] = std::move(kept);
    return 0;
  }
  std::string message() override { return nested_.message(); }
  void tell(void (*say)(void*, std::int32_t, double), void* to) override {
    before_.say = say;
    before_.to = to;
  }

 private:
  struct Kept {
    bool pending = false;
    std::vector<Cell> values;
  };
  const ScenarioTables& tables_;
  const std::vector<NestedPort>& ports_;
  Nested nested_;
  Before before_;
  std::vector<std::size_t> first_;  // by port: where its cells are in `before_`
  bool pending_ = false;
  std::vector<Kept> kept_;
};

// One unit of equations, for model exchange.
class Equations final : public Life {
 public:
  Equations(const ScenarioTables& tables, const upbeat_unit& unit, bool hybrid)
      : ports_(tables.inside->tables.ports), unit_(unit), ode_(hybrid ? static_cast<Ode*>(static_cast<Hybrid*>(unit.self)) : static_cast<Ode*>(unit.self)) {}
  ~Equations() override { unit_.destroy(unit_.self); }
  Equations(const Equations&) = delete;
  Equations& operator=(const Equations&) = delete;

  bool begin() override { return true; }
  int get(int port, Cell* to) override { return unit_.get(unit_.self, place(port), to); }
  int set(int port, const Cell* coefficients, int count) override { return unit_.set(unit_.self, place(port), coefficients, count); }
  int advance(double, bool, double*) override { return 1; }
  int jump() override {
    int again = 1;
    for (int round = 0; again && round < 1000; ++round) {
      again = 0;
      if (unit_.jump && unit_.jump(unit_.self, &again)) return 1;
    }
    return 0;
  }
  int due(double* time) override {
    *time = std::numeric_limits<double>::infinity();
    return unit_.due ? unit_.due(unit_.self, time) : 0;
  }
  int slope(int, int, Cell*) override { return 1; }
  int save(int slot) override { return unit_.save(unit_.self, slot); }
  int restore(int slot) override { return unit_.restore(unit_.self, slot); }
  int pack(int slot, void* to, std::uint64_t* size) override { return unit_.pack(unit_.self, slot, to, size); }
  int unpack(int slot, const void* from, std::uint64_t size) override { return unit_.unpack(unit_.self, slot, from, size); }
  std::string message() override {
    const char* const said = unit_.message ? unit_.message(unit_.self) : nullptr;
    return said ? said : "";
  }
  Ode* equations() override { return ode_; }
  void tell(void (*)(void*, std::int32_t, double), void*) override {}

 private:
  int place(int port) const { return ports_[static_cast<std::size_t>(port)].place; }
  const std::vector<NestedPort>& ports_;
  upbeat_unit unit_;
  Ode* ode_;
};

}  // namespace
}  // namespace upbeat

using namespace upbeat;

struct scenario {
  ScenarioTables tables;
  scenario_description description{};
  scenario_equations equations{};
  Strings strings;
  upbeat_unit unit{};
  std::shared_ptr<Life> life;
  struct Slot {
    std::shared_ptr<Life> life;
    int place;
  };
  std::vector<Slot> slots;
  scenario_say say = nullptr;
  void* to = nullptr;
  std::string message;
  std::string complaint;  // what an FMU inside said last about something that went wrong
  std::vector<double> work;
};

namespace {

scenario& of(void* self) { return *static_cast<scenario*>(self); }

// What a call gives: 0 or 1, and then there is a message. Nothing is thrown into the host.
template <class Body>
int guarded(void* self, Body body) {
  scenario& s = of(self);
  s.complaint.clear();
  try {
    if (!body(s)) return 0;
    s.message = s.life ? s.life->message() : "";
  } catch (const std::exception& error) {
    s.message = error.what();
  } catch (...) {
    s.message = "it raised an exception";
  }
  if (!s.complaint.empty()) s.message += " (" + s.complaint + ")";
  return 1;
}

int unit_get(void* self, int port, Cell* to) {
  return guarded(self, [&](scenario& s) { return s.life->get(port, to); });
}
int unit_set(void* self, int port, const Cell* coefficients, int count) {
  return guarded(self, [&](scenario& s) { return s.life->set(port, coefficients, count); });
}
int unit_advance(void* self, double, double to, int early, double* reached) {
  return guarded(self, [&](scenario& s) { return s.life->advance(to, early != 0, reached); });
}
int unit_jump(void* self, int* again) {
  *again = 0;
  return guarded(self, [&](scenario& s) { return s.life->jump(); });
}
int unit_due(void* self, double* time) {
  return guarded(self, [&](scenario& s) { return s.life->due(time); });
}
int unit_slope(void* self, int output, int input, Cell* to) {
  return guarded(self, [&](scenario& s) { return s.life->slope(output, input, to); });
}
scenario::Slot& slot_at(scenario& s, int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= s.slots.size()) s.slots.resize(index + 1);
  return s.slots[index];
}
int unit_save(void* self, int slot) {
  return guarded(self, [&](scenario& s) {
    slot_at(s, slot) = {s.life, slot};
    return s.life->save(slot);
  });
}
int unit_restore(void* self, int slot) {
  return guarded(self, [&](scenario& s) {
    const scenario::Slot& kept = slot_at(s, slot);
    if (!kept.life) return 1;
    s.life = kept.life;  // of another beginning, perhaps
    return s.life->restore(kept.place);
  });
}
int unit_pack(void* self, int slot, void* to, std::uint64_t* size) {
  return guarded(self, [&](scenario& s) {
    const scenario::Slot& kept = slot_at(s, slot);
    return kept.life ? kept.life->pack(kept.place, to, size) : 1;
  });
}
int unit_unpack(void* self, int slot, const void* from, std::uint64_t size) {
  return guarded(self, [&](scenario& s) {
    slot_at(s, slot) = {s.life, slot};
    return s.life->unpack(slot, from, size);
  });
}

int equations_place(void* self, double t, const double* x) {
  return guarded(self, [&](scenario& s) { return s.life->equations()->place(t, x), 0; });
}
int equations_read(void* self, double* to) {
  return guarded(self, [&](scenario& s) { return s.life->equations()->read(to), 0; });
}
int equations_rates(void* self, double* to) {
  return guarded(self, [&](scenario& s) { return s.life->equations()->rates(to), 0; });
}
int equations_look(void* self, double* to) {
  return guarded(self, [&](scenario& s) { return s.life->equations()->indicators_now(to), 0; });
}
int equations_directional(void* self, const double* seeds, double* to) {
  return guarded(self, [&](scenario& s) {
    const KernelTables& kernel = *s.tables.directional;
    const auto seeded = static_cast<std::size_t>(s.description.state_count + s.description.seeded_count);
    const std::size_t own = static_cast<std::size_t>(kernel.inputs) - seeded;
    std::copy_n(s.life->equations()->now(), own, s.work.begin());
    std::copy_n(seeds, seeded, s.work.begin() + static_cast<std::ptrdiff_t>(own));
    run(kernel, s.work.data());
    for (std::size_t i = 0; i < kernel.results.size(); ++i) to[i] = s.work[static_cast<std::size_t>(kernel.results[i])];
    return 0;
  });
}

void hear(void* to, std::int32_t event, double time) {
  const scenario& s = of(to);
  if (s.say) s.say(s.to, s.tables.events.at(static_cast<std::size_t>(event)).c_str(), time);
}

// What FMUs inside log: of a scenario, only what went wrong is kept, to be said with the failure.
void hear_fmu(std::intptr_t id, const char* instance, int status, const char*, const char* message) {
  if (!id || status < 1) return;
  reinterpret_cast<scenario*>(id)->complaint = std::string(instance) + ": " + message;
}

std::vector<unsigned char> contents(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error("the FMU's resources cannot be read: there is no " + path);
  std::vector<unsigned char> bytes;
  unsigned char part[1 << 16];
  for (std::size_t count; (count = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + count);
  std::fclose(file);
  return bytes;
}

void describe(scenario& s) {
  scenario_description& d = s.description;
  d.token = s.tables.token.c_str();
  d.variables = s.tables.variables.data();
  d.variable_count = static_cast<std::int32_t>(s.tables.variables.size());
  d.values = s.tables.values.data();
  d.value_count = static_cast<std::int32_t>(s.tables.values.size());
  d.widest = 1;
  for (const NestedPort& port : s.tables.inside->tables.ports) d.widest = std::max(d.widest, port.cells);
  d.any_start = s.tables.any_start;
  d.start = s.tables.start;
  if (!s.tables.exchange) return;
  const auto ends = [&](int role, auto place) {
    std::int32_t most = 0;
    for (const scenario_variable& v : s.tables.variables) {
      if (v.role == role && place(v) >= 0) most = std::max(most, place(v) + v.cells);
    }
    return most;
  };
  d.state_count = ends(ROLE_STATE, [](const scenario_variable& v) { return v.port; });
  d.indicator_count = ends(ROLE_INDICATOR, [](const scenario_variable& v) { return v.port; });
  d.seeded_count = ends(ROLE_INPUT, [](const scenario_variable& v) { return v.rate; });
  d.seen_count = ends(ROLE_SHOWN, [](const scenario_variable& v) { return v.rate; });
}

}  // namespace

extern "C" {

scenario* scenario_new(const char* resources, const char* token, int exchange, char* why) {
  try {
    fmi::set_log_sink(&hear_fmu);
    auto made = std::make_unique<scenario>();
    scenario& s = *made;
    std::string folder = resources ? resources : "";
    while (folder.size() > 1 && (folder.back() == '/' || folder.back() == '\\')) folder.pop_back();
    s.tables = read_scenario(contents(folder + "/scenario.upbeat"), folder);
    if (!token || s.tables.token != token) throw std::runtime_error("its resources are not those of this model description: their token is '" + s.tables.token + "'");
    if (s.tables.exchange != (exchange != 0)) throw std::runtime_error(exchange ? "the FMU is for co-simulation" : "the FMU is for model exchange");
    for (const std::string& text : s.tables.texts) s.strings.intern(text);
    describe(s);
    upbeat_unit& unit = s.unit;
    unit.size = sizeof unit;
    unit.self = &s;
    unit.get = unit_get;
    unit.set = unit_set;
    unit.advance = unit_advance;
    unit.jump = unit_jump;
    unit.due = unit_due;
    unit.slope = unit_slope;
    unit.save = unit_save;
    unit.restore = unit_restore;
    unit.pack = unit_pack;
    unit.unpack = unit_unpack;
    return made.release();
  } catch (const std::exception& error) {
    std::snprintf(why, 1000, "%s", error.what());
  } catch (...) {
    std::snprintf(why, 1000, "it could not be made");
  }
  return nullptr;
}

void scenario_free(scenario* s) { delete s; }

const scenario_description* scenario_described(const scenario* s) { return &s->description; }

const upbeat_unit* scenario_begin(scenario* s, double t, const upbeat_cell* values) {
  const int failed = guarded(s, [&](scenario& own) {
    std::vector<double> numbers(own.tables.values.size() + 1);
    for (std::size_t i = 0; i < own.tables.values.size(); ++i) numbers[i] = values[i].r;
    for (const scenario_variable& v : own.tables.variables) {
      for (std::int32_t k = 0; v.value >= 0 && v.kind != KIND_REAL && k < v.cells; ++k) {
        numbers[static_cast<std::size_t>(v.value + k)] = static_cast<double>(values[v.value + k].i);
      }
    }
    const double* from = numbers.data();
    own.life.reset();
    Nest& inside = *own.tables.inside;
    const auto environment = reinterpret_cast<std::intptr_t>(s);
    if (own.tables.exchange) {
      const bool hybrid = std::holds_alternative<HybridTables>(inside.units[0]);
      const upbeat_unit unit = make_unit(inside.units[0], from, own.strings, t, environment);
      own.life = std::make_shared<Equations>(own.tables, unit, hybrid);
      const Ode& ode = *own.life->equations();
      own.equations = {static_cast<std::int32_t>(ode.state_count()), static_cast<std::int32_t>(ode.indicator_count()), equations_place,
                       equations_read, equations_rates, equations_look, own.tables.directional ? equations_directional : nullptr};
      if (own.tables.directional) own.work = own.tables.directional->workspace();
    } else {
      own.life = std::make_shared<Program>(own.tables, make_machine(inside, from, own.strings, t, environment), t, own.strings);
    }
    own.life->tell(own.say ? &hear : nullptr, s);
    return own.life->begin() ? 0 : 1;
  });
  return failed ? nullptr : &s->unit;
}

const scenario_equations* scenario_equations_of(scenario* s) { return s->tables.exchange && s->life ? &s->equations : nullptr; }

int scenario_over(const scenario* s) { return s->life && s->life->over() ? 1 : 0; }

void scenario_listen(scenario* s, scenario_say say, void* to) {
  s->say = say;
  s->to = to;
  if (s->life) s->life->tell(say ? &hear : nullptr, s);
}

const char* scenario_message(scenario* s) { return s->message.c_str(); }

int64_t scenario_intern(scenario* s, const char* text) { return text ? s->strings.intern(text) : -1; }

const char* scenario_text(const scenario* s, int64_t number) {
  return number >= 0 && static_cast<std::size_t>(number) < s->strings.size() ? s->strings.text(number).c_str() : nullptr;
}

}  // extern "C"
