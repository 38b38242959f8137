/* tests/inject/inject.c - fails one call site of one process, once.
 *
 * Preloaded into `llm-router up` and, by inheritance, into its node and its workers.  A file
 * (LR_INJECT_FILE) is mapped by all of them and by the driver, tests/inject/run.mjs: its head
 * says what to fail, its table keeps every call site that was passed.  A map and not an exit
 * handler, because a worker is killed rather than ended.
 *
 * A call site is a stack: the return addresses that lie in our own program or in an engine,
 * nearest first.  So an allocation inside libuv, SQLite or libc belongs to our line that
 * called the library, and the driver can tell lr_buf_add's callers apart.
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { ALLOCATE = 1, WRITE, SYNC, ACCEPT, FORK };
enum { FRAMES = 8, DEPTH = 24, PHASES = 3, SLOTS = 16384, VIA_LEN = 24, ROLE_LEN = 16 };
enum module { FOREIGN = 0, PROGRAM = 1, ENGINE = 2 };

/* As tests/inject/run.mjs reads and writes them. */
struct slot {
    _Atomic uint64_t hash; /* 0: free */
    uint64_t frames[FRAMES];
    _Atomic uint32_t passes[PHASES];
    uint32_t kind;
    char via[VIA_LEN];   /* the library that made the call for us, or empty */
    char role[ROLE_LEN]; /* up, node, worker, probe */
    _Atomic uint32_t is_whole;
    uint32_t pad;
};

struct head {
    _Atomic uint32_t phase; /* 0 starting, 1 serving, 2 stopping: set by the driver */
    uint32_t kind;          /* to fail; 0: nothing */
    uint32_t in_phase;
    uint32_t passage;     /* the n-th in that phase */
    uint32_t frame_count; /* so many frames must match */
    char role[ROLE_LEN];
    _Atomic uint32_t fired;
    _Atomic uint32_t fired_pid;
    _Atomic uint32_t passes;
    uint32_t pad;
    uint64_t frames[FRAMES];
};

static struct head *head;
static struct slot *slots;
static char role[ROLE_LEN];
static __thread int inside __attribute__((tls_model("initial-exec")));

/* ---- call sites ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static enum module find_module(void *address, uint64_t *frame, const char **name)
{
    struct dl_find_object found;
    *name = "";
    if (_dl_find_object(address, &found) != 0)
        return FOREIGN;
    const struct link_map *map = found.dlfo_link_map;
    enum module module = FOREIGN;
    *name = base_name(map->l_name);
    if (map->l_name[0] == '\0')
        module = PROGRAM;
    else if (strcmp(*name, "gptoss.so") == 0)
        module = ENGINE;
    *frame = (uint64_t)module << 32 | (uint32_t)((uintptr_t)address - map->l_addr);
    return module;
}

/* The nearest frames of ours.  `via` becomes the library that called us, if it is not ours. */
static void find_site(uint64_t frames[FRAMES], char via[VIA_LEN])
{
    void *stack[DEPTH];
    int depth = backtrace(stack, DEPTH);
    size_t count = 0;
    bool is_first = true;
    memset(frames, 0, FRAMES * sizeof(frames[0]));
    memset(via, 0, VIA_LEN);
    for (int i = 0; i < depth && count < FRAMES; i++) {
        const char *name;
        uint64_t frame = 0;
        enum module module = find_module(stack[i], &frame, &name);
        if (is_first && strcmp(name, "inject.so") == 0)
            continue;
        if (is_first && module == FOREIGN)
            (void)snprintf(via, VIA_LEN, "%s", name);
        is_first = false;
        if (module != FOREIGN)
            frames[count++] = frame;
    }
}

static void keep(enum kind kind, const uint64_t frames[FRAMES], const char via[VIA_LEN])
{
    uint64_t hash = 1469598103934665603u ^ kind ^ (uint64_t)role[0] << 8;
    for (size_t i = 0; i < FRAMES; i++)
        hash = (hash ^ frames[i]) * 1099511628211u;
    hash |= 1;
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &slots[(hash + i) % SLOTS];
        uint64_t seen = 0;
        if (atomic_compare_exchange_strong(&slot->hash, &seen, hash)) {
            memcpy(slot->frames, frames, sizeof(slot->frames));
            memcpy(slot->via, via, VIA_LEN);
            memcpy(slot->role, role, ROLE_LEN);
            slot->kind = kind;
            atomic_store(&slot->is_whole, 1);
            seen = hash;
        }
        if (seen == hash) {
            atomic_fetch_add(&slot->passes[atomic_load(&head->phase) % PHASES], 1);
            return;
        }
    }
}

static bool is_wanted(const uint64_t frames[FRAMES])
{
    if (head->in_phase != atomic_load(&head->phase) ||
        memcmp(frames, head->frames, head->frame_count * sizeof(frames[0])) != 0)
        return false;
    uint32_t none = 0;
    return atomic_fetch_add(&head->passes, 1) + 1 == head->passage &&
           atomic_compare_exchange_strong(&head->fired, &none, 1);
}

/* Whether this call shall fail. */
static bool fails(enum kind kind)
{
    uint64_t frames[FRAMES];
    char via[VIA_LEN];
    if (head == NULL || inside != 0)
        return false;
    bool records = head->kind == 0;
    if (!records && (head->kind != kind || atomic_load(&head->fired) != 0 ||
                     memcmp(head->role, role, ROLE_LEN) != 0))
        return false;
    int saved = errno;
    bool hit = false;
    inside++;
    find_site(frames, via);
    if (frames[0] != 0 && records)
        keep(kind, frames, via);
    else if (frames[0] != 0)
        hit = is_wanted(frames);
    inside--;
    errno = saved;
    if (hit)
        atomic_store(&head->fired_pid, (uint32_t)getpid());
    return hit;
}

/* ---- start ---- */

enum { CARRIED = 2, ENVIRONMENT_MAX = 1024 };

static struct carried {
    const char *name;
    char text[4200]; /* name=value */
} carried[CARRIED] = {{.name = "LD_PRELOAD"}, {.name = "LR_INJECT_FILE"}};

static void keep_environment(void)
{
    for (size_t i = 0; i < CARRIED; i++)
        (void)snprintf(carried[i].text, sizeof(carried[i].text), "%s=%s", carried[i].name,
                       getenv(carried[i].name));
}

static void read_role(void)
{
    char line[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof(line) - 1) : 0;
    if (fd >= 0)
        (void)close(fd);
    line[n > 0 ? n : 0] = '\0';
    const char *sub = n > 0 && strlen(line) + 1 < (size_t)n ? line + strlen(line) + 1 : "";
    (void)snprintf(role, sizeof(role), "%.15s", sub);
    if (strcmp(role, "worker") == 0 && n > 0 && memmem(line, (size_t)n, "--probe", 7) != NULL)
        (void)snprintf(role, sizeof(role), "probe");
}

__attribute__((constructor)) static void start(void)
{
    void *stack[4];
    size_t size = sizeof(struct head) + SLOTS * sizeof(struct slot);
    const char *path = getenv("LR_INJECT_FILE");
    if (path == NULL)
        return;
    (void)backtrace(stack, 4); /* loads the unwinder now, and not inside malloc */
    read_role();
    keep_environment();
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED)
        return;
    slots = (struct slot *)((char *)map + sizeof(struct head));
    head = map;
}

/* ---- allocation ---- */

/* glibc's own names, so that no allocation is needed to find the real functions; a sanitizer
 * in the process has others. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    if (fails(ALLOCATE)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (fails(ALLOCATE)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    if (size != 0 && fails(ALLOCATE)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

void *memalign(size_t align, size_t size)
{
    if (fails(ALLOCATE)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *memory = memalign(align, size);
    if (memory == NULL)
        return ENOMEM;
    *out = memory;
    return 0;
}

/* ---- everything else goes by the real function ---- */

#define REAL(type, name, ...)                                                                  \
    static type (*real)(__VA_ARGS__);                                                          \
    if (real == NULL) {                                                                        \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                \
        memcpy(&real, &symbol, sizeof(real));                                                  \
    }

/* libuv writes to its own signal pipes with every signal blocked, and one byte at its start. */
static bool is_signal_pipe(mode_t mode, size_t len)
{
    sigset_t blocked;
    return S_ISFIFO(mode) && (len == 1 || (pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 &&
                                           sigismember(&blocked, SIGUSR1) == 1));
}

/* What a full disk, a vanished reader or a broken connection gives.  Event descriptors and
 * the signal pipes inside libuv are left alone: no disk and no peer can make those fail, and
 * libuv ends the process when they do. */
static bool write_fails(int fd, size_t len)
{
    struct stat st;
    if (head == NULL || inside != 0 || fstat(fd, &st) != 0)
        return false;
    if (!S_ISREG(st.st_mode) && !S_ISSOCK(st.st_mode) && !S_ISFIFO(st.st_mode))
        return false;
    if (is_signal_pipe(st.st_mode, len) || !fails(WRITE))
        return false;
    errno = S_ISREG(st.st_mode) ? ENOSPC : S_ISSOCK(st.st_mode) ? ECONNRESET : EPIPE;
    return true;
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    return write_fails(fd, len) ? -1 : syscall(SYS_write, fd, bytes, len);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return write_fails(fd, 0) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    return write_fails(fd, len) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at)
{
    return write_fails(fd, len) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, at);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    return write_fails(fd, len) ? -1 : syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return write_fails(fd, 0) ? -1 : syscall(SYS_sendmsg, fd, message, flags);
}

int ftruncate(int fd, off_t size)
{
    return write_fails(fd, (size_t)size) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return write_fails(fd, (size_t)size) ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int fsync(int fd)
{
    if (fails(SYNC)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    if (fails(SYNC)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict len, int flags)
{
    if (fails(ACCEPT)) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address.__sockaddr__, len, flags);
}

int accept(int fd, __SOCKADDR_ARG address, socklen_t *restrict len)
{
    return accept4(fd, address, len, 0);
}

/* A worker's environment has what workers need and nothing else: the injector hands itself on.
 * Runs in the forked child, so nothing is allocated. */
int execvp(const char *file, char *const argv[])
{
    static char *all[ENVIRONMENT_MAX + CARRIED + 1];
    size_t count = 0;
    REAL(int, execvp, const char *, char *const[])
    while (environ != NULL && environ[count] != NULL && count < ENVIRONMENT_MAX) {
        all[count] = environ[count];
        count++;
    }
    for (size_t i = 0; i < CARRIED && getenv(carried[i].name) == NULL; i++)
        all[count++] = carried[i].text;
    all[count] = NULL;
    environ = all;
    return real(file, argv);
}

pid_t fork(void)
{
    REAL(pid_t, fork, void)
    if (fails(FORK)) {
        errno = EAGAIN;
        return -1;
    }
    return real();
}

int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)
    return fails(FORK) ? EAGAIN : real(out, attr, run, arg);
}
