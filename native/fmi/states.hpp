// The states that a unit of an FMU keeps: the FMU's own by handle, and with it what the unit remembers.
#pragma once

#include "fmi/fmu.hpp"
#include "packing.hpp"

namespace upbeat::fmi {

// `M` is what the unit remembers: `cells`, `restore`, `write` and `read`, as in memory.hpp.
template <class F, class M>
class States {
 public:
  States(F& fmu, M& memory) : fmu_(fmu), memory_(memory) {}

  bool save(int number) {
    Slot& slot = at(number);
    slot.filled = false;
    if (!fmu_.save(&slot.state)) return false;
    slot.cells = memory_.cells();
    slot.filled = true;
    return true;
  }

  bool restore(int number) {
    const Slot* const slot = filled(number);
    if (!slot || !fmu_.restore(slot->state)) return false;
    memory_.restore(slot->cells);
    return true;
  }

  // What the unit remembers, then what the FMU makes of its state, as a chunk: its length before it.
  bool pack(int number, void* to, std::uint64_t* size) {
    const Slot* const slot = filled(number);
    if (!slot) return false;
    Bytes own;
    memory_.write(slot->cells, own);
    std::size_t bytes = 0;
    if (!fmu_.size(slot->state, &bytes)) return false;
    append_word(own, bytes);
    const std::uint64_t room = *size;
    *size = own.size() + bytes;
    if (room < *size) return true;
    std::memcpy(to, own.data(), own.size());
    return fmu_.serialise(slot->state, static_cast<unsigned char*>(to) + own.size(), bytes);
  }

  bool unpack(int number, const void* from, std::uint64_t size) {
    Reader reader(from, size);
    std::vector<Cell> cells;
    const std::string problem = memory_.read(reader, cells);
    if (!problem.empty()) return foreign(problem);
    const std::uint64_t length = reader.word();
    const unsigned char* const bytes = reader.bytes(length);
    if (!reader.finished()) return foreign("it has not the length that it says");
    Slot& slot = at(number);
    slot.filled = false;
    if (!fmu_.deserialise(bytes, static_cast<std::size_t>(length), &slot.state)) return false;
    slot.cells = std::move(cells);
    slot.filled = true;
    return true;
  }

  void drop_all() {
    for (Slot& slot : slots_) {
      if (slot.state && !fmu_.fatal()) fmu_.drop(&slot.state);
      slot.state = nullptr;
    }
  }

 private:
  struct Slot {
    void* state = nullptr;
    std::vector<Cell> cells;
    bool filled = false;
  };

  Slot& at(int number) {
    const auto index = static_cast<std::size_t>(number);
    if (index >= slots_.size()) slots_.resize(index + 1);
    return slots_[index];
  }
  const Slot* filled(int number) {
    const auto index = static_cast<std::size_t>(number);
    if (index < slots_.size() && slots_[index].filled) return &slots_[index];
    fmu_.refuse("nothing was saved here");
    return nullptr;
  }
  bool foreign(const std::string& why) { return fmu_.refuse("not a state of this unit: " + why); }

  F& fmu_;
  M& memory_;
  std::vector<Slot> slots_;
};

}  // namespace upbeat::fmi
