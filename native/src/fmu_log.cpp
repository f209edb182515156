// See fmu_log.hpp. An FMU may log from any thread, with or without the GIL, and as late as when the
// interpreter has gone.
#include "fmu_log.hpp"

#include "fmi/logger.hpp"

namespace nb = nanobind;

namespace upbeat {

namespace {

PyObject* listener = nullptr;  // touched with the GIL only; never freed by a destructor, which would come too late

bool interpreter_is_there() {
  if (!Py_IsInitialized()) return false;
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsFinalizing();
#else
  return !_Py_IsFinalizing();
#endif
}

void hear(std::intptr_t id, const char* instance, int status, const char* category, const char* message) {
  if (!interpreter_is_there()) return;
  const PyGILState_STATE held = PyGILState_Ensure();
  if (listener) {
    PyObject* const sink = Py_NewRef(listener);  // it may be replaced while it is called
    PyObject *type, *value, *traceback;          // the FMU may be freed while an exception is on its way
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* const done =
        PyObject_CallFunction(sink, "nyiyy", static_cast<Py_ssize_t>(id), instance, status, category, message);
    if (!done) PyErr_WriteUnraisable(sink);
    Py_XDECREF(done);
    PyErr_Restore(type, value, traceback);
    Py_DECREF(sink);
  }
  PyGILState_Release(held);
}

}  // namespace

nb::object set_fmi2_log_sink(nb::object sink) {
  PyObject* const before = listener;
  listener = sink.is_none() ? nullptr : sink.release().ptr();
  fmi::set_log_sink(listener ? &hear : nullptr);
  return before ? nb::steal(before) : nb::none();
}

std::uintptr_t fmi2_logger_address() { return reinterpret_cast<std::uintptr_t>(&upbeat_fmi2_log); }

}  // namespace upbeat
