/* llamacpp/library.c - see library.h. */
#include "engines/llamacpp/library.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/os/library.h"

/* ---- log messages ---- */

/* Lines arrive in pieces and from any thread. */
static struct {
    pthread_mutex_t lock;
    const struct lr_engine_host *host;
    int32_t level;
    char line[512];
    size_t len;
    char complaint[256];
} voice = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say_line(void)
{
    voice.line[voice.len] = '\0';
    /* The first error gives the reason; later ones only say that something failed. */
    if (voice.level == 3 && voice.complaint[0] == '\0')
        (void)snprintf(voice.complaint, sizeof(voice.complaint), "%.*s",
                       (int)sizeof(voice.complaint) - 1, voice.line);
    if (voice.len > 0 && voice.host != NULL && voice.host->log != NULL)
        voice.host->log(voice.host->ctx, voice.level, "llama", voice.line);
    voice.len = 0;
}

static void llamacpp_library_on_log(enum ggml_log_level level, const char *text, void *ctx)
{
    (void)ctx;
    (void)pthread_mutex_lock(&voice.lock);
    if (level != GGML_LOG_LEVEL_CONT)
        /* libllama's "info" is hundreds of lines for a load: debug level here. */
        voice.level = level == GGML_LOG_LEVEL_ERROR ? 3 : level == GGML_LOG_LEVEL_WARN ? 2 : 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\n' || voice.len == sizeof(voice.line) - 1)
            say_line();
        if (*p != '\n')
            voice.line[voice.len++] = *p;
    }
    (void)pthread_mutex_unlock(&voice.lock);
}

/* ggml aborts after this: the worker dies, and its log has the reason. */
static void on_abort(const char *text)
{
    llamacpp_library_on_log(GGML_LOG_LEVEL_ERROR, text, NULL);
    llamacpp_library_on_log(GGML_LOG_LEVEL_CONT, "\n", NULL);
}

void llamacpp_library_log_to(const struct lr_engine_host *host)
{
    (void)pthread_mutex_lock(&voice.lock);
    voice.host = host;
    (void)pthread_mutex_unlock(&voice.lock);
}

void llamacpp_library_log_end(const struct lr_engine_host *host)
{
    (void)pthread_mutex_lock(&voice.lock);
    if (voice.host == host)
        voice.host = NULL;
    (void)pthread_mutex_unlock(&voice.lock);
}

void llamacpp_library_forget_complaint(void)
{
    (void)pthread_mutex_lock(&voice.lock);
    voice.complaint[0] = '\0';
    (void)pthread_mutex_unlock(&voice.lock);
}

void llamacpp_library_complaint(char *out, size_t size)
{
    (void)pthread_mutex_lock(&voice.lock);
    (void)snprintf(out, size, "%s", voice.complaint);
    (void)pthread_mutex_unlock(&voice.lock);
}

/* ---- opening ---- */

static bool llamacpp_library_find(void *handle, const char *name, void *function, size_t size)
{
    void *symbol = lr_library_symbol(handle, name);

    memcpy(function, &symbol, size); /* ISO C has no cast from object to function */
    return symbol != NULL;
}

static bool is_windows(void)
{
    static const char name[] = LLAMACPP_LIBRARY_NAME;

    return strcmp(strrchr(name, '.'), ".dll") == 0;
}

lr_code llamacpp_library_open(const char *path, const char *version,
                              struct llamacpp_library *out, struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    void *handle = lr_library_open(path);
    if (handle == NULL)
        return lr_fail(err, LR_INTERNAL, "cannot open libllama (%s): %s%s", path,
                       lr_library_error(),
                       is_windows() ? ": install the runtime of Visual C++ 2015 to 2022 "
                                      "(docs/llamacpp.md)"
                                    : "");
    if (!llamacpp_library_find(handle, "llama_version", &out->llama_version,
                               sizeof(out->llama_version)))
        return lr_fail(err, LR_ABI_MISMATCH,
                       "%s does not say its version; this engine was built for libllama %s",
                       path, version);
    if (strcmp(out->llama_version(), version) != 0)
        return lr_fail(err, LR_ABI_MISMATCH,
                       "%s is libllama %s; this engine was built for %s: put that version "
                       "there, or build the engine again",
                       path, out->llama_version(), version);
#define X(name)                                                                                \
    if (!llamacpp_library_find(handle, #name, &out->name, sizeof(out->name)))                  \
        return lr_fail(err, LR_ABI_MISMATCH, "%s (libllama %s) lacks %s", path, version, #name);
    LLAMACPP_FUNCTIONS(X)
#undef X
    return LR_OK;
}

/* The folder this plugin was loaded from. */
static bool own_folder(char out[LR_PATH_MAX])
{
    static const char here;

    if (!lr_library_of(&here, out))
        return false;
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    return true;
}

/* The library beside the plugin, else the installed library from build time. */
static void locate(char path[LR_PATH_MAX], char folder[LR_PATH_MAX])
{
    char own[LR_PATH_MAX - 64];
    char found[LR_PATH_MAX];

    if (own_folder(found) && strlen(found) < sizeof(own)) {
        memcpy(own, found, strlen(found) + 1);
        (void)snprintf(path, LR_PATH_MAX, "%s/%s", own, LLAMACPP_LIBRARY_NAME);
        if (lr_file_exists(path)) {
            memcpy(folder, own, strlen(own) + 1);
            return;
        }
    }
    (void)snprintf(folder, LR_PATH_MAX, "%s", llamacpp_library_folder);
    (void)snprintf(path, LR_PATH_MAX, "%s/%s", llamacpp_library_folder, LLAMACPP_LIBRARY_NAME);
}

static lr_code llamacpp_library_start(struct llamacpp_library *lib, struct lr_error *err)
{
    char path[LR_PATH_MAX], folder[LR_PATH_MAX];

    locate(path, folder);
    if (!lr_file_exists(path))
        return lr_fail(err, LR_UNSUPPORTED,
                       "libllama %s is needed and not there: put %s beside the engine's "
                       "library (tools/setup llama, then build)",
                       LLAMACPP_BUILT_FOR, LLAMACPP_LIBRARY_NAME);
    lr_code code = llamacpp_library_open(path, LLAMACPP_BUILT_FOR, lib, err);
    if (code != LR_OK)
        return code;
    lib->llama_log_set(llamacpp_library_on_log, NULL);
    (void)lib->ggml_set_abort_callback(on_abort);
    lib->llama_backend_init();
    /* A build with linked backends has them already. */
    if (lib->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == NULL)
        lib->ggml_backend_load_all_from_path(folder);
    if (lib->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == NULL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "libllama finds no CPU backend in %s: libggml-cpu-*.so belong there",
                       folder);
    return LR_OK;
}

lr_code llamacpp_library_load_backend(const struct llamacpp_library *lib, const char *kind,
                                      struct lr_error *err)
{
    static char loaded[16];
    char path[LR_PATH_MAX], folder[LR_PATH_MAX], complaint[256];

    if (strcmp(loaded, kind) == 0)
        return LR_OK;
    locate(path, folder);
    /* macOS, too, gives a library that is only ever opened at run time the ending .so. */
    (void)snprintf(path, sizeof(path), "%.4000s/device-%s%s", folder, kind,
                   is_windows() ? ".dll" : ".so");
    if (!lr_file_exists(path))
        return LR_OK;
    llamacpp_library_forget_complaint();
    if (lib->ggml_backend_load(path) == NULL) {
        llamacpp_library_complaint(complaint, sizeof(complaint));
        return lr_fail(err, LR_INTERNAL,
                       "%s cannot be loaded: %s: install the GPU's driver%s (docs/llamacpp.md)",
                       path, complaint[0] != '\0' ? complaint : "libllama gives no reason",
                       strcmp(kind, "cuda") == 0
                           ? " and libcudart and libcublas, of CUDA 12 for the "
                             "backend cuda12, else of CUDA 13"
                           : "");
    }
    (void)snprintf(loaded, sizeof(loaded), "%s", kind);
    return LR_OK;
}

lr_code llamacpp_library_get(const struct llamacpp_library **out, struct lr_error *err)
{
    static struct llamacpp_library lib;
    static struct lr_error failure;
    static bool is_started;

    *out = NULL;
    if (!is_started)
        (void)llamacpp_library_start(&lib, &failure);
    is_started = true;
    if (failure.code != LR_OK)
        return lr_fail(err, failure.code, "%s", failure.text);
    *out = &lib;
    return LR_OK;
}
