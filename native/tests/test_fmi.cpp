// FMUs for co-simulation as units, with FMUs made of a few functions.
#include <cstring>
#include <limits>
#include <thread>

#include "check.hpp"
#include "fake_fmu.hpp"
#include "fmi/units.hpp"
#include "packing.hpp"

using namespace upbeat;
using namespace upbeat::fmi;

namespace {

struct Unit {
  upbeat_unit table;
  explicit Unit(const FmuTables& tables) : table(make_cosimulation(tables).table) {}
  ~Unit() { table.destroy(table.self); }
  Cell get(int port) {
    Cell cells[2] = {};
    CHECK(table.get(table.self, port, cells) == 0);
    return cells[0];
  }
  int set(int port, Cell value) { return table.set(table.self, port, &value, 1); }
  int advance(double t, double to, bool early = false) {
    reached = to;
    return table.advance(table.self, t, to, early ? 1 : 0, &reached);
  }
  std::string why() { return table.message(table.self); }
  double due() {
    double time = 0.0;
    CHECK(table.due(table.self, &time) == 0);
    return time;
  }
  double reached = 0.0;
};

}  // namespace

TEST(fmi2_steps_and_ends) {
  FakeFmu fmu;
  {
    Unit unit(fake2(fmu));
    CHECK(unit.set(0, real(1.5)) == 0);
    CHECK(unit.get(1).r == 1.5);
    CHECK(fmu.count("exit") == 0);  // still in initialization mode
    CHECK(unit.advance(0.0, 0.0) == 0);
    CHECK(unit.advance(0.0, 0.5) == 0);
    CHECK(unit.get(1).r == 2.0 * 0.75 + 1.5);
    CHECK(unit.get(2).i == 7);
    CHECK(unit.set(3, integer(1)) == 0 && fmu.flag == 1);
    CHECK(unit.advance(0.5, 0.25) != 0 && unit.why().find("backwards") != std::string::npos);
    CHECK(unit.table.jump && !unit.table.due);  // a jump ends initialization mode; without event mode nothing is due
  }
  const std::vector<std::string> expected = {"exit", "step", "terminate", "free"};
  CHECK(fmu.calls == expected);
}

TEST(fmi_unused_is_freed_only) {
  FakeFmu fmu;
  { Unit unit(fake2(fmu)); }
  CHECK(fmu.calls == std::vector<std::string>{"free"});
}

TEST(fmi_statuses) {
  FakeFmu fmu;
  {
    Unit unit(fake2(fmu));
    CHECK(unit.advance(0.0, 1.0) == 0);
    fmu.fail_with = 1;  // a warning
    CHECK(unit.get(1).r == 0.0);
    fmu.fail_with = 3;
    Cell cell;
    CHECK(unit.table.get(unit.table.self, 1, &cell) == failed_status);
    CHECK(unit.why() == "FmuError: fmi2GetReal failed");
  }
  CHECK(fmu.count("terminate") == 0 && fmu.count("free") == 1);
  FakeFmu broken;
  {
    Unit unit(fake2(broken));
    CHECK(unit.advance(0.0, 1.0) == 0);
    CHECK(unit.table.save(unit.table.self, 0) == 0);
    CHECK(unit.table.restore(unit.table.self, 1) == 1 && unit.why() == "FmuError: nothing was saved here");
    broken.fail_with = 4;  // fatal: nothing may be called any more
    Cell cell;
    CHECK(unit.table.get(unit.table.self, 1, &cell) != 0);
    Unit other(fake2(fmu));
  }
  CHECK(broken.count("terminate") == 0 && broken.count("free") == 0 && broken.count("drop") == 0);
}

TEST(fmi_one_fatal_ends_all_of_a_library) {
  for (const int version : {2, 3}) {
    FakeFmu broken, sister;
    Doom doom{nullptr};
    {
      FmuTables tables[] = {version == 2 ? fake2(broken) : fake3(broken), version == 2 ? fake2(sister) : fake3(sister)};
      tables[0].doom = tables[1].doom = &doom;
      Unit one(tables[0]), two(tables[1]);
      CHECK(one.advance(0.0, 1.0) == 0 && two.advance(0.0, 1.0) == 0);
      CHECK(!two.table.save || two.table.save(two.table.self, 0) == 0);
      std::thread([&] {
        Cell cell;
        broken.fail_with = 4;
        CHECK(one.table.get(one.table.self, 1, &cell) == failed_status);
      }).join();
      const std::size_t calls = sister.calls.size();
      const double u = sister.u;
      Cell cell;
      CHECK(two.table.get(two.table.self, 1, &cell) == lost_status);
      CHECK(two.table.get(two.table.self, 2, &cell) == lost_status);
      CHECK(two.why().find(" cannot be called: the FMU failed for good in fmi") != std::string::npos);
      CHECK(two.set(0, real(u + 1.0)) == lost_status && sister.u == u);
      CHECK(two.advance(1.0, 2.0) == lost_status);
      CHECK(!two.table.save || two.table.save(two.table.self, 0) == lost_status);
      CHECK(!two.table.restore || two.table.restore(two.table.self, 0) != 0);
      CHECK(sister.calls.size() == calls);
    }
    for (const FakeFmu* fmu : {&broken, &sister}) {
      CHECK(fmu->count("terminate") == 0 && fmu->count("free") == 0 && fmu->count("drop") == 0);
    }
  }
}

TEST(fmi2_discard) {
  FakeFmu fmu;
  Unit unit(fake2(fmu));
  fmu.stop_at = 0.25;
  CHECK(unit.advance(0.0, 1.0, true) == 0 && unit.reached == 0.25);
  CHECK(unit.advance(0.25, 1.0, true) != 0);
  CHECK(unit.why().find("refused the step from 0.25 to 1") != std::string::npos);
  FakeFmu ended;
  Unit last(fake2(ended));
  ended.stop_at = ended.terminate_at = 0.5;
  CHECK(last.advance(0.0, 1.0) == 0 && last.reached == 1.0);  // with its last values
  CHECK(last.advance(1.0, 2.0) != 0 && last.why().find("asked to end the simulation at t = 0.5") != std::string::npos);
}

TEST(fmi2_follows_inputs) {
  FakeFmu fmu;
  FmuTables tables = fake2(fmu);
  tables.ports[0].followed = true;
  Unit unit(tables);
  const Cell trajectory[2] = {real(1.0), real(2.0)};
  CHECK(unit.table.set(unit.table.self, 0, trajectory, 2) == 0);
  CHECK(unit.advance(0.0, 1.0) == 0);
  CHECK(fmu.x == 2.0 && fmu.u == 1.0);
  CHECK(unit.advance(1.0, 2.0) == 0);  // the course goes on: u = 3 at t = 1
  CHECK(fmu.u == 3.0 && fmu.x == 6.0);
  CHECK(unit.set(0, real(0.0)) == 0);
  CHECK(unit.advance(2.0, 3.0) == 0);
  CHECK(fmu.x == 6.0 && fmu.count("slope") == 2);
}

TEST(fmi_states) {
  FakeFmu fmu;
  {
    Unit unit(fake2(fmu));
    const upbeat_unit& table = unit.table;
    CHECK(unit.set(0, real(1.0)) == 0 && unit.advance(0.0, 1.0) == 0);
    CHECK(table.save(table.self, 0) == 0 && table.save(table.self, 2) == 0);
    std::uint64_t size = 0;
    CHECK(table.pack(table.self, 0, nullptr, &size) == 0);
    Bytes bytes(size);
    CHECK(table.pack(table.self, 0, bytes.data(), &size) == 0 && size == bytes.size());
    CHECK(unit.advance(1.0, 2.0) == 0 && fmu.x == 2.0);
    CHECK(fmu.count("step, may go back") == 1);
    CHECK(table.restore(table.self, 0) == 0 && fmu.x == 1.0);
    CHECK(unit.advance(1.0, 3.0) == 0 && fmu.x == 3.0);
    CHECK(table.unpack(table.self, 1, bytes.data(), size) == 0);
    CHECK(table.restore(table.self, 1) == 0 && fmu.x == 1.0);
    for (std::uint64_t less = 0; less < size; ++less) CHECK(table.unpack(table.self, 1, bytes.data(), less) != 0);
    bytes[8] = 9;
    CHECK(table.unpack(table.self, 3, bytes.data(), size) != 0 && unit.why().find("there is no mode 9") != std::string::npos);
    Cell slope;
    CHECK(table.slope(table.self, 1, 0, &slope) == 0 && slope.r == 1.0);
  }
  CHECK(fmu.count("drop") == 3 && fmu.calls.back() == "free");
}

TEST(fmi3_events) {
  FakeFmu fmu;
  fmu.rounds = 2;
  Unit unit(fake3(fmu));
  int again = 0;
  CHECK(unit.due() == 0.0);
  CHECK(unit.table.jump(unit.table.self, &again) == 0 && again == 0);
  CHECK(fmu.count("exit") == 1 && fmu.count("update") == 2 && fmu.count("event mode") == 0);
  CHECK(unit.due() == std::numeric_limits<double>::infinity());
  fmu.event_at = 0.25;
  fmu.rounds = 2;
  CHECK(unit.advance(0.0, 1.0, true) == 0 && unit.reached == 0.25 && unit.due() == 0.25);
  CHECK(unit.table.jump(unit.table.self, &again) == 0 && again != 0);
  CHECK(unit.table.jump(unit.table.self, &again) == 0 && again == 0);
  CHECK(fmu.count("update") == 4);
  fmu.event_at = 0.5;
  fmu.rounds = 1;
  CHECK(unit.advance(0.25, 1.0) == 0 && unit.reached == 1.0);  // the event is handled inside
  CHECK(fmu.count("update") == 5 && fmu.count("event mode") == 2 && fmu.count("step mode") == 3);
  CHECK(fmu.starts == (std::vector<double>{0.0, 0.25, 0.5}));
  fmu.event_at = 1.25;
  fmu.rounds = 1 << 30;
  CHECK(unit.advance(1.0, 2.0) != 0 && unit.why().find("did not end within 1000 rounds") != std::string::npos);
}

TEST(fmi3_types) {
  FakeFmu fmu;
  Unit unit(fake3(fmu));
  CHECK(unit.set(3, integer(-128)) == 0 && fmu.number == -128);
  CHECK(unit.set(3, integer(128)) != 0 && unit.why().find("'u3' cannot be 128: its type Int8 goes from -128 to 127") != std::string::npos);
  fmu.number = -1;  // the greatest unsigned number
  Cell cell;
  CHECK(unit.table.get(unit.table.self, 2, &cell) != 0 && unit.why().find("18446744073709551615") != std::string::npos);
}

TEST(fmi3_texts_and_bytes_are_numbers_of_a_pool) {
  static std::string text, bytes;
  FakeFmu fmu;
  FmuTables tables = fake3(fmu);
  using R = const std::uint32_t*;
  tables.ports = {port_of(0, 0, true, Type::String), port_of(1, 0, false, Type::String), port_of(2, 1, true, Type::Binary),
                  port_of(3, 1, false, Type::Binary)};
  tables.addresses["SetString"] = address(+[](void*, R, std::size_t, const char* const* from, std::size_t) {
    text = *from;
    return 0;
  });
  tables.addresses["GetString"] = address(+[](void*, R, std::size_t, const char** to, std::size_t) {
    *to = text.c_str();
    return 0;
  });
  tables.addresses["SetBinary"] =
      address(+[](void*, R, std::size_t, const std::size_t* sizes, const unsigned char* const* from, std::size_t) {
        bytes.assign(reinterpret_cast<const char*>(*from), *sizes);
        return 0;
      });
  tables.addresses["GetBinary"] =
      address(+[](void*, R, std::size_t, std::size_t* sizes, const unsigned char** to, std::size_t) {
        *sizes = bytes.size();
        *to = reinterpret_cast<const unsigned char*>(bytes.data());
        return 0;
      });
  const Entered made = make_cosimulation(tables);
  Strings pool;
  made.face->use(pool);
  const upbeat_unit& unit = made.table;
  const auto set = [&](int port, const std::string& value) {
    const Cell cell = integer(pool.intern(value));
    return unit.set(unit.self, port, &cell, 1);
  };
  const auto get = [&](int port) {
    Cell cell;
    CHECK(unit.get(unit.self, port, &cell) == 0);
    return pool.text(cell.i);
  };
  CHECK(set(0, "Gr\xC3\xB6\xC3\x9F" "e") == 0 && get(1) == "Gr\xC3\xB6\xC3\x9F" "e");
  text = "h\xFFm";  // which is no text
  CHECK(get(1) == "h\xEF\xBF\xBDm");
  CHECK(set(0, std::string("a\0b", 3)) != 0 && std::string(unit.message(unit.self)).find("ends at a character 0") != std::string::npos);
  CHECK(set(2, "00fFaa") == 0 && bytes.size() == 3 && get(3) == "00ffaa");
  CHECK(set(2, "") == 0 && get(3).empty());
  for (const char* wrong : {"0", "xy", "0 0"}) {
    CHECK(set(2, wrong) != 0 && std::string(unit.message(unit.self)).find("hexadecimal") != std::string::npos);
  }
  unit.destroy(unit.self);
}

TEST(fmi3_intervals_may_be_fractions) {
  FakeFmu fmu;
  FmuTables tables = fake3(fmu);
  tables.clocks.push_back({7, "tick", ClockTables::Interval::Asked, 0.0, 0.0, 1.0});
  using R = const std::uint32_t*;
  tables.addresses["GetIntervalFraction"] =
      address(+[](void*, R, std::size_t, std::uint64_t* counter, std::uint64_t* resolution, int* qualifier) {
        *counter = 3, *resolution = 4, *qualifier = 2;
        return 0;
      });
  tables.addresses["GetShiftFraction"] = address(+[](void*, R, std::size_t, std::uint64_t* counter, std::uint64_t* resolution) {
    *counter = 1, *resolution = 8;
    return 0;
  });
  tables.addresses["SetClock"] = address(+[](void* c, R, std::size_t, const bool*) { return FakeFmu::of(c).called("tick"); });
  Unit unit(tables);
  int again = 0;
  CHECK(unit.table.jump(unit.table.self, &again) == 0);
  CHECK(unit.due() == 0.125);
  CHECK(unit.advance(0.0, 2.0) == 0 && fmu.count("tick") == 3 && unit.due() == 0.125 + 3 * 0.75);
}

TEST(fmi_tables_are_checked) {
  FakeFmu fmu;
  FmuTables tables = fake2(fmu);
  CHECK(problem_in(tables).empty());
  tables.addresses.erase("FreeInstance");
  CHECK(!problem_in(tables).empty());
  tables = fake2(fmu);
  tables.ports[0].cells = 2;
  CHECK(!problem_in(tables).empty());
}
