// See fmu.hpp.
#include "fmi/fmu.hpp"

#include "exception.hpp"
#include "fmi/logger.hpp"

namespace upbeat::fmi {

namespace {

constexpr std::int32_t most_ports = 1 << 24;  // a table from a broken file should not take all memory

const char* const type_names[] = {"Float32", "Float64", "Int8",   "UInt8",   "Int16",  "UInt16",      "Int32", "UInt32",
                                  "Int64",   "UInt64",  "Boolean", "String", "Binary", "Enumeration", "Clock"};

}  // namespace

std::string problem_in(const FmuTables& tables) {
  if (tables.version != 2 && tables.version != 3) return "a version of FMI that nobody knows";
  if (!tables.pointer) return "an FMU without an instance";
  for (const char* const name : {"ExitInitializationMode", "Terminate", "FreeInstance"}) {
    if (!tables.find<void()>(name)) return "the FMU has no function " + std::string(name);
  }
  for (const PortTables& port : tables.ports) {
    if (port.port < 0 || port.port > most_ports) return "a port with an impossible number";
    if (port.cells < 1 || (port.cells > 1 && tables.version == 2)) return "a port with an impossible number of cells";
    if (port.type < Type::Float32 || port.type > Type::Clock) return "a variable of an unknown type";
    if (port.type == Type::String || port.type == Type::Binary) return "an FMU with strings runs in Python only";
    if (port.event != (port.type == Type::Clock)) return "an event that is no clock";
  }
  return "";
}

double Caller::past(double now, double named) {
  if (!told_) {
    told_ = true;
    warn("its next event would be at t = " + shorter(named) + ", which is past at t = " + shorter(now) + ": taken as none");
  }
  return std::numeric_limits<double>::infinity();
}

void Caller::warn(const std::string& text) {
  upbeat_fmi2_log(reinterpret_cast<void*>(environment_), "", Warning, "", "%s", text.c_str());
}

int Caller::raised(const char* call) {
  raised_ = sound_text(current_exception());
  const char* none = nullptr;
  doom_->compare_exchange_strong(none, call, std::memory_order_acq_rel);
  return Fatal;
}

void Caller::settle(const char* call) {
  set_arithmetic(usual_);
  if (settled_) return;
  settled_ = true;
  warn(std::string(call) +
       " changed how the processor computes (rounding, tiny numbers, or which faults end the process). It was set back, "
       "so that the results of others stay what they are (only the first time is reported)");
}

bool Caller::missing(const char* call) { return refuse("the FMU has no " + std::string(call)); }

bool Caller::lost(const char* call) {
  const std::string before = doom_->load(std::memory_order_acquire);
  refuse(std::string(call) + " cannot be called: the FMU failed for good in " + before + " before");
  lost_ = true;
  return false;
}

bool Caller::judged(int status, const char* call) {
  if (status == Warning) return true;
  failed_ = failed_ || status == Error || status == Fatal;
  const char* none = nullptr;
  if (status == Fatal) doom_->compare_exchange_strong(none, call, std::memory_order_acq_rel);
  if (!raised_.empty()) {
    refuse(std::string(call) + " raised a C++ exception (" + std::exchange(raised_, "") + "), which must not leave an FMU");
    return false;
  }
  static constexpr const char* words[] = {"", "", " was discarded", " failed", " failed for good (fatal)",
                                          " is still pending, and asynchronous steps are not supported"};
  refuse(std::string(call) + (status > Warning && status <= Pending
                                  ? words[status]
                                  : " gave the status " + std::to_string(status) + ", which FMI does not know"));
  said_ = true;
  discarded_ = status == Discard;
  return false;
}

bool Caller::beyond(const Variable& variable, const std::string& value, const std::string& least, const std::string& greatest) {
  const std::string type = type_names[static_cast<int>(variable.type)];
  const std::string range = least.empty() ? " goes up to " + greatest : " goes from " + least + " to " + greatest;
  return refuse("'" + variable.name + "' cannot be " + value + ": its type " + type + range);
}

}  // namespace upbeat::fmi
