// States as bytes: exact to the bit, and safe whatever the bytes are.
#include <cmath>
#include <cstring>
#include <limits>

#include "check.hpp"
#include "helpers.hpp"
#include "packing.hpp"

using namespace upbeat;

namespace {

// x' = u, with one input.
OdeTables integrator() {
  OdeTables tables;
  tables.inputs = {{1, Kind::Real}};
  tables.outputs = {{1, Kind::Real, 1}};
  tables.states = {-0.0};
  tables.input_start = {2.0};
  tables.derivatives = shared(kernel_of(3, {}, {}, {2}));
  tables.compute = shared(kernel_of(3, {}, {}, {1}));
  tables.solver.c = {0.0};
  tables.solver.a = {0.0};
  tables.solver.b = {1.0};
  return tables;
}

Bytes packed(const upbeat_unit& unit, int slot) {
  std::uint64_t size = 0;
  CHECK(unit.pack(unit.self, slot, nullptr, &size) == 0);
  Bytes bytes(size);
  CHECK(unit.pack(unit.self, slot, bytes.data(), &size) == 0 && size == bytes.size());
  return bytes;
}

// Cells: now, next, a real, an integer, a truth value, two strings.
ProgramTables every_kind() {
  ProgramTables tables = program_of(5, {});
  tables.kinds = {Kind::Real, Kind::Real, Kind::Real, Kind::Integer, Kind::Boolean, Kind::String, Kind::String};
  tables.slots = 2;
  return tables;
}

}  // namespace

TEST(an_ode_packs_its_state_as_little_endian_doubles) {
  upbeat_unit unit = Ode::make(integrator(), 0.5);
  CHECK(unit.save(unit.self, 3) == 0);
  const Bytes bytes = packed(unit, 3);
  // time, x, origin of u, one coefficient, 2.0, five zeros
  const double expected[] = {0.5, -0.0, 0.5, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0};
  CHECK(bytes.size() == sizeof expected);
  for (std::size_t i = 0; i < 10; ++i) CHECK(read_word(bytes.data() + 8 * i) == bits_of(expected[i]));
  CHECK(bytes[8 + 7] == 0x80);  // the sign of -0.0 comes last
  unit.destroy(unit.self);
}

TEST(an_ode_goes_on_from_bytes) {
  upbeat_unit first = Ode::make(integrator(), 0.0);
  upbeat_unit second = Ode::make(integrator(), 7.0);
  const Cell trajectory[] = {real(1.0), real(3.0)};
  double reached = 1.0;
  CHECK(first.set(first.self, 0, trajectory, 2) == 0 && first.advance(first.self, 0.0, 1.0, 0, &reached) == 0);
  CHECK(first.save(first.self, 0) == 0);
  const Bytes bytes = packed(first, 0);
  CHECK(second.unpack(second.self, 5, bytes.data(), bytes.size()) == 0);
  CHECK(second.restore(second.self, 5) == 0);
  for (upbeat_unit* unit : {&first, &second}) CHECK(unit->advance(unit->self, 1.0, 2.0, 0, &reached) == 0);
  Cell one, other;
  CHECK(first.get(first.self, 1, &one) == 0 && second.get(second.self, 1, &other) == 0);
  CHECK(one.r == 1.0 + 4.0 && other.i == one.i);  // Euler: u(0) + u(1)
  first.destroy(first.self);
  second.destroy(second.self);
}

TEST(an_ode_refuses_bytes_that_would_lead_it_astray) {
  upbeat_unit unit = Ode::make(integrator(), 0.0);
  CHECK(unit.save(unit.self, 0) == 0);
  Bytes bytes = packed(unit, 0);
  CHECK(unit.unpack(unit.self, 1, bytes.data(), bytes.size() - 1) == 1);
  CHECK(std::strstr(unit.message(unit.self), "expected 80 bytes, not 79"));
  for (const double count : {0.0, -1.0, 7.0, 1.5, 1e300, std::nan("")}) {
    write_word(bytes.data() + 24, bits_of(count));
    CHECK(unit.unpack(unit.self, 1, bytes.data(), bytes.size()) == 1);
  }
  CHECK(unit.restore(unit.self, 1) == 1);  // nothing was kept
  std::uint64_t size = 0;
  CHECK(unit.pack(unit.self, 1, nullptr, &size) == 1);
  CHECK(unit.restore(unit.self, 0) == 0);  // and no harm done
  unit.destroy(unit.self);
}

TEST(a_machine_packs_texts_and_every_bit) {
  Strings here, there;
  there.intern("other");  // the numbers of texts differ
  Machine first(every_kind(), {Ode::make(integrator(), 0.0)}, 0.25);
  Machine second(every_kind(), {Ode::make(integrator(), 0.0)}, 0.0);
  Cell* const cells = first.cells();
  cells[0].r = -0.0;
  cells[1].r = -std::numeric_limits<double>::infinity();
  cells[2].i = 0x7ff8dead0000beef;  // not a number, with something in it
  cells[3].i = std::numeric_limits<std::int64_t>::min();
  cells[4].i = 1;
  cells[5].i = here.intern("one");
  cells[6].i = here.intern("");
  CHECK(first.save(1));
  Bytes bytes;
  CHECK(first.pack(1, here, bytes));
  CHECK(second.unpack(2, there, bytes.data(), bytes.size()));
  CHECK(second.restore(2));
  for (int i = 0; i < 5; ++i) CHECK(second.cells()[i].i == cells[i].i);
  CHECK(there.text(second.cells()[5].i) == "one" && there.text(second.cells()[6].i).empty());
  Bytes again;
  CHECK(second.save(3) && second.pack(3, there, again) && again == bytes);
}

TEST(a_machine_refuses_other_bytes_and_goes_on) {
  Strings strings;
  Machine machine(every_kind(), {Ode::make(integrator(), 0.0)}, 0.0);
  machine.cells()[5].i = machine.cells()[6].i = strings.intern("a text");
  CHECK(machine.save(0));
  Bytes bytes;
  CHECK(machine.pack(0, strings, bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));  // exactly as long: the sanitizer watches
    CHECK(!machine.unpack(1, strings, cut.data(), size) && machine.error().fault == Fault::BadBytes);
    CHECK(!machine.restore(1));
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {  // whatever comes of it, nothing is read beyond the end
    for (const int bit : {1, 128}) {
      Bytes bent = bytes;
      bent[at] = static_cast<unsigned char>(bent[at] ^ bit);
      if (machine.unpack(1, strings, bent.data(), bent.size())) CHECK(machine.restore(1));
    }
  }
  Bytes longer = bytes;
  longer.push_back(0);
  CHECK(!machine.unpack(1, strings, longer.data(), longer.size()));
  CHECK(machine.unpack(1, strings, bytes.data(), bytes.size()) && machine.restore(1));
  CHECK(strings.text(machine.cells()[5].i) == "a text");
  CHECK(!machine.pack(9, strings, bytes) && machine.error().fault == Fault::EmptySlot);
}

TEST(a_unit_without_bytes_is_named) {
  Strings strings;
  Echo echo;
  Machine machine(every_kind(), {Ode::make(integrator(), 0.0), echo.table()}, 0.0);
  machine.cells()[5].i = machine.cells()[6].i = strings.intern("");
  CHECK(machine.save(0));
  Bytes bytes;
  CHECK(!machine.pack(0, strings, bytes));
  CHECK(machine.error().fault == Fault::Unable && machine.error().call == Call::Pack && machine.error().unit == 1);
}
