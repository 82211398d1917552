// Products that a thread of a warp group has begun (wgmma): they are computed when it waits for their group, which is as late as may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace emulation {

inline void poison(void* start, size_t bytes);

struct WarpGroupProducts {
  using Part = void (*)(unsigned thread, uint64_t a, uint64_t b, bool keeps, unsigned char* sums);

  void fence() { fenced = true; }

  // Until it is waited for, the sums hold nothing that a program may use. False: a fence is missing.
  bool begin(void* sums, size_t bytes, bool keeps, uint64_t a, uint64_t b, Part part) {
    auto* at = static_cast<unsigned char*>(sums);
    if (!held.count(at)) {
      if (!fenced) return false;
      held[at].assign(at, at + bytes);
      poison(at, bytes);
    }
    begun.push_back({at, a, b, keeps, part, open_group});
    return true;
  }

  void commit() { ++open_group; }

  // All groups but the ``most`` latest ones are computed.
  void wait(unsigned most, unsigned thread) {
    size_t done = 0;
    for (; done < begun.size() && begun[done].group + most < open_group; ++done) {
      const Product& product = begun[done];
      product.part(thread, product.a, product.b, product.keeps, held[product.sums].data());
    }
    begun.erase(begun.begin(), begun.begin() + done);
    for (auto item = held.begin(); item != held.end();) {
      bool is_used = false;
      for (const Product& product : begun) is_used |= product.sums == item->first;
      if (is_used) {
        ++item;
        continue;
      }
      memcpy(item->first, item->second.data(), item->second.size());
      item = held.erase(item);
      fenced = false;
    }
  }

  void clear() {
    begun.clear();
    held.clear();
    open_group = 0;
    fenced = false;
  }

 private:
  struct Product {
    unsigned char* sums;
    uint64_t a, b;
    bool keeps;
    Part part;
    unsigned group;
  };
  std::vector<Product> begun;
  std::map<unsigned char*, std::vector<unsigned char>> held;
  unsigned open_group = 0;
  bool fenced = false;
};

}  // namespace emulation
