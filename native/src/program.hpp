// The program as flat tables: what the host lowers to, what an exported FMU carries with it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cell.hpp"
#include "computations.hpp"
#include "kernel.hpp"
#include "shares.hpp"

namespace upbeat {

// One row of the code table is {op, operands...}; the operands of each op are listed next to it.
// "at" is a position in `operands`, "target" a row of the code table.
enum class Op : std::int32_t {
  End = 0,      // -
  Get = 1,      // unit, port, to, cells, kind
  Set = 2,      // unit, port, count, cells, from, checked  (coefficients lie in a row)
  Gather = 3,   // unit, port, count, cells, at, checked    (operands[at + k]: first cell of coefficient k)
  Compute = 4,  // kernel
  Copy = 5,     // from, to, cells
  Advance = 6,  // unit, start, until, reached, early
  Jump = 7,     // unit, again, kind of `again`
  Save = 8,     // slot, at, units, cells                   (operands[at...]: unit numbers, then cells)
  Restore = 9,  // slot
  Begin = 10,   // loop                                     (a Repeat's counter := 0)
  Until = 11,   // loop, kernel, max_iterations, target, fail, number (back to `target` unless done)
  Unless = 12,  // kernel, target                           (an If: go to `target` when false)
  Goto = 13,    // target
  Fire = 14,    // event, from, cells                       (no value: -1, 0)
  Slope = 16,   // unit, output, input, to, cells           (how an output reacts to an input)
  Due = 20,     // unit, to
  GetEvent = 21,  // unit, port, to, cells, kind            (and in the cell after them, whether it is present)
  Call = 26,    // number                                   (of a function of the host)
#define UPBEAT_NUMBER(name, number) name = number,
  UPBEAT_COMPUTATIONS(UPBEAT_NUMBER)
#undef UPBEAT_NUMBER
};

using Row = std::array<std::int32_t, 7>;

// An expression over cells: `from` are loaded into the kernel's inputs, its results go `to`.
struct CellKernel {
  std::int32_t kernel;
  std::vector<std::int32_t> from;
  std::vector<std::int32_t> to;
};

// What a reason of a pace tells besides its number: a time, and so many other numbers; whether it stands for an event.
struct ReasonTables {
  bool at;
  std::int32_t of;
  bool landed;
};

// How a program chooses its steps (see `Pacing` in upbeat.master.program): cells, and numbers of blocks (-1: there is none).
struct PaceTables {
  std::int32_t limit = -1, until = -1, block = -1, reason = -1, again = -1, fired = -1;
  std::int32_t propose = -1, review = -1, note = -1, changed = -1, keep = -1, back = -1;
  std::vector<std::int32_t> steps;  // the step blocks
  std::vector<ReasonTables> reasons;
};

struct ProgramTables {
  std::vector<Cell> start;            // every cell's start value
  std::vector<Kind> kinds;            // every cell's kind
  std::vector<Row> code;              // all blocks, each closed by End
  std::vector<std::int32_t> entries;  // each block's first row
  std::vector<std::int32_t> operands;
  std::vector<KernelTables> kernels;
  std::vector<CellKernel> expressions;  // what Compute, Until and Unless name
  std::vector<Shares> shares;           // for each block how cores share it out; empty: they do not (see `Machine`)
  std::int32_t start_block = -1;        // numbers of blocks; -1: there is nothing to do
  std::int32_t instant_block = -1;
  std::int32_t now = 0;
  std::int32_t next = 0;
  std::int32_t due = -1;  // the cell of the next known event; -1: there is none
  std::int32_t stops = -1;  // the cell that says which unit has ended a step, counted from 1; -1: any may have
  std::int32_t ends = -1;  // the cell that is not zero where the run is over; -1: it goes to its limit
  std::int32_t budget = -1;  // the cells of how many steps may still end at events, and how many more a second gives
  std::int32_t slots = 0;
  std::int32_t loops = 0;
  std::int32_t calls = 0;  // functions of the host
  PaceTables pace;
};

}  // namespace upbeat
