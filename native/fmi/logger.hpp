// The log function that FMUs of FMI 2 are given. It is variadic, which only C can be: it makes the text
// and hands it on as a plain one.
#pragma once

#include <cstdint>

namespace upbeat::fmi {

// Where texts go. `id` is what the FMU was given as its component environment. No text is null.
using LogSink = void (*)(std::intptr_t id, const char* instance, int status, const char* category, const char* message);

// From any thread. The sink is one for the whole process, as the function that FMUs hold is; null: texts
// are dropped.
void set_log_sink(LogSink sink);

}  // namespace upbeat::fmi

extern "C" {

// fmi2CallbackLogger. Never throws, and takes null for any text.
void upbeat_fmi2_log(void* environment, const char* instance, int status, const char* category, const char* message, ...);
}
