; The C interface of a model for CUDA devices: model objects, which own what a device has of the model. Calls are in model_calls.ll.
; It needs the CUDA driver's library, opened when an object is made, and nothing else; it is LLVM assembly, as the runtime of kernels
; is, because models must build where there is no C compiler.
;
; ir/codegen/cuda/model_interface.py completes this text before it is parsed: names between @ are facts of the model, $"..." is the
; address of a text, and there are two functions for each of the driver's: @driver.NAME and @checked.NAME, which keeps the text of
; an error. It defines
;
;   %model     an object
;     0 [n x ptr]  the driver's functions; the first is cuLaunchKernel, the second cuTensorMapEncodeTiled, or null
;     1 ptr        its library
;     2 ptr        the device's primary context; null before it is retained
;     3 i32        the device as the driver knows it
;     4 i32        the number by which it was asked for
;     5 ptr        the loaded code
;     6 ptr        memory of the device: constants, and the workspace behind them
;     7 ptr        memory of the device for arrays of the host; null before they are first needed
;     8 [n x ptr]  the loaded kernels by their numbers
;     9 [n x ptr]  the constants by their numbers, on the device
;   @kernels   of %kernel, by their numbers
;   @offsets   of the constants
;
; An object is not changed by launches: whoever has a workspace of his own may launch at any time.

%kernel = type { ptr, i64 }                           ; name; bytes of dynamic shared memory, -1 where launches say it

declare ptr @dlopen(ptr, i32)
declare ptr @dlsym(ptr, ptr)
declare i32 @dlclose(ptr)
declare ptr @dlerror()
declare ptr @getenv(ptr)
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare i32 @snprintf(ptr, i64, ptr, ...)

; ---- errors ------------------------------------------------------------------------------------------------------

@error.text = internal thread_local global [1024 x i8] zeroinitializer, align 16

define ptr @@PREFIX@_last_error() {
  ret ptr @error.text
}

; The status of a function of the driver; the text of an error is kept.
define internal i32 @noted(ptr %model, i32 %status, ptr %what) noinline {
entry:
  %name.p = alloca ptr, align 8
  %text.p = alloca ptr, align 8
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %done, label %failed
failed:
  store ptr null, ptr %name.p, align 8
  store ptr null, ptr %text.p, align 8
  call i32 @driver.cuGetErrorName(ptr %model, i32 %status, ptr %name.p)
  call i32 @driver.cuGetErrorString(ptr %model, i32 %status, ptr %text.p)
  %name.found = load ptr, ptr %name.p, align 8
  %text.found = load ptr, ptr %text.p, align 8
  %no.name = icmp eq ptr %name.found, null
  %no.text = icmp eq ptr %text.found, null
  %name = select i1 %no.name, ptr $"an error without a name", ptr %name.found
  %text = select i1 %no.text, ptr $"no description", ptr %text.found
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: %s (CUDA error %d: %s)", ptr %what, ptr %name,
    i32 %status, ptr %text)
  br label %done
done:
  ret i32 %status
}

; ---- making an object --------------------------------------------------------------------------------------------

@steps = internal constant [5 x ptr] [ptr @open_driver, ptr @take_device, ptr @load_code, ptr @find_kernels, ptr @fill_memory]

define i32 @@PREFIX@_create(i32 %device, ptr %result) {
entry:
  %nowhere = icmp eq ptr %result, null
  br i1 %nowhere, label %refuse, label %make
refuse:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: create: the place for the model object is NULL")
  ret i32 @INVALID_ARGUMENT@
make:
  store ptr null, ptr %result, align 8
  %model = call ptr @calloc(i64 1, i64 ptrtoint (ptr getelementptr (%model, ptr null, i32 1) to i64))
  %absent = icmp eq ptr %model, null
  br i1 %absent, label %full, label %begin
full:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: create: the host has no memory for the model object")
  ret i32 @NO_HOST_MEMORY@
begin:
  %asked = getelementptr %model, ptr %model, i32 0, i32 4
  store i32 %device, ptr %asked, align 4
  br label %step
step:
  %i = phi i64 [ 0, %begin ], [ %i.next, %stepped ]
  %step.p = getelementptr [5 x ptr], ptr @steps, i64 0, i64 %i
  %work = load ptr, ptr %step.p, align 8
  %status = call i32 %work(ptr %model)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %undo, label %stepped
stepped:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 5
  br i1 %more, label %step, label %made
made:
  call void @leave(ptr %model)
  store ptr %model, ptr %result, align 8
  ret i32 0
undo:                                                 ; the text is that of the first error
  call i32 @give_back(ptr %model)
  call void @forget(ptr %model)
  ret i32 %status
}

define internal i32 @open_driver(ptr %model) {
entry:
  %told = call ptr @getenv(ptr $"@DRIVER_VARIABLE@")
  %is.told = icmp ne ptr %told, null
  br i1 %is.told, label %look, label %usual
look:
  %first = load i8, ptr %told, align 1
  %empty = icmp eq i8 %first, 0
  br i1 %empty, label %usual, label %open
usual:
  br label %open
open:                                                 ; RTLD_NOW | RTLD_NODELETE: a driver has threads and must stay
  %path = phi ptr [ %told, %look ], [ $"libcuda.so.1", %usual ]
  %library = call ptr @dlopen(ptr %path, i32 4098)
  %library.p = getelementptr %model, ptr %model, i32 0, i32 1
  store ptr %library, ptr %library.p, align 8
  %absent = icmp eq ptr %library, null
  br i1 %absent, label %none, label %find
none:
  %why = call ptr @dlerror()
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: no CUDA driver: %s; install NVIDIA's driver, whose library is libcuda.so.1, or see whether @DRIVER_VARIABLE@ names another one", ptr %why)
  ret i32 @NO_DRIVER@
find:
  %i = phi i64 [ 0, %open ], [ %i.next, %found ]
  %name.p = getelementptr [@DRIVER_FUNCTIONS@ x ptr], ptr @driver.names, i64 0, i64 %i
  %name = load ptr, ptr %name.p, align 8
  %function = call ptr @dlsym(ptr %library, ptr %name)
  %slot = getelementptr %model, ptr %model, i32 0, i32 0, i64 %i
  store ptr %function, ptr %slot, align 8
  %is.missing = icmp eq ptr %function, null
  %is.needed = icmp ne i64 %i, 1
  %unknown = and i1 %is.missing, %is.needed
  br i1 %unknown, label %old, label %found
old:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: the CUDA driver at %s has no function %s; install one of CUDA 11.4 or newer", ptr %path, ptr %name)
  ret i32 @NO_DRIVER@
found:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, @DRIVER_FUNCTIONS@
  br i1 %more, label %find, label %start
start:
  %status = call i32 @checked.cuInit(ptr %model, i32 0)
  ret i32 %status
}

; From here on to the end of @give_back or @leave the device's primary context is the thread's, above what was its context before.
define internal i32 @take_device(ptr %model) {
entry:
  %what = alloca [64 x i8], align 1
  %retained = alloca ptr, align 8
  %asked.p = getelementptr %model, ptr %model, i32 0, i32 4
  %asked = load i32, ptr %asked.p, align 4
  %device.p = getelementptr %model, ptr %model, i32 0, i32 3
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 64, ptr $"cuDeviceGet of device %d", i32 %asked)
  %got = call i32 @driver.cuDeviceGet(ptr %model, ptr %device.p, i32 %asked)
  %unknown = icmp ne i32 %got, 0
  br i1 %unknown, label %no.device, label %retain
no.device:
  call i32 @noted(ptr %model, i32 %got, ptr %what)
  ret i32 %got
retain:
  %device = load i32, ptr %device.p, align 4
  %kept = call i32 @checked.cuDevicePrimaryCtxRetain(ptr %model, ptr %retained, i32 %device)
  %no.context = icmp ne i32 %kept, 0
  br i1 %no.context, label %failed, label %push
failed:
  ret i32 %kept
push:
  %context = load ptr, ptr %retained, align 8
  %pushed = call i32 @checked.cuCtxPushCurrent_v2(ptr %model, ptr %context)
  %refused = icmp ne i32 %pushed, 0
  br i1 %refused, label %release, label %done
release:
  call i32 @driver.cuDevicePrimaryCtxRelease_v2(ptr %model, i32 %device)
  ret i32 %pushed
done:
  %context.p = getelementptr %model, ptr %model, i32 0, i32 2
  store ptr %context, ptr %context.p, align 8
  ret i32 0
}

; The cubin, or what the driver makes of the PTX where the cubin is for another architecture.
define internal i32 @load_code(ptr %model) {
entry:
  %name = alloca [128 x i8], align 1
  %first = alloca [512 x i8], align 1
  %major.p = alloca i32, align 4
  %minor.p = alloca i32, align 4
  %none = icmp eq ptr @CUBIN@, null
  br i1 %none, label %done, label %load
load:
  %module.p = getelementptr %model, ptr %model, i32 0, i32 5
  %status = call i32 @checked.cuModuleLoadData(ptr %model, ptr %module.p, ptr @CUBIN@)
  switch i32 %status, label %failed [
    i32 0, label %done
    i32 200, label %compile                           ; CUDA_ERROR_INVALID_IMAGE
    i32 209, label %compile                           ; CUDA_ERROR_NO_BINARY_FOR_GPU
  ]
failed:
  ret i32 %status
compile:
  %compiled = call i32 @checked.cuModuleLoadData(ptr %model, ptr %module.p, ptr @PTX@)
  %good = icmp eq i32 %compiled, 0
  br i1 %good, label %clear, label %explain
clear:
  store i8 0, ptr @error.text, align 1
  br label %done
explain:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %first, i64 512, ptr $"%s", ptr @error.text)
  %device.p = getelementptr %model, ptr %model, i32 0, i32 3
  %device = load i32, ptr %device.p, align 4
  %asked.p = getelementptr %model, ptr %model, i32 0, i32 4
  %asked = load i32, ptr %asked.p, align 4
  store i8 0, ptr %name, align 1
  store i32 0, ptr %major.p, align 4
  store i32 0, ptr %minor.p, align 4
  call i32 @driver.cuDeviceGetName(ptr %model, ptr %name, i32 128, i32 %device)
  call i32 @driver.cuDeviceGetAttribute(ptr %model, ptr %major.p, i32 75, i32 %device)
  call i32 @driver.cuDeviceGetAttribute(ptr %model, ptr %minor.p, i32 76, i32 %device)
  %major = load i32, ptr %major.p, align 4
  %minor = load i32, ptr %minor.p, align 4
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"%s; the model was built for @ARCH@, and device %d (%s) is an sm_%d%d, which runs neither its code nor its PTX: build it for this device", ptr %first,
    i32 %asked, ptr %name, i32 %major, i32 %minor)
  ret i32 %compiled
done:
  ret i32 0
}

define internal i32 @find_kernels(ptr %model) {
entry:
  %static.p = alloca i32, align 4
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %allowed ]
  %more = icmp ult i64 %i, @KERNELS@
  br i1 %more, label %find, label %done
find:
  %kernel = getelementptr [@KERNELS@ x %kernel], ptr @kernels, i64 0, i64 %i
  %name = load ptr, ptr %kernel, align 8
  %wanted.p = getelementptr %kernel, ptr %kernel, i32 0, i32 1
  %wanted = load i64, ptr %wanted.p, align 8
  %module.p = getelementptr %model, ptr %model, i32 0, i32 5
  %module = load ptr, ptr %module.p, align 8
  %slot = getelementptr %model, ptr %model, i32 0, i32 8, i64 %i
  %found = call i32 @checked.cuModuleGetFunction(ptr %model, ptr %slot, ptr %module, ptr %name)
  %missing = icmp ne i32 %found, 0
  br i1 %missing, label %failed, label %ask
ask:                                                  ; of all: a driver that loads kernels at their first use does so now
  %function = load ptr, ptr %slot, align 8
  %told = call i32 @checked.cuFuncGetAttribute(ptr %model, ptr %static.p, i32 1, ptr %function)
  %untold = icmp ne i32 %told, 0
  br i1 %untold, label %failed, label %allow
allow:
  %static = load i32, ptr %static.p, align 4
  %status = call i32 @allow_shared(ptr %model, ptr %function, ptr %name, i32 %static, i64 %wanted)
  %refused = icmp ne i32 %status, 0
  br i1 %refused, label %failed, label %allowed
allowed:
  %i.next = add i64 %i, 1
  br label %next
failed:
  %why = phi i32 [ %found, %find ], [ %told, %ask ], [ %status, %allow ]
  ret i32 %why
done:
  ret i32 0
}

; Lets launches of a kernel have dynamic shared memory: as much as is known, or all that there is. 48 KiB need no permission.
define internal i32 @allow_shared(ptr %model, ptr %function, ptr %name, i32 %static, i64 %wanted) {
entry:
  %most.p = alloca i32, align 4
  %usual = icmp ult i64 %wanted, 49153                ; -1 is larger than that
  br i1 %usual, label %done, label %ask
ask:
  %device.p = getelementptr %model, ptr %model, i32 0, i32 3
  %device = load i32, ptr %device.p, align 4
  %told = call i32 @checked.cuDeviceGetAttribute(ptr %model, ptr %most.p, i32 97, i32 %device)
  %untold = icmp ne i32 %told, 0
  br i1 %untold, label %failed, label %compare
failed:
  ret i32 %told
compare:
  %whole = load i32, ptr %most.p, align 4
  %left = sub i32 %whole, %static
  %most = sext i32 %left to i64
  %unknown = icmp slt i64 %wanted, 0
  %bytes = select i1 %unknown, i64 %most, i64 %wanted
  %large = icmp sgt i64 %bytes, %most
  br i1 %large, label %refuse, label %set
refuse:
  %static.64 = sext i32 %static to i64
  %all = add i64 %bytes, %static.64
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: kernel %s asks for %lld bytes of shared memory, and the device has %d for a block: build the model for this device", ptr %name,
    i64 %all, i32 %whole)
  ret i32 1                                           ; CUDA_ERROR_INVALID_VALUE, as of a launch
set:
  %value = trunc i64 %bytes to i32
  %status = call i32 @checked.cuFuncSetAttribute(ptr %model, ptr %function, i32 8, i32 %value)
  ret i32 %status
done:
  ret i32 0
}

define internal i32 @fill_memory(ptr %model) {
entry:
  %memory.p = getelementptr %model, ptr %model, i32 0, i32 6
  %got = call i32 @allocate(ptr %model, ptr %memory.p, i64 @MEMORY_BYTES@, ptr $"constants and workspace")
  %full = icmp ne i32 %got, 0
  br i1 %full, label %failed, label %copy
copy:
  %memory = load ptr, ptr %memory.p, align 8
  %copied = call i32 @checked.cuMemcpyHtoD_v2(ptr %model, ptr %memory, ptr @loopsmith_constants, i64 @CONSTANT_BYTES@)
  %lost = icmp ne i32 %copied, 0
  br i1 %lost, label %failed, label %wait
wait:                                                 ; copies of pageable memory may be on their way when the call returns
  %arrived = call i32 @checked.cuStreamSynchronize(ptr %model, ptr null)
  %lost.late = icmp ne i32 %arrived, 0
  br i1 %lost.late, label %failed, label %next
next:
  %i = phi i64 [ 0, %wait ], [ %i.next, %place ]
  %more = icmp ult i64 %i, @CONSTANTS@
  br i1 %more, label %place, label %done
place:
  %offset.p = getelementptr [@CONSTANTS@ x i64], ptr @offsets, i64 0, i64 %i
  %offset = load i64, ptr %offset.p, align 8
  %address = getelementptr i8, ptr %memory, i64 %offset
  %slot = getelementptr %model, ptr %model, i32 0, i32 9, i64 %i
  store ptr %address, ptr %slot, align 8
  %i.next = add i64 %i, 1
  br label %next
failed:
  %why = phi i32 [ %got, %entry ], [ %copied, %copy ], [ %arrived, %wait ]
  ret i32 %why
done:
  ret i32 0
}

define internal i32 @allocate(ptr %model, ptr %place, i64 %bytes, ptr %purpose) {
  %what = alloca [128 x i8], align 1
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 128, ptr $"cuMemAlloc of %lld bytes for %s", i64 %bytes, ptr %purpose)
  %status = call i32 @driver.cuMemAlloc_v2(ptr %model, ptr %place, i64 %bytes)
  call i32 @noted(ptr %model, i32 %status, ptr %what)
  ret i32 %status
}

; ---- its end -----------------------------------------------------------------------------------------------------

define i32 @@PREFIX@_destroy(ptr %model) {
entry:
  %none = icmp eq ptr %model, null
  br i1 %none, label %nothing, label %enter
nothing:
  ret i32 0
enter:
  %entered = call i32 @enter(ptr %model)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %end, label %free
free:
  %freed = call i32 @give_back(ptr %model)
  call i32 @noted(ptr %model, i32 %freed, ptr $"destroy")
  br label %end
end:
  %status = phi i32 [ %entered, %enter ], [ %freed, %free ]
  call void @forget(ptr %model)
  ret i32 %status
}

; Gives back what the device has of an object, made in part or whole; the first error, which may be that of a kernel.
define internal i32 @give_back(ptr %model) {
entry:
  %context.p = getelementptr %model, ptr %model, i32 0, i32 2
  %context = load ptr, ptr %context.p, align 8
  %none = icmp eq ptr %context, null
  br i1 %none, label %nothing, label %wait
nothing:
  ret i32 0
wait:
  %waited = call i32 @driver.cuCtxSynchronize(ptr %model)
  %copies.p = getelementptr %model, ptr %model, i32 0, i32 7
  %copies = load ptr, ptr %copies.p, align 8
  %no.copies = icmp eq ptr %copies, null
  br i1 %no.copies, label %rest, label %free.copies
free.copies:
  %freed.copies = call i32 @driver.cuMemFree_v2(ptr %model, ptr %copies)
  br label %rest
rest:
  %status.1 = phi i32 [ 0, %wait ], [ %freed.copies, %free.copies ]
  %memory.p = getelementptr %model, ptr %model, i32 0, i32 6
  %memory = load ptr, ptr %memory.p, align 8
  %no.memory = icmp eq ptr %memory, null
  br i1 %no.memory, label %code, label %free.memory
free.memory:
  %freed.memory = call i32 @driver.cuMemFree_v2(ptr %model, ptr %memory)
  br label %code
code:
  %status.2 = phi i32 [ 0, %rest ], [ %freed.memory, %free.memory ]
  %module.p = getelementptr %model, ptr %model, i32 0, i32 5
  %module = load ptr, ptr %module.p, align 8
  %no.module = icmp eq ptr %module, null
  br i1 %no.module, label %release, label %unload
unload:
  %unloaded = call i32 @driver.cuModuleUnload(ptr %model, ptr %module)
  br label %release
release:
  %status.3 = phi i32 [ 0, %code ], [ %unloaded, %unload ]
  call void @leave(ptr %model)
  %device.p = getelementptr %model, ptr %model, i32 0, i32 3
  %device = load i32, ptr %device.p, align 4
  %released = call i32 @driver.cuDevicePrimaryCtxRelease_v2(ptr %model, i32 %device)
  %a = call i32 @first_error(i32 %waited, i32 %status.1)
  %b = call i32 @first_error(i32 %a, i32 %status.2)
  %c = call i32 @first_error(i32 %b, i32 %status.3)
  %d = call i32 @first_error(i32 %c, i32 %released)
  ret i32 %d
}

define internal i32 @first_error(i32 %a, i32 %b) alwaysinline {
  %fine = icmp eq i32 %a, 0
  %first = select i1 %fine, i32 %b, i32 %a
  ret i32 %first
}

; Gives back what the host has of an object.
define internal void @forget(ptr %model) {
entry:
  %library.p = getelementptr %model, ptr %model, i32 0, i32 1
  %library = load ptr, ptr %library.p, align 8
  %none = icmp eq ptr %library, null
  br i1 %none, label %free, label %close
close:
  call i32 @dlclose(ptr %library)
  br label %free
free:
  call void @free(ptr %model)
  ret void
}

; The device's context becomes the thread's for a while.
define internal i32 @enter(ptr %model) {
  %context.p = getelementptr %model, ptr %model, i32 0, i32 2
  %context = load ptr, ptr %context.p, align 8
  %status = call i32 @checked.cuCtxPushCurrent_v2(ptr %model, ptr %context)
  ret i32 %status
}

define internal void @leave(ptr %model) {
  %popped = alloca ptr, align 8
  call i32 @driver.cuCtxPopCurrent_v2(ptr %model, ptr %popped)
  ret void
}
