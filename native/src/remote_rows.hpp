// How Python speaks of ports, calls and links of units in other processes: rows of plain values.
#pragma once

#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "callback.hpp"
#include "remote.hpp"

namespace upbeat {

using PortRow = std::tuple<std::int32_t, std::int32_t, bool>;  // kind, size (-1: scalar), event
using CallRow = std::tuple<bool, bool, bool, bool>;            // rollback, pack, due, slope
using LinkRow = std::tuple<int, std::uint64_t, int>;           // file, size, process

inline std::vector<RemotePort> remote_ports(const std::vector<Callback::Port>& ports) {
  std::vector<RemotePort> made;
  for (const Callback::Port& port : ports) made.push_back({port.kind, port.size < 0 ? 1 : port.size, port.event});
  return made;
}

inline std::vector<Callback::Port> ports_of(const std::vector<PortRow>& rows) {
  std::vector<Callback::Port> made;
  for (const auto& [kind, size, event] : rows) {
    if (kind < 0 || kind > 3) throw std::invalid_argument("an unknown kind of port");
    made.push_back({nanobind::none(), static_cast<Kind>(kind), size, event});
  }
  return made;
}

inline Link linked(int file, std::uint64_t size, int process) {
  std::shared_ptr<SharedPage> page = mapped(file, size);
  if (!page) throw std::runtime_error("the memory to share with another process cannot be reached");
  return {std::move(page), size - sizeof(SharedPage), process};
}

}  // namespace upbeat
