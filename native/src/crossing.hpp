// What it costs on this machine to wait for another core that has just been done.
#pragma once

namespace upbeat {

// Seconds for one wait: two threads take turns, each doing nothing but to let the other one go on. The median of
// many rounds, so that what else the machine is doing hardly counts.
double crossing_seconds(int rounds);

}  // namespace upbeat
