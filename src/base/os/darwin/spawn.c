/* base/os/darwin/spawn.c - posix_spawn; a child that watches its parent itself.
 *
 * macOS tells no child that its parent has ended.  A child that must not outlive its parent
 * gets the parent's number in a variable of the environment (lr_process_begin of the child),
 * and a thread of the child waits for the parent's end with kqueue.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/event.h>
#include <unistd.h>

#include "base/os/cpu.h"
#include "base/os/darwin/internal.h"
#include "base/os/posix/internal.h"
#include "base/os/process.h"
#include "base/str.h"

static const char parent_variable[] = "LR_PARENT_PROCESS";

/* ---- the parent's side ---- */

/* Sources lie above all targets, so that no target overwrites a source that is still needed. */
static int add_descriptors(struct lr_os_plan *plan, posix_spawn_file_actions_t *actions)
{
    bool is_placed[3] = {false};
    int rc = 0;
    for (int i = 0; i < plan->count; i++) {
        plan->from[i] = fcntl(plan->from[i], F_DUPFD_CLOEXEC, plan->highest + 1);
        if (plan->from[i] < 0)
            rc = errno;
    }
    for (int i = 0; rc == 0 && i < plan->count; i++) {
        rc = posix_spawn_file_actions_adddup2(actions, plan->from[i], plan->to[i]);
        if (plan->to[i] < 3)
            is_placed[plan->to[i]] = true;
    }
    for (int fd = 0; rc == 0 && fd < 3; fd++)
        if (!is_placed[fd] && fcntl(fd, F_GETFD) >= 0)
            rc = posix_spawn_file_actions_addinherit_np(actions, fd);
    if (rc == 0 && plan->spawn->cwd != NULL)
        rc = posix_spawn_file_actions_addchdir_np(actions, plan->spawn->cwd);
    return rc;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    int rc = posix_spawnattr_setflags(attributes,
                                      POSIX_SPAWN_CLOEXEC_DEFAULT | POSIX_SPAWN_SETPGROUP |
                                          POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    rc = rc != 0 ? rc : posix_spawnattr_setpgroup(attributes, 0);
    rc = rc != 0 ? rc : posix_spawnattr_setsigdefault(attributes, &all);
    return rc != 0 ? rc : posix_spawnattr_setsigmask(attributes, &none);
}

/* The plan's environment with the number of this process; NULL: no memory. */
static const char **add_parent(const char *const *env, char *text, size_t size)
{
    size_t count = 0;
    while (env[count] != NULL)
        count++;
    const char **out = malloc((count + 2) * sizeof(*out));
    if (out == NULL)
        return NULL;
    (void)snprintf(text, size, "%s=%d", parent_variable, (int)getpid());
    memcpy(out, env, count * sizeof(*out));
    out[count] = text;
    out[count + 1] = NULL;
    return out;
}

lr_code lr_os_spawn(struct lr_os_plan *plan, pid_t *pid, struct lr_error *err)
{
    char parent[sizeof(parent_variable) + 16];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    const char **with_parent =
        plan->spawn->dies_with_parent ? add_parent(plan->env, parent, sizeof(parent)) : NULL;
    const char *const *used = with_parent != NULL ? with_parent : plan->env;
    /* posix_spawn does not write to these; its prototype is older than const. */
    char *const *argv, *const *env;
    memcpy(&argv, &plan->spawn->argv, sizeof(argv));
    memcpy(&env, &used, sizeof(env));
    if (plan->spawn->dies_with_parent && with_parent == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for an environment");
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc == 0) {
        rc = posix_spawnattr_init(&attributes);
        if (rc == 0) {
            rc = set_attributes(&attributes);
            rc = rc != 0 ? rc : add_descriptors(plan, &actions);
            rc = rc != 0 ? rc : posix_spawn(pid, plan->path, &actions, &attributes, argv, env);
            (void)posix_spawnattr_destroy(&attributes);
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    for (int i = 0; i < plan->count; i++)
        if (plan->from[i] > plan->highest)
            (void)close(plan->from[i]);
    free(with_parent);
    return rc == 0 ? LR_OK : lr_os_spawn_failed(plan, rc, err);
}

/* ---- the child's side ---- */

/* Ends this process when the parent, whose number is behind `arg`, has ended. */
static void *await_parent(void *arg)
{
    pid_t parent = (pid_t)(intptr_t)arg;
    struct kevent event;
    int queue = kqueue();
    EV_SET(&event, (uintptr_t)parent, EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT, 0, NULL);
    int rc;
    do
        rc = queue >= 0 ? kevent(queue, &event, 1, &event, 1, NULL) : 0;
    while (rc < 0 && errno == EINTR);
    /* Without kqueue, and as long as the parent lives: its child has its number. */
    while (rc != 1 && getppid() == parent)
        (void)usleep(200000);
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

bool lr_os_watch_parent(pid_t parent)
{
    pthread_t thread;
    if (getppid() != parent)
        return false;
    if (lr_thread_start(&thread, await_parent, (void *)(intptr_t)parent, "parent") != 0)
        return false;
    (void)pthread_detach(thread);
    return true;
}

void lr_process_begin(int *argc, char ***argv)
{
    uint64_t parent;
    const char *text = getenv(parent_variable);
    (void)argc;
    (void)argv;
    lr_os_open_streams();
    if (text == NULL || !lr_str_u64(lr_str_z(text), &parent))
        return;
    (void)unsetenv(parent_variable); /* this process's children have another parent */
    if (parent == 0 || parent > INT32_MAX || !lr_os_watch_parent((pid_t)parent))
        _exit(127);
}
