// A discrete-event unit: variables that change in jumps only, by the code of the active mode. The twin of
// upbeat.units.discrete.unit, bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cell.hpp"
#include "trajectories.hpp"
#include "kernel.hpp"

namespace upbeat {

// Code, and where its inputs are in the arguments of the unit: [time, variables, cells of ordinary inputs,
// cells of event inputs, whether each event has been set, parameters], rising.
struct PieceTables {
  std::shared_ptr<const KernelTables> kernel;
  std::vector<std::int32_t> from;
  Compiled compiled = nullptr;  // used instead of the kernel when given
};

// Code that gives variables new values, and which these are.
struct AssigningTables {
  PieceTables piece;
  std::vector<std::int32_t> to;
};

struct ModeTables {
  PieceTables due;        // one result
  PieceTables emissions;  // for each output in `emitted`: whether it is present, then its cells
  std::vector<std::int32_t> emitted;  // places among the event outputs
  AssigningTables internal;
  AssigningTables external;
};

struct DiscreteTables {
  std::vector<PortTables> inputs;
  std::vector<PortTables> heard;  // event inputs
  std::vector<PortTables> outputs;
  std::vector<PortTables> sent;  // event outputs
  std::vector<Kind> kinds;       // of the variables
  std::vector<double> start;
  std::vector<double> input_start;
  std::vector<double> parameters;
  std::int32_t mode = -1;  // the variable that says which mode holds; -1: there is only one
  std::vector<ModeTables> modes;
  PieceTables compute;  // one result per cell of the ordinary outputs
};

// Why no unit can be made from these tables, or an empty text.
std::string problem_in(const DiscreteTables& tables);

class Discrete final {
 public:
  Discrete(const DiscreteTables& tables, double start);

  int get(int port, Cell* to);
  int set(int port, const Cell* coefficients, int count);
  int advance(double t, double to, bool early, double* reached);
  int jump(int* again);
  int due(double* time);
  int save(int slot);
  int restore(int slot);
  int pack(int slot, void* to, std::uint64_t* size);
  int unpack(int slot, const void* from, std::uint64_t size);
  int reset(double start, const double* values);
  const char* message() const { return message_.c_str(); }

  // [time, variables, trajectories of the ordinary inputs, cells of the event inputs, whether each has been set]:
  // everything the future depends on.
  void state(std::vector<double>& to) const;

  // A unit as the engine enters it; the table owns the unit.
  static upbeat_unit make(const DiscreteTables& tables, double start);

 private:
  // What can change, and what code can depend on.
  enum Source : unsigned { Time = 1, Variables = 2, Inputs = 4, Events = 8 };

  // Code with room to run it. Parameters never change during a run: they are handed over at its begin.
  class Piece {
   public:
    Piece(const PieceTables& tables, const Discrete& unit);
    bool reads(unsigned sources) const { return (reads_ & sources) != 0; }
    const double* operator()(const double* arguments);
    void begin(const double* arguments);

   private:
    void run();
    std::shared_ptr<const KernelTables> kernel_;
    Compiled compiled_;
    std::vector<std::int32_t> all_;   // where its inputs are
    std::vector<std::int32_t> from_;  // those that may change, which come first
    std::vector<double> work_;
    std::vector<double> results_;
    unsigned reads_ = 0;
  };
  struct Assigning {
    Piece piece;
    std::vector<std::int32_t> to;
  };
  struct Emission {
    std::int32_t output;  // its place among the event outputs
    std::size_t first;    // result: whether it is present; its cells follow
  };
  struct Mode {
    Piece due;
    Piece emissions;
    std::vector<Emission> emitted;
    Assigning internal;
    Assigning external;
  };
  struct Port {
    enum Role : std::int32_t { None, Input, Heard, Output, Sent } role = None;
    std::int32_t index = 0;  // among those of its role
    std::size_t cell = 0;    // of its first cell among those of its role
    std::int32_t cells = 0;
    Kind kind = Kind::Real;
  };

  void add_ports(const std::vector<PortTables>& ports, Port::Role role);
  double time() const { return arguments_[0]; }
  double* inputs() { return arguments_.data() + inputs_at_; }
  void changed(unsigned sources);
  bool know_due();
  bool know_emissions();
  bool know_outputs();
  bool fits(double value, Kind kind);
  bool select();
  std::string no_mode(double mode) const;
  int refuse(std::string message);

  std::vector<Port> ports_;  // by number
  std::vector<Kind> kinds_;
  std::int32_t mode_;
  std::size_t inputs_at_;  // where in the arguments
  std::size_t events_at_;
  std::size_t flags_at_;
  std::size_t parameters_at_;
  std::vector<double> made_;  // the numbers that it began with: variables, inputs, parameters
  std::vector<double> arguments_;
  InputTrajectories trajectories_;
  std::vector<Mode> modes_;
  Piece compute_;
  std::vector<Port> outputs_;  // the ordinary ones
  std::vector<Port> sent_;
  Mode* active_ = nullptr;
  bool told_ = false;  // whether an event has been set
  bool knows_due_ = false;
  bool knows_emissions_ = false;
  bool knows_outputs_ = false;
  double due_ = 0.0;
  const double* shown_ = nullptr;         // the values of the ordinary outputs
  std::vector<const double*> emissions_;  // of each event output: its cells, or null
  std::vector<std::vector<double>> slots_;
  std::string message_;
};

}  // namespace upbeat
