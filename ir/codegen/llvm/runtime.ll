; The loopsmith runtime: one persistent pool of threads for parallel loops, a cache of workspaces, and the text of the
; last error. It is LLVM assembly because kernels must build where there is no C compiler. Linux only: sleeping is by
; futex. @FUTEX@ (the number of the futex system call) and the names of the pause intrinsic are replaced before this file
; is parsed.
;
; One job runs at a time; whoever holds @pool.lock owns it. A caller that finds the lock taken (a nested parallel loop,
; another host thread) runs its loop serially, which is always correct.
;
; @pool.state is the meeting point:  epoch (high 32 bits) | open (bit 31) | joined workers (low 31 bits).
;   publish  the owner writes the job, then stores (epoch + 1, open, 0)
;   join     a worker adds 1 while the job is open; from then on the job cannot change
;   leave    a worker subtracts 1
;   close    the owner, when no chunk is left, clears open and waits until joined = 0
; A worker that wakes up late finds the job closed and goes back to sleep, so a descheduled worker delays nobody.
; Chunks are taken from an atomic counter, which balances the load on noisy machines.

@pool.state = internal global i64 0, align 64
@pool.next = internal global i64 0, align 64          ; first index that nobody has taken yet
@pool.sleepers = internal global i32 0, align 64      ; workers in futex wait, or about to be
@pool.owner_sleeps = internal global i32 0, align 4   ; the owner waits in futex for joined = 0
@pool.lock = internal global i32 0, align 64
@pool.pid = internal global i32 0, align 4            ; process that started the workers; a fork leaves them behind
@pool.started = internal global i32 0, align 4        ; number of living workers
@pool.requested = internal global i32 0, align 4      ; loopsmith_set_num_threads, 0 = one per online cpu
@pool.online = internal global i32 0, align 4         ; cached count of usable cpus
@job.body = internal global ptr null, align 64
@job.env = internal global ptr null, align 8
@job.extent = internal global i64 0, align 8
@job.chunk = internal global i64 0, align 8
@job.limit = internal global i32 0, align 4           ; workers that may join (threads - 1)
@job.status = internal global i32 0, align 4          ; first non-zero result of a body

@scratch.pattern = internal global i32 0, align 4     ; what scratch memory is filled with: 256 + a byte, 0 for nothing

@error.text = internal global [512 x i8] zeroinitializer, align 16

; Cached workspaces: {busy, size, pointer}, one cache line each.
%slot = type { i32, i32, i64, ptr, [40 x i8] }
@workspace.slots = internal global [64 x %slot] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @getpid()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i64 @syscall(i64, ...)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.ctpop.i64(i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Eases a spinning core; an intrinsic, because inline assembly does not compile for other machines than the host.
@DECLARE_PAUSE@
define internal void @pause() alwaysinline {
  @CALL_PAUSE@
  ret void
}

; ---- threads ---------------------------------------------------------------

define internal i32 @online_cpus() noinline {
entry:
  %known = load atomic i32, ptr @pool.online monotonic, align 4
  %have = icmp ne i32 %known, 0
  br i1 %have, label %cached, label %count
cached:
  ret i32 %known
count:                                                ; population count of the affinity mask (1024 cpus)
  %mask = alloca [16 x i64], align 16
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %rc = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %loop
loop:
  %i = phi i64 [ 0, %count ], [ %i.next, %loop ]
  %sum = phi i64 [ 0, %count ], [ %sum.next, %loop ]
  %p = getelementptr i64, ptr %mask, i64 %i
  %w = load i64, ptr %p, align 8
  %bits = call i64 @llvm.ctpop.i64(i64 %w)
  %sum.next = add i64 %sum, %bits
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 16
  br i1 %more, label %loop, label %done
done:
  %at.least = call i64 @llvm.smax.i64(i64 %sum.next, i64 1)
  %n = trunc i64 %at.least to i32
  store atomic i32 %n, ptr @pool.online monotonic, align 4
  ret i32 %n
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define i32 @loopsmith_get_num_threads() {
  %r = load atomic i32, ptr @pool.requested monotonic, align 4
  %set = icmp sgt i32 %r, 0
  br i1 %set, label %requested, label %default
requested:
  ret i32 %r
default:
  %n = call i32 @online_cpus()
  ret i32 %n
}

; Zero or less restores the default. Takes effect with the next parallel loop.
define void @loopsmith_set_num_threads(i32 %n) {
  %positive = icmp sgt i32 %n, 0
  %value = select i1 %positive, i32 %n, i32 0
  %many = icmp sgt i32 %value, 1024
  %capped = select i1 %many, i32 1024, i32 %value
  store atomic i32 %capped, ptr @pool.requested monotonic, align 4
  ret void
}

; Takes chunks until none is left. Shared by the owner and the workers.
define internal void @run_chunks() noinline {
entry:
  call void @fill_stack()
  %body = load ptr, ptr @job.body, align 8
  %env = load ptr, ptr @job.env, align 8
  %extent = load i64, ptr @job.extent, align 8
  %chunk = load i64, ptr @job.chunk, align 8
  br label %take
take:
  %begin = atomicrmw add ptr @pool.next, i64 %chunk monotonic, align 8
  %any = icmp slt i64 %begin, %extent
  br i1 %any, label %run, label %done
run:
  %sum = add i64 %begin, %chunk
  %end = call i64 @llvm.umin.i64(i64 %sum, i64 %extent)
  %rc = call i32 %body(i64 %begin, i64 %end, ptr %env)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %take, label %failed
failed:                                               ; remember the first failure, let nobody take more
  %old = cmpxchg ptr @job.status, i32 0, i32 %rc monotonic monotonic, align 4
  store atomic i64 %extent, ptr @pool.next monotonic, align 8
  br label %done
done:
  ret void
}

define internal ptr @worker(ptr %argument) noinline {
entry:
  %seen0 = ptrtoint ptr %argument to i64
  %epoch.word = getelementptr i8, ptr @pool.state, i64 4
  br label %wait

wait:                                                 ; spin for a while, then sleep
  %seen = phi i64 [ %seen0, %entry ], [ %seen.next, %again ]
  br label %spin
spin:
  %tries = phi i32 [ 0, %wait ], [ %tries.next, %spin.more ]
  %s = load atomic i64, ptr @pool.state acquire, align 8
  %epoch = lshr i64 %s, 32
  %same = icmp eq i64 %epoch, %seen
  br i1 %same, label %spin.more, label %join
spin.more:
  call void @pause()
  %tries.next = add i32 %tries, 1
  %spin.on = icmp slt i32 %tries.next, 12000
  br i1 %spin.on, label %spin, label %sleep
sleep:
  %sl = atomicrmw add ptr @pool.sleepers, i32 1 seq_cst, align 4
  %expected = trunc i64 %seen to i32
  %fw = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr %epoch.word, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  %sl2 = atomicrmw sub ptr @pool.sleepers, i32 1 seq_cst, align 4
  br label %wait2
wait2:
  %s2 = load atomic i64, ptr @pool.state acquire, align 8
  %epoch2 = lshr i64 %s2, 32
  %same2 = icmp eq i64 %epoch2, %seen
  br i1 %same2, label %sleep, label %join

join:                                                 ; +1 while open and not yet full
  %state = phi i64 [ %s, %spin ], [ %s2, %wait2 ], [ %seen.state, %join.retry ]
  %state.epoch = lshr i64 %state, 32
  %open.bit = and i64 %state, 2147483648
  %is.open = icmp ne i64 %open.bit, 0
  br i1 %is.open, label %join.limit, label %skip
join.limit:
  %joined = and i64 %state, 2147483647
  %limit32 = load atomic i32, ptr @job.limit monotonic, align 4
  %limit = zext i32 %limit32 to i64
  %room = icmp ult i64 %joined, %limit
  br i1 %room, label %join.try, label %skip
join.try:
  %state.plus = add i64 %state, 1
  %pair = cmpxchg ptr @pool.state, i64 %state, i64 %state.plus acq_rel acquire, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  %seen.state = extractvalue { i64, i1 } %pair, 0
  br i1 %won, label %work, label %join.retry
join.retry:
  br label %join
skip:
  br label %again
work:
  call void @run_chunks()
  %before = atomicrmw sub ptr @pool.state, i64 1 seq_cst, align 8
  %low = and i64 %before, 4294967295
  %last = icmp eq i64 %low, 1                         ; closed, and this was the only one left
  br i1 %last, label %notify, label %left
notify:
  %os = load atomic i32, ptr @pool.owner_sleeps seq_cst, align 4
  %must = icmp ne i32 %os, 0
  br i1 %must, label %wake, label %left
wake:
  %fk = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr @pool.state, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %left
left:
  br label %again
again:
  %seen.next = phi i64 [ %state.epoch, %skip ], [ %state.epoch, %left ]
  br label %wait
}

; Starts workers until there are %want. Called with the lock held. Returns how many there are.
define internal i32 @ensure_workers(i32 %want) noinline {
entry:
  %all = alloca [16 x i64], align 16
  %old = alloca [16 x i64], align 16
  %thread = alloca i64, align 8
  %have0 = load i32, ptr @pool.started, align 4
  %enough = icmp sge i32 %have0, %want
  br i1 %enough, label %keep, label %start
keep:
  ret i32 %have0
start:                                                ; workers must not receive the program's signals
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %m1 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %loop
loop:
  %have = phi i32 [ %have0, %start ], [ %have.next, %created ]
  %more = icmp slt i32 %have, %want
  br i1 %more, label %create, label %done
create:
  %s = load atomic i64, ptr @pool.state monotonic, align 8
  %epoch = lshr i64 %s, 32
  %argument = inttoptr i64 %epoch to ptr
  %rc = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %created, label %done              ; out of threads: go on with those there are
created:
  %id = load i64, ptr %thread, align 8
  %d = call i32 @pthread_detach(i64 %id)
  %have.next = add i32 %have, 1
  br label %loop
done:
  %final = phi i32 [ %have, %loop ], [ %have, %create ]
  %m2 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  store i32 %final, ptr @pool.started, align 4
  ret i32 %final
}

; After a fork the workers exist only in the parent, and locks may be frozen in any state: start afresh.
; Returns true when the pool belongs to this process.
define internal i1 @own_process() noinline {
entry:
  %pid = call i32 @getpid()
  %known = load atomic i32, ptr @pool.pid acquire, align 4
  %same = icmp eq i32 %pid, %known
  br i1 %same, label %yes, label %claim
yes:
  ret i1 true
claim:                                                ; -1 marks a reset in progress; others run serially meanwhile
  %being.reset = icmp eq i32 %known, -1
  br i1 %being.reset, label %no, label %try
try:
  %pair = cmpxchg ptr @pool.pid, i32 %known, i32 -1 acq_rel acquire, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %reset, label %no
no:
  ret i1 false
reset:
  store atomic i64 0, ptr @pool.state seq_cst, align 8
  store atomic i32 0, ptr @pool.sleepers seq_cst, align 4
  store atomic i32 0, ptr @pool.owner_sleeps seq_cst, align 4
  store i32 0, ptr @pool.started, align 4
  store atomic i32 0, ptr @pool.online monotonic, align 4
  store atomic i32 0, ptr @pool.lock seq_cst, align 4
  store atomic i32 %pid, ptr @pool.pid release, align 4
  ret i1 true
}

; Runs body(begin, end, env) over [0, extent) in pieces on all threads and returns the first non-zero result, or 0.
define i32 @loopsmith_parallel_for(ptr %body, i64 %extent, ptr %env) {
entry:
  %small = icmp sle i64 %extent, 1
  br i1 %small, label %serial, label %threads.count
threads.count:
  %threads = call i32 @loopsmith_get_num_threads()
  %one = icmp sle i32 %threads, 1
  br i1 %one, label %serial, label %process
process:
  %mine = call i1 @own_process()
  br i1 %mine, label %acquire, label %serial
acquire:
  %pair = cmpxchg ptr @pool.lock, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %pair, 1
  br i1 %free, label %prepare, label %serial

serial:
  %empty = icmp sle i64 %extent, 0
  br i1 %empty, label %nothing, label %alone
nothing:
  ret i32 0
alone:
  %rc = call i32 %body(i64 0, i64 %extent, ptr %env)
  ret i32 %rc

prepare:
  %wanted = sub i32 %threads, 1
  %threads64 = zext i32 %threads to i64
  %workers = call i32 @ensure_workers(i32 %wanted)
  ; About eight chunks per thread: a thread that loses its cpu holds up an eighth of its share at most.
  %parts = shl i64 %threads64, 3
  %fits = icmp sle i64 %extent, %parts
  %e1 = sub i64 %extent, 1
  %e2 = add i64 %e1, %parts
  %share = udiv i64 %e2, %parts
  %chunk = select i1 %fits, i64 1, i64 %share
  store ptr %body, ptr @job.body, align 8
  store ptr %env, ptr @job.env, align 8
  store i64 %extent, ptr @job.extent, align 8
  store i64 %chunk, ptr @job.chunk, align 8
  store atomic i32 %wanted, ptr @job.limit monotonic, align 4
  store atomic i32 0, ptr @job.status monotonic, align 4
  store atomic i64 0, ptr @pool.next monotonic, align 8
  %state = load atomic i64, ptr @pool.state monotonic, align 8
  %epoch = lshr i64 %state, 32
  %epoch1 = add i64 %epoch, 1
  %high = shl i64 %epoch1, 32
  %opened = or i64 %high, 2147483648
  %prev = atomicrmw xchg ptr @pool.state, i64 %opened seq_cst, align 8
  %asleep = load atomic i32, ptr @pool.sleepers seq_cst, align 4
  %any.asleep = icmp sgt i32 %asleep, 0
  br i1 %any.asleep, label %wake, label %work
wake:
  %epoch.word = getelementptr i8, ptr @pool.state, i64 4
  %fk = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr %epoch.word, i32 129, i32 %wanted, ptr null, ptr null, i32 0)
  br label %work
work:
  call void @run_chunks()
  %before.close = atomicrmw and ptr @pool.state, i64 -2147483649 seq_cst, align 8
  br label %spin

spin:                                                 ; wait for the workers that joined
  %tries = phi i32 [ 0, %work ], [ %tries.next, %spin.more ]
  %s = load atomic i64, ptr @pool.state acquire, align 8
  %low = and i64 %s, 2147483647
  %all.left = icmp eq i64 %low, 0
  br i1 %all.left, label %finish, label %spin.more
spin.more:
  call void @pause()
  %tries.next = add i32 %tries, 1
  %spin.on = icmp slt i32 %tries.next, 20000
  br i1 %spin.on, label %spin, label %sleep
sleep:
  store atomic i32 1, ptr @pool.owner_sleeps seq_cst, align 4
  br label %sleep.check
sleep.check:
  %s2 = load atomic i64, ptr @pool.state seq_cst, align 8
  %low2 = and i64 %s2, 4294967295
  %gone = icmp eq i64 %low2, 0
  br i1 %gone, label %awake, label %sleep.wait
sleep.wait:
  %expected = trunc i64 %low2 to i32
  %fw = call i64 (i64, ...) @syscall(i64 @FUTEX@, ptr @pool.state, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  br label %sleep.check
awake:
  store atomic i32 0, ptr @pool.owner_sleeps seq_cst, align 4
  br label %finish
finish:
  %status = load atomic i32, ptr @job.status monotonic, align 4
  store atomic i32 0, ptr @pool.lock release, align 4
  ret i32 %status
}

; ---- workspaces --------------------------------------------------------------
; Memory for buffers inside kernels: 64-byte aligned, reused between calls so that it stays mapped and warm. Memory that
; a killed or forked process held is simply lost to the cache.

define ptr @loopsmith_workspace_acquire(i64 %asked) {
entry:
  %some = icmp ugt i64 %asked, 1                        ; of no bytes there is memory too: null is failure
  %bytes = select i1 %some, i64 %asked, i64 1
  br label %scan
scan:                                                 ; a free slot that is large enough
  %i = phi i64 [ 0, %entry ], [ %i.next, %scan.next ]
  %slot = getelementptr [64 x %slot], ptr @workspace.slots, i64 0, i64 %i
  %size.p = getelementptr %slot, ptr %slot, i32 0, i32 2
  %size = load atomic i64, ptr %size.p monotonic, align 8
  %fits = icmp uge i64 %size, %bytes
  br i1 %fits, label %try, label %scan.next
try:
  %pair = cmpxchg ptr %slot, i32 0, i32 1 acquire monotonic, align 4
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %recheck, label %scan.next
recheck:                                              ; the size may have changed before the slot was ours
  %size.now = load atomic i64, ptr %size.p monotonic, align 8
  %still = icmp uge i64 %size.now, %bytes
  br i1 %still, label %hit, label %give.back
give.back:
  store atomic i32 0, ptr %slot release, align 4
  br label %scan.next
hit:
  %ptr.p = getelementptr %slot, ptr %slot, i32 0, i32 3
  %memory = load ptr, ptr %ptr.p, align 8
  call void @fill(ptr %memory, i64 %bytes)
  ret ptr %memory
scan.next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 64
  br i1 %more, label %scan, label %grow

grow:                                                 ; any free slot: replace its memory by a larger one
  br label %grow.scan
grow.scan:
  %j = phi i64 [ 0, %grow ], [ %j.next, %grow.next ]
  %gslot = getelementptr [64 x %slot], ptr @workspace.slots, i64 0, i64 %j
  %gpair = cmpxchg ptr %gslot, i32 0, i32 1 acquire monotonic, align 4
  %gwon = extractvalue { i32, i1 } %gpair, 1
  br i1 %gwon, label %replace, label %grow.next
grow.next:
  %j.next = add i64 %j, 1
  %gmore = icmp ult i64 %j.next, 64
  br i1 %gmore, label %grow.scan, label %uncached
uncached:
  %rounded.u = call i64 @round_up(i64 %bytes)
  %raw = call ptr @allocate(i64 %rounded.u)
  call void @fill(ptr %raw, i64 %bytes)
  ret ptr %raw
replace:
  %gptr.p = getelementptr %slot, ptr %gslot, i32 0, i32 3
  %gsize.p = getelementptr %slot, ptr %gslot, i32 0, i32 2
  %old = load ptr, ptr %gptr.p, align 8
  call void @free(ptr %old)
  %rounded = call i64 @round_up(i64 %bytes)
  %new = call ptr @allocate(i64 %rounded)
  store ptr %new, ptr %gptr.p, align 8
  %failed = icmp eq ptr %new, null
  %new.size = select i1 %failed, i64 0, i64 %rounded
  store atomic i64 %new.size, ptr %gsize.p monotonic, align 8
  br i1 %failed, label %release, label %got
release:
  store atomic i32 0, ptr %gslot release, align 4
  ret ptr null
got:
  call void @fill(ptr %new, i64 %bytes)
  ret ptr %new
}

define internal i64 @round_up(i64 %bytes) alwaysinline {
  %a = add i64 %bytes, 4095
  %b = and i64 %a, -4096
  ret i64 %b
}

; Large blocks ask for huge pages: packed operands are walked with large strides, and the TLB is small.
define internal ptr @allocate(i64 %bytes) noinline {
entry:
  %large = icmp uge i64 %bytes, 2097152
  br i1 %large, label %huge, label %plain
plain:
  %p = call ptr @aligned_alloc(i64 64, i64 %bytes)
  ret ptr %p
huge:
  %a = add i64 %bytes, 2097151
  %b = and i64 %a, -2097152
  %h = call ptr @aligned_alloc(i64 2097152, i64 %b)
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %advise
advise:
  %rc = call i32 @madvise(ptr %h, i64 %b, i32 14)
  br label %out
out:
  ret ptr %h
}

define void @loopsmith_workspace_release(ptr %memory) {
entry:
  br label %scan
scan:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %slot = getelementptr [64 x %slot], ptr @workspace.slots, i64 0, i64 %i
  %ptr.p = getelementptr %slot, ptr %slot, i32 0, i32 3
  %p = load ptr, ptr %ptr.p, align 8
  %hit = icmp eq ptr %p, %memory
  br i1 %hit, label %found, label %next
found:
  store atomic i32 0, ptr %slot release, align 4
  ret void
next:
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, 64
  br i1 %more, label %scan, label %foreign
foreign:
  call void @free(ptr %memory)
  ret void
}

; ---- scratch memory with a pattern ---------------------------------------------
; What checks kernels wants them to find no zeros, and nothing of earlier calls, in memory that they have not written.

; Calls a kernel while workspaces, the stack below it, and those of threads that run its parallel loops are filled with the low
; byte of a pattern before it gets them. The kernel takes as many of the pointers as it has parameters: those that come
; after them do not matter in the C calling conventions of the machines that this file is for.
define i32 @loopsmith_call_filled(i32 %pattern, ptr %kernel,
    ptr %a0, ptr %a1, ptr %a2, ptr %a3, ptr %a4, ptr %a5, ptr %a6, ptr %a7, ptr %a8, ptr %a9, ptr %a10, ptr %a11, ptr %a12,
    ptr %a13, ptr %a14, ptr %a15, ptr %a16, ptr %a17, ptr %a18, ptr %a19, ptr %a20, ptr %a21, ptr %a22, ptr %a23, ptr %a24,
    ptr %a25, ptr %a26, ptr %a27, ptr %a28, ptr %a29, ptr %a30, ptr %a31) {
  store atomic i32 %pattern, ptr @scratch.pattern monotonic, align 4
  call void @fill_stack()
  %status = call i32 %kernel(
    ptr %a0, ptr %a1, ptr %a2, ptr %a3, ptr %a4, ptr %a5, ptr %a6, ptr %a7, ptr %a8, ptr %a9, ptr %a10, ptr %a11, ptr %a12,
    ptr %a13, ptr %a14, ptr %a15, ptr %a16, ptr %a17, ptr %a18, ptr %a19, ptr %a20, ptr %a21, ptr %a22, ptr %a23, ptr %a24,
    ptr %a25, ptr %a26, ptr %a27, ptr %a28, ptr %a29, ptr %a30, ptr %a31)
  store atomic i32 0, ptr @scratch.pattern monotonic, align 4
  ret i32 %status
}

define internal void @fill(ptr %memory, i64 %bytes) alwaysinline {
entry:
  %pattern = load atomic i32, ptr @scratch.pattern monotonic, align 4
  %wanted = icmp ne i32 %pattern, 0
  %there = icmp ne ptr %memory, null
  %both = and i1 %wanted, %there
  br i1 %both, label %write, label %done
write:
  %byte = trunc i32 %pattern to i8
  call void @llvm.memset.p0.i64(ptr %memory, i8 %byte, i64 %bytes, i1 true)
  br label %done
done:
  ret void
}

define internal void @fill_stack() alwaysinline {
entry:
  %pattern = load atomic i32, ptr @scratch.pattern monotonic, align 4
  %wanted = icmp ne i32 %pattern, 0
  br i1 %wanted, label %write, label %done
write:
  call void @fill_below()
  br label %done
done:
  ret void
}

; As much of the stack below the caller as kernels use for all but their largest buffers.
define internal void @fill_below() noinline {
  %area = alloca [196608 x i8], align 64
  call void @fill(ptr %area, i64 196608)
  ret void
}

; ---- matrix units ------------------------------------------------------------

@matrix.permitted = internal global i32 0, align 4    ; this process has asked the system, and may use the matrix unit

; Linux gives a process the registers of AMX (18) when it asks: ARCH_REQ_XCOMP_PERM (0x1023) of arch_prctl (158), for all of its
; threads. Returns whether it has them; only code for x86-64 asks.
define i32 @loopsmith_use_matrix_unit() {
entry:
  %known = load atomic i32, ptr @matrix.permitted monotonic, align 4
  %may = icmp ne i32 %known, 0
  br i1 %may, label %yes, label %ask
ask:
  %refused = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  %granted = icmp eq i64 %refused, 0
  br i1 %granted, label %note, label %no
note:
  store atomic i32 1, ptr @matrix.permitted monotonic, align 4
  br label %yes
yes:
  ret i32 1
no:
  ret i32 0
}

; ---- errors ------------------------------------------------------------------

; Text of the last error of any kernel in this process; empty when there was none.
define ptr @loopsmith_last_error() {
  ret ptr @error.text
}

define void @loopsmith_set_error(ptr %message) {
entry:
  br label %copy
copy:
  %i = phi i64 [ 0, %entry ], [ %i.next, %more ]
  %from = getelementptr i8, ptr %message, i64 %i
  %c = load i8, ptr %from, align 1
  %to = getelementptr [512 x i8], ptr @error.text, i64 0, i64 %i
  store i8 %c, ptr %to, align 1
  %end = icmp eq i8 %c, 0
  br i1 %end, label %done, label %more
more:
  %i.next = add i64 %i, 1
  %full = icmp uge i64 %i.next, 511
  br i1 %full, label %cut, label %copy
cut:
  store i8 0, ptr getelementptr (i8, ptr @error.text, i64 511), align 1
  br label %done
done:
  ret void
}
