// A unit written in Python, entered by the engine like any other: the only part besides the bindings
// that knows Python. Every call needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "cell.hpp"

namespace upbeat {

// What went wrong in Python, kept until the host asks: the exception, and a message if the unit
// itself raised nothing.
struct Trouble {
  nanobind::object exception;
  std::string message;
};

class Callback {
 public:
  struct Port {
    nanobind::object name;
    Kind kind;
    std::int32_t size;  // -1 for a scalar
    bool event;
  };

  Callback(nanobind::handle unit, std::vector<Port> ports, Strings& strings, Trouble& trouble);

  int get(int port, Cell* to) noexcept;
  int set(int port, const Cell* coefficients, int count) noexcept;
  int advance(double t, double to, int early, double* reached) noexcept;
  int jump(int* again) noexcept;
  int due(double* time) noexcept;
  int slope(int output, int input, Cell* to) noexcept;
  int save(int slot) noexcept;
  int restore(int slot) noexcept;
  int pack(int slot, void* to, std::uint64_t* size) noexcept;
  int unpack(int slot, const void* from, std::uint64_t size) noexcept;

  // The table owns the callback.
  static upbeat_unit make(nanobind::handle unit, std::vector<Port> ports, Strings& strings, Trouble& trouble);

 private:
  int read(const Port& port, nanobind::handle value, Cell* to);
  int failed();
  int misfit(const Port& port, nanobind::handle value);

  nanobind::object get_, set_, advance_, jump_, due_, save_, restore_, slope_, to_bytes_, from_bytes_;
  std::vector<Port> ports_;
  std::vector<nanobind::object> tokens_;
  nanobind::object asked_;  // the bytes whose size was asked for last, with their slot
  int asked_slot_ = -1;
  Strings& strings_;
  Trouble& trouble_;
};

// A cell as a Python value, and a Python value as a cell (false with a Python error set).
nanobind::object to_python(Cell cell, Kind kind, const Strings& strings);
bool from_python(nanobind::handle value, Kind kind, Strings& strings, Cell* to);

}  // namespace upbeat
