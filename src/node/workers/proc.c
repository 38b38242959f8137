#include "node/workers/proc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "base/file.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/subprocess.h"

extern char **environ;

/* What a worker reads frames from, writes frames to, and prints to. */
enum { PIPE_IN, PIPE_OUT, PIPE_LOG, PIPES };
enum { READ_BYTES = 64 << 10, PIPE_BYTES = 256 << 10, LINE_MAX_BYTES = 4096, DRAIN_MS = 2000 };

struct node_proc {
    struct net_loop *loop;
    struct node_proc_callbacks callbacks;
    uv_process_t process;
    uv_pipe_t pipes[PIPES];
    struct net_timer *drain; /* runs from the exit until the last frame */
    struct net_timer *limit; /* runs until the exit */
    bool is_late;
    struct wire_reader frames;
    struct lr_buf line;
    char *chunk;      /* READ_BYTES, lent to libuv */
    unsigned handles; /* not yet closed */
    bool has_process;
    bool exited, drained, closing;
    char how[LR_EXIT_TEXT_LEN];
};

static void free_proc(struct node_proc *p)
{
    wire_reader_free(&p->frames);
    lr_buf_free(&p->line);
    free(p->chunk);
    free(p);
}

static void proc_on_closed(uv_handle_t *handle)
{
    struct node_proc *p = handle->data;
    if (--p->handles != 0)
        return;
    if (p->callbacks.on_exit != NULL)
        p->callbacks.on_exit(p->callbacks.arg, p->how);
    free_proc(p);
}

static void close_handles(struct node_proc *p)
{
    if (p->closing)
        return;
    p->closing = true;
    net_timer_stop(p->drain);
    p->drain = NULL;
    net_timer_stop(p->limit);
    p->limit = NULL;
    for (size_t i = 0; i < PIPES; i++)
        uv_close((uv_handle_t *)&p->pipes[i], proc_on_closed);
    if (p->has_process)
        uv_close((uv_handle_t *)&p->process, proc_on_closed);
}

static void flush_line(struct node_proc *p)
{
    if (p->line.len != 0 && p->callbacks.on_line != NULL)
        p->callbacks.on_line(p->callbacks.arg, lr_buf_str(&p->line));
    lr_buf_clear(&p->line);
}

static void finish_if_done(struct node_proc *p)
{
    if (!p->exited || !p->drained || p->closing)
        return;
    flush_line(p);
    close_handles(p);
}

/* Something the plugin started still holds the pipe: the worker itself is gone. */
static void on_drain_timeout(void *arg)
{
    struct node_proc *p = arg;
    p->drained = true;
    finish_if_done(p);
}

static void on_limit(void *arg)
{
    struct node_proc *p = arg;
    p->is_late = true;
    node_proc_kill(p);
}

static void on_process_exit(uv_process_t *process, int64_t status, int signal_number)
{
    struct node_proc *p = process->data;
    p->exited = true;
    net_timer_stop(p->limit);
    p->limit = NULL;
    if (p->is_late)
        (void)snprintf(p->how, sizeof(p->how), "did not answer in time");
    else
        (void)lr_exit_text(lr_exit_status(status, signal_number), p->how);
    if (!p->drained)
        p->drain = net_timer_start(p->loop, DRAIN_MS, 0, on_drain_timeout, p);
    finish_if_done(p);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct node_proc *p = handle->data;
    (void)suggested;
    *out = uv_buf_init(p->chunk, READ_BYTES);
}

static void on_out(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct node_proc *p = stream->data;
    struct lr_error err;
    if (n > 0 && p->callbacks.on_frames != NULL) {
        wire_reader_give(&p->frames, lr_str(buf->base, (size_t)n));
        if (p->callbacks.on_frames(p->callbacks.arg, &p->frames, &err) != LR_OK) {
            if (p->callbacks.on_line != NULL)
                p->callbacks.on_line(p->callbacks.arg, lr_str_z(err.text));
            node_proc_kill(p);
        }
    }
    if (n >= 0)
        return;
    (void)uv_read_stop(stream);
    p->drained = true;
    finish_if_done(p);
}

static void on_log(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct node_proc *p = stream->data;
    if (n < 0) {
        (void)uv_read_stop(stream);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (buf->base[i] == '\n' || p->line.len == LINE_MAX_BYTES)
            flush_line(p);
        if (buf->base[i] != '\n')
            lr_buf_add_char(&p->line, buf->base[i]);
    }
}

/* What GPU drivers, the loader, sanitizers and messages need.  Everything else may be a
 * secret (HF_TOKEN, LLM_ROUTER_*) and is nothing to an engine. */
static bool is_for_workers(const char *variable)
{
    static const char *const names[] = {"PATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG"};
    static const char *const beginnings[] = {"CUDA_", "NVIDIA_", "VK_", "LC_"};
    static const char ending[] = "SAN_OPTIONS";
    size_t len = strcspn(variable, "=");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == len && strncmp(variable, names[i], len) == 0)
            return true;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return len >= strlen(ending) &&
           strncmp(variable + len - strlen(ending), ending, strlen(ending)) == 0;
}

/* NULL-terminated; the list is the caller's, its texts are not.  NULL without memory.
 * `visible` replaces the variable of the same name; "": it does not. */
static char **worker_environment(char *visible)
{
    static const char name[] = "CUDA_VISIBLE_DEVICES=";
    size_t count = 0, n = 0;
    while (environ[count] != NULL)
        count++;
    char **out = calloc(count + 2, sizeof(*out));
    for (size_t i = 0; out != NULL && i < count; i++)
        if (is_for_workers(environ[i]) &&
            (visible[0] == '\0' || strncmp(environ[i], name, sizeof(name) - 1) != 0))
            out[n++] = environ[i];
    if (out != NULL && visible[0] != '\0')
        out[n++] = visible;
    return out;
}

static void close_pipes(int pipes[PIPES][2])
{
    for (size_t i = 0; i < PIPES; i++)
        for (size_t end = 0; end < 2; end++)
            if (pipes[i][end] >= 0)
                (void)close(pipes[i][end]);
}

/* [0] is read, [1] is written.  Pipes, and not the sockets libuv would make: what comes in
 * small frames is read in one go, for a thirtieth of the price. */
static lr_code make_pipes(int pipes[PIPES][2], struct lr_error *err)
{
    lr_code code = LR_OK;
    memset(pipes, -1, PIPES * sizeof(*pipes));
    for (size_t i = 0; code == LR_OK && i < PIPES; i++)
        /* Room for a step of many sequences, and for long prompts; where the system allows
         * less, less. */
        if (!lr_pipe(pipes[i], i != PIPE_LOG ? PIPE_BYTES : 0))
            code = lr_fail_errno(err, LR_INTERNAL, "cannot make a pipe for a worker");
    if (code != LR_OK)
        close_pipes(pipes);
    return code;
}

static int spawn(struct node_proc *p, uv_loop_t *uv, const struct node_proc_config *config,
                 int pipes[PIPES][2])
{
    char executable[4096], parent[32], label[256], mode[] = "--probe", sub[] = "worker";
    (void)snprintf(executable, sizeof(executable), "%s", config->executable);
    (void)snprintf(parent, sizeof(parent), "--parent=%d", (int)getpid());
    (void)snprintf(label, sizeof(label), "--label=%s", config->label);
    char scratch[LR_PATH_MAX + 16], visible[160] = "";
    if (config->visible != NULL)
        (void)snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%s", config->visible);
    char *args[7] = {executable, sub, parent, label};
    size_t count = 4;
    if (config->is_probe)
        args[count++] = mode;
    if (config->scratch != NULL) {
        (void)snprintf(scratch, sizeof(scratch), "--scratch=%s", config->scratch);
        args[count++] = scratch;
    }
    uv_stdio_container_t stdio[4] = {
        {.flags = UV_INHERIT_FD, .data.fd = pipes[PIPE_IN][0]},
        {.flags = UV_INHERIT_FD, .data.fd = pipes[PIPE_LOG][1]},
        {.flags = UV_INHERIT_FD, .data.fd = pipes[PIPE_LOG][1]},
        {.flags = UV_INHERIT_FD, .data.fd = pipes[PIPE_OUT][1]},
    };
    uv_process_options_t options = {
        .exit_cb = on_process_exit,
        .file = executable,
        .args = args,
        .stdio_count = 4,
        .stdio = stdio,
        .env = worker_environment(visible),
    };
    if (options.env == NULL)
        return UV_ENOMEM;
    p->process.data = p;
    p->handles++;
    p->has_process = true;
    int status = uv_spawn(uv, &p->process, &options);
    free(options.env);
    return status;
}

lr_code node_proc_start(struct net_loop *loop, const struct node_proc_config *config,
                        struct node_proc **out, struct lr_error *err)
{
    static const size_t ours[PIPES] = {[PIPE_IN] = 1};
    int pipes[PIPES][2];
    *out = NULL;
    lr_code code = make_pipes(pipes, err);
    if (code != LR_OK)
        return code;
    struct node_proc *p = calloc(1, sizeof(*p));
    if (p == NULL || (p->chunk = malloc(READ_BYTES)) == NULL) {
        free(p);
        close_pipes(pipes);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a worker");
    }
    p->loop = loop;
    wire_reader_init(&p->frames, WIRE_BODY_MAX);
    lr_buf_init(&p->line, LINE_MAX_BYTES + 1);
    uv_loop_t *uv = net_loop_uv(loop);
    for (size_t i = 0; i < PIPES; i++) {
        (void)uv_pipe_init(uv, &p->pipes[i], 0);
        p->pipes[i].data = p;
        p->handles++;
        (void)uv_pipe_open(&p->pipes[i], pipes[i][ours[i]]);
        pipes[i][ours[i]] = -1;
    }
    int status = spawn(p, uv, config, pipes);
    close_pipes(pipes); /* the worker's ends */
    if (status != 0)
        code = lr_fail(err, LR_INTERNAL, "cannot start %s: %s", config->executable,
                       uv_strerror(status));
    else if (uv_read_start((uv_stream_t *)&p->pipes[PIPE_OUT], on_alloc, on_out) != 0 ||
             uv_read_start((uv_stream_t *)&p->pipes[PIPE_LOG], on_alloc, on_log) != 0)
        code = lr_fail(err, LR_INTERNAL, "cannot read the pipes of a worker");
    if (code != LR_OK) {
        close_handles(p); /* callbacks are not set yet: nothing is told */
        return code;
    }
    p->callbacks = config->callbacks;
    if (config->limit_ms != 0)
        p->limit = net_timer_start(loop, config->limit_ms, 0, on_limit, p);
    *out = p;
    return LR_OK;
}

pid_t node_proc_pid(const struct node_proc *proc)
{
    return proc->process.pid;
}

int node_proc_source(const struct node_proc *proc)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&proc->pipes[PIPE_OUT], &fd) != 0)
        return -1;
    return (int)(intptr_t)fd; /* Windows: a handle, which nobody polls */
}

struct pending_write {
    uv_write_t request;
    char bytes[];
};

static void on_written(uv_write_t *request, int status)
{
    (void)status; /* a broken pipe shows as the process's end */
    free(request->data);
}

/* A worker that misses a frame waits for the frame for ever: it is as dead as one that crashed.
 * An empty frame is a frame for which there was no memory. */
static bool lose_frame(struct node_proc *proc)
{
    lr_log_warn(NULL, "worker.frame_lost pid=%d", (int)node_proc_pid(proc));
    node_proc_kill(proc);
    return false;
}

bool node_proc_send(struct node_proc *proc, struct lr_str bytes)
{
    if (proc->closing || proc->exited)
        return false;
    if (bytes.len == 0)
        return lose_frame(proc);
    uv_buf_t now = uv_buf_init((char *)(uintptr_t)bytes.ptr, (unsigned)bytes.len);
    int n = uv_try_write((uv_stream_t *)&proc->pipes[PIPE_IN], &now, 1);
    if (n < 0 && n != UV_EAGAIN)
        return lose_frame(proc);
    size_t sent = n > 0 ? (size_t)n : 0;
    if (sent == bytes.len)
        return true;
    struct pending_write *w = malloc(sizeof(*w) + bytes.len - sent);
    if (w == NULL)
        return lose_frame(proc);
    memcpy(w->bytes, bytes.ptr + sent, bytes.len - sent);
    w->request.data = w;
    uv_buf_t rest = uv_buf_init(w->bytes, (unsigned)(bytes.len - sent));
    if (uv_write(&w->request, (uv_stream_t *)&proc->pipes[PIPE_IN], &rest, 1, on_written) == 0)
        return true;
    free(w);
    return lose_frame(proc);
}

void node_proc_kill(struct node_proc *proc)
{
    if (!proc->exited && proc->has_process)
        (void)uv_process_kill(&proc->process, SIGKILL);
}
