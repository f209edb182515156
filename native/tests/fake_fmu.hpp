// FMUs made of a few functions, with a list of what was called.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "check.hpp"
#include "fmi/fmu.hpp"

namespace upbeat::fmi {

// u -> x grows by u per time, y = 2 x + u. References: 0 u, 1 y, 2 an integer, 3 a boolean. It complains by status.
struct FakeFmu {
  double u = 0.0, x = 0.0, t = 0.0, slope = 0.0;
  std::int64_t number = 7;
  int flag = 0;
  double stop_at = 1e300;  // a step goes no further
  double terminate_at = 1e300;
  double event_at = 1e300;
  int rounds = 0;           // of event iteration that are still wanted
  int fail_with = 0;        // what the next get returns
  std::vector<std::string> calls;
  std::vector<double> starts;
  std::vector<std::unique_ptr<double[]>> states;  // which it owns: after a fatal error nobody drops them
  double* new_state() {
    states.push_back(std::make_unique<double[]>(3));
    return states.back().get();
  }
  static FakeFmu& of(void* c) { return *static_cast<FakeFmu*>(c); }
  int called(const char* name, int status = 0) {
    calls.push_back(name);
    return status;
  }
  int count(const std::string& name) const {
    int found = 0;
    for (const std::string& call : calls) found += call == name ? 1 : 0;
    return found;
  }
  double read(std::uint32_t reference) const { return reference == 0 ? u : 2.0 * x + u; }
  void move(double from, double length) {
    starts.push_back(from);
    x += u * length + slope * length * length / 2.0;
    t = from + length;
  }
};

inline PortTables port_of(std::int32_t number, std::uint32_t reference, bool input, Type type = Type::Float64) {
  PortTables port;
  port.name = (input ? "u" : "y") + std::to_string(reference);
  port.port = number;
  port.reference = reference;
  port.input = input;
  port.type = type;
  return port;
}

inline FmuTables fake2(FakeFmu& fmu) {
  using R = const std::uint32_t*;
  FmuTables tables;
  tables.version = 2;
  tables.pointer = &fmu;
  tables.saves = tables.serialises = true;
  tables.ports = {port_of(0, 0, true), port_of(1, 1, false), port_of(2, 2, false, Type::Int32), port_of(3, 3, true, Type::Boolean)};
  auto& a = tables.addresses;
  a["ExitInitializationMode"] = address(+[](void* c) { return FakeFmu::of(c).called("exit"); });
  a["Terminate"] = address(+[](void* c) { return FakeFmu::of(c).called("terminate"); });
  a["FreeInstance"] = address(+[](void* c) { FakeFmu::of(c).called("free"); });
  a["GetReal"] = address(+[](void* c, R r, std::size_t, double* to) {
    *to = FakeFmu::of(c).read(*r);
    return FakeFmu::of(c).fail_with;
  });
  a["SetReal"] = address(+[](void* c, R, std::size_t, const double* from) {
    FakeFmu::of(c).u = *from;
    FakeFmu::of(c).slope = 0.0;
    return 0;
  });
  a["GetInteger"] = address(+[](void* c, R, std::size_t, int* to) {
    *to = static_cast<int>(FakeFmu::of(c).number);
    return 0;
  });
  a["SetInteger"] = address(+[](void* c, R, std::size_t, const int* from) {
    FakeFmu::of(c).number = *from;
    return 0;
  });
  a["SetBoolean"] = address(+[](void* c, R, std::size_t, const int* from) {
    FakeFmu::of(c).flag = *from;
    return 0;
  });
  a["SetRealInputDerivatives"] = address(+[](void* c, R, std::size_t, const int* order, const double* from) {
    if (*order == 1) FakeFmu::of(c).slope = *from;
    return FakeFmu::of(c).called("slope");
  });
  a["DoStep"] = address(+[](void* c, double t, double h, int no_prior) {
    FakeFmu& fmu = FakeFmu::of(c);
    fmu.called(no_prior ? "step" : "step, may go back");
    if (t + h <= fmu.stop_at) {
      fmu.move(t, h);
      return 0;
    }
    if (fmu.stop_at > t) fmu.move(t, fmu.stop_at - t);
    return 2;
  });
  a["GetRealStatus"] = address(+[](void* c, int, double* to) {
    *to = FakeFmu::of(c).t;
    return 0;
  });
  a["GetBooleanStatus"] = address(+[](void* c, int, int* to) {
    *to = FakeFmu::of(c).t >= FakeFmu::of(c).terminate_at;
    return 0;
  });
  a["GetFMUstate"] = address(+[](void* c, void** state) {
    if (!*state) *state = FakeFmu::of(c).new_state();
    double* const kept = static_cast<double*>(*state);
    kept[0] = FakeFmu::of(c).u, kept[1] = FakeFmu::of(c).x, kept[2] = FakeFmu::of(c).t;
    return FakeFmu::of(c).called("save");
  });
  a["SetFMUstate"] = address(+[](void* c, void* state) {
    const double* const kept = static_cast<double*>(state);
    FakeFmu::of(c).u = kept[0], FakeFmu::of(c).x = kept[1], FakeFmu::of(c).t = kept[2];
    return 0;
  });
  a["FreeFMUstate"] = address(+[](void* c, void** state) {
    *state = nullptr;
    return FakeFmu::of(c).called("drop");
  });
  a["SerializedFMUstateSize"] = address(+[](void*, void*, std::size_t* size) {
    *size = 24;
    return 0;
  });
  a["SerializeFMUstate"] = address(+[](void*, void* state, char* to, std::size_t size) {
    std::memcpy(to, state, size);
    return 0;
  });
  a["DeSerializeFMUstate"] = address(+[](void* c, const char* from, std::size_t size, void** state) {
    if (size != 24) return 3;
    if (!*state) *state = FakeFmu::of(c).new_state();
    std::memcpy(*state, from, size);
    return 0;
  });
  a["GetDirectionalDerivative"] = address(+[](void*, R, std::size_t, R, std::size_t, const double* seed, double* to) {
    *to = *seed;
    return 0;
  });
  return tables;
}

// The same with event mode: it returns early at `event_at`, and wants `rounds` of iteration there.
inline FmuTables fake3(FakeFmu& fmu) {
  using R = const std::uint32_t*;
  FmuTables tables = fake2(fmu);
  tables.version = 3;
  tables.event_mode = true;
  tables.saves = tables.serialises = false;
  tables.ports = {port_of(0, 0, true), port_of(1, 1, false), port_of(2, 2, false, Type::UInt64), port_of(3, 3, true, Type::Int8)};
  auto& a = tables.addresses;
  a["GetFloat64"] = address(+[](void* c, R r, std::size_t, double* to, std::size_t) {
    *to = FakeFmu::of(c).read(*r);
    return FakeFmu::of(c).fail_with;
  });
  a["SetFloat64"] = address(+[](void* c, R, std::size_t, const double* from, std::size_t) {
    FakeFmu::of(c).u = *from;
    return 0;
  });
  a["GetUInt64"] = address(+[](void* c, R, std::size_t, std::uint64_t* to, std::size_t) {
    *to = static_cast<std::uint64_t>(FakeFmu::of(c).number);
    return 0;
  });
  a["SetInt8"] = address(+[](void* c, R, std::size_t, const std::int8_t* from, std::size_t) {
    FakeFmu::of(c).number = *from;
    return 0;
  });
  a["DoStep"] = address(+[](void* c, double t, double h, bool, bool* event, bool* terminate, bool* early, double* reached) {
    FakeFmu& fmu = FakeFmu::of(c);
    fmu.called("step");
    *early = *event = t < fmu.event_at && fmu.event_at < t + h;
    const double to = *early ? fmu.event_at : t + h;
    fmu.move(t, to - t);
    *reached = to;
    *terminate = to >= fmu.terminate_at;
    return 0;
  });
  a["EnterEventMode"] = address(+[](void* c) { return FakeFmu::of(c).called("event mode"); });
  a["EnterStepMode"] = address(+[](void* c) { return FakeFmu::of(c).called("step mode"); });
  a["UpdateDiscreteStates"] = address(+[](void* c, bool* again, bool* terminate, bool*, bool*, bool* next, double*) {
    FakeFmu& fmu = FakeFmu::of(c);
    *again = fmu.rounds > 0 && --fmu.rounds > 0;
    *terminate = *next = false;
    return fmu.called("update");
  });
  return tables;
}

}  // namespace upbeat::fmi
