// The log of FMUs as Python hears it.
#pragma once

#include <nanobind/nanobind.h>

namespace upbeat {

// Called with (id, instance, status, category, message), texts as bytes; None: nobody listens. Gives who did so far.
nanobind::object set_fmi2_log_sink(nanobind::object sink);

// fmi2CallbackLogger, for FMUs.
std::uintptr_t fmi2_logger_address();

}  // namespace upbeat
