/* tests/fuzz/replay.c - runs a fuzz target over its corpus, without libFuzzer.
 *
 * Usage: <target> FILE-OR-FOLDER... Every file is one input.  A missing or empty corpus is a
 * failure, because it would test nothing.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 0;
    }
    static uint8_t bytes[4 << 20];
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    /* An exact-size copy, so that a sanitizer sees a read past the end. */
    uint8_t *exact = malloc(len != 0 ? len : 1);
    if (exact == NULL)
        return 0;
    memcpy(exact, bytes, len);
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 1;
}

static int replay(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        perror(path);
        return 0;
    }
    if (!S_ISDIR(info.st_mode))
        return replay_file(path);
    int count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char child[4096];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        count += replay(child);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += replay(argv[i]);
    printf("%d inputs replayed\n", count);
    return count == 0;
}
