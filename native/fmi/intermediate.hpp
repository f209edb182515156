// What an FMU of FMI 3 calls within its steps: inputs that move are set to where they should be then.
#pragma once

namespace upbeat::fmi {

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

// fmi3IntermediateUpdateCallback.
void upbeat_fmi3_intermediate(void* environment, double time, bool set_requested, bool get_allowed, bool step_finished,
                              bool can_return, bool* return_requested, double* return_time);
}
