// A unit in another process as Python holds it: to call it (the interpreter), or until a machine takes it over.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "callback.hpp"
#include "remote.hpp"

namespace upbeat {

class Remote {
 public:
  // `keeper` is what Python knows of the process (upbeat.units.process.child). Ports: kind, size (-1: scalar), event.
  Remote(nanobind::object keeper, int file, std::uint64_t size, int process, RemoteUnit::Offered calls,
         std::vector<Callback::Port> ports, RemoteTerms terms);

  nanobind::object get(int port);
  void set(int port, nanobind::sequence coefficients);
  double advance(double t, double to, bool early);
  bool jump();
  double due();
  nanobind::list slope(int output, int input);
  void save(int slot);
  void restore(int slot);
  nanobind::bytes pack(int slot);
  void unpack(int slot, nanobind::bytes from);
  void close();

  // For a machine: from now on its strings are numbers of this pool, and what Python raises meanwhile goes there.
  upbeat_unit release(Strings& strings, Trouble& trouble);

 private:
  RemoteUnit& unit();
  template <class Call>
  void checked(Call call);

  Strings strings_;
  Trouble trouble_;
  std::shared_ptr<Trouble*> to_;  // whose trouble it is
  std::vector<Callback::Port> ports_;
  std::vector<Cell> cells_;
  std::unique_ptr<RemoteUnit> unit_;
};

// Adds `Remote` to the module; bind_server adds the other side.
void bind_remote(nanobind::module_& module);
void bind_server(nanobind::module_& module);

}  // namespace upbeat
