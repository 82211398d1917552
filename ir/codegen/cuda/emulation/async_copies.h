// Asynchronous copies of one thread (cp.async): what was issued, in groups, and becomes visible when the group is waited for.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace emulation {

inline void poison(void* start, size_t bytes);

struct AsyncCopies {
  struct Copy {
    void* target;
    const void* source;  // nullptr: zeros
    size_t bytes;
    unsigned group;
  };
  std::vector<Copy> pending;
  unsigned open_group = 0;

  // Until the copy is waited for, its target holds nothing that a program may use.
  void issue(void* target, const void* source, size_t bytes) {
    poison(target, bytes);
    pending.push_back({target, source, bytes, open_group});
  }

  void commit() { ++open_group; }

  // All groups but the ``most`` latest ones are complete.
  void wait(unsigned most) {
    if (open_group <= most) return;
    complete_before(open_group - most);
  }

  // Those that belong to no group yet, too.
  void wait_all() { complete_before(open_group + 1); }

  void clear() {
    pending.clear();
    open_group = 0;
  }

 private:
  void complete_before(unsigned group) {
    size_t done = 0;
    for (; done < pending.size() && pending[done].group < group; ++done) {
      const Copy& copy = pending[done];
      if (copy.source)
        memcpy(copy.target, copy.source, copy.bytes);
      else
        memset(copy.target, 0, copy.bytes);
    }
    pending.erase(pending.begin(), pending.begin() + done);
  }
};

}  // namespace emulation
