/* base/os/linux/sandbox_view.c - which files a confined process may use: those it names, the
 * system's libraries, the GPUs' devices, and one folder that it may write to. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sandbox.h"

enum { PATHS_MAX = 4096, PATH_BYTES = 16 << 20, LINKS_DEPTH = 4 };

struct view {
    struct lr_sandbox_path paths[PATHS_MAX];
    size_t count;
    struct lr_arena texts;
};

/* Files of the loader and of the drivers, and files that describe the machine.  Not all of
 * /etc, and not /home, /root, /var, /run or /tmp. */
static const char *const readable[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys",
    "/run/opengl-driver",
    "/run/nvidia",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/nvidia",
    "/etc/OpenCL",
    "/etc/vulkan",
    "/etc/glvnd",
    "/dev/random",
    "/dev/urandom",
};

static const char *const devices[] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/dxg",
};

/* A relative path is below the folder that the process works in, as for open(2). */
static void allow(struct view *v, const char *path, bool is_writable)
{
    char real[LR_PATH_MAX];
    if (path == NULL || v->count == PATHS_MAX || lr_realpath(path, real) == NULL)
        return;
    const char *text = lr_arena_copy(&v->texts, lr_str_z(real));
    if (text != NULL)
        v->paths[v->count++] = (struct lr_sandbox_path){text, is_writable};
}

/* ---- links ---- */

/* Which files the links of a folder may open, and the first link that was refused. */
struct links {
    struct view *view;
    const char *folder, *blobs; /* real paths; blobs NULL: none */
    bool is_downloaded;
    unsigned refused;
    char first[LR_PATH_MAX];
};

/* Below a folder, given as a real path. */
static bool is_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static bool is_file(const char *path)
{
    struct lr_stat info;
    return lr_lstat(path, &info) && info.kind == LR_KIND_FILE;
}

static void allow_link(struct links *l, const char *path)
{
    char real[LR_PATH_MAX];
    if (lr_realpath(path, real) == NULL) /* it leads nowhere */
        return;
    if (is_below(real, l->folder)) /* allowed with the folder */
        return;
    bool is_of_download = l->blobs != NULL && is_below(real, l->blobs);
    if (is_file(real) && (is_of_download || !l->is_downloaded))
        allow(l->view, real, false);
    else if (l->refused++ == 0)
        (void)snprintf(l->first, sizeof(l->first), "%s", path);
}

static void allow_links(struct links *l, const char *folder, int depth)
{
    struct lr_dir *dir = lr_dir_open(folder);
    for (const char *name; dir != NULL && (name = lr_dir_next(dir)) != NULL;) {
        char path[LR_PATH_MAX];
        struct lr_stat info;
        int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (n < 0 || (size_t)n >= sizeof(path) || !lr_lstat(path, &info))
            continue;
        if (info.kind == LR_KIND_LINK)
            allow_link(l, path);
        else if (info.kind == LR_KIND_FOLDER && depth < LINKS_DEPTH)
            allow_links(l, path, depth + 1);
    }
    lr_dir_close(dir);
}

static void tell_refused(const struct links *l, const char *folder)
{
    if (l->refused == 0)
        return;
    lr_log_warn(NULL, "sandbox.links_refused folder=%s count=%u first=%s reason=%s", folder,
                l->refused, l->first,
                l->is_downloaded ? "a link in a downloaded folder opens files of the download "
                                   "only: download the model again, or name a copy with --model"
                                 : "a link in a model's folder opens regular files only: "
                                   "put the files of a linked folder into the model's folder");
}

static void allow_folder(struct view *v, const struct lr_sandbox_needs *needs)
{
    char real[LR_PATH_MAX], blobs[LR_PATH_MAX];
    struct links l = {.view = v, .is_downloaded = needs->is_downloaded};
    if (needs->folder == NULL || needs->folder[0] == '\0' ||
        lr_realpath(needs->folder, real) == NULL)
        return;
    if (needs->blobs != NULL)
        l.blobs = lr_realpath(needs->blobs, blobs);
    l.folder = real;
    allow(v, real, false);
    allow_links(&l, real, 0);
    tell_refused(&l, real);
}

/* A file in the folder may be a link, to which the rules above apply. */
static void allow_file(struct view *v, const struct lr_sandbox_needs *needs)
{
    char real[LR_PATH_MAX];
    bool has_folder = needs->folder != NULL && needs->folder[0] != '\0';
    if (needs->file == NULL || (has_folder && is_below(needs->file, needs->folder)))
        return;
    if (lr_realpath(needs->file, real) != NULL && is_file(real))
        allow(v, real, false);
}

/* ---- the rest ---- */

static void allow_folder_of(struct view *v, const char *file)
{
    char folder[LR_PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s", file);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return;
    *slash = '\0';
    allow(v, folder, false);
}

static void allow_listed(struct view *v, const char *folders)
{
    char folder[LR_PATH_MAX];
    struct lr_str rest = lr_str_z(folders), part;
    while (folders != NULL && lr_str_split(&rest, ':', &part)) {
        (void)snprintf(folder, sizeof(folder), LR_STR_FMT, LR_STR_ARG(part));
        allow(v, folder, false);
    }
}

/* Whether `dev` has a device of NVIDIA's driver. */
static bool has_cuda(const char *dev)
{
    /* The second one is the way to the GPU in WSL2, which has no other. */
    static const char *const gpus[] = {"nvidiactl", "dxg"};
    char path[LR_PATH_MAX];
    struct lr_stat info;
    for (size_t i = 0; i < sizeof(gpus) / sizeof(gpus[0]); i++) {
        (void)snprintf(path, sizeof(path), "%.4000s/%s", dev, gpus[i]);
        if (lr_stat(path, &info))
            return true;
    }
    return false;
}

const char *lr_sandbox_mps_folder(const char *dev)
{
    /* Where the CUDA driver looks for the service without the variable. */
    static const char usual[] = "/tmp/nvidia-mps";
    const char *named = getenv("CUDA_MPS_PIPE_DIRECTORY");
    struct lr_stat info;
    if (!has_cuda(dev))
        return NULL;
    if (named != NULL && named[0] != '\0')
        return named;
    /* Everybody may make files in /tmp: another user's pipe opens nothing here. */
    bool has_pipe = lr_lstat("/tmp/nvidia-mps/control", &info) &&
                    (info.owner == 0 || info.owner == (uint32_t)geteuid());
    return has_pipe ? usual : NULL;
}

size_t lr_sandbox_cuda_folders(const char *dev, const char *out[LR_SANDBOX_CUDA])
{
    if (!has_cuda(dev))
        return 0;
    /* The CUDA driver uses shared memory, also with its multi-process service (MPS). */
    out[0] = "/dev/shm";
    /* The CUDA driver names its threads through files in /proc/self: without them cuInit fails
     * with 304. */
    out[1] = "/proc/self";
    out[2] = lr_sandbox_mps_folder(dev);
    return out[2] != NULL ? 3 : 2;
}

static void allow_devices(struct view *v)
{
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        glob_t found = {0};
        if (glob(devices[i], 0, NULL, &found) == 0)
            for (size_t j = 0; j < found.gl_pathc; j++)
                allow(v, found.gl_pathv[j], true);
        globfree(&found);
    }
    const char *folders[LR_SANDBOX_CUDA];
    for (size_t i = lr_sandbox_cuda_folders("/dev", folders); i-- > 0;)
        allow(v, folders[i], true);
}

lr_code lr_sandbox_enter(const struct lr_sandbox_facts *facts,
                         const struct lr_sandbox_needs *needs, struct lr_error *err)
{
    struct view *v = calloc(1, sizeof(*v));
    if (v == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to confine a process");
    lr_arena_init(&v->texts, PATH_BYTES);
    (void)setenv("TMPDIR", needs->scratch, 1);
    /* Where drivers keep compiled kernels: NVIDIA's for CUDA and for Vulkan, and Mesa's. */
    (void)setenv("CUDA_CACHE_PATH", needs->scratch, 0);
    (void)setenv("__GL_SHADER_DISK_CACHE_PATH", needs->scratch, 0);
    (void)setenv("MESA_SHADER_CACHE_DIR", needs->scratch, 0);
    allow(v, needs->scratch, true);
    allow(v, getenv("CUDA_CACHE_PATH"), true);
    for (size_t i = 0; i < sizeof(readable) / sizeof(readable[0]); i++)
        allow(v, readable[i], false);
    allow_devices(v);
    allow_listed(v, getenv("LD_LIBRARY_PATH"));
    allow_listed(v, getenv("VK_ICD_FILENAMES")); /* both name files of Vulkan drivers */
    allow_listed(v, getenv("VK_DRIVER_FILES"));
    allow_folder_of(v, needs->library);
    allow_file(v, needs);
    allow_folder(v, needs);
    lr_code code = v->count < PATHS_MAX
                       ? LR_OK
                       : lr_fail(err, LR_TOO_LARGE, "%s holds more than %d links",
                                 needs->folder, PATHS_MAX - 100);
    if (code == LR_OK)
        code = lr_sandbox_files(facts, v->paths, v->count, err);
    if (code == LR_OK)
        code = lr_sandbox_calls(facts, err);
    /* Not with sanitizers: they inspect this process from another one. */
    if (code == LR_OK && !facts->is_relaxed) {
        lr_sandbox_powers();
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    lr_arena_free(&v->texts);
    free(v);
    return code;
}
