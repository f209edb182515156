// Both ends of a shared page, each on a thread of its own instead of a process.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "check.hpp"
#include "helpers.hpp"
#include "server.hpp"

using namespace upbeat;

namespace {

constexpr std::uint64_t room = 64;  // so that anything larger travels in pieces

std::shared_ptr<SharedPage> fresh() {
  void* const memory = std::aligned_alloc(64, sizeof(SharedPage) + room);
  std::memset(memory, 0, sizeof(SharedPage) + room);
  return {static_cast<SharedPage*>(memory), [](SharedPage* page) { std::free(page); }};
}

// Gives back what it was given, and keeps it.
struct Mirror {
  std::vector<Cell> cells = std::vector<Cell>(100);
  int fail_after = 1 << 30;

  upbeat_unit table() {
    upbeat_unit unit{};
    unit.size = sizeof unit;
    unit.self = this;
    unit.get = [](void* self, int port, Cell* to) {
      const auto& cells = static_cast<Mirror*>(self)->cells;
      std::copy_n(cells.begin(), port == 1 ? 1 : cells.size(), to);
      return 0;
    };
    unit.set = [](void* self, int port, const Cell* from, int) {
      auto& cells = static_cast<Mirror*>(self)->cells;
      std::copy_n(from, port == 0 ? 1 : cells.size(), cells.begin());
      return 0;
    };
    unit.advance = [](void* self, double, double to, int, double* reached) {
      *reached = to;
      return static_cast<Mirror*>(self)->fail_after-- > 0 ? 0 : 1;
    };
    return unit;
  }
};

struct Served {
  Mirror mirror;
  Strings there, here;
  std::atomic<bool> abandoned{false};
  std::shared_ptr<SharedPage> page = fresh();
  std::vector<RemotePort> ports;
  std::thread thread;
  bool ended = false;

  explicit Served(Kind scalar) {
    ports = {{scalar, 1, false}, {scalar, 1, false}, {Kind::Real, 100, false}, {Kind::Real, 100, false}};
    thread = std::thread([this] {
      Server server(page, room, mirror.table(), ports, there, [] { return std::string(200, 'w'); });
      while (server.wait(abandoned) && server.answer()) {
      }
    });
  }
  ~Served() { thread.join(); }

  std::unique_ptr<RemoteUnit> client() {
    RemoteHooks hooks;
    hooks.lost = [](bool) { return std::string("lost"); };
    hooks.renewed = [](std::string&) { return Link{}; };
    hooks.records = [] {};
    hooks.going_on = [] { return true; };
    hooks.ended = [this](const std::string&) { ended = true; };
    auto unit = std::make_unique<RemoteUnit>(Link{page, room, 0}, RemoteUnit::Offered{}, ports, RemoteTerms{}, hooks);
    unit->use(here);
    return unit;
  }
};

}  // namespace

TEST(values_cross_a_shared_page_in_one_piece_or_many) {
  Served served(Kind::Real);
  std::unique_ptr<RemoteUnit> unit = served.client();
  std::vector<Cell> given(100), found(100);
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = real(0.5 + static_cast<double>(i));
  for (int round = 0; round < 200; ++round) {
    given[0] = real(round);
    CHECK(unit->set(2, given.data(), 1) == 0);
    CHECK(unit->get(3, found.data()) == 0);
    CHECK(found[0].r == round && found[99].r == 99.5);
    CHECK(unit->set(0, &given[7], 1) == 0);
    CHECK(unit->get(1, found.data()) == 0);
    CHECK(found[0].r == 7.5);
  }
  double reached = 0.0;
  CHECK(unit->advance(0.0, 2.5, 0, &reached) == 0);
  CHECK(reached == 2.5);
  unit.reset();
  CHECK(served.ended);
}

TEST(texts_cross_a_shared_page_whatever_their_numbers) {
  Served served(Kind::String);
  std::unique_ptr<RemoteUnit> unit = served.client();
  for (const std::string& text : {std::string("a"), std::string(), std::string(1000, 'x'), std::string("a")}) {
    served.here.intern("something else");
    Cell cell = integer(served.here.intern(text)), found = integer(-1);
    CHECK(unit->set(0, &cell, 1) == 0);
    CHECK(unit->get(1, &found) == 0);
    CHECK(served.here.text(found.i) == text);
  }
}

TEST(a_refusal_comes_with_its_words) {
  Served served(Kind::Real);
  served.mirror.fail_after = 1;
  std::unique_ptr<RemoteUnit> unit = served.client();
  double reached = 0.0;
  CHECK(unit->advance(0.0, 1.0, 0, &reached) == 0);
  CHECK(unit->advance(1.0, 2.0, 0, &reached) == 1);
  CHECK(unit->message() == std::string(200, 'w'));
}

TEST(who_asks_nobody_is_told_in_time) {
  const std::shared_ptr<SharedPage> page = fresh();
  int lost = 0;
  RemoteHooks hooks;
  hooks.lost = [&](bool hung) {
    lost += hung ? 1 : 100;
    return std::string("nobody there");
  };
  hooks.records = [] {};
  hooks.going_on = [] { return true; };
  hooks.ended = [](const std::string&) {};
  RemoteTerms terms;
  terms.deadline = 0.05;
  RemoteUnit unit(Link{page, room, 0}, {}, {{Kind::Real, 1, false}}, terms, hooks);
  Cell cell = real(0.0);
  CHECK(unit.get(0, &cell) == 1);
  CHECK(unit.message() == std::string("nobody there"));
  CHECK(unit.get(0, &cell) == 1);
  CHECK(lost == 1);
}

// The other side may write anything at any time: whatever it says, nothing is read or made that it has no right to.
TEST(nonsense_on_a_shared_page_ends_the_conversation) {
  struct Case {
    std::int32_t status;
    std::uint64_t size;
    bool serial;
    const char* words;
  };
  const Case cases[] = {
      {0, 0, false, "its process wrote over the memory that it shares with the run; its process was ended"},
      {0, std::uint64_t{1} << 60, true, "its process announced an answer of 1152921504606846976 bytes; its process was ended"},
      {0, ~std::uint64_t{0}, true, "its process announced an answer of 18446744073709551615 bytes; its process was ended"},
      {0, 3, true, "its process gave a value of another size; its process was ended"},
      {7, room, true, "\xEF\xBF\xBD"},
  };
  for (const Case& one : cases) {
    const std::shared_ptr<SharedPage> page = fresh();
    std::thread other([&] {
      await_turn(*page, Side::Server, Patience::look(0), [] { return true; });
      page->status = one.status;
      page->size = one.size;
      page->serial = one.serial ? ~page->serial : page->serial;
      std::memset(page->payload(), 0xA5, room);
      hand_over(*page, Side::Client);
    });
    int lost = 0;
    RemoteHooks hooks;
    hooks.lost = [&](bool) {
      ++lost;
      return std::string("lost");
    };
    hooks.records = [] {};
    hooks.going_on = [] { return true; };
    hooks.ended = [](const std::string&) {};
    RemoteTerms terms;
    terms.deadline = 0.1;
    {
      RemoteUnit unit(Link{page, room, 0}, {}, {{Kind::Real, 1, false}}, terms, hooks);
      Cell cell = real(0.0);
      CHECK(unit.get(0, &cell) == (one.status ? one.status : 1));
      CHECK(std::string(unit.message()).rfind(one.words, 0) == 0);
      CHECK(lost == (one.status ? 0 : 1));
    }
    other.join();
  }
}
