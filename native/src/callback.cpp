// See callback.hpp.
#include "callback.hpp"
#include "calls.hpp"
#include "error.hpp"

#include <cstring>

namespace nb = nanobind;

namespace upbeat {

nb::object to_python(Cell cell, Kind kind, const Strings& strings) {
  switch (kind) {
    case Kind::Real: return nb::steal(PyFloat_FromDouble(cell.r));
    case Kind::Integer: return nb::steal(PyLong_FromLongLong(cell.i));
    case Kind::Boolean: return nb::steal(PyBool_FromLong(cell.i != 0));
    default: break;
  }
  const std::string& text = strings.text(cell.i);
  return nb::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

bool from_python(nb::handle value, Kind kind, Strings& strings, Cell* to) {
  PyObject* const object = value.ptr();
  switch (kind) {
    case Kind::Real: {
      if (PyFloat_CheckExact(object)) {
        to->r = PyFloat_AS_DOUBLE(object);
        return true;
      }
      const nb::object number = nb::steal(PyNumber_Float(object));
      if (!number.is_valid()) return false;
      to->r = PyFloat_AS_DOUBLE(number.ptr());
      return true;
    }
    case Kind::Integer: {
      const nb::object number = nb::steal(PyNumber_Index(object));
      if (!number.is_valid()) return false;
      to->i = PyLong_AsLongLong(number.ptr());
      return !(to->i == -1 && PyErr_Occurred());
    }
    case Kind::Boolean: {
      const int truth = PyObject_IsTrue(object);
      to->i = truth;
      return truth >= 0;
    }
    default: break;
  }
  if (!PyUnicode_Check(object)) {
    PyErr_SetString(PyExc_TypeError, "not a string");
    return false;
  }
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) return false;
  to->i = strings.intern(std::string(text, static_cast<std::size_t>(length)));
  return true;
}

namespace {

std::string but_gave(nb::handle value) {
  const nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  if (!text.is_valid()) PyErr_Clear();
  return ", but the unit gave " + std::string(text.is_valid() ? nb::str(text).c_str() : "something unprintable");
}

}  // namespace

Callback::Callback(nb::handle unit, std::vector<Port> ports, Strings& strings, Trouble& trouble)
    : get_(unit.attr("get")),
      advance_(unit.attr("advance")),
      ports_(std::move(ports)),
      strings_(strings),
      trouble_(trouble) {
  if (nb::hasattr(unit, "set")) set_ = unit.attr("set");
  if (nb::hasattr(unit, "jump")) jump_ = unit.attr("jump");
  if (nb::hasattr(unit, "due")) due_ = unit.attr("due");
  if (nb::hasattr(unit, "save")) save_ = unit.attr("save");
  if (nb::hasattr(unit, "restore")) restore_ = unit.attr("restore");
  if (nb::hasattr(unit, "slope")) slope_ = unit.attr("slope");
  if (nb::hasattr(unit, "to_bytes")) to_bytes_ = unit.attr("to_bytes");
  if (nb::hasattr(unit, "from_bytes")) from_bytes_ = unit.attr("from_bytes");
}

int Callback::failed() {
  nb::python_error error;  // takes over what Python has set
  trouble_.exception = nb::borrow(error.value());
  trouble_.message.clear();
  const nb::object asked = nb::module_::import_("upbeat.core.errors").attr("EndRequest");
  return nb::isinstance(trouble_.exception, asked) ? ended_status : 1;
}

int Callback::misfit(const Port& port, nb::handle value) {
  static constexpr const char* names[] = {"real", "integer", "boolean", "string"};
  failed();
  std::string& message = trouble_.message;
  message = "output '" + std::string(nb::str(port.name).c_str()) + "' is " + names[static_cast<int>(port.kind)];
  if (port.size >= 0) message += "[" + std::to_string(port.size) + "]";
  message += but_gave(value);
  return 1;
}

int Callback::get(int number, Cell* to) noexcept {
  const Port& port = ports_[static_cast<std::size_t>(number)];
  const nb::object value = nb::steal(PyObject_CallOneArg(get_.ptr(), port.name.ptr()));
  if (!value.is_valid()) return failed();
  if (!port.event) return read(port, value, to);
  Cell& present = to[port.size < 0 ? 1 : port.size];
  present.i = value.is_none() ? 0 : 1;
  return value.is_none() ? 0 : read(port, value, to);
}

int Callback::read(const Port& port, nb::handle value, Cell* to) {
  if (port.size < 0) return from_python(value, port.kind, strings_, to) ? 0 : misfit(port, value);
  const nb::object items = nb::steal(PySequence_List(value.ptr()));
  if (!items.is_valid()) return misfit(port, value);
  const Py_ssize_t count = PySequence_Size(items.ptr());
  if (count != port.size) {
    PyErr_Format(PyExc_ValueError, "%zd values", count);
    return misfit(port, value);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const nb::object item = nb::steal(PySequence_GetItem(items.ptr(), i));
    if (!item.is_valid() || !from_python(item, port.kind, strings_, to + i)) return misfit(port, value);
  }
  return 0;
}

int Callback::set(int number, const Cell* coefficients, int count) noexcept {
  const Port& port = ports_[static_cast<std::size_t>(number)];
  const nb::object trajectory = nb::steal(PyList_New(count));
  if (!trajectory.is_valid()) return failed();
  for (int k = 0; k < count; ++k) {
    nb::object value;
    if (port.size < 0) {
      value = to_python(coefficients[k], port.kind, strings_);
    } else {
      value = nb::steal(PyTuple_New(port.size));
      for (std::int32_t i = 0; value.is_valid() && i < port.size; ++i) {
        PyTuple_SetItem(value.ptr(), i, to_python(coefficients[k * port.size + i], port.kind, strings_).release().ptr());
      }
    }
    if (!value.is_valid()) return failed();
    PyList_SetItem(trajectory.ptr(), k, value.release().ptr());
  }
  PyObject* arguments[] = {port.name.ptr(), trajectory.ptr()};
  return nb::steal(PyObject_Vectorcall(set_.ptr(), arguments, 2, nullptr)).is_valid() ? 0 : failed();
}

int Callback::advance(double t, double to, int early, double* reached) noexcept {
  const nb::object from = nb::steal(PyFloat_FromDouble(t));
  const nb::object until = nb::steal(PyFloat_FromDouble(to));
  if (!from.is_valid() || !until.is_valid()) return failed();
  PyObject* arguments[] = {from.ptr(), until.ptr(), early ? Py_True : Py_False};
  const nb::object result = nb::steal(PyObject_Vectorcall(advance_.ptr(), arguments, 3, nullptr));
  if (!result.is_valid()) return failed();
  Cell cell;
  if (!from_python(result, Kind::Real, strings_, &cell)) {
    failed();
    trouble_.message = "advance must return the time reached ('return to')" + but_gave(result);
    return 1;
  }
  *reached = cell.r;
  return 0;
}

int Callback::jump(int* again) noexcept {
  const nb::object result = nb::steal(PyObject_CallNoArgs(jump_.ptr()));
  if (!result.is_valid()) return failed();
  *again = PyObject_IsTrue(result.ptr());
  return *again < 0 ? failed() : 0;
}

int Callback::due(double* time) noexcept {
  const nb::object result = nb::steal(PyObject_CallNoArgs(due_.ptr()));
  if (!result.is_valid()) return failed();
  Cell cell;
  if (!from_python(result, Kind::Real, strings_, &cell)) {
    failed();
    trouble_.message = "due must return a time" + but_gave(result);
    return 1;
  }
  *time = cell.r;
  return 0;
}

int Callback::slope(int output, int input, Cell* to) noexcept {
  const Port& made = ports_[static_cast<std::size_t>(output)];
  const Port& given = ports_[static_cast<std::size_t>(input)];
  const Py_ssize_t count = Py_ssize_t{made.size < 0 ? 1 : made.size} * (given.size < 0 ? 1 : given.size);
  PyObject* arguments[] = {made.name.ptr(), given.name.ptr()};
  const nb::object value = nb::steal(PyObject_Vectorcall(slope_.ptr(), arguments, 2, nullptr));
  if (!value.is_valid()) return failed();
  const auto misfit = [&] {
    failed();
    trouble_.message = "the slopes are " + std::to_string(count) + " numbers in a list, row by row" + but_gave(value);
    return 1;
  };
  const nb::object items = nb::steal(PySequence_List(value.ptr()));
  if (!items.is_valid()) return misfit();
  if (PySequence_Size(items.ptr()) != count) {
    PyErr_Format(PyExc_ValueError, "%zd values", PySequence_Size(items.ptr()));
    return misfit();
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const nb::object item = nb::steal(PySequence_GetItem(items.ptr(), i));
    if (!item.is_valid() || !from_python(item, Kind::Real, strings_, to + i)) return misfit();
  }
  return 0;
}

int Callback::save(int slot) noexcept {
  const auto index = static_cast<std::size_t>(slot);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  nb::object token = nb::steal(PyObject_CallNoArgs(save_.ptr()));
  if (!token.is_valid()) return failed();
  tokens_[index] = std::move(token);
  asked_slot_ = -1;
  return 0;
}

int Callback::restore(int slot) noexcept {
  const nb::object& token = tokens_[static_cast<std::size_t>(slot)];
  return nb::steal(PyObject_CallOneArg(restore_.ptr(), token.ptr())).is_valid() ? 0 : failed();
}

// After the size the bytes are asked for: they are made once.
int Callback::pack(int slot, void* to, std::uint64_t* size) noexcept {
  if (asked_slot_ != slot) {
    const nb::object& token = tokens_[static_cast<std::size_t>(slot)];
    asked_slot_ = -1;
    asked_ = nb::steal(PyObject_CallOneArg(to_bytes_.ptr(), token.ptr()));
    if (!asked_.is_valid()) return failed();
    if (!PyBytes_Check(asked_.ptr())) {
      PyErr_Format(PyExc_TypeError, "to_bytes gave %.80s instead of bytes", Py_TYPE(asked_.ptr())->tp_name);
      return failed();
    }
    asked_slot_ = slot;
  }
  const std::uint64_t room = *size;
  *size = static_cast<std::uint64_t>(PyBytes_Size(asked_.ptr()));
  if (room < *size) return 0;
  if (*size > 0) std::memcpy(to, PyBytes_AsString(asked_.ptr()), *size);
  asked_.reset();
  asked_slot_ = -1;
  return 0;
}

int Callback::unpack(int slot, const void* from, std::uint64_t size) noexcept {
  const nb::object data =
      nb::steal(PyBytes_FromStringAndSize(static_cast<const char*>(from), static_cast<Py_ssize_t>(size)));
  if (!data.is_valid()) return failed();
  nb::object token = nb::steal(PyObject_CallOneArg(from_bytes_.ptr(), data.ptr()));
  if (!token.is_valid()) return failed();
  const auto index = static_cast<std::size_t>(slot);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  tokens_[index] = std::move(token);
  asked_slot_ = -1;
  return 0;
}

upbeat_unit Callback::make(nb::handle unit, std::vector<Port> ports, Strings& strings, Trouble& trouble) {
  auto* const self = new Callback(unit, std::move(ports), strings, trouble);
  using Call = Calls<Callback>;
  upbeat_unit table = Call::table(self);
  if (self->jump_.is_valid()) table.jump = Call::jump;
  if (self->due_.is_valid()) table.due = Call::due;
  if (self->slope_.is_valid()) table.slope = Call::slope;
  if (self->save_.is_valid() && self->restore_.is_valid()) Call::add_rollback(table);
  if (table.save && self->to_bytes_.is_valid() && self->from_bytes_.is_valid()) Call::packs(table);
  return table;
}

}  // namespace upbeat
