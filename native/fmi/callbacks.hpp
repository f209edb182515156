// What FMUs call: the functions for their log messages, and the one within the steps of FMI 3.
#pragma once

#include <cstdint>

namespace upbeat::fmi {

// Where texts go. `id` is what the FMU was given as its environment. No text is null.
using LogSink = void (*)(std::intptr_t id, const char* instance, int status, const char* category, const char* message);

// From any thread. The sink is one for the whole process, as the functions that FMUs hold are; null: texts
// are dropped.
void set_log_sink(LogSink sink);

// A unit that steps. The FMU calls back on the thread on which it was called, so that no list of units is
// needed: a thread knows the one that it steps.
class Follower {
 public:
  virtual void look_in(double time) = 0;

  // As long as this lives, the FMU that this thread steps is that of `follower`.
  class Within {
   public:
    explicit Within(Follower* follower);
    ~Within();
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    Follower* before_;  // an FMU may run another one inside
  };

 protected:
  ~Follower() = default;
};

}  // namespace upbeat::fmi

extern "C" {

// fmi2CallbackLogger, which is variadic: it makes the text. Never throws, and takes null for any text; so does
// fmi3LogMessageCallback.
void upbeat_fmi2_log(void* environment, const char* instance, int status, const char* category, const char* message, ...);
void upbeat_fmi3_log(void* environment, int status, const char* category, const char* message);

// fmi3IntermediateUpdateCallback: inputs that move are set to where they should be then.
void upbeat_fmi3_intermediate(void* environment, double time, bool set_requested, bool get_allowed, bool step_finished,
                              bool can_return, bool* return_requested, double* return_time);
}
