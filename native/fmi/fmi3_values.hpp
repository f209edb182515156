// Getting and setting the variables of an instance of FMI 3, each type by functions of its own.
#pragma once

#include <string>
#include <vector>

#include "fmi/fmu.hpp"

namespace upbeat::fmi {

class Fmi3Values : public Caller {
 public:
  explicit Fmi3Values(const FmuTables& tables)
      : Caller(tables),
        c_(tables.pointer),
        get_float64_(tables.find<Get<double>>("GetFloat64")),
        set_float64_(tables.find<Set<double>>("SetFloat64")) {
    static_assert(sizeof(bool) == 1, "FMI 3 passes C's bool");
    for (std::size_t type = 0; type < types; ++type) {
      const std::string name = names()[type];
      getters_[type] = tables.address("Get" + name);
      setters_[type] = tables.address("Set" + name);
    }
    room_.resize(widest_of(tables));
  }

  // -- the commonest calls ------------------------------------------------------------------------

  // A variable of type Float64 and one cell, got and set without a look at its type. Null: the FMU lacks the function.
  struct Real {
    std::uint32_t reference = 0;
    int (*get_)(void*, const std::uint32_t*, std::size_t, double*, std::size_t) = nullptr;
    int (*set_)(void*, const std::uint32_t*, std::size_t, const double*, std::size_t) = nullptr;

    int get(void* c, double* to) const { return get_(c, &reference, 1, to, 1); }
    int set(void* c, const double* from) const { return set_(c, &reference, 1, from, 1); }
  };
  Real real(const Variable& variable) const { return {variable.reference, get_float64_, set_float64_}; }
  void* instance() const { return c_; }
  int get(const Real& real, void* c, double* to) {
    return quick("fmi3GetFloat64", [&] { return real.get(c, to); });
  }
  int set(const Real& real, void* c, const double* from) {
    return quick("fmi3SetFloat64", [&] { return real.set(c, from); });
  }
  bool got(int status) { return done(status, "fmi3GetFloat64"); }
  bool was_set(int status) { return done(status, "fmi3SetFloat64"); }

  // -- values -----------------------------------------------------------------------------------

  bool get(const Variable& from, Cell* to) {
    if (from.type == Type::Float64) {
      return ask("fmi3GetFloat64", get_float64_, c_, &from.reference, 1, &to->r, static_cast<std::size_t>(from.cells));
    }
    switch (from.type) {
      case Type::Float32: return get_as<float>(from, to, "fmi3GetFloat32");
      case Type::Int8: return get_as<std::int8_t>(from, to, "fmi3GetInt8");
      case Type::UInt8: return get_as<std::uint8_t>(from, to, "fmi3GetUInt8");
      case Type::Int16: return get_as<std::int16_t>(from, to, "fmi3GetInt16");
      case Type::UInt16: return get_as<std::uint16_t>(from, to, "fmi3GetUInt16");
      case Type::Int32: return get_as<std::int32_t>(from, to, "fmi3GetInt32");
      case Type::UInt32: return get_as<std::uint32_t>(from, to, "fmi3GetUInt32");
      case Type::UInt64: return get_as<std::uint64_t>(from, to, "fmi3GetUInt64");
      case Type::Boolean: return get_as<bool>(from, to, "fmi3GetBoolean");
      default: return get_as<std::int64_t>(from, to, "fmi3GetInt64");  // enumerations, too
    }
  }

  bool set(const Variable& to, const Cell* from) {
    if (to.type == Type::Float64) {
      return ask("fmi3SetFloat64", set_float64_, c_, &to.reference, 1, &from->r, static_cast<std::size_t>(to.cells));
    }
    switch (to.type) {
      case Type::Float32: return set_as<float>(to, from, "fmi3SetFloat32");
      case Type::Int8: return set_as<std::int8_t>(to, from, "fmi3SetInt8");
      case Type::UInt8: return set_as<std::uint8_t>(to, from, "fmi3SetUInt8");
      case Type::Int16: return set_as<std::int16_t>(to, from, "fmi3SetInt16");
      case Type::UInt16: return set_as<std::uint16_t>(to, from, "fmi3SetUInt16");
      case Type::Int32: return set_as<std::int32_t>(to, from, "fmi3SetInt32");
      case Type::UInt32: return set_as<std::uint32_t>(to, from, "fmi3SetUInt32");
      case Type::UInt64: return set_as<std::uint64_t>(to, from, "fmi3SetUInt64");
      case Type::Boolean: return set_as<bool>(to, from, "fmi3SetBoolean");
      default: return set_as<std::int64_t>(to, from, "fmi3SetInt64");
    }
  }

 protected:
  using References = const std::uint32_t*;

  void* c_;

 private:
  template <class T>
  using Get = int(void*, References, std::size_t, T*, std::size_t);
  template <class T>
  using Set = int(void*, References, std::size_t, const T*, std::size_t);

  static constexpr std::size_t types = static_cast<std::size_t>(Type::Clock) + 1;
  static const char* const* names() {
    static constexpr const char* all[types] = {"Float32", "Float64", "Int8",    "UInt8",  "Int16",  "UInt16", "Int32", "UInt32",
                                               "Int64",   "UInt64",  "Boolean", "String", "Binary", "Int64",  "Clock"};
    return all;
  }

  template <class T>
  bool get_as(const Variable& from, Cell* to, const char* call) {
    auto* const function = reinterpret_cast<Get<T>*>(getters_[static_cast<std::size_t>(from.type)]);
    auto* const values = reinterpret_cast<T*>(room_.data());
    if (!ask(call, function, c_, &from.reference, 1, values, static_cast<std::size_t>(from.cells))) return false;
    std::int32_t misfit = 0;
    if (widen(values, from.cells, to, &misfit)) return true;
    return beyond_int64(from, static_cast<std::uint64_t>(values[misfit]));
  }
  template <class T>
  bool set_as(const Variable& to, const Cell* from, const char* call) {
    auto* const function = reinterpret_cast<Set<T>*>(setters_[static_cast<std::size_t>(to.type)]);
    if (!function) return missing(call);
    auto* const values = reinterpret_cast<T*>(room_.data());
    std::int32_t misfit = 0;
    if (!narrow(from, to.cells, values, &misfit)) return beyond<T>(to, from[misfit]);
    return ask(call, function, c_, &to.reference, 1, values, static_cast<std::size_t>(to.cells));
  }
  bool beyond_int64(const Variable& variable, std::uint64_t value) {
    return refuse("'" + variable.name + "' is " + std::to_string(value) +
                  ", but integers above 9223372036854775807 are not supported");
  }

  Get<double>* get_float64_;
  Set<double>* set_float64_;
  std::uintptr_t getters_[types];  // by type
  std::uintptr_t setters_[types];
  std::vector<std::uint64_t> room_;  // for values on their way
};

}  // namespace upbeat::fmi
