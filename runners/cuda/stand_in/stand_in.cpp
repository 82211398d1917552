// CUDA's driver API (and a little of NVML's) over the memory of the processor: what this project asks of the two libraries.
//
// A module is the library that the emulation (ir/codegen/cuda/emulation) makes of kernels, behind a line for each kernel with its name
// and the bytes of shared memory that it declares. Work is put into a stream's queue, and done when somebody waits for it: who forgets
// to wait reads old values. An allocation lies between pages that nobody may touch; a kernel that does ends its context, as on a device.
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "real_code.h"
#include "tensor_map.h"

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, NO_BINARY = 209, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_FAILED = 719,
  CAPTURE_UNSUPPORTED = 900,
};

const std::map<int, const char*> names = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"}, {218, "CUDA_ERROR_INVALID_PTX"},
    {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}};

size_t from_environment(const char* name, size_t otherwise) {
  const char* value = getenv(name);
  return value && *value ? strtoull(value, nullptr, 10) : otherwise;
}

constexpr size_t guard_bytes = 1 << 20;
constexpr int most_static_shared = 48 << 10;
constexpr int most_shared = 163 << 10;  // of an sm_80
std::recursive_mutex everything;
using Lock = std::lock_guard<std::recursive_mutex>;
bool begun = false;
std::string last_message;

using Work = std::function<int()>;

struct Stream {
  std::deque<Work> queue;
  uint64_t queued = 0, done = 0;
  bool blocking = true;
  bool capturing = false;
  std::vector<Work> captured;
};

struct Context {
  int device = 0;
  int users = 0;
  int lost = 0;  // the error that ended it
  size_t used = 0;
  std::map<uint64_t, size_t> memory;  // bytes by address
  Stream standard;
  std::vector<Stream*> streams;
};

struct Event {
  Stream* stream = nullptr;
  uint64_t number = 0;  // of the work that records it
  std::chrono::steady_clock::time_point time;
};
using EventHandle = std::shared_ptr<Event>;

struct Module;
struct Function {
  Module* module;
  long long (*launch)(const unsigned*, const unsigned*, unsigned, void**, long long, unsigned long long);
  std::vector<size_t> sizes;  // of the parameters
  int static_shared = 0, dynamic_shared = most_static_shared;
};
struct Module {
  void* library = nullptr;
  std::map<std::string, Function> functions;
  int (*fault)() = nullptr;
  const char* (*message)() = nullptr;
};

struct Graph {
  std::vector<Work> work;
};
using GraphHandle = std::shared_ptr<Graph>;  // a graph may be destroyed before it was done

std::vector<Context>& contexts() {
  static std::vector<Context> all(from_environment("LOOPSMITH_STAND_IN_DEVICES", 1));
  return all;
}
thread_local Context* current = nullptr;
thread_local std::vector<Context*> below;  // the contexts that the current one was pushed upon
size_t modules = 0;                        // that are loaded

int capability() { return int(from_environment("LOOPSMITH_STAND_IN_CAPABILITY", 80)); }
size_t device_bytes() { return from_environment("LOOPSMITH_STAND_IN_BYTES", size_t(1) << 30); }

// Work of the stream up to the one of this number; the first failure is the context's.
int run_until(Stream& stream, uint64_t number) {
  while (stream.done < number && !stream.queue.empty()) {
    Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;
    int result = current->lost ? current->lost : work();
    if (result && !current->lost) current->lost = result;
  }
  return current->lost;
}

int finish(Stream& stream) { return run_until(stream, stream.queued); }

int finish_all() {
  finish(current->standard);
  for (Stream* stream : current->streams) finish(*stream);
  return current->lost;
}

Stream& stream_of(void* handle) {
  return reinterpret_cast<uintptr_t>(handle) <= 2 ? current->standard : *static_cast<Stream*>(handle);
}

int ready() {
  if (!begun) return NOT_INITIALIZED;
  if (!current) return INVALID_CONTEXT;
  return current->lost;
}

int enqueue(void* handle, Work work) {
  Stream& stream = stream_of(handle);
  if (stream.capturing) {
    stream.captured.push_back(std::move(work));
    return SUCCESS;
  }
  // The standard stream waits for those that block, and they for it.
  if (&stream == &current->standard) {
    for (Stream* other : current->streams)
      if (other->blocking) finish(*other);
  } else if (stream.blocking) {
    finish(current->standard);
  }
  if (current->lost) return current->lost;
  stream.queue.push_back(std::move(work));
  ++stream.queued;
  return SUCCESS;
}

// ------------------------------------------------------------------------------------------------------------- kernels

sigjmp_buf before_kernel;
volatile sig_atomic_t inside = 0;

void on_fault(int signal_number) {
  if (inside) siglongjmp(before_kernel, 1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

int run_kernel(Function* function, const unsigned* grid, const unsigned* block, unsigned shared, void** arguments) {
  static unsigned char* signal_stack = new unsigned char[1 << 16];
  stack_t stack{}, stack_before{};
  stack.ss_sp = signal_stack;
  stack.ss_size = 1 << 16;
  sigaltstack(&stack, &stack_before);
  struct sigaction action {}, segv{}, bus{};
  action.sa_handler = on_fault;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &segv);
  sigaction(SIGBUS, &action, &bus);
  volatile long long done = 0;
  int result = SUCCESS;
  long long total = (long long)grid[0] * grid[1] * grid[2];
  if (sigsetjmp(before_kernel, 1) == 0) {
    inside = 1;
    while (done >= 0 && done < total) done = function->launch(grid, block, shared, arguments, done, 0);
    if (done < 0) {
      last_message = function->module->message();
      result = function->module->fault() == 3 ? OUT_OF_MEMORY : LAUNCH_FAILED;
    }
  } else {
    last_message = "a thread read or wrote where no memory is";
    result = ILLEGAL_ADDRESS;
  }
  inside = 0;
  sigaction(SIGSEGV, &segv, nullptr);
  sigaction(SIGBUS, &bus, nullptr);
  sigaltstack(&stack_before, nullptr);
  return result;
}

// The size of a parameter of which the emulation gives the type: "const*float32", "int64", "bytes16".
size_t size_of(const std::string& type) {
  if (type.find('*') != std::string::npos) return sizeof(void*);
  if (type == "bool" || type.rfind("float8", 0) == 0) return 1;
  if (type == "bfloat16") return 2;
  size_t digits = type.find_first_of("0123456789");
  size_t number = strtoull(type.c_str() + digits, nullptr, 10);
  return type.rfind("bytes", 0) == 0 ? number : number / 8;
}

}  // namespace

// -------------------------------------------------------------------------------------------------------------- driver

API const char* loopsmith_stand_in_message() { return last_message.c_str(); }
// What this process has not given back: allocations, streams, modules, and contexts as often as they were retained.
API size_t loopsmith_stand_in_held() {
  Lock lock(everything);
  size_t count = modules;
  for (Context& context : contexts()) count += context.memory.size() + context.streams.size() + size_t(context.users);
  return count;
}

API int cuInit(unsigned flags) {
  Lock lock(everything);
  if (flags) return INVALID_VALUE;
  if (contexts().empty()) return NO_DEVICE;
  begun = true;
  return SUCCESS;
}
API int cuDriverGetVersion(int* version) { return *version = 12080, SUCCESS; }
API int cuGetErrorName(int error, const char** text) {
  auto found = names.find(error);
  *text = found == names.end() ? nullptr : found->second;
  return found == names.end() ? INVALID_VALUE : SUCCESS;
}
API int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

API int cuDeviceGetCount(int* count) {
  if (!begun) return NOT_INITIALIZED;
  *count = int(contexts().size());
  return SUCCESS;
}
API int cuDeviceGet(int* device, int index) {
  if (!begun) return NOT_INITIALIZED;
  if (index < 0 || index >= int(contexts().size())) return INVALID_DEVICE;
  *device = index;
  return SUCCESS;
}
API int cuDeviceGetName(char* name, int size, int) {
  strncpy(name, "loopsmith stand-in", size - 1);
  name[size - 1] = 0;
  return SUCCESS;
}
API int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  memset(uuid, 0, 16);
  uuid[15] = (unsigned char)device;
  return SUCCESS;
}
API int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = device_bytes(), SUCCESS; }
API int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {
      {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, most_static_shared}, {10, 32}, {12, 65536},
      {13, 1410000}, {16, 108}, {36, 1215000}, {37, 5120}, {38, 1 << 20}, {39, 2048}, {81, 164 << 10}, {97, most_shared}};
  if (attribute == 75) return *value = capability() / 10, SUCCESS;
  if (attribute == 76) return *value = capability() % 10, SUCCESS;
  auto found = values.find(attribute);
  if (found == values.end()) return INVALID_VALUE;
  *value = found->second;
  return SUCCESS;
}

API int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (!begun) return NOT_INITIALIZED;
  if (device < 0 || device >= int(contexts().size())) return INVALID_DEVICE;
  Context& found = contexts()[device];
  found.device = device;
  ++found.users;
  *context = &found;
  return SUCCESS;
}
API int cuDevicePrimaryCtxRelease_v2(int device) {
  --contexts()[device].users;
  return SUCCESS;
}
API int cuCtxSetCurrent(void* context) {
  current = static_cast<Context*>(context);
  return SUCCESS;
}
API int cuCtxPushCurrent_v2(void* context) {
  below.push_back(current);
  current = static_cast<Context*>(context);
  return SUCCESS;
}
API int cuCtxPopCurrent_v2(void** context) {
  if (below.empty()) return INVALID_CONTEXT;
  *context = current;
  current = below.back();
  below.pop_back();
  return SUCCESS;
}
API int cuCtxGetCurrent(void** context) { return *context = current, SUCCESS; }
API int cuCtxGetDevice(int* device) {
  if (!current) return INVALID_CONTEXT;
  return *device = current->device, SUCCESS;
}
API int cuCtxSynchronize() {
  Lock lock(everything);
  if (int error = ready()) return error;
  return finish_all();
}

// -------------------------------------------------------------------------------------------------------------- memory

API int cuMemGetInfo_v2(size_t* left, size_t* total) {
  if (int error = ready()) return error;
  *total = device_bytes();
  *left = *total - std::min(*total, current->used);
  return SUCCESS;
}
API int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Lock lock(everything);
  if (int error = ready()) return error;
  if (bytes == 0) return INVALID_VALUE;
  size_t pages = (bytes + 4095) / 4096 * 4096;
  if (current->used + pages > device_bytes()) return OUT_OF_MEMORY;
  void* all = mmap(nullptr, pages + 2 * guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return OUT_OF_MEMORY;
  char* start = static_cast<char*>(all) + guard_bytes;
  mprotect(start, pages, PROT_READ | PROT_WRITE);
  memset(start, 0xFB, pages);  // what was there before
  *address = reinterpret_cast<uint64_t>(start);
  current->memory[*address] = pages;
  current->used += pages;
  return SUCCESS;
}
API int cuMemFree_v2(uint64_t address) {
  Lock lock(everything);
  if (!current) return INVALID_CONTEXT;
  if (!current->lost) finish_all();
  auto found = current->memory.find(address);
  if (found == current->memory.end()) return INVALID_VALUE;
  munmap(reinterpret_cast<char*>(address) - guard_bytes, found->second + 2 * guard_bytes);
  current->used -= found->second;
  current->memory.erase(found);
  return current->lost;
}
API int cuMemHostAlloc(void** address, size_t bytes, unsigned) { return (*address = malloc(bytes)) ? SUCCESS : OUT_OF_MEMORY; }
API int cuMemFreeHost(void* address) { return free(address), SUCCESS; }

namespace {
// Whether a range is within one allocation of the device.
bool on_device(uint64_t address, size_t bytes) {
  auto found = current->memory.upper_bound(address);
  if (found == current->memory.begin()) return false;
  --found;
  return address + bytes <= found->first + found->second;
}
int copy(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t bytes, void* stream) {
  if (int error = ready()) return error;
  if (bytes == 0) return SUCCESS;
  if ((to_device && !on_device(to, bytes)) || (from_device && !on_device(from, bytes))) return INVALID_VALUE;
  return enqueue(stream, [=] {
    memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return SUCCESS;
  });
}
int now(int error) { return error ? error : finish(current->standard); }
}  // namespace

API int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  Lock lock(everything);
  return copy(to, true, reinterpret_cast<uint64_t>(from), false, bytes, stream);
}
API int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  Lock lock(everything);
  return copy(reinterpret_cast<uint64_t>(to), false, from, true, bytes, stream);
}
API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Lock lock(everything);
  return copy(to, true, from, true, bytes, stream);
}
API int cuMemcpyPeerAsync(uint64_t to, void* to_context, uint64_t from, void* from_context, size_t bytes, void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  Context* own = current;
  for (void* side : {to_context, from_context}) {
    current = static_cast<Context*>(side);
    bool known = on_device(side == to_context ? to : from, bytes);
    if (side != own) finish_all();
    current = own;
    if (!known) return INVALID_VALUE;
  }
  return copy(to, false, from, false, bytes, stream);
}
API int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  Lock lock(everything);
  return now(copy(to, true, reinterpret_cast<uint64_t>(from), false, bytes, nullptr));
}
API int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  Lock lock(everything);
  return now(copy(reinterpret_cast<uint64_t>(to), false, from, true, bytes, nullptr));
}
API int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  if (bytes == 0) return SUCCESS;
  if (!on_device(to, bytes)) return INVALID_VALUE;
  return enqueue(stream, [=] {
    memset(reinterpret_cast<void*>(to), byte, bytes);
    return SUCCESS;
  });
}

// -------------------------------------------------------------------------------------------------- streams and events

API int cuStreamCreate(void** stream, unsigned flags) {
  Lock lock(everything);
  if (int error = ready()) return error;
  auto* made = new Stream;
  made->blocking = (flags & 1) == 0;
  current->streams.push_back(made);
  *stream = made;
  return SUCCESS;
}
API int cuStreamDestroy_v2(void* stream) {
  Lock lock(everything);
  if (!current) return INVALID_CONTEXT;
  auto* found = static_cast<Stream*>(stream);
  if (!current->lost) finish(*found);
  auto& all = current->streams;
  all.erase(std::remove(all.begin(), all.end(), found), all.end());
  delete found;
  return current->lost;
}
API int cuStreamSynchronize(void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  if (stream_of(stream).capturing) return CAPTURE_UNSUPPORTED;
  return finish(stream_of(stream));
}
API int cuStreamQuery(void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  return stream_of(stream).queue.empty() ? SUCCESS : NOT_READY;
}
API int cuEventCreate(void** event, unsigned) {
  if (int error = ready()) return error;
  *event = new EventHandle(std::make_shared<Event>());  // an event may be destroyed before it happens
  return SUCCESS;
}
API int cuEventDestroy_v2(void* event) { return delete static_cast<EventHandle*>(event), SUCCESS; }
API int cuEventRecord(void* event, void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  EventHandle made = *static_cast<EventHandle*>(event);
  int error = enqueue(stream, [made] {
    made->time = std::chrono::steady_clock::now();
    return SUCCESS;
  });
  made->stream = &stream_of(stream);
  made->number = made->stream->queued;
  return error;
}
API int cuEventSynchronize(void* event) {
  Lock lock(everything);
  if (int error = ready()) return error;
  EventHandle found = *static_cast<EventHandle*>(event);
  return found->stream ? run_until(*found->stream, found->number) : SUCCESS;
}
API int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  Lock lock(everything);
  if (int error = ready()) return error;
  EventHandle first = *static_cast<EventHandle*>(start), second = *static_cast<EventHandle*>(end);
  if (!first->stream || !second->stream) return INVALID_HANDLE;
  if (first->stream->done < first->number || second->stream->done < second->number) return NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(second->time - first->time).count();
  return SUCCESS;
}
API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  Lock lock(everything);
  if (int error = ready()) return error;
  EventHandle found = *static_cast<EventHandle*>(event);
  if (!found->stream) return SUCCESS;
  Stream* other = found->stream;
  uint64_t number = found->number;
  if (other == &stream_of(stream)) return SUCCESS;
  return enqueue(stream, [=] { return run_until(*other, number); });
}

// -------------------------------------------------------------------------------------------------------------- graphs

API int cuStreamBeginCapture_v2(void* stream, int) {
  Lock lock(everything);
  if (int error = ready()) return error;
  if (reinterpret_cast<uintptr_t>(stream) <= 2) return CAPTURE_UNSUPPORTED;
  stream_of(stream).capturing = true;
  stream_of(stream).captured.clear();
  return SUCCESS;
}
API int cuStreamEndCapture(void* stream, void** graph) {
  Lock lock(everything);
  if (int error = ready()) return error;
  stream_of(stream).capturing = false;
  *graph = new GraphHandle(std::make_shared<Graph>(Graph{std::move(stream_of(stream).captured)}));
  return SUCCESS;
}
API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return *executable = new GraphHandle(std::make_shared<Graph>(**static_cast<GraphHandle*>(graph))), SUCCESS;
}
API int cuGraphLaunch(void* executable, void* stream) {
  Lock lock(everything);
  if (int error = ready()) return error;
  GraphHandle graph = *static_cast<GraphHandle*>(executable);
  return enqueue(stream, [graph] {
    int result = SUCCESS;
    for (Work& work : graph->work)
      if ((result = work())) break;
    return result;
  });
}
API int cuGraphDestroy(void* graph) { return delete static_cast<GraphHandle*>(graph), SUCCESS; }
API int cuGraphExecDestroy(void* executable) { return delete static_cast<GraphHandle*>(executable), SUCCESS; }

// ------------------------------------------------------------------------------------------------- modules and launches

// The image: "loopsmith-stand-in BYTES\n", "kernel bytes-of-shared-memory\n" for each kernel, an empty line, BYTES of the library.
API int cuModuleLoadData(void** module, const void* image) {
  Lock lock(everything);
  if (int error = ready()) return error;
  const char* text = static_cast<const char*>(image);
  static const char magic[] = "loopsmith-stand-in ";
  std::string found;
  if (real_code::Kind kind = real_code::kind_of(text)) {
    if (!real_code::runs_on(text, kind, capability())) return kind == real_code::PTX ? INVALID_PTX : NO_BINARY;
    found = real_code::image_for(text, kind);
    text = found.c_str();
  }
  if (strncmp(text, magic, sizeof magic - 1) != 0) return last_message = "it is none of the stand-in's", INVALID_IMAGE;
  const char* end = strstr(text, "\n\n");
  std::istringstream head(std::string(text + sizeof magic - 1, end));
  size_t bytes = 0;
  head >> bytes;
  auto made = std::make_unique<Module>();
  // Libraries are told apart by their paths, and one that was closed may stay: each has a path of its own.
  static unsigned loads = 0;
  const char* folder = getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/loopsmith-stand-in-" + std::to_string(getpid()) + "-" +
                     std::to_string(++loads) + ".so";
  std::ofstream(path, std::ios::binary).write(end + 2, std::streamsize(bytes));
  made->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  if (!made->library) return last_message = dlerror(), INVALID_IMAGE;
  made->fault = reinterpret_cast<int (*)()>(dlsym(made->library, "emulation_fault"));
  made->message = reinterpret_cast<const char* (*)()>(dlsym(made->library, "emulation_message"));
  std::string name;
  int shared = 0;
  while (head >> name >> shared) {
    Function& function = made->functions[name];
    function.module = made.get();
    function.static_shared = shared;
    function.dynamic_shared = most_static_shared - shared;
    function.launch = reinterpret_cast<decltype(function.launch)>(dlsym(made->library, ("launch_" + name).c_str()));
    auto describe = reinterpret_cast<const char* (*)()>(dlsym(made->library, ("parameters_" + name).c_str()));
    if (!function.launch || !describe) return last_message = "there is no kernel " + name, INVALID_IMAGE;
    std::istringstream types(describe());
    for (std::string type; types >> type;) function.sizes.push_back(size_of(type));
  }
  *module = made.release();
  ++modules;
  return SUCCESS;
}
API int cuModuleUnload(void* module) {
  Lock lock(everything);
  auto* found = static_cast<Module*>(module);
  dlclose(found->library);
  delete found;
  --modules;
  return SUCCESS;
}
API int cuModuleGetFunction(void** function, void* module, const char* name) {
  Lock lock(everything);
  if (int error = ready()) return error;
  auto& functions = static_cast<Module*>(module)->functions;
  auto found = functions.find(name);
  if (found == functions.end()) return NOT_FOUND;
  *function = &found->second;
  return SUCCESS;
}
API int cuFuncGetAttribute(int* value, int attribute, void* function) {
  auto* found = static_cast<Function*>(function);
  if (attribute == 1) return *value = found->static_shared, SUCCESS;
  if (attribute == 8) return *value = found->dynamic_shared, SUCCESS;
  return INVALID_VALUE;
}
API int cuFuncSetAttribute(void* function, int attribute, int value) {
  if (int error = ready()) return error;
  auto* found = static_cast<Function*>(function);
  if (attribute != 8 || value < 0 || value + found->static_shared > most_shared) return INVALID_VALUE;
  found->dynamic_shared = value;
  return SUCCESS;
}
API int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void* stream, void** parameters, void**) {
  Lock lock(everything);
  if (int error = ready()) return error;
  auto* found = static_cast<Function*>(function);
  bool fits = gx && gy && gz && bx && by && bz && gx <= 2147483647u && gy <= 65535 && gz <= 65535 && bx <= 1024 && by <= 1024 &&
              bz <= 64 && size_t(bx) * by * bz <= 1024 && int(shared) <= found->dynamic_shared;
  if (!fits) return INVALID_VALUE;
  // The arguments are those of now.
  std::vector<std::string> values;
  for (size_t i = 0; i < found->sizes.size(); ++i) values.emplace_back(static_cast<const char*>(parameters[i]), found->sizes[i]);
  return enqueue(stream, [=]() mutable {
    std::vector<void*> arguments;
    for (std::string& value : values) arguments.push_back(value.data());
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return run_kernel(found, grid, block, shared, arguments.data());
  });
}

// A map of what the driver takes: rows of boxes are multiples of 16 bytes, as addresses and strides are; no interleaved tensors.
API int cuTensorMapEncodeTiled(void* map, int kind, unsigned rank, uint64_t address, const uint64_t* shape, const uint64_t* strides,
                               const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int, int) {
  static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if (reinterpret_cast<uintptr_t>(map) % 64 || kind < 0 || kind > 12 || rank < 1 || rank > 5 || address % 16 || interleave != 0 ||
      swizzle < 0 || swizzle > 3)
    return INVALID_VALUE;
  CUtensorMap made{};
  made.address = address;
  made.rank = uint8_t(rank);
  made.element_bytes = bytes[kind];
  made.swizzle = uint8_t(swizzle ? 16 << swizzle : 0);
  made.known = emulation::known_tensor_map;
  for (unsigned axis = 0; axis < rank; ++axis) {
    uint64_t stride = axis ? strides[axis - 1] : made.element_bytes;
    bool fits = shape[axis] >= 1 && shape[axis] <= 1ull << 32 && box[axis] >= 1 && box[axis] <= 256 && steps[axis] == 1;
    if (!fits || (axis && (stride % 16 || stride >= 1ull << 40))) return INVALID_VALUE;
    made.shape[axis] = uint32_t(shape[axis]);
    made.box[axis] = uint16_t(box[axis]);
    made.strides[axis] = stride;
  }
  unsigned row = box[0] * made.element_bytes;
  if (row % 16 || (made.swizzle && row > made.swizzle)) return INVALID_VALUE;
  memcpy(map, &made, sizeof made);
  return SUCCESS;
}

// ---------------------------------------------------------------------------------------------------------------- NVML

namespace {
const auto loaded = std::chrono::steady_clock::now();
}
API int nvmlInit_v2() { return 0; }
API int nvmlShutdown() { return 0; }
API const char* nvmlErrorString(int) { return "an error of the stand-in"; }
API int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  size_t length = strlen(uuid);
  long index = length != 40 ? -1 : strtol(uuid + length - 2, nullptr, 16);
  if (strncmp(uuid, "GPU-", 4) != 0 || index < 0 || index >= long(contexts().size())) return 6;  // NVML_ERROR_NOT_FOUND
  *device = &contexts()[size_t(index)];
  return 0;
}
API int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) { return *mhz = kind == 2 ? 1215 : 1410, 0; }
API int nvmlDeviceGetTemperature(void*, int, unsigned* degrees) { return *degrees = 41, 0; }
API int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 100000, 0; }
API int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  return *reasons = from_environment("LOOPSMITH_STAND_IN_THROTTLE", 0), 0;
}
API int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* millijoules) {  // 100 watts since the library was loaded
  auto secs = std::chrono::duration<double>(std::chrono::steady_clock::now() - loaded).count();
  return *millijoules = (unsigned long long)(1e5 * secs), 0;
}
