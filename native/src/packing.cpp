// A kept place of a machine as bytes and back; upbeat.engine.packing reads and writes the same ones:
//
//   number of cells, of units, of texts | every cell | every unit's own time | texts | states of the units
//
// All numbers have eight bytes, lowest first. A text or a state is its length and then its bytes. A cell with a
// string holds a number among the texts, in the order in which cells first name them.
//
// The slots of the program are not in it: every step that restores one has saved it before, in the same
// step (`held_slots` in upbeat.master.dataflow says so of a program), so between two steps they mean nothing.
#include "packing.hpp"

#include <unordered_map>

#include "machine.hpp"

namespace upbeat {

bool Machine::pack_unit(std::int32_t unit, std::int32_t slot, Bytes& to) {
  const upbeat_unit& table = units_[unit];
  if (!table.pack) return fail(lanes_.front(), Fault::Unable, Call::Pack, unit, -1);
  Bytes state;
  for (;;) {
    std::uint64_t size = state.size();
    lanes_.front().error.status = table.pack(table.self, slot, state.data(), &size);
    if (lanes_.front().error.status != 0) return fail(lanes_.front(), Fault::Refused, Call::Pack, unit, -1);
    const bool whole = size <= state.size();
    state.resize(size);
    if (whole) break;
  }
  append_word(to, state.size());
  to.insert(to.end(), state.begin(), state.end());
  return true;
}

bool Machine::pack(std::int32_t place, const Strings& strings, Bytes& to) {
  const auto index = static_cast<std::size_t>(place);
  to.clear();
  if (index >= kept_.size() || !kept_[index].filled) return fail(lanes_.front(), Fault::EmptySlot, Call::None, -1, -1);
  const Kept& kept = kept_[index];
  std::unordered_map<std::int64_t, std::uint64_t> numbers;
  std::vector<std::int64_t> texts;
  for (std::size_t i = 0; i < kept.cells.size(); ++i) {
    if (tables_.kinds[i] == Kind::String && numbers.emplace(kept.cells[i].i, texts.size()).second) {
      texts.push_back(kept.cells[i].i);
    }
  }
  append_word(to, kept.cells.size());
  append_word(to, units_.size());
  append_word(to, texts.size());
  for (std::size_t i = 0; i < kept.cells.size(); ++i) {
    const Cell cell = kept.cells[i];
    switch (tables_.kinds[i]) {
      case Kind::Real: append_word(to, bits_of(cell.r)); break;
      case Kind::String: append_word(to, numbers[cell.i]); break;
      default: append_word(to, static_cast<std::uint64_t>(cell.i)); break;
    }
  }
  for (const double clock : kept.clocks) append_word(to, bits_of(clock));
  for (const std::int64_t number : texts) {
    const std::string& text = strings.text(number);
    append_word(to, text.size());
    to.insert(to.end(), text.begin(), text.end());
  }
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    if (!pack_unit(static_cast<std::int32_t>(unit), tables_.slots + place, to)) return false;
  }
  return true;
}

// Everything is read and checked before the first unit is touched.
bool Machine::unpack(std::int32_t place, Strings& strings, const void* from, std::uint64_t size) {
  const auto index = static_cast<std::size_t>(place);
  if (index >= kept_.size()) kept_.resize(index + 1);
  Kept& kept = kept_[index];
  kept.filled = false;
  Reader reader(from, size);
  const bool fits = reader.word() == cells_.size() && reader.word() == units_.size();
  const std::uint64_t texts = reader.word();
  if (!reader.sound() || !fits || texts > cells_.size()) return fail(lanes_.front(), Fault::BadBytes, Call::None, -1, -1);
  kept.cells.resize(cells_.size());
  for (Cell& cell : kept.cells) cell.i = static_cast<std::int64_t>(reader.word());
  kept.clocks.resize(units_.size());
  for (double& clock : kept.clocks) clock = double_of(reader.word());
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; reader.sound() && i < texts; ++i) {
    const std::uint64_t length = reader.word();
    const unsigned char* const text = reader.bytes(length);
    if (text) numbers.push_back(strings.intern(std::string(text, text + length)));
  }
  struct State {
    const unsigned char* at;
    std::uint64_t size;
  };
  std::vector<State> states;
  for (std::size_t unit = 0; reader.sound() && unit < units_.size(); ++unit) {
    const std::uint64_t length = reader.word();
    states.push_back({reader.bytes(length), length});
  }
  bool sound = reader.finished();
  for (std::size_t i = 0; sound && i < kept.cells.size(); ++i) {
    Cell& cell = kept.cells[i];
    const auto word = static_cast<std::uint64_t>(cell.i);
    switch (tables_.kinds[i]) {
      case Kind::Real: cell.r = double_of(word); break;
      case Kind::Boolean: sound = word <= 1; break;
      case Kind::String:
        sound = word < numbers.size();
        if (sound) cell.i = numbers[word];
        break;
      default: break;
    }
  }
  if (!sound) return fail(lanes_.front(), Fault::BadBytes, Call::None, -1, -1);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    const upbeat_unit& table = units_[unit];
    const auto number = static_cast<std::int32_t>(unit);
    if (!table.unpack) return fail(lanes_.front(), Fault::Unable, Call::Unpack, number, -1);
    lanes_.front().error.status = table.unpack(table.self, tables_.slots + place, states[unit].at, states[unit].size);
    if (lanes_.front().error.status != 0) return fail(lanes_.front(), Fault::Refused, Call::Unpack, number, -1);
  }
  kept.filled = true;
  return true;
}

}  // namespace upbeat
