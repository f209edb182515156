// A line on standard error when C code takes the process along, and what exit() of an FMU is turned into.
#pragma once

#include <string>

namespace upbeat {

// From now on, signals that end a process because of a fault are announced with `before`, their number and `after`;
// then they do what they always did. Not where they are handled already.
void announce_faults(const std::string& before, const std::string& after);

// As it was.
void leave_faults_alone();

// If exit() is called from now on, the process says `words` and ends with `code`; 0 and "": whatever is asked for.
void forbid_exit(const std::string& words, int code);

}  // namespace upbeat
