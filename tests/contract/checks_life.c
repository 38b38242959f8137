/* tests/contract/checks_life.c - the library itself, and a model's birth and death. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/contract/conformance.h"

/* ---- the library ---- */

static void check_symbols(struct run *run, const char *base, const Elf64_Shdr *section,
                          const Elf64_Shdr *strings)
{
    const Elf64_Sym *symbols = (const Elf64_Sym *)(const void *)(base + section->sh_offset);
    unsigned found = 0;
    for (size_t i = 0; i < section->sh_size / sizeof(*symbols); i++) {
        unsigned bind = ELF64_ST_BIND(symbols[i].st_info);
        const char *name = base + strings->sh_offset + symbols[i].st_name;
        if (symbols[i].st_shndx == SHN_UNDEF || symbols[i].st_shndx == SHN_ABS ||
            (bind != STB_GLOBAL && bind != STB_WEAK))
            continue;
        found++;
        EXPECT(run, strcmp(name, "lr_engine_entry") == 0, "also exported: %s", name);
    }
    EXPECT(run, found >= 1, "lr_engine_entry is not exported");
}

void check_one_symbol(struct run *run)
{
    struct stat info;
    int fd = open(run->library, O_RDONLY | O_CLOEXEC);
    EXPECT(run, fd >= 0 && fstat(fd, &info) == 0, "cannot read %s", run->library);
    if (fd < 0)
        return;
    const char *base = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)base;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(base + head->e_shoff);
    for (unsigned i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM)
            check_symbols(run, base, &sections[i], &sections[sections[i].sh_link]);
    (void)munmap((void *)(uintptr_t)base, (size_t)info.st_size);
}

void check_library(struct run *run)
{
    const struct lr_engine_api *api = run->api;
    EXPECT(run, api->abi == LR_ENGINE_ABI, "abi %u", api->abi);
    EXPECT(run, LR_ENGINE_HAS(api, describe) && LR_ENGINE_HAS(api, probe), "describe, probe");
    EXPECT(run, LR_ENGINE_HAS(api, open) && LR_ENGINE_HAS(api, close), "open, close");
    EXPECT(run, LR_ENGINE_HAS(api, submit) && LR_ENGINE_HAS(api, cancel), "submit, cancel");
    EXPECT(run, LR_ENGINE_HAS(api, step) && LR_ENGINE_HAS(api, stats), "step, stats");
    const struct lr_engine_facts *facts = api->describe();
    EXPECT(run, facts != NULL && facts->size >= sizeof(*facts), "describe() gives nothing");
    if (facts == NULL)
        return;
    EXPECT(run, facts->id != NULL && facts->id[0] != '\0', "no id");
    EXPECT(run, facts->version != NULL && facts->version[0] != '\0', "no version");
    EXPECT(run, facts->runtimes != NULL && facts->runtimes[0] != NULL, "no runtimes");
    EXPECT(run, facts->formats != NULL && facts->formats[0] != NULL, "no formats");
    EXPECT(run, facts->architectures != NULL && facts->architectures[0] != NULL,
           "no architectures");
    EXPECT(run, facts->backends != NULL && facts->backends[0] != NULL, "no backends");
    EXPECT(run, api->describe() == facts, "describe() changes");
    api->close(NULL);
}

/* ---- probe ---- */

void check_probe(struct run *run)
{
    struct lr_engine_options options = conformance_options(run);
    struct lr_error err = {0};
    struct {
        struct lr_engine_need need;
        unsigned char guard[64];
    } small;

    run->need = (struct lr_engine_need){.size = sizeof(run->need)};
    lr_code code = run->api->probe(run->model_dir, &options, &run->need, &err);
    EXPECT(run, code == LR_OK, "probe: %d %s", code, err.text);
    const struct lr_engine_need *n = &run->need;
    EXPECT(run, n->total >= n->weights && n->total != 0, "total %llu, weights %llu",
           (unsigned long long)n->total, (unsigned long long)n->weights);
    EXPECT(run, n->max_context != 0 && n->max_context <= 512, "max_context %u of 512 asked",
           n->max_context);
    EXPECT(run, n->max_sequences != 0 && n->max_sequences <= 4, "max_sequences %u of 4 asked",
           n->max_sequences);
    EXPECT(run, n->vocab_size != 0, "no vocabulary");

    /* A host of an older version: only what lies within its struct may be written. */
    memset(&small, 0xa5, sizeof(small));
    small.need.size = offsetof(struct lr_engine_need, total);
    code = run->api->probe(run->model_dir, &options, &small.need, &err);
    EXPECT(run, code == LR_OK, "probe with a smaller struct: %d %s", code, err.text);
    const unsigned char *bytes = (const unsigned char *)&small;
    for (size_t i = offsetof(struct lr_engine_need, total); i < sizeof(small); i++)
        if (bytes[i] != 0xa5) {
            EXPECT(run, bytes[i] == 0xa5, "byte %zu beyond need->size was written", i);
            break;
        }
    EXPECT(run, small.need.weights == n->weights, "weights differ");
}

static void expect_refused(struct run *run, const char *dir, const char *what)
{
    struct lr_engine_options options = conformance_options(run);
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_engine_model *model = (struct lr_engine_model *)(void *)run;
    struct lr_error err = {0};
    lr_code code = run->api->probe(dir, &options, &need, &err);
    /* Probe reads headers only; what only the data shows may pass it. */
    EXPECT(run, code == LR_OK || err.text[0] != '\0', "%s: probe gives no reason", what);
    err.text[0] = '\0';
    code = run->api->open(&run->host, dir, &options, &model, &err);
    EXPECT(run, code != LR_OK, "%s was opened", what);
    EXPECT(run, code > LR_OK && code <= LR_INTERNAL, "%s: code %d is no engine's", what, code);
    EXPECT(run, model == NULL, "%s: *model is not NULL", what);
    EXPECT(run, err.text[0] != '\0', "%s: open gives no reason", what);
    if (code == LR_OK)
        run->api->close(model);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        (void)fputs(text, file);
        (void)fclose(file);
    }
}

static void remove_tree(const char *dir)
{
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        (void)unlink(path);
    }
    if (folder != NULL)
        (void)closedir(folder);
    (void)rmdir(dir);
}

void check_wrong_model(struct run *run)
{
    char dir[] = "/tmp/lr-wrong-XXXXXX";
    expect_refused(run, "/nowhere/at/all", "a folder that does not exist");
    if (mkdtemp(dir) == NULL)
        abort();
    expect_refused(run, dir, "an empty folder");
    write_file(dir, "config.json",
               "{\"architectures\":[\"NobodyForCausalLM\"],"
               "\"model_type\":\"nobody\"}");
    expect_refused(run, dir, "another architecture");
    write_file(dir, "config.json", "{\"architectures\":[");
    expect_refused(run, dir, "a config.json that is not JSON");
    remove_tree(dir);
}

/* ---- truncation ---- */

static bool copy_file(const char *from, const char *to, off_t len)
{
    char buffer[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    bool ok = in >= 0 && out >= 0;
    while (ok && len > 0) {
        ssize_t n =
            read(in, buffer, len < (off_t)sizeof(buffer) ? (size_t)len : sizeof(buffer));
        ok = n > 0 && write(out, buffer, (size_t)n) == n;
        len -= n;
    }
    (void)close(in);
    (void)close(out);
    return ok;
}

/* A copy of the model in which the file `victim` has lost its second half. */
static bool copy_model(const char *model, const char *to, const char *victim)
{
    DIR *folder = opendir(model);
    bool ok = folder != NULL;
    for (struct dirent *e; ok && (e = readdir(folder)) != NULL;) {
        char a[4096], b[4096];
        struct stat info;
        (void)snprintf(a, sizeof(a), "%s/%s", model, e->d_name);
        (void)snprintf(b, sizeof(b), "%s/%s", to, e->d_name);
        if (stat(a, &info) == 0 && S_ISREG(info.st_mode))
            ok = copy_file(a, b,
                           strcmp(e->d_name, victim) == 0 ? info.st_size / 2 : info.st_size);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return ok;
}

static bool is_model_file(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strcmp(name, "config.json") == 0 || strcmp(name, "tokenizer.json") == 0 ||
           (dot != NULL && (strcmp(dot, ".safetensors") == 0 || strcmp(dot, ".gguf") == 0)) ||
           strstr(name, ".index.json") != NULL;
}

void check_truncated(struct run *run)
{
    if (run->model_dir[0] == '\0')
        return;
    DIR *folder = opendir(run->model_dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char dir[] = "/tmp/lr-cut-XXXXXX";
        if (!is_model_file(e->d_name))
            continue;
        if (mkdtemp(dir) == NULL)
            abort();
        EXPECT(run, copy_model(run->model_dir, dir, e->d_name), "cannot copy the model");
        expect_refused(run, dir, e->d_name);
        remove_tree(dir);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

void check_limits(struct run *run)
{
    struct lr_engine_options options = conformance_options(run);
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    options.ram_limit = options.vram_limit = 4096;
    lr_code code = run->api->open(&run->host, run->model_dir, &options, &model, &err);
    EXPECT(run, code == LR_OUT_OF_RAM || code == LR_OUT_OF_VRAM, "open in 4096 bytes: %d %s",
           code, err.text);
    EXPECT(run, model == NULL, "*model is not NULL");
    EXPECT(run,
           strstr(err.text, "4096") != NULL || strstr(err.text, "4 KiB") != NULL ||
               strstr(err.text, "4.0 KiB") != NULL,
           "the message does not name the limit: %s", err.text);
    if (code == LR_OK)
        run->api->close(model);
}

void check_giving_up(struct run *run)
{
    struct lr_engine_options options = conformance_options(run);
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    run->progress_calls = 0;
    run->give_up_at = 1;
    run->is_closed = false;
    lr_code code = run->api->open(&run->host, run->model_dir, &options, &model, &err);
    EXPECT(run, run->progress_calls >= 1, "open never called progress");
    EXPECT(run, code == LR_CANCELLED && model == NULL, "open: %d", code);
    if (code == LR_OK)
        run->api->close(model);
}

static unsigned count_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL)
        count++;
    if (folder != NULL)
        (void)closedir(folder);
    return count;
}

void check_reopening(struct run *run)
{
    static const struct lr_segment hello = {.text = "Hello", .len = 5};
    unsigned files = 0, threads = 0;
    for (int i = 0; i < 4; i++) {
        struct lr_engine_model *model = conformance_open(run);
        if (model == NULL)
            return;
        struct lr_engine_request request = conformance_request(1, &hello, 2);
        (void)conformance_complete(run, model, &request);
        conformance_close(run, model);
        if (i == 0) { /* what a library keeps for good it has now */
            files = count_entries("/proc/self/fd");
            threads = count_entries("/proc/self/task");
        }
    }
    EXPECT(run, count_entries("/proc/self/fd") == files, "%u descriptors became %u", files,
           count_entries("/proc/self/fd"));
    EXPECT(run, count_entries("/proc/self/task") == threads, "%u threads became %u", threads,
           count_entries("/proc/self/task"));
}

void check_close_busy(struct run *run)
{
    static const struct lr_segment text = {.text = "One two three four five six", .len = 27};
    for (uint32_t steps = 0; steps < 6; steps++) {
        struct lr_engine_model *model = conformance_open(run);
        struct lr_error err;
        int32_t busy;
        if (model == NULL)
            return;
        for (uint64_t id = 1; id <= 6; id++) {
            struct lr_engine_request request = conformance_request(id, &text, 50);
            request.ignore_stop = 1;
            EXPECT(run, run->api->submit(model, &request, &err) == LR_OK, "submit");
        }
        for (uint32_t i = 0; i < steps; i++)
            (void)conformance_step(run, model, &busy, &err);
        conformance_close(run, model);
    }
}
