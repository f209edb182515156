// See remote_python.hpp.
#include "remote_python.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>

#include "error.hpp"
#include "remote_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace upbeat {
namespace {

// What Python knows of the process. It may be let go of by a thread without Python's lock.
std::shared_ptr<nb::object> shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            nb::gil_scoped_acquire acquire;
            delete held;
          }};
}

RemoteHooks hooks(nb::object keeper, std::shared_ptr<Trouble*> trouble) {
  const std::shared_ptr<nb::object> held = shared(std::move(keeper));
  RemoteHooks made;
  made.lost = [held](bool hung) -> std::string {
    nb::gil_scoped_acquire acquire;
    try {
      return nb::cast<std::string>(held->attr("lost")(hung));
    } catch (nb::python_error& error) {
      return error.what();
    }
  };
  made.renewed = [held](std::string& why) -> Link {
    nb::gil_scoped_acquire acquire;
    try {
      const auto [file, size, process] = nb::cast<LinkRow>(held->attr("renewed")(why));
      return linked(file, size, process);
    } catch (nb::python_error& error) {
      why += std::string("; starting another one failed: ") + nb::cast<std::string>(nb::str(error.value()));
    }
    return {};
  };
  made.records = [held] {
    nb::gil_scoped_acquire acquire;
    try {
      held->attr("records")();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("the log records of a unit");
    }
  };
  made.going_on = [trouble] {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() == 0) return true;
    nb::python_error error;
    (*trouble)->exception = nb::borrow(error.value());
    (*trouble)->message.clear();
    return false;
  };
  made.ended = [held](const std::string& why) {
    nb::gil_scoped_acquire acquire;
    try {
      if (!why.empty()) held->attr("ended_badly")(why);
      held->attr("ended")();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("the process of a unit");
    }
  };
  return made;
}

}  // namespace

Remote::Remote(nb::object keeper, int file, std::uint64_t size, int process, RemoteUnit::Offered calls,
               std::vector<Callback::Port> ports, RemoteTerms terms)
    : to_(std::make_shared<Trouble*>(&trouble_)), ports_(std::move(ports)) {
  unit_ = std::make_unique<RemoteUnit>(linked(file, size, process), calls, remote_ports(ports_), terms,
                                       hooks(std::move(keeper), to_));
  unit_->use(strings_);
}

RemoteUnit& Remote::unit() {
  if (!unit_) throw std::runtime_error("this unit is closed, or belongs to a machine");
  return *unit_;
}

upbeat_unit Remote::release(Strings& strings, Trouble& trouble) {
  unit().use(strings);
  *to_ = &trouble;
  return RemoteUnit::table(std::move(unit_));
}

void Remote::close() { unit_.reset(); }

template <class Call>
void Remote::checked(Call call) {
  RemoteUnit& called = unit();
  int status = 0;
  {
    nb::gil_scoped_release release;
    status = call(called);
  }
  if (status == 0) return;
  if (trouble_.exception.is_valid()) {
    const nb::object raised = std::exchange(trouble_.exception, {});
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  } else {
    const char* const kind = status == ended_status ? "RemoteEnd" : "RemoteError";
    const nb::object told = nb::module_::import_("upbeat.units.process.wire").attr(kind);
    PyErr_SetObject(told.ptr(), nb::str(called.message()).ptr());
  }
  throw nb::python_error();
}

nb::object Remote::get(int number) {
  const Callback::Port& port = ports_.at(static_cast<std::size_t>(number));
  const std::size_t count = port.size < 0 ? 1 : static_cast<std::size_t>(port.size);
  cells_.resize(count + 1);
  checked([&](RemoteUnit& unit) { return unit.get(number, cells_.data()); });
  if (port.event && cells_[count].i == 0) return nb::none();
  if (port.size < 0) return to_python(cells_[0], port.kind, strings_);
  nb::object values = nb::steal(PyTuple_New(port.size));
  if (!values.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    PyTuple_SetItem(values.ptr(), static_cast<Py_ssize_t>(i), to_python(cells_[i], port.kind, strings_).release().ptr());
  }
  return values;
}

void Remote::set(int number, nb::sequence coefficients) {
  const Callback::Port& port = ports_.at(static_cast<std::size_t>(number));
  cells_.clear();
  int count = 0;
  const auto take = [&](nb::handle value) {
    cells_.emplace_back();
    if (!from_python(value, port.kind, strings_, &cells_.back())) throw nb::python_error();
  };
  for (nb::handle coefficient : coefficients) {
    ++count;
    if (port.size < 0) {
      take(coefficient);
    } else {
      for (nb::handle value : nb::borrow<nb::iterable>(coefficient)) take(value);
    }
  }
  const std::size_t width = port.size < 0 ? 1 : static_cast<std::size_t>(port.size);
  if (cells_.size() != width * static_cast<std::size_t>(count) || count < 1 || count > UPBEAT_MAX_DEGREE + 1) {
    throw std::invalid_argument("these are no coefficients of this input");
  }
  checked([&](RemoteUnit& unit) { return unit.set(number, cells_.data(), count); });
}

double Remote::advance(double t, double to, bool early) {
  double reached = to;
  checked([&](RemoteUnit& unit) { return unit.advance(t, to, early ? 1 : 0, &reached); });
  return reached;
}

bool Remote::jump() {
  int again = 0;
  checked([&](RemoteUnit& unit) { return unit.jump(&again); });
  return again != 0;
}

double Remote::due() {
  double time = 0.0;
  checked([&](RemoteUnit& unit) { return unit.due(&time); });
  return time;
}

nb::list Remote::slope(int output, int input) {
  const auto cells = [&](int port) {
    const std::int32_t size = ports_.at(static_cast<std::size_t>(port)).size;
    return static_cast<std::size_t>(size < 0 ? 1 : size);
  };
  std::vector<Cell> slopes(cells(output) * cells(input));
  checked([&](RemoteUnit& unit) { return unit.slope(output, input, slopes.data()); });
  nb::list made;
  for (const Cell& slope : slopes) made.append(slope.r);
  return made;
}

void Remote::save(int slot) {
  checked([&](RemoteUnit& unit) { return unit.save(slot); });
}

void Remote::restore(int slot) {
  checked([&](RemoteUnit& unit) { return unit.restore(slot); });
}

nb::bytes Remote::pack(int slot) {
  std::uint64_t size = 0;
  Bytes bytes;
  checked([&](RemoteUnit& unit) {
    if (const int status = unit.pack(slot, nullptr, &size)) return status;
    bytes.resize(size);
    return unit.pack(slot, bytes.data(), &size);
  });
  return nb::bytes(bytes.data(), bytes.size());
}

void Remote::unpack(int slot, nb::bytes from) {
  checked([&](RemoteUnit& unit) { return unit.unpack(slot, from.data(), from.size()); });
}

void bind_remote(nb::module_& module) {
  nb::class_<Remote>(module, "Remote")
      .def("__init__",
           [](Remote* self, nb::object keeper, const LinkRow& link, const CallRow& calls, const std::vector<PortRow>& ports,
              double deadline, std::int32_t restarts, std::int64_t keep_every) {
             const auto& [file, size, process] = link;
             const auto& [rollback, pack, due, slope] = calls;
             new (self) Remote(std::move(keeper), file, size, process, {rollback, pack, due, slope}, ports_of(ports),
                               {deadline, restarts, keep_every});
           },
           "keeper"_a, "link"_a, "calls"_a, "ports"_a, "deadline"_a, "restarts"_a, "keep_every"_a)
      .def("get", &Remote::get)
      .def("set", &Remote::set)
      .def("advance", &Remote::advance, "t"_a, "to"_a, "early"_a = false)
      .def("jump", &Remote::jump)
      .def("due", &Remote::due)
      .def("slope", &Remote::slope)
      .def("save", &Remote::save)
      .def("restore", &Remote::restore)
      .def("pack", &Remote::pack)
      .def("unpack", &Remote::unpack)
      .def("close", &Remote::close);
}

}  // namespace upbeat
