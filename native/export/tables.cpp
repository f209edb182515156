// See tables.hpp.
#include "tables.hpp"

#include <algorithm>
#include <stdexcept>

#include "fmi/fmi2.hpp"
#include "fmi/fmi3.hpp"
#include "packing.hpp"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace upbeat {

namespace {

constexpr std::int64_t version = 1;
enum class UnitKind : std::int64_t { Ode, Hybrid, Discrete, Nested, Fmu };

[[noreturn]] void damaged(const std::string& what) { throw std::runtime_error("the FMU's resources are damaged: " + what); }

void require(const std::string& problem) {
  if (!problem.empty()) damaged(problem);
}

// Words, texts and lists; more than is there is never read.
class Source {
 public:
  Source(const std::vector<unsigned char>& bytes) : reader_(bytes.data(), bytes.size()) {}

  std::int64_t whole() {
    const std::uint64_t word = reader_.word();
    if (!reader_.sound()) damaged("they end too early");
    return static_cast<std::int64_t>(word);
  }
  double real() { return double_of(static_cast<std::uint64_t>(whole())); }
  bool flag() { return whole() != 0; }
  std::int32_t number() {
    const std::int64_t found = whole();
    if (found < INT32_MIN || found > INT32_MAX) damaged("a number is too large");
    return static_cast<std::int32_t>(found);
  }
  // Of a list whose entries take at least so many bytes each.
  std::size_t length(std::uint64_t least = 8) {
    const std::int64_t found = whole();
    if (found < 0 || static_cast<std::uint64_t>(found) > reader_.left() / least) damaged("a list is too long");
    return static_cast<std::size_t>(found);
  }
  std::string text() {
    const std::size_t size = length(1);
    const auto* const from = reinterpret_cast<const char*>(reader_.bytes(size));
    return from ? std::string(from, size) : std::string();
  }
  std::vector<double> reals() {
    std::vector<double> found(length());
    for (double& value : found) value = real();
    return found;
  }
  std::vector<std::int32_t> numbers() {
    std::vector<std::int32_t> found(length());
    for (std::int32_t& value : found) value = number();
    return found;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> found(length());
    for (std::string& value : found) value = text();
    return found;
  }
  bool finished() const { return reader_.finished(); }

 private:
  Reader reader_;
};

Kind kind_of(std::int32_t number) {
  if (number < 0 || number > 3) damaged("an unknown kind of value");
  return static_cast<Kind>(number);
}

class Reading {
 public:
  Reading(Source& from, std::string resources) : from_(from), resources_(std::move(resources)) {}

  void kernels() {
    const std::size_t count = from_.length();
    for (std::size_t k = 0; k < count; ++k) {
      auto kernel = std::make_shared<KernelTables>();
      kernel->inputs = from_.number();
      kernel->constants = from_.reals();
      const std::vector<std::int32_t> code = from_.numbers();
      if (code.size() % 5 != 0) damaged("code is not in rows");
      for (std::size_t i = 0; i < code.size(); i += 5) kernel->code.push_back({code[i], code[i + 1], code[i + 2], code[i + 3], code[i + 4]});
      kernel->results = from_.numbers();
      const std::size_t tables = from_.length();
      for (std::size_t i = 0; i < tables; ++i) {
        LookupTables lookup;
        lookup.x = from_.reals();
        lookup.y = from_.reals();
        lookup.origin_x = from_.reals();
        lookup.origin_y = from_.reals();
        lookup.coefficients = from_.reals();
        kernel->lookups.push_back(std::move(lookup));
      }
      if (kernel->inputs < 0) damaged("a kernel without inputs");
      kernel->size = kernel->inputs + static_cast<std::int32_t>(kernel->constants.size() + kernel->code.size());
      require(problem_in(*kernel));
      kernels_.push_back(std::move(kernel));
    }
  }

  std::shared_ptr<Nest> inside(int depth = 0) {
    if (depth > 100) damaged("scenarios are nested too deeply");
    auto made = std::make_shared<Nest>();
    ProgramTables program = this->program(made->strings);
    const std::vector<std::int32_t> places = from_.numbers();
    if (places.size() % 3 != 0) damaged("ports are not in rows");
    for (std::size_t i = 0; i < places.size(); i += 3) made->tables.ports.push_back({places[i], places[i + 1], places[i + 2]});
    made->tables.units = from_.texts();
    made->tables.exchange = from_.number();
    made->tables.takes_inputs = from_.flag();
    const std::size_t units = from_.length();
    for (std::size_t i = 0; i < units; ++i) made->units.push_back(unit(depth));
    require(problem_in(program, units));
    require(problem_in(made->tables, program, units));
    if (program.pace.limit < 0) damaged("the program does not say how far its steps go");
    made->program = std::make_shared<const ProgramTables>(std::move(program));
    return made;
  }

  // Model exchange: one unit of equations, with its ports as a scenario has them.
  std::shared_ptr<Nest> equations() {
    auto made = std::make_shared<Nest>();
    const std::vector<std::int32_t> places = from_.numbers();
    if (places.size() % 3 != 0) damaged("ports are not in rows");
    for (std::size_t i = 0; i < places.size(); i += 3) made->tables.ports.push_back({places[i], places[i + 1], places[i + 2]});
    made->units.push_back(unit(0));
    if (!std::holds_alternative<OdeTables>(made->units[0]) && !std::holds_alternative<HybridTables>(made->units[0])) {
      damaged("model exchange of something else than equations");
    }
    made->program = std::make_shared<const ProgramTables>();
    return made;
  }

  std::shared_ptr<const KernelTables> kernel(bool may_lack = false) {
    const std::int64_t number = from_.whole();
    if (may_lack && number < 0) return nullptr;
    if (number < 0 || static_cast<std::size_t>(number) >= kernels_.size()) damaged("there is no such kernel");
    return kernels_[static_cast<std::size_t>(number)];
  }

 private:
  ProgramTables program(std::vector<std::string>& strings) {
    ProgramTables program;
    const std::size_t cells = from_.length();
    for (std::size_t i = 0; i < cells; ++i) program.start.push_back(integer(from_.whole()));
    for (const std::int32_t kind : from_.numbers()) program.kinds.push_back(kind_of(kind));
    strings = from_.texts();
    if (program.kinds.size() != cells) damaged("cells without kinds");
    for (std::size_t i = 0; i < cells; ++i) {
      const bool text = program.kinds[i] == Kind::String;
      if (text && (program.start[i].i < 0 || static_cast<std::size_t>(program.start[i].i) >= strings.size())) damaged("there is no such text");
    }
    const std::vector<std::int32_t> code = from_.numbers();
    constexpr std::size_t width = std::tuple_size_v<Row>;
    if (code.size() % width != 0) damaged("the program is not in rows");
    program.code.resize(code.size() / width);
    for (std::size_t i = 0; i < code.size(); ++i) program.code[i / width][i % width] = code[i];
    program.entries = from_.numbers();
    program.operands = from_.numbers();
    const std::size_t kernels = from_.length();
    for (std::size_t i = 0; i < kernels; ++i) program.kernels.push_back(*kernel());
    const std::size_t expressions = from_.length();
    for (std::size_t i = 0; i < expressions; ++i) {
      const std::int32_t number = from_.number();
      std::vector<std::int32_t> source = from_.numbers();
      program.expressions.push_back({number, std::move(source), from_.numbers()});
    }
    for (std::int32_t* const to : {&program.start_block, &program.instant_block, &program.now, &program.next, &program.due,
                                   &program.stops, &program.ends, &program.budget, &program.slots, &program.loops}) {
      *to = from_.number();
    }
    PaceTables& pace = program.pace;
    const std::vector<std::int32_t> pace_cells = from_.numbers();
    const std::vector<std::int32_t> blocks = from_.numbers();
    if (pace_cells.size() != 6 || blocks.size() != 6) damaged("a pace has six cells and six blocks");
    std::int32_t* const to_cells[] = {&pace.limit, &pace.until, &pace.block, &pace.reason, &pace.again, &pace.fired};
    std::int32_t* const to_blocks[] = {&pace.propose, &pace.review, &pace.note, &pace.changed, &pace.keep, &pace.back};
    for (std::size_t i = 0; i < 6; ++i) {
      *to_cells[i] = pace_cells[i];
      *to_blocks[i] = blocks[i];
    }
    pace.steps = from_.numbers();
    const std::vector<std::int32_t> reasons = from_.numbers();
    if (reasons.size() % 3 != 0) damaged("reasons are not in rows");
    for (std::size_t i = 0; i < reasons.size(); i += 3) pace.reasons.push_back({reasons[i] != 0, reasons[i + 1], reasons[i + 2] != 0});
    program.shares.resize(program.entries.size());
    return program;
  }

  std::vector<PortTables> ports() {
    std::vector<PortTables> found(from_.length(24));
    for (PortTables& port : found) {
      port.cells = from_.number();
      port.kind = kind_of(from_.number());
      port.port = from_.number();
    }
    return found;
  }

  SolverTables solver() {
    SolverTables found;
    found.method = from_.whole() == 0 ? Method::Fixed : Method::Adaptive;
    found.steps = from_.whole();
    found.max_steps = from_.whole();
    for (double* const to : {&found.step, &found.rtol, &found.atol, &found.first, &found.longest}) *to = from_.real();
    for (std::vector<double>* const to : {&found.c, &found.a, &found.b, &found.e, &found.d}) *to = from_.reals();
    return found;
  }

  OdeTables ode() {
    OdeTables tables;
    tables.inputs = ports();
    tables.outputs = ports();
    tables.tunable = ports();
    tables.states = from_.reals();
    tables.input_start = from_.reals();
    tables.parameters = from_.reals();
    tables.derivatives = kernel(true);
    tables.compute = kernel();
    const std::size_t slopes = from_.length();
    if (slopes % 3 != 0) damaged("slopes are not in rows");
    for (std::size_t i = 0; i < slopes; i += 3) {
      SlopeTables slope;
      slope.output = from_.number();
      slope.input = from_.number();
      slope.kernel = kernel();
      tables.slopes.push_back(std::move(slope));
    }
    tables.solver = solver();
    const std::size_t others = from_.length();
    for (std::size_t i = 0; i < others; ++i) tables.others.push_back(solver());
    tables.chooser = from_.number();
    require(problem_in(tables));
    return tables;
  }

  static std::vector<std::pair<std::int32_t, std::int32_t>> pairs(const std::vector<std::int32_t>& numbers) {
    if (numbers.size() % 2 != 0) damaged("numbers are not in pairs");
    std::vector<std::pair<std::int32_t, std::int32_t>> found;
    for (std::size_t i = 0; i < numbers.size(); i += 2) found.emplace_back(numbers[i], numbers[i + 1]);
    return found;
  }

  HybridTables hybrid() {
    HybridTables tables;
    tables.ode = ode();
    tables.heard = ports();
    tables.sent = ports();
    const std::size_t events = from_.length();
    for (std::size_t i = 0; i < events; ++i) {
      ReactionTables event;
      event.name = from_.text();
      event.indicator = from_.number();
      event.on = from_.numbers();
      event.writes = pairs(from_.numbers());
      event.sends = pairs(from_.numbers());
      tables.events.push_back(std::move(event));
    }
    tables.changing = from_.numbers();
    tables.indicators = kernel();
    tables.actions = kernel();
    require(problem_in(tables));
    return tables;
  }

  PieceTables piece() {
    PieceTables found;
    found.kernel = kernel();
    found.from = from_.numbers();
    return found;
  }
  AssigningTables assigning() {
    AssigningTables found;
    found.piece = piece();
    found.to = from_.numbers();
    return found;
  }

  DiscreteTables discrete() {
    DiscreteTables tables;
    for (std::vector<PortTables>* const to : {&tables.inputs, &tables.heard, &tables.outputs, &tables.sent}) *to = ports();
    for (const std::int32_t kind : from_.numbers()) tables.kinds.push_back(kind_of(kind));
    tables.start = from_.reals();
    tables.input_start = from_.reals();
    tables.parameters = from_.reals();
    tables.mode = from_.number();
    const std::size_t modes = from_.length();
    for (std::size_t i = 0; i < modes; ++i) {
      ModeTables mode;
      mode.due = piece();
      mode.emissions = piece();
      mode.emitted = from_.numbers();
      mode.internal = assigning();
      mode.external = assigning();
      tables.modes.push_back(std::move(mode));
    }
    tables.compute = piece();
    require(problem_in(tables));
    return tables;
  }

  void variable(fmi::Variable& to) {
    const std::vector<std::int32_t> numbers = from_.numbers();
    if (numbers.size() != 3 || numbers[0] < 0 || numbers[0] > static_cast<std::int32_t>(fmi::Type::Clock) || numbers[2] < 0) {
      damaged("no variable");
    }
    to.type = static_cast<fmi::Type>(numbers[0]);
    to.reference = static_cast<std::uint32_t>(numbers[1]);
    to.cells = numbers[2];
    to.name = from_.text();
  }

  FmuSource fmu() {
    FmuSource made;
    made.birth.name = from_.text();
    made.folder = resources_ + "/" + from_.text();
    made.library = from_.text();
    made.birth.token = from_.text();
    fmi::ExchangeTables& tables = made.tables;
    tables.version = from_.number();
    if (tables.version != 2 && tables.version != 3) damaged("an unknown version of FMI");
    made.birth.exchange = from_.flag();
    made.birth.event_mode = from_.flag();
    made.birth.early_return = from_.flag();
    for (const std::int32_t reference : from_.numbers()) made.birth.required.push_back(static_cast<std::uint32_t>(reference));
    made.birth.intermediate = !made.birth.required.empty();
    made.run.has_stop = from_.flag();
    made.run.stop = from_.real();
    made.run.has_tolerance = from_.flag();
    made.run.tolerance = from_.real();
    const std::size_t given = from_.length();
    for (std::size_t i = 0; i < given; ++i) made.given.push_back(this->given());
    const std::size_t starts = from_.length();
    for (std::size_t i = 0; i < starts; ++i) {
      FmuSource::Start start;
      start.given = from_.flag();
      variable(start.variable);
      start.usual = from_.reals();
      if (start.usual.size() != static_cast<std::size_t>(start.variable.cells)) damaged("another number of start values");
      made.starts.push_back(std::move(start));
    }
    fmu_tables(tables);
    if (made.birth.exchange) {
      const std::vector<std::int32_t> numbers = from_.numbers();
      if (numbers.size() != 4 || numbers[0] < 0 || numbers[1] < 0) damaged("no model exchange");
      tables.states = static_cast<std::size_t>(numbers[0]);
      tables.indicators = static_cast<std::size_t>(numbers[1]);
      tables.completes = numbers[2] != 0;
      tables.shown = numbers[3];
      tables.input_start = from_.reals();
      const std::size_t held = from_.length();
      for (std::size_t i = 0; i < held; ++i) tables.held_start.push_back(from_.whole());
      tables.texts = from_.texts();
      tables.solver = solver();
    }
    made.loaded = library(made.folder);
    return made;
  }

  FmuSource::Given given() {
    FmuSource::Given one;
    one.structural = from_.flag();
    variable(one.variable);
    const std::size_t values = from_.length();
    for (std::size_t i = 0; i < values; ++i) {
      if (from_.flag()) {
        one.texts.push_back(from_.text());
      } else {
        one.cells.push_back(integer(from_.whole()));
      }
    }
    const bool texts = one.variable.kind() == Kind::String;
    if ((texts ? one.texts.size() : one.cells.size()) != static_cast<std::size_t>(one.variable.cells)) damaged("another number of values");
    return one;
  }

  void fmu_tables(fmi::FmuTables& tables) {
    tables.start = from_.real();
    tables.grid = from_.real();
    const std::vector<std::int32_t> flags = from_.numbers();
    if (flags.size() != 6) damaged("no FMU");
    tables.event_mode = flags[0] != 0;
    tables.saves = flags[1] != 0;
    tables.serialises = flags[2] != 0;
    tables.steady = flags[3] != 0;
    tables.adjoint = flags[4] != 0;
    tables.counted = flags[5];
    const std::size_t ports = from_.length();
    for (std::size_t i = 0; i < ports; ++i) {
      fmi::PortTables port;
      variable(port);
      const std::vector<std::int32_t> numbers = from_.numbers();
      if (numbers.size() != 7) damaged("no port of an FMU");
      port.port = numbers[0];
      port.order = numbers[1];
      port.input = numbers[2] != 0;
      port.event = numbers[3] != 0;
      port.followed = numbers[4] != 0;
      port.discrete = numbers[5] != 0;
      port.tunable = numbers[6] != 0;
      for (const std::int32_t reference : from_.numbers()) port.clocks.push_back(static_cast<std::uint32_t>(reference));
      tables.ports.push_back(std::move(port));
    }
    const std::size_t clocks = from_.length();
    for (std::size_t i = 0; i < clocks; ++i) {
      fmi::ClockTables clock;
      clock.reference = static_cast<std::uint32_t>(from_.number());
      clock.name = from_.text();
      const std::int32_t interval = from_.number();
      if (interval < 0 || interval > 3) damaged("a clock with an unknown kind of interval");
      clock.interval = static_cast<fmi::ClockTables::Interval>(interval);
      clock.length = from_.real();
      clock.shift = from_.real();
      clock.resolution = from_.real();
      tables.clocks.push_back(std::move(clock));
    }
  }

  std::shared_ptr<FmuLibrary> library(const std::string& folder) {
    std::shared_ptr<FmuLibrary>& known = libraries_[folder];
    if (!known) known = std::make_shared<FmuLibrary>();
    return known;
  }

  UnitSource unit(int depth) {
    switch (static_cast<UnitKind>(from_.whole())) {
      case UnitKind::Ode: return ode();
      case UnitKind::Hybrid: return hybrid();
      case UnitKind::Discrete: return discrete();
      case UnitKind::Nested: return inside(depth + 1);
      case UnitKind::Fmu: return fmu();
    }
    damaged("an unknown kind of unit");
  }

  Source& from_;
  std::string resources_;
  std::vector<std::shared_ptr<const KernelTables>> kernels_;
  std::unordered_map<std::string, std::shared_ptr<FmuLibrary>> libraries_;
};

// -- FMUs ---------------------------------------------------------------------------------------------------------------

void* open_library(const std::string& path, std::string& why) {
#ifdef _WIN32
  HMODULE found = LoadLibraryExA(path.c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
  if (!found) why = "error " + std::to_string(GetLastError());
  return reinterpret_cast<void*>(found);
#else
  void* const found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!found) {
    const char* const said = dlerror();
    why = said ? said : "unknown";
  }
  return found;
#endif
}

void* symbol(void* library, const std::string& name) {
#ifdef _WIN32
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name.c_str()));
#else
  return dlsym(library, name.c_str());
#endif
}

// A path as the URI that FMI 2 wants.
std::string uri_of(const std::string& path) {
  static const char* const hexadecimal = "0123456789ABCDEF";
  std::string made = path.empty() || path[0] != '/' ? "file:///" : "file://";
  for (const char sign : path) {
    const auto byte = static_cast<unsigned char>(sign == '\\' ? '/' : sign);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                       (byte < 128 && byte != 0 && std::string("/-_.~:").find(static_cast<char>(byte)) != std::string::npos);
    if (plain) {
      made += static_cast<char>(byte);
    } else {
      made += {'%', hexadecimal[byte >> 4], hexadecimal[byte & 15]};
    }
  }
  return made;
}

const char* const functions[] = {
    "SetDebugLogging", "EnterInitializationMode", "ExitInitializationMode", "Terminate", "FreeInstance", "EnterEventMode",
    "EnterContinuousTimeMode", "SetTime", "SetContinuousStates", "GetContinuousStates", "CompletedIntegratorStep",
    "GetEventIndicators", "GetNominalsOfContinuousStates", "DoStep", "Instantiate", "SetupExperiment", "GetReal", "GetInteger",
    "GetBoolean", "GetString", "SetReal", "SetInteger", "SetBoolean", "SetString", "GetFMUstate", "SetFMUstate", "FreeFMUstate",
    "SerializedFMUstateSize", "SerializeFMUstate", "DeSerializeFMUstate", "GetDirectionalDerivative", "SetRealInputDerivatives",
    "GetRealStatus", "GetBooleanStatus", "NewDiscreteStates", "GetDerivatives", "GetRealOutputDerivatives",
    "InstantiateModelExchange", "InstantiateCoSimulation", "EnterConfigurationMode", "ExitConfigurationMode", "GetFloat32",
    "GetFloat64", "GetInt8", "GetUInt8", "GetInt16", "GetUInt16", "GetInt32", "GetUInt32", "GetInt64", "GetUInt64", "GetBinary",
    "GetClock", "SetFloat32", "SetFloat64", "SetInt8", "SetUInt8", "SetInt16", "SetUInt16", "SetInt32", "SetUInt32", "SetInt64",
    "SetUInt64", "SetBinary", "SetClock", "GetFMUState", "SetFMUState", "FreeFMUState", "SerializedFMUStateSize",
    "SerializeFMUState", "DeserializeFMUState", "GetAdjointDerivative", "UpdateDiscreteStates", "EnterStepMode",
    "GetContinuousStateDerivatives", "GetIntervalDecimal", "GetShiftDecimal", "GetIntervalFraction", "GetShiftFraction",
    "GetOutputDerivatives", "GetNumberOfContinuousStates", "GetNumberOfEventIndicators"};

// An instance with its start values, in initialization mode, as a unit.
template <class F>
upbeat_unit make_fmu(FmuSource& source, const fmi::ExchangeTables& tables, const double*& values, Strings& strings, double start) {
  auto fmu = std::make_shared<F>(tables);
  fmu->use(strings);
  const auto check = [&](bool done) {
    if (!done) throw std::runtime_error("the FMU '" + source.birth.name + "' inside: " + fmu->why());
  };
  fmi::Birth birth = source.birth;
  const std::string resources = source.folder + "/resources";
  birth.resources = tables.version == 2 ? uri_of(resources) : resources + "/";
  if (!fmu->instantiate(birth)) {
    throw std::runtime_error("the FMU '" + source.birth.name + "' inside gave no instance" + (fmu->why().empty() ? "" : ": " + fmu->why()));
  }
  try {
    const auto give = [&](const FmuSource::Given& one) {
      std::vector<Cell> cells = one.cells;
      for (const std::string& text : one.texts) cells.push_back(integer(strings.intern(text)));
      check(fmu->set(one.variable, cells.data()));
    };
    const bool shapes = std::any_of(source.given.begin(), source.given.end(), [](const auto& one) { return one.structural; });
    if (shapes) {
      check(fmu->enter_configuration());
      for (const FmuSource::Given& one : source.given) {
        if (one.structural) give(one);
      }
      check(fmu->exit_configuration());
    }
    fmi::Experiment run = source.run;
    run.start = start;
    run.has_stop = run.has_stop && run.stop > start;
    check(fmu->setup(run));
    for (const FmuSource::Given& one : source.given) {
      if (!one.structural) give(one);
    }
    for (const FmuSource::Start& one : source.starts) {
      const double* const from = values;
      values += one.usual.size();
      if (!one.given && std::equal(one.usual.begin(), one.usual.end(), from)) continue;
      std::vector<Cell> cells;
      for (std::size_t i = 0; i < one.usual.size(); ++i) cells.push_back(from_double(from[i], one.variable.kind()));
      check(fmu->set(one.variable, cells.data()));
    }
    check(fmu->enter_initialization(run));
  } catch (...) {
    if (!fmu->fatal()) fmu->free();
    throw;
  }
  fmi::Entered entered =
      source.birth.exchange ? fmi::make_exchange(tables, fmu) : fmi::make_cosimulation(static_cast<const fmi::FmuTables&>(tables), fmu);
  entered.face->use(strings);
  return entered.table;
}

upbeat_unit make_fmu(FmuSource& source, const double*& values, Strings& strings, double start, std::intptr_t environment) {
  FmuLibrary& library = *source.loaded;
  if (!library.handle) {
    std::string why;
    library.handle = open_library(source.folder + "/" + source.library, why);
    if (!library.handle) throw std::runtime_error("the library of the FMU '" + source.birth.name + "' inside cannot be loaded: " + why);
  }
  fmi::ExchangeTables tables = source.tables;
  tables.start = start;
  tables.environment = environment;
  tables.doom = &library.doom;
  const std::string prefix = tables.version == 2 ? "fmi2" : "fmi3";
  for (const char* const function : functions) {
    void* const found = symbol(library.handle, prefix + function);
    if (found) tables.addresses[function] = reinterpret_cast<std::uintptr_t>(found);
  }
  const std::string problem = source.birth.exchange ? fmi::problem_in(tables) : fmi::problem_in(static_cast<const fmi::FmuTables&>(tables));
  if (!problem.empty()) throw std::runtime_error("the FMU '" + source.birth.name + "' inside: " + problem);
  return tables.version == 2 ? make_fmu<fmi::Fmi2>(source, tables, values, strings, start)
                             : make_fmu<fmi::Fmi3>(source, tables, values, strings, start);
}

void take(const double*& values, std::vector<double>& to) {
  std::copy_n(values, to.size(), to.begin());
  values += to.size();
}

// How many values the units take.
std::size_t count_values(const Nest& inside) {
  std::size_t total = 0;
  for (const UnitSource& unit : inside.units) {
    if (const auto* const ode = std::get_if<OdeTables>(&unit)) {
      total += ode->states.size() + ode->input_start.size() + ode->parameters.size();
    } else if (const auto* const hybrid = std::get_if<HybridTables>(&unit)) {
      total += hybrid->ode.states.size() + hybrid->ode.input_start.size() + hybrid->ode.parameters.size();
    } else if (const auto* const discrete = std::get_if<DiscreteTables>(&unit)) {
      total += discrete->start.size() + discrete->input_start.size() + discrete->parameters.size();
    } else if (const auto* const nested = std::get_if<std::shared_ptr<Nest>>(&unit)) {
      total += count_values(**nested);
    } else {
      for (const FmuSource::Start& start : std::get<FmuSource>(unit).starts) total += start.usual.size();
    }
  }
  return total;
}

}  // namespace

std::unique_ptr<Machine> make_machine(Nest& inside, const double*& values, Strings& strings, double start, std::intptr_t environment) {
  std::vector<upbeat_unit> units;
  units.reserve(inside.units.size());
  try {
    for (UnitSource& unit : inside.units) units.push_back(make_unit(unit, values, strings, start, environment));
  } catch (...) {
    for (const upbeat_unit& unit : units) {
      if (unit.destroy) unit.destroy(unit.self);
    }
    throw;
  }
  if (inside.strings.empty()) return std::make_unique<Machine>(inside.program, std::move(units), start);
  ProgramTables own = *inside.program;  // whose texts become texts of the whole run
  for (std::size_t i = 0; i < own.start.size(); ++i) {
    if (own.kinds[i] == Kind::String) own.start[i].i = strings.intern(inside.strings.at(static_cast<std::size_t>(own.start[i].i)));
  }
  return std::make_unique<Machine>(std::move(own), std::move(units), start);
}

upbeat_unit make_unit(UnitSource& source, const double*& values, Strings& strings, double start, std::intptr_t environment) {
  if (const auto* const ode = std::get_if<OdeTables>(&source)) {
    OdeTables tables = *ode;
    take(values, tables.states);
    take(values, tables.input_start);
    take(values, tables.parameters);
    return Ode::make(tables, start);
  }
  if (const auto* const hybrid = std::get_if<HybridTables>(&source)) {
    HybridTables tables = *hybrid;
    take(values, tables.ode.states);
    take(values, tables.ode.input_start);
    take(values, tables.ode.parameters);
    return Hybrid::make(tables, start);
  }
  if (const auto* const discrete = std::get_if<DiscreteTables>(&source)) {
    DiscreteTables tables = *discrete;
    take(values, tables.start);
    take(values, tables.input_start);
    take(values, tables.parameters);
    return Discrete::make(tables, start);
  }
  if (auto* const nested = std::get_if<std::shared_ptr<Nest>>(&source)) {
    return Nested::make(make_machine(**nested, values, strings, start, environment), (*nested)->tables, start, &strings);
  }
  return make_fmu(std::get<FmuSource>(source), values, strings, start, environment);
}

ScenarioTables read_scenario(const std::vector<unsigned char>& bytes, const std::string& resources) {
  Source from(bytes);
  if (from.text() != "upbeat scenario") damaged("they are not those of Upbeat");
  if (from.whole() != version) damaged("they were written by another version of Upbeat");
  ScenarioTables tables;
  tables.token = from.text();
  tables.exchange = from.flag();
  Reading reading(from, resources);
  reading.kernels();
  tables.inside = tables.exchange ? reading.equations() : reading.inside();
  const std::vector<std::int32_t> variables = from.numbers();
  if (variables.size() % 8 != 0) damaged("variables are not in rows");
  const std::size_t count = from.length();
  for (std::size_t i = 0; i < count; ++i) tables.values.push_back(integer(from.whole()));
  const auto ports = static_cast<std::int32_t>(tables.inside->tables.ports.size());
  for (std::size_t i = 0; i < variables.size(); i += 8) {
    const std::int32_t* const n = &variables[i];
    const scenario_variable v = {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
    const bool continuous = v.role == ROLE_STATE || v.role == ROLE_RATE || v.role == ROLE_INDICATOR;
    if (v.role < ROLE_TIME || v.role > ROLE_INDICATOR || v.kind < 0 || v.kind > 3 || v.cells < 1 || v.cell < 0) damaged("no variable");
    if (!continuous && (v.port < -1 || v.port >= ports)) damaged("a variable without its port");
    if (!continuous && v.port >= 0 && (v.width != tables.inside->tables.ports[static_cast<std::size_t>(v.port)].cells || v.cell + v.cells > v.width)) {
      damaged("a variable that is not in its port");
    }
    if (v.value >= 0 && static_cast<std::size_t>(v.value) + static_cast<std::size_t>(v.cells) > count) damaged("a variable without its value");
    if (v.value < -1 || (v.value >= 0 && v.value < v.cell)) damaged("a variable without its value");
    tables.variables.push_back(v);
  }
  tables.texts = from.texts();
  tables.events = from.texts();
  tables.blocks = from.numbers();
  const std::int32_t blocks = static_cast<std::int32_t>(tables.inside->program->entries.size());
  if (tables.blocks.size() != static_cast<std::size_t>(ports)) damaged("ports without blocks");
  for (const std::int32_t block : tables.blocks) {
    if (block < -1 || block >= blocks) damaged("there is no such block");
  }
  const std::vector<std::int32_t> slopes = from.numbers();
  if (slopes.size() % 4 != 0) damaged("slopes are not in rows");
  for (std::size_t i = 0; i < slopes.size(); i += 4) {
    const ScenarioTables::Slope slope = {slopes[i], slopes[i + 1], slopes[i + 2], slopes[i + 3]};
    const auto cells = static_cast<std::int64_t>(tables.inside->program->start.size());
    if (slope.output < 0 || slope.output >= ports || slope.input < 0 || slope.input >= ports || slope.cell < 0 || slope.cells < 1 ||
        std::int64_t{slope.cell} + slope.cells > cells) {
      damaged("no slope");
    }
    tables.slopes.push_back(slope);
  }
  tables.slopes_block = from.number();
  if (tables.slopes_block < -1 || tables.slopes_block >= blocks || (tables.slopes_block < 0 && !tables.slopes.empty())) damaged("there is no such block");
  tables.any_start = from.flag();
  tables.start = from.real();
  tables.length = from.real();
  tables.directional = reading.kernel(true);
  if (count_values(*tables.inside) > count) damaged("there are not enough start values");
  if (!from.finished()) damaged("there is more than there should be");
  return tables;
}

}  // namespace upbeat
