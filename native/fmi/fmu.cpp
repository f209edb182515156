// See fmu.hpp.
#include "fmi/fmu.hpp"

#include <algorithm>

#include "exception.hpp"
#include "fmi/callbacks.hpp"
#include "fmi/units.hpp"

namespace upbeat::fmi {

namespace {

constexpr std::int32_t most_ports = 1 << 24;  // a table from a broken file should not take all memory

const char* const type_names[] = {"Float32", "Float64", "Int8",   "UInt8",   "Int16",  "UInt16",      "Int32", "UInt32",
                                  "Int64",   "UInt64",  "Boolean", "String", "Binary", "Enumeration", "Clock"};

}  // namespace

std::string problem_in(const FmuTables& tables) {
  if (tables.version != 2 && tables.version != 3) return "an unknown version of FMI";
  for (const char* const name : {"ExitInitializationMode", "Terminate", "FreeInstance"}) {
    if (!tables.find<void()>(name)) return "the FMU has no function " + std::string(name);
  }
  for (const PortTables& port : tables.ports) {
    if (port.port < 0 || port.port > most_ports) return "a port with an impossible number";
    if (port.cells < 1 || (port.cells > 1 && tables.version == 2)) return "a port with an impossible number of cells";
    if (port.type < Type::Float32 || port.type > Type::Clock) return "a variable of an unknown type";
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

bool Caller::missing(const char* call) {
  const auto promised = declared_.find(call + 4);  // without fmi2 or fmi3
  return refuse("the FMU has no " + std::string(call) +
                (promised == declared_.end() ? "" : ", though it declares " + promised->second));
}

bool Caller::lost(const char* call) {
  if (doom_ == &freed_) {
    refuse(std::string(call) + " cannot be called: the instance has been freed");
    lost_ = true;
    return false;
  }
  const std::string before = doom_->load(std::memory_order_acquire);
  refuse(std::string(call) + " cannot be called: the FMU failed for good in " + before + " before");
  lost_ = true;
  return false;
}

bool Caller::judged(int status, const char* call) {
  if (status == Warning) {
    if (std::find(warned_.begin(), warned_.end(), call) != warned_.end()) return true;
    warned_.push_back(call);
    warn(std::string(call) + " gave a warning (only the first one is reported)");
    return true;
  }
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

bool Caller::beyond(const Variable& variable, const std::string& value, const std::string& minimum, const std::string& maximum) {
  const std::string type = type_names[static_cast<int>(variable.type)];
  const std::string range = minimum.empty() ? " goes up to " + maximum : " goes from " + minimum + " to " + maximum;
  return refuse("'" + variable.name + "' cannot be " + value + ": its type " + type + range);
}

bool Caller::text_of(const Variable& to, Cell cell, const std::string** text) {
  *text = &strings_->text(cell.i);
  if ((*text)->find('\0') == std::string::npos) return true;
  return refuse("'" + to.name + "' cannot be '" + std::string((*text)->c_str()) +
                "\\0…': a text of FMI ends at a character 0");
}

bool Caller::bytes_of(const Variable& to, Cell cell, std::string* bytes) {
  const std::string& digits = strings_->text(cell.i);
  const auto value = [](char digit) {
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                          : -1;
  };
  bytes->clear();
  for (std::size_t at = 0; at < digits.size();) {
    if (digits[at] == ' ') {
      ++at;
      continue;
    }
    const int high = value(digits[at]);
    const int low = at + 1 < digits.size() ? value(digits[at + 1]) : -1;
    if (high < 0 || low < 0) {
      return refuse("'" + to.name + "' cannot be '" + digits + "': it needs bytes as hexadecimal digits, such as '00ff'");
    }
    bytes->push_back(static_cast<char>(16 * high + low));
    at += 2;
  }
  return true;
}

std::string Caller::digits_of(const unsigned char* bytes, std::size_t size) {
  std::string digits;
  for (std::size_t i = 0; bytes && i < size; ++i) {
    digits += "0123456789abcdef"[bytes[i] / 16];
    digits += "0123456789abcdef"[bytes[i] % 16];
  }
  return digits;
}

}  // namespace upbeat::fmi
