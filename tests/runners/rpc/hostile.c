/* A "kernel" that does what no kernel may, by system calls of its own, and tells on standard error what came of each; then it ends the
   process, so that whoever measures it gets the text. Numbers of calls are those of the processor's header. */
#include <asm/unistd.h>
#include <stdint.h>

#if defined(__x86_64__)
static long call(long n, long a, long b, long c, long d, long e) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static long call(long n, long a, long b, long c, long d, long e) {
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
  return x0;
}
#endif

static void tell(const char *name, long result) {
  char text[64];
  int at = 0;
  while (*name) text[at++] = *name++;
  text[at++] = '=';
  if (result < 0) text[at++] = '-', result = -result;
  char digits[20];
  int count = 0;
  do digits[count++] = '0' + result % 10; while (result /= 10);
  while (count) text[at++] = digits[--count];
  text[at++] = ' ';
  call(__NR_write, 2, (long)text, at, 0, 0);
}

#define CWD -100
#ifndef SERVER
#define SERVER 1
#endif
#ifndef SECRET
#define SECRET "/etc/shadow"
#endif
#ifndef OUTSIDE
#define OUTSIDE "/tmp/loopsmith-written-by-a-kernel"
#endif

static long forks(void) {
  long made = 0;
  for (int i = 0; i < 50; i++) {
#ifdef __NR_fork
    long child = call(__NR_fork, 0, 0, 0, 0, 0);
    if (child == 0) for (;;);
    made += child > 0;
#endif
    long other = call(__NR_clone, 17, 0, 0, 0, 0);
    if (other == 0) for (;;);
    made += other > 0;
  }
  return made;
}

int32_t SYMBOL(void *a, void *b, void *c) {
  static char program[] = "/bin/true";
  static char *arguments[] = {program, 0};
  tell("socket", call(__NR_socket, 2, 1, 0, 0, 0));
  tell("socket6", call(__NR_socket, 10, 2, 0, 0, 0));
  tell("unix", call(__NR_socket, 1, 1, 0, 0, 0));
  tell("netlink", call(__NR_socket, 16, 3, 0, 0, 0));
  tell("read", call(__NR_openat, CWD, (long)SECRET, 0, 0, 0));
  tell("write", call(__NR_openat, CWD, (long)OUTSIDE, 0101, 0666, 0));
  tell("remove", call(__NR_unlinkat, CWD, (long)SECRET, 0, 0, 0));
  tell("fork", forks());
  tell("exec", call(__NR_execve, (long)program, (long)arguments, 0, 0, 0));
  tell("kill", call(__NR_kill, SERVER, 9, 0, 0, 0));
  tell("killall", call(__NR_kill, -1, 9, 0, 0, 0));
  tell("ptrace", call(__NR_ptrace, 16, SERVER, 0, 0, 0));
  tell("peek", call(__NR_process_vm_readv, SERVER, 0, 0, 0, 0));
  tell("mount", call(__NR_mount, (long)"none", (long)"/mnt", (long)"tmpfs", 0, 0));
  tell("bpf", call(__NR_bpf, 0, 0, 0, 0, 0));
  tell("kexec", call(__NR_kexec_load, 0, 0, 0, 0, 0));
  tell("module", call(__NR_finit_module, 0, (long)"", 0, 0, 0));
  tell("unshare", call(__NR_unshare, 0x10000000, 0, 0, 0, 0));
  tell("outlive", call(__NR_prctl, 1, 0, 0, 0, 0));
  tell("uring", call(__NR_io_uring_setup, 1, 0, 0, 0, 0));
  tell("setuid", call(__NR_setuid, 0, 0, 0, 0, 0));
  tell("done", 0);
  call(__NR_exit_group, 3, 0, 0, 0, 0);
  return 0;
}
