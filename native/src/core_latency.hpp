// What it costs on this machine to wait for another core that has just been done.
#pragma once

namespace upbeat {

// Seconds for one wait where both cores are free: two threads take turns, each doing nothing but to hand a number
// on to the other one. One in ten rounds is quicker than what is returned, so that what else the machine is doing hardly
// counts. Takes about so many seconds.
double core_latency(double seconds);

}  // namespace upbeat
