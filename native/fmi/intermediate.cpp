// See intermediate.hpp.
#include "fmi/intermediate.hpp"

namespace upbeat::fmi {

namespace {

thread_local Follower* stepping = nullptr;

}  // namespace

Follower::Within::Within(Follower* follower) : before_(stepping) { stepping = follower; }
Follower::Within::~Within() { stepping = before_; }

}  // namespace upbeat::fmi

extern "C" void upbeat_fmi3_intermediate(void*, double time, bool set_requested, bool, bool, bool, bool* return_requested,
                                         double* return_time) {
  if (set_requested && upbeat::fmi::stepping) upbeat::fmi::stepping->look_in(time);
  if (return_requested) *return_requested = false;
  if (return_time) *return_time = time;
}
