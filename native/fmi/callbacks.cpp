// See callbacks.hpp.
#include "fmi/callbacks.hpp"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <string>

namespace upbeat::fmi {

namespace {

std::atomic<LogSink> log_sink{nullptr};

thread_local Follower* stepping = nullptr;

const char* or_empty(const char* text) { return text ? text : ""; }

// What printf would print; the format itself where it cannot be printed.
std::string formatted(const char* format, va_list arguments) {
  char room[512];
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(room, sizeof room, format, arguments);
  std::string text;
  if (length < 0) {
    text = format;
  } else if (static_cast<std::size_t>(length) < sizeof room) {
    text.assign(room, static_cast<std::size_t>(length));
  } else {
    text.resize(static_cast<std::size_t>(length) + 1);
    std::vsnprintf(text.data(), text.size(), format, again);
    text.pop_back();
  }
  va_end(again);
  return text;
}

}  // namespace

void set_log_sink(LogSink sink) { log_sink.store(sink, std::memory_order_release); }

Follower::Within::Within(Follower* follower) : before_(stepping) { stepping = follower; }
Follower::Within::~Within() { stepping = before_; }

}  // namespace upbeat::fmi

extern "C" void upbeat_fmi2_log(void* environment, const char* instance, int status, const char* category,
                                const char* message, ...) {
  using namespace upbeat::fmi;
  const LogSink sink = log_sink.load(std::memory_order_acquire);
  if (!sink) return;
  va_list arguments;
  va_start(arguments, message);
  try {
    const std::string text = formatted(or_empty(message), arguments);
    sink(reinterpret_cast<std::intptr_t>(environment), or_empty(instance), status, or_empty(category), text.c_str());
  } catch (...) {  // no memory for the text: the FMU, which is C, must not see an exception
  }
  va_end(arguments);
}

extern "C" void upbeat_fmi3_log(void* environment, int status, const char* category, const char* message) {
  upbeat_fmi2_log(environment, "", status, category, "%s", message ? message : "");
}

extern "C" void upbeat_fmi3_intermediate(void*, double time, bool set_requested, bool, bool, bool, bool* return_requested,
                                         double* return_time) {
  if (set_requested && upbeat::fmi::stepping) upbeat::fmi::stepping->look_in(time);
  if (return_requested) *return_requested = false;
  if (return_time) *return_time = time;
}
