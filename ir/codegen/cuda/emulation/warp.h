// Instructions that lanes of a warp execute together: shuffles, votes, reductions.
//
// A lane that arrives leaves its operands; the last one computes the results of all. Lanes meet where mask, instruction and line agree.
// Lanes of a mask that the last warp of a block does not have take no part; what they would give is poison.
#pragma once

#include "threads.h"

namespace emulation {

inline unsigned lane() { return launch.current->number % 32; }

// Waits for the lanes of ``mask``. ``compute`` is called once, with the operands of each lane that takes part, by its number.
template <class Operands>
void meet(unsigned mask, const char* name, int line, Operands& own, void (*compute)(Operands** lanes, unsigned mask)) {
  Warp& warp = launch.warps[launch.current->number / 32];
  unsigned bit = 1u << lane();
  if (!(mask & bit)) fail(Fault::barrier, format("%s in line %d: the mask 0x%08x has no bit for this lane", name, line, mask));
  unsigned taking_part = mask & warp.existing;
  warp.operands[lane()] = &own;
  auto* instruction = reinterpret_cast<const void*>(compute);
  size_t at = 0;
  while (at < warp.meetings.size()) {
    const Meeting& meeting = warp.meetings[at];
    if (meeting.mask == mask && meeting.instruction == instruction && meeting.line == line) break;
    ++at;
  }
  if (at == warp.meetings.size()) warp.meetings.push_back({mask, 0, instruction, line});
  warp.meetings[at].arrived |= bit;
  if (warp.meetings[at].arrived != taking_part) return wait(name, line);
  warp.meetings.erase(warp.meetings.begin() + at);
  compute(reinterpret_cast<Operands**>(warp.operands), taking_part);
  unsigned first = launch.current->number / 32 * 32;
  for (unsigned i = 0; i < 32; ++i)
    if (taking_part >> i & 1) launch.threads[first + i].state = State::ready;
  suspend();
}

struct Nothing {};

template <class T>
struct Shuffle {
  T given, result;
  unsigned source;
};

template <class T>
void exchange(Shuffle<T>** lanes, unsigned mask) {
  for (unsigned i = 0; i < 32; ++i) {
    if (!(mask >> i & 1)) continue;
    unsigned source = lanes[i]->source;
    if (mask >> source & 1)
      lanes[i]->result = lanes[source]->given;
    else
      poison(&lanes[i]->result, sizeof(T));
  }
}

template <class T>
T shuffle(const char* name, unsigned mask, T given, unsigned source, int line) {
  Shuffle<T> own{given, given, source};
  meet<Shuffle<T>>(mask, name, line, own, exchange<T>);
  return own.result;
}

inline unsigned first_of_segment(int width, const char* name, int line) {
  if (width < 1 || width > 32 || (width & (width - 1)))
    fail(Fault::trap, format("%s in line %d: the width is %d, not a power of two up to 32", name, line, width));
  return lane() & ~(unsigned(width) - 1);
}

struct Vote {
  bool given;
  unsigned result;
};

inline void ballot(Vote** lanes, unsigned mask) {
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1 && lanes[i]->given) bits |= 1u << i;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1) lanes[i]->result = bits;
}

inline unsigned vote(const char* name, unsigned mask, bool given, int line) {
  Vote own{given, 0};
  meet<Vote>(mask, name, line, own, ballot);
  return own.result;
}

inline unsigned existing_lanes(unsigned mask) { return mask & launch.warps[launch.current->number / 32].existing; }

template <class T>
struct Matching {
  T given;
  unsigned result;
};

template <class T>
void find_equal(Matching<T>** lanes, unsigned mask) {
  for (unsigned i = 0; i < 32; ++i) {
    if (!(mask >> i & 1)) continue;
    lanes[i]->result = 0;
    for (unsigned j = 0; j < 32; ++j)
      if (mask >> j & 1 && !memcmp(&lanes[i]->given, &lanes[j]->given, sizeof(T))) lanes[i]->result |= 1u << j;
  }
}

template <class T, T (*combine)(T, T)>
void reduce_all(Shuffle<T>** lanes, unsigned mask) {
  bool first = true;
  T result{};
  for (unsigned i = 0; i < 32; ++i) {
    if (!(mask >> i & 1)) continue;
    result = first ? lanes[i]->given : combine(result, lanes[i]->given);
    first = false;
  }
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1) lanes[i]->result = result;
}

template <class T, T (*combine)(T, T)>
T reduce(const char* name, unsigned mask, T given, int line) {
  Shuffle<T> own{given, given, 0};
  meet<Shuffle<T>>(mask, name, line, own, reduce_all<T, combine>);
  return own.result;
}

inline unsigned add(unsigned a, unsigned b) { return a + b; }
inline int add(int a, int b) { return int(unsigned(a) + unsigned(b)); }
template <class T>
T lesser(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T greater(T a, T b) {
  return a < b ? b : a;
}
inline unsigned conjunction(unsigned a, unsigned b) { return a & b; }
inline unsigned disjunction(unsigned a, unsigned b) { return a | b; }
inline unsigned exclusive(unsigned a, unsigned b) { return a ^ b; }

}  // namespace emulation

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  emulation::Nothing own;
  emulation::meet<emulation::Nothing>(mask, "__syncwarp()", line, own, [](emulation::Nothing**, unsigned) {});
}

// The lanes that are at this place together: all of the warp but those that have ended, or wait elsewhere.
inline unsigned __activemask(int line = __builtin_LINE()) {
  ++emulation::launch.converging;
  emulation::wait("__activemask()", line, emulation::State::converging);
  return emulation::launch.current->converged;
}

// A source outside of the segment of ``width`` lanes gives a lane's own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, int line = __builtin_LINE()) {
  unsigned first = emulation::first_of_segment(width, "__shfl_sync()", line);
  return emulation::shuffle("__shfl_sync()", mask, value, first | (unsigned(source) & (unsigned(width) - 1)), line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned first = emulation::first_of_segment(width, "__shfl_up_sync()", line), own = emulation::lane();
  return emulation::shuffle("__shfl_up_sync()", mask, value, delta > own - first ? own : own - delta, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned first = emulation::first_of_segment(width, "__shfl_down_sync()", line), own = emulation::lane();
  bool outside = delta >= first + unsigned(width) - own;
  return emulation::shuffle("__shfl_down_sync()", mask, value, outside ? own : own + delta, line);
}
// A source in an earlier segment is read; only those in later ones give a lane's own value.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, int line = __builtin_LINE()) {
  unsigned first = emulation::first_of_segment(width, "__shfl_xor_sync()", line), own = emulation::lane();
  unsigned source = own ^ (unsigned(lane_mask) & 31);
  return emulation::shuffle("__shfl_xor_sync()", mask, value, source >= first + unsigned(width) ? own : source, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return emulation::vote("__ballot_sync()", mask, predicate != 0, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return emulation::vote("__any_sync()", mask, predicate != 0, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return emulation::vote("__all_sync()", mask, predicate != 0, line) == emulation::existing_lanes(mask);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  emulation::Matching<T> own{value, 0};
  emulation::meet<emulation::Matching<T>>(mask, "__match_any_sync()", line, own, emulation::find_equal<T>);
  return own.result;
}

#define EMULATION_REDUCTION(name, type, combine)                                                       \
  inline type name(unsigned mask, type value, int line = __builtin_LINE()) {                           \
    return emulation::reduce<type, emulation::combine>(#name "()", mask, value, line);                 \
  }
EMULATION_REDUCTION(__reduce_add_sync, int, add)
EMULATION_REDUCTION(__reduce_add_sync, unsigned, add)
EMULATION_REDUCTION(__reduce_min_sync, int, lesser)
EMULATION_REDUCTION(__reduce_min_sync, unsigned, lesser)
EMULATION_REDUCTION(__reduce_max_sync, int, greater)
EMULATION_REDUCTION(__reduce_max_sync, unsigned, greater)
EMULATION_REDUCTION(__reduce_and_sync, unsigned, conjunction)
EMULATION_REDUCTION(__reduce_or_sync, unsigned, disjunction)
EMULATION_REDUCTION(__reduce_xor_sync, unsigned, exclusive)
#undef EMULATION_REDUCTION
