; The C interface of a model for CUDA devices: calls of its functions, with arrays of the device or of the host. It follows
; model_object.ll, which says what is what.

%array = type { ptr, i64, i64, i32 }                  ; name; bytes; place among copies of the host's; 1 read, 2 written
%function = type { ptr, ptr, i64, ptr, i64, ptr }     ; name; code; number of inputs, their %array; of outputs, theirs
%queue = type { ptr, ptr, ptr, i64, i64, ptr }        ; ir/codegen/llvm/launch.py

declare ptr @loopsmith_last_error()

; ---- calls -------------------------------------------------------------------------------------------------------

; Starts a function on arrays of the device.
define internal i32 @launch(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr %workspace, ptr %stream) {
entry:
  %checked = call i32 @check_call(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr %workspace, i64 @ARRAY_ALIGNMENT@)
  %wrong = icmp ne i32 %checked, 0
  br i1 %wrong, label %refused, label %enter
refused:
  ret i32 %checked
enter:
  %entered = call i32 @enter(ptr %model)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %failed, label %start
failed:
  ret i32 %entered
start:
  %status = call i32 @start(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr %workspace, ptr %stream)
  call void @leave(ptr %model)
  ret i32 %status
}

; Runs a function on arrays of the host. Everything is done in order on CUDA's default stream, which waits for others.
define internal i32 @run(ptr %model, ptr %function, ptr %inputs, ptr %outputs) {
entry:
  %checked = call i32 @check_call(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr null, i64 1)
  %wrong = icmp ne i32 %checked, 0
  br i1 %wrong, label %refused, label %enter
refused:
  ret i32 %checked
enter:
  %entered = call i32 @enter(ptr %model)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %failed, label %start
failed:
  ret i32 %entered
start:
  %status = call i32 @run_on_copies(ptr %model, ptr %function, ptr %inputs, ptr %outputs)
  call void @leave(ptr %model)
  ret i32 %status
}

define internal i32 @run_on_copies(ptr %model, ptr %function, ptr %inputs, ptr %outputs) {
entry:
  %n.inputs.p = getelementptr %function, ptr %function, i32 0, i32 2
  %n.inputs = load i64, ptr %n.inputs.p, align 8
  %input.arrays.p = getelementptr %function, ptr %function, i32 0, i32 3
  %input.arrays = load ptr, ptr %input.arrays.p, align 8
  %n.outputs.p = getelementptr %function, ptr %function, i32 0, i32 4
  %n.outputs = load i64, ptr %n.outputs.p, align 8
  %output.arrays.p = getelementptr %function, ptr %function, i32 0, i32 5
  %output.arrays = load ptr, ptr %output.arrays.p, align 8
  %input.copies = alloca ptr, i64 %n.inputs, align 8
  %output.copies = alloca ptr, i64 %n.outputs, align 8
  %copies.p = getelementptr %model, ptr %model, i32 0, i32 7
  %there = load ptr, ptr %copies.p, align 8
  %absent = icmp eq ptr %there, null
  br i1 %absent, label %make, label %copy
make:
  %got = call i32 @allocate(ptr %model, ptr %copies.p, i64 @COPIES_BYTES@, ptr $"copies of the host's arrays")
  %full = icmp ne i32 %got, 0
  br i1 %full, label %failed, label %copy
copy:
  %copied.1 = call i32 @copy_in(ptr %model, i64 %n.inputs, ptr %input.arrays, ptr %inputs, ptr %input.copies)
  %wrong.1 = icmp ne i32 %copied.1, 0
  br i1 %wrong.1, label %failed, label %copy.more
copy.more:
  %copied.2 = call i32 @copy_in(ptr %model, i64 %n.outputs, ptr %output.arrays, ptr %outputs, ptr %output.copies)
  %wrong.2 = icmp ne i32 %copied.2, 0
  br i1 %wrong.2, label %failed, label %start
start:
  %started = call i32 @start(ptr %model, ptr %function, ptr %input.copies, ptr %output.copies, ptr null, ptr null)
  %wrong.3 = icmp ne i32 %started, 0
  br i1 %wrong.3, label %failed, label %fetch
fetch:
  %copied.3 = call i32 @copy_out(ptr %model, i64 %n.outputs, ptr %output.arrays, ptr %output.copies, ptr %outputs)
  %wrong.4 = icmp ne i32 %copied.3, 0
  br i1 %wrong.4, label %failed, label %fetch.more
fetch.more:
  %copied.4 = call i32 @copy_out(ptr %model, i64 %n.inputs, ptr %input.arrays, ptr %input.copies, ptr %inputs)
  ret i32 %copied.4
failed:
  %why = phi i32 [ %got, %make ], [ %copied.1, %copy ], [ %copied.2, %copy.more ], [ %started, %start ], [ %copied.3, %fetch ]
  ret i32 %why
}

; Says where arrays of the host have their copies, and copies those that are read.
define internal i32 @copy_in(ptr %model, i64 %count, ptr %arrays, ptr %given, ptr %copies) {
entry:
  %base.p = getelementptr %model, ptr %model, i32 0, i32 7
  %base = load ptr, ptr %base.p, align 8
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %place, label %done
place:
  %bytes.p = getelementptr %array, ptr %arrays, i64 %i, i32 1
  %bytes = load i64, ptr %bytes.p, align 8
  %offset.p = getelementptr %array, ptr %arrays, i64 %i, i32 2
  %offset = load i64, ptr %offset.p, align 8
  %copy = getelementptr i8, ptr %base, i64 %offset
  %slot = getelementptr ptr, ptr %copies, i64 %i
  store ptr %copy, ptr %slot, align 8
  %wanted = call i1 @is_copied(ptr %arrays, i64 %i, i32 1)
  br i1 %wanted, label %fill, label %after
fill:
  %from.p = getelementptr ptr, ptr %given, i64 %i
  %from = load ptr, ptr %from.p, align 8
  %status = call i32 @checked.cuMemcpyHtoD_v2(ptr %model, ptr %copy, ptr %from, i64 %bytes)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %after
after:
  %i.next = add i64 %i, 1
  br label %next
fail:
  ret i32 %status
done:
  ret i32 0
}

; Copies back what is written.
define internal i32 @copy_out(ptr %model, i64 %count, ptr %arrays, ptr %copies, ptr %given) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %wanted = call i1 @is_copied(ptr %arrays, i64 %i, i32 2)
  br i1 %wanted, label %fetch, label %after
fetch:
  %bytes.p = getelementptr %array, ptr %arrays, i64 %i, i32 1
  %bytes = load i64, ptr %bytes.p, align 8
  %copy.p = getelementptr ptr, ptr %copies, i64 %i
  %copy = load ptr, ptr %copy.p, align 8
  %to.p = getelementptr ptr, ptr %given, i64 %i
  %to = load ptr, ptr %to.p, align 8
  %status = call i32 @checked.cuMemcpyDtoH_v2(ptr %model, ptr %to, ptr %copy, i64 %bytes)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %fail, label %after
after:
  %i.next = add i64 %i, 1
  br label %next
fail:
  ret i32 %status
done:
  ret i32 0
}

; Whether an array has bytes, and is used in this way.
define internal i1 @is_copied(ptr %arrays, i64 %number, i32 %use) alwaysinline {
  %bytes.p = getelementptr %array, ptr %arrays, i64 %number, i32 1
  %bytes = load i64, ptr %bytes.p, align 8
  %uses.p = getelementptr %array, ptr %arrays, i64 %number, i32 3
  %uses = load i32, ptr %uses.p, align 4
  %common = and i32 %uses, %use
  %used = icmp ne i32 %common, 0
  %some = icmp ne i64 %bytes, 0
  %both = and i1 %used, %some
  ret i1 %both
}

; In place of what drivers older than CUDA 12.0 have not: CUDA_ERROR_NOT_SUPPORTED.
define internal i32 @no_tensor_maps(ptr %map, i32 %kind, i32 %rank, ptr %address, ptr %shape, ptr %strides, ptr %box, ptr %steps,
                                    i32 %interleave, i32 %swizzle, i32 %promotion, i32 %fill) {
  ret i32 801
}

; Launches the kernels of a function, one behind the other.
define internal i32 @start(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr %workspace, ptr %stream) {
entry:
  %what = alloca [512 x i8], align 1
  %queue = alloca %queue, align 8
  %launcher = load ptr, ptr %model, align 8
  %kernels = getelementptr %model, ptr %model, i32 0, i32 8
  %constants = getelementptr %model, ptr %model, i32 0, i32 9
  %q.stream = getelementptr %queue, ptr %queue, i32 0, i32 1
  %q.functions = getelementptr %queue, ptr %queue, i32 0, i32 2
  %q.kernel = getelementptr %queue, ptr %queue, i32 0, i32 3
  %q.status = getelementptr %queue, ptr %queue, i32 0, i32 4
  store ptr %launcher, ptr %queue, align 8
  store ptr %stream, ptr %q.stream, align 8
  store ptr %kernels, ptr %q.functions, align 8
  store i64 0, ptr %q.kernel, align 8
  store i64 0, ptr %q.status, align 8
  %encoder.p = getelementptr %model, ptr %model, i32 0, i32 0, i64 1
  %encoder.found = load ptr, ptr %encoder.p, align 8
  %no.encoder = icmp eq ptr %encoder.found, null
  %encoder = select i1 %no.encoder, ptr @no_tensor_maps, ptr %encoder.found
  %q.encode = getelementptr %queue, ptr %queue, i32 0, i32 5
  store ptr %encoder, ptr %q.encode, align 8
  %memory.p = getelementptr %model, ptr %model, i32 0, i32 6
  %memory = load ptr, ptr %memory.p, align 8
  %own = getelementptr i8, ptr %memory, i64 @WORKSPACE_OFFSET@
  %has.none = icmp eq ptr %workspace, null
  %place = select i1 %has.none, ptr %own, ptr %workspace
  %code.p = getelementptr %function, ptr %function, i32 0, i32 1
  %code = load ptr, ptr %code.p, align 8
  %status = call i32 %code(ptr %inputs, ptr %outputs, ptr %constants, ptr %place, ptr null, ptr %queue)
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %done, label %failed
failed:
  %refused = load i64, ptr %q.status, align 8
  %by.driver = icmp ne i64 %refused, 0
  br i1 %by.driver, label %launch.failed, label %host.failed
launch.failed:
  %driver.status = trunc i64 %refused to i32
  %number = load i64, ptr %q.kernel, align 8
  %is.map = icmp slt i64 %number, 0
  br i1 %is.map, label %map.failed, label %kernel.failed
map.failed:
  call i32 @noted(ptr %model, i32 %driver.status, ptr $"cuTensorMapEncodeTiled")
  ret i32 %driver.status
kernel.failed:
  %kernel = getelementptr [@KERNELS@ x %kernel], ptr @kernels, i64 0, i64 %number
  %kernel.name = load ptr, ptr %kernel, align 8
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %what, i64 512, ptr $"launch of kernel %s", ptr %kernel.name)
  call i32 @noted(ptr %model, i32 %driver.status, ptr %what)
  ret i32 %driver.status
host.failed:
  %name = load ptr, ptr %function, align 8
  %said = call ptr @loopsmith_last_error()
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: %s", ptr %name, ptr %said)
  ret i32 @HOST_CODE_FAILED@
done:
  ret i32 0
}

; ---- checks of arguments -----------------------------------------------------------------------------------------

define internal i32 @check_call(ptr %model, ptr %function, ptr %inputs, ptr %outputs, ptr %workspace, i64 %alignment) {
entry:
  %name = load ptr, ptr %function, align 8
  %no.model = icmp eq ptr %model, null
  br i1 %no.model, label %none, label %check.inputs
none:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: the model object is NULL", ptr %name)
  ret i32 @INVALID_ARGUMENT@
check.inputs:
  %n.inputs.p = getelementptr %function, ptr %function, i32 0, i32 2
  %n.inputs = load i64, ptr %n.inputs.p, align 8
  %input.arrays.p = getelementptr %function, ptr %function, i32 0, i32 3
  %input.arrays = load ptr, ptr %input.arrays.p, align 8
  %wrong.inputs = call i32 @check_arrays(ptr %name, i64 %n.inputs, ptr %input.arrays, ptr %inputs, i64 %alignment, ptr $"inputs")
  %refused = icmp ne i32 %wrong.inputs, 0
  br i1 %refused, label %wrong, label %check.outputs
wrong:
  ret i32 %wrong.inputs
check.outputs:
  %n.outputs.p = getelementptr %function, ptr %function, i32 0, i32 4
  %n.outputs = load i64, ptr %n.outputs.p, align 8
  %output.arrays.p = getelementptr %function, ptr %function, i32 0, i32 5
  %output.arrays = load ptr, ptr %output.arrays.p, align 8
  %wrong.outputs = call i32 @check_arrays(ptr %name, i64 %n.outputs, ptr %output.arrays, ptr %outputs, i64 %alignment, ptr $"outputs")
  %refused.too = icmp ne i32 %wrong.outputs, 0
  br i1 %refused.too, label %wrong.too, label %check.workspace
wrong.too:
  ret i32 %wrong.outputs
check.workspace:
  %status = call i32 @check_place(ptr %name, ptr $"the workspace", ptr %workspace, i64 @WORKSPACE_ALIGNMENT@)
  ret i32 %status
}

define internal i32 @check_arrays(ptr %name, i64 %count, ptr %arrays, ptr %given, i64 %alignment, ptr %role) {
entry:
  %some = icmp ne i64 %count, 0
  %no.table = icmp eq ptr %given, null
  %missing = and i1 %some, %no.table
  br i1 %missing, label %none, label %next
none:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: the table of %s is NULL", ptr %name, ptr %role)
  ret i32 @INVALID_ARGUMENT@
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %array = getelementptr %array, ptr %arrays, i64 %i
  %label = load ptr, ptr %array, align 8
  %bytes.p = getelementptr %array, ptr %array, i32 0, i32 1
  %bytes = load i64, ptr %bytes.p, align 8
  %given.p = getelementptr ptr, ptr %given, i64 %i
  %address = load ptr, ptr %given.p, align 8
  %absent = icmp eq ptr %address, null
  %needed = icmp ne i64 %bytes, 0
  %lacks = and i1 %absent, %needed
  br i1 %lacks, label %null, label %align
null:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: array %s is NULL", ptr %name, ptr %label)
  ret i32 @INVALID_ARGUMENT@
align:
  %status = call i32 @check_place(ptr %name, ptr %label, ptr %address, i64 %alignment)
  %wrong = icmp ne i32 %status, 0
  br i1 %wrong, label %refused, label %after
refused:
  ret i32 %status
after:
  %i.next = add i64 %i, 1
  br label %next
done:
  ret i32 0
}

define internal i32 @check_place(ptr %name, ptr %label, ptr %address, i64 %alignment) {
entry:
  %bits = ptrtoint ptr %address to i64
  %mask = sub i64 %alignment, 1
  %rest = and i64 %bits, %mask
  %aligned = icmp eq i64 %rest, 0
  br i1 %aligned, label %done, label %wrong
wrong:
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr @error.text, i64 1024, ptr $"@PREFIX@: %s: %s begins at %p, which is no multiple of %lld bytes", ptr %name, ptr %label, ptr %address, i64 %alignment)
  ret i32 @INVALID_ARGUMENT@
done:
  ret i32 0
}
