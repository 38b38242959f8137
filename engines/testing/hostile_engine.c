/* engines/testing/hostile_engine.c - an engine that attacks as soon as its library is opened.
 *
 * LC_HOSTILE_PLAN names a file in the model's folder with lines "name=value" (hostile.h).  The
 * answer to a prompt lists what happened, and what an engine needs: threads, files, its own
 * limits.  Without the file, as where the node asks for an engine's name, nothing happens.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engines/testing/hostile.h"
#include "engines/testing/testing.h"

/* Room for hostile_try() behind what an engine needs. */
static char report[2 * HOSTILE_REPORT];

static void tell(const char *name, const char *result)
{
    size_t len = strlen(report);
    (void)snprintf(report + len, sizeof(report) - len, "%s=%s\n", name, result);
}

static void tell_code(const char *name, int code)
{
    tell(name, code == 0 ? "ok" : strerrorname_np(code));
}

/* ---- what an engine needs ---- */

static void *on_thread(void *arg)
{
    *(bool *)arg = true;
    return NULL;
}

static int try_thread(void)
{
    pthread_t thread;
    bool ran = false;
    int code = pthread_create(&thread, NULL, on_thread, &ran);
    if (code == 0)
        (void)pthread_join(thread, NULL);
    return code != 0 || ran ? code : ECHILD;
}

static int try_place(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) != 0
               ? errno
               : hostile_code(sched_setaffinity(0, sizeof(set), &set));
}

static int try_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) != 0 ? errno
                                                : hostile_code(setrlimit(RLIMIT_STACK, &limit));
}

static int try_pair(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    int code = hostile_code(write(pair[0], "x", 1));
    (void)close(pair[0]);
    (void)close(pair[1]);
    return code;
}

static int try_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int code = hostile_code(fd);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

static void try_needs(const struct hostile_plan *plan)
{
    char kept[HOSTILE_PATH], renamed[HOSTILE_PATH];
    const char *scratch = getenv("TMPDIR");
    (void)snprintf(kept, sizeof(kept), "%.400s/kept", scratch != NULL ? scratch : "/tmp");
    (void)snprintf(renamed, sizeof(renamed), "%.400s/cached",
                   scratch != NULL ? scratch : "/tmp");
    tell_code("needs_model", try_file(plan->readable, O_RDONLY));
    tell_code("needs_scratch", try_file(kept, O_RDWR | O_CREAT | O_TRUNC));
    tell_code("needs_rename", hostile_code(rename(kept, renamed)));
    tell_code("needs_thread", try_thread());
    tell_code("needs_place", try_place());
    tell_code("needs_limit", try_limit());
    tell_code("needs_pair", try_pair());
    tell_code("needs_own_signal", hostile_code(kill(getpid(), 0)));
}

/* ---- the plan ---- */

static void take(struct hostile_plan *plan, const char *name, const char *value)
{
    const struct {
        const char *name;
        char *text;
    } texts[] = {
        {"outside", plan->outside},     {"spare", plan->spare},
        {"readable", plan->readable},   {"model", plan->model},
        {"other", plan->other},         {"secret", plan->secret},
        {"to_folder", plan->to_folder}, {"to_file", plan->to_file},
        {"handover", plan->handover},   {"listener", plan->listener},
        {"datagram", plan->datagram},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strcmp(texts[i].name, name) == 0)
            (void)snprintf(texts[i].text, HOSTILE_PATH, "%s", value);
    if (strcmp(name, "port") == 0)
        plan->port = atoi(value);
}

static bool read_plan(struct hostile_plan *plan)
{
    char line[HOSTILE_PATH + 64];
    const char *path = getenv("LC_HOSTILE_PLAN");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, '=');
        line[strcspn(line, "\n")] = '\0';
        if (value == NULL)
            continue;
        *value = '\0';
        take(plan, line, value + 1);
    }
    if (file != NULL)
        (void)fclose(file);
    return file != NULL;
}

/* The parent of a process; 0: there is no such process. */
static int parent_of(const char *pid)
{
    char path[300], text[512];
    (void)snprintf(path, sizeof(path), "/proc/%.200s/stat", pid);
    FILE *file = fopen(path, "re");
    size_t len = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    text[len] = '\0';
    const char *after_name = strrchr(text, ')');
    return after_name != NULL && strlen(after_name) > 4 ? atoi(after_name + 4) : 0;
}

/* Another worker of the same node. */
static int find_sibling(void)
{
    DIR *dir = opendir("/proc");
    int found = 0;
    for (struct dirent *e; dir != NULL && found == 0 && (e = readdir(dir)) != NULL;)
        if (atoi(e->d_name) > 0 && atoi(e->d_name) != getpid() &&
            parent_of(e->d_name) == getppid())
            found = atoi(e->d_name);
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

__attribute__((constructor)) static void attack(void)
{
    struct hostile_plan plan = {.port = 0};
    char number[16];
    if (!read_plan(&plan))
        return;
    int sibling = find_sibling();
    plan.sibling = sibling != 0 ? sibling : (int)getppid();
    try_needs(&plan);
    hostile_try(&plan, report + strlen(report), NULL, NULL);
    (void)snprintf(number, sizeof(number), "%u", (unsigned)getuid());
    tell("uid", number);
    tell("sibling", sibling != 0 ? "found" : "none");
    tell("dumpable", prctl(PR_GET_DUMPABLE) != 0 ? "yes" : "no");
    tell("token", getenv("HF_TOKEN") != NULL ? "present" : "absent");
}

const char *testing_report(void)
{
    return report;
}
