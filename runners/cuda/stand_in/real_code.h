// Cubins and PTX: for which devices they are, and what the stand-in runs in their place.
//
// Nobody but a device runs a cubin. A folder that LOOPSMITH_STAND_IN_IMAGES names has pairs of files, NAME.cubin or NAME.ptx, and
// NAME.image, a module of the stand-in's that computes the same.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace real_code {

enum Kind { OTHER, CUBIN, PTX };

inline Kind kind_of(const char* image) {
  if (memcmp(image, "\x7f" "ELF", 4) == 0) return CUBIN;
  return strncmp(image, "//", 2) == 0 || strncmp(image, ".version", 8) == 0 ? PTX : OTHER;
}

// A cubin runs on devices of its major version whose minor one is not smaller; PTX on all that are not older. Code for an architecture's
// own features ("sm_90a") runs there alone. Where these facts are: ELF flags of CUDA binaries, whose places the ABI's version says.
inline bool runs_on(const char* image, Kind kind, int capability) {
  int built = 0;
  bool own = false;
  if (kind == CUBIN) {
    uint32_t flags;
    memcpy(&flags, image + 48, sizeof flags);
    bool newer = image[8] >= 8;
    built = newer ? flags >> 8 & 255 : flags & 255;
    own = flags & (newer ? 0x8 : 0x800);
  } else {
    const char* target = strstr(image, ".target sm_");
    if (!target) return false;
    char* end;
    built = int(strtol(target + strlen(".target sm_"), &end, 10));
    own = *end == 'a';
  }
  if (own) return capability == built;
  return capability >= built && (kind == PTX || capability / 10 == built / 10);
}

// The image that stands for code; empty where there is none.
inline std::string image_for(const char* code, Kind kind) {
  const char* folder = getenv("LOOPSMITH_STAND_IN_IMAGES");
  if (!folder || !*folder) return {};
  auto bytes_of = [](const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::path path = entry.path();
    if (path.extension() != (kind == CUBIN ? ".cubin" : ".ptx")) continue;
    std::string known = bytes_of(path);
    size_t same = 0;
    while (same < known.size() && known[same] == code[same]) ++same;
    if (same == known.size()) return bytes_of(path.replace_extension(".image"));
  }
  return {};
}

}  // namespace real_code
