// Tables of functions from elsewhere, compiled against an older or a newer unit.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "upbeat/unit.h"

namespace upbeat {

// The engine's own copy: what the other side did not know is null, what this one does not know is left out.
inline upbeat_unit adopted(const upbeat_unit* given) {
  upbeat_unit own{};
  std::memcpy(&own, given, std::min<std::size_t>(given->size, sizeof own));
  own.size = sizeof own;
  return own;
}

// Why no unit can be run by this table, or an empty text.
inline std::string problem_in(const upbeat_unit& table) {
  if (!table.get || !table.set || !table.advance) return "a unit needs get, set and advance";
  if (!table.save != !table.restore) return "save and restore come together";
  if (!table.pack != !table.unpack) return "pack and unpack come together";
  if (table.pack && !table.save) return "pack and unpack need save and restore";
  return "";
}

}  // namespace upbeat
