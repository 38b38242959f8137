/* The folder of a model: its manifest, and how another revision takes its place. */
#include <sys/stat.h>

#include "hub/installed.h"
#include "hub/note.h"
#include "tests/unit/base/support.h"

#define HASH_A "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""
#define HASH_B "\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\""
#define FILE_OF(name, hash)                                                                    \
    "{\"name\":\"" name "\",\"url\":\"https://huggingface.co/x\",\"size\":4,"                  \
    "\"sha256\":" hash "}"
#define MANIFEST_OF(revision, files)                                                           \
    "{\"version\":1,\"id\":\"Org/m\",\"repo\":\"Org/m\",\"format\":\"safetensors\","           \
    "\"revision\":\"" revision "\",\"runtimes\":[\"gptoss\"],\"chat_template\":null,"          \
    "\"files\":[" files "]}"

static const char old_text[] =
    MANIFEST_OF("r1", FILE_OF("kept", HASH_A) "," FILE_OF("gone", HASH_A));
static const char new_text[] =
    MANIFEST_OF("r2", FILE_OF("kept", HASH_A) "," FILE_OF("sub/came", HASH_B));

static struct hub_manifest *decode(const char *text)
{
    struct hub_manifest *m = NULL;
    struct lr_error err;
    if (hub_manifest_decode(lr_str_z(text), &m, &err) != LR_OK)
        fail_msg("%s", err.text);
    return m;
}

/* Writes the file of the manifest that has this name, as a download that has verified it. */
static void put_file(const char *dir, const struct hub_manifest *m, const char *name)
{
    struct hub_paths paths;
    struct lr_error err;
    assert_int_equal(hub_paths_make(&paths, dir, name, &err), LR_OK);
    assert_int_equal(hub_paths_create(&paths, &err), LR_OK);
    assert_int_equal(lr_file_write_atomic(paths.whole, lr_str_z("text"), 0600, &err), LR_OK);
    for (size_t i = 0; i < m->file_count; i++)
        if (strcmp(m->files[i].name, name) == 0)
            assert_int_equal(hub_note_seal(&paths, &m->files[i], &err), LR_OK);
}

static bool has(const char *dir, const char *name)
{
    char path[LR_PATH_MAX];
    path_in(path, dir, name);
    return lr_file_exists(path);
}

static void write_manifest(const char *dir, const struct hub_manifest *m)
{
    struct lr_error err;
    assert_int_equal(hub_installed_write(dir, m, &err), LR_OK);
}

static bool is_revision(const char *dir, const char *revision)
{
    struct hub_manifest *m = hub_installed_read(dir, "org/M"); /* ids differ by case only */
    bool is_it = m != NULL && strcmp(m->revision, revision) == 0;
    hub_manifest_destroy(m);
    return is_it;
}

static void a_folder_knows_its_manifest_and_ignores_that_of_another_model(void **state)
{
    char path[LR_PATH_MAX];
    struct lr_error err;
    struct hub_manifest *m = decode(old_text);
    assert_null(hub_installed_read(*state, "org/m"));
    write_manifest(*state, m);
    assert_true(is_revision(*state, "r1"));
    assert_null(hub_installed_read(*state, "org/other"));
    path_in(path, *state, ".manifest.json");
    assert_int_equal(lr_file_write_atomic(path, lr_str_z("{"), 0600, &err), LR_OK);
    assert_null(hub_installed_read(*state, "org/m"));
    hub_manifest_destroy(m);
}

static void fetched_files_of_another_manifest_are_others_and_an_operators_are_not(void **state)
{
    char digest[LR_SHA256_HEX_LEN + 1], other[LR_SHA256_HEX_LEN + 1];
    struct hub_manifest *m = decode(old_text), *next = decode(new_text);
    hub_manifest_digest(m, digest);
    hub_manifest_digest(next, other);
    assert_false(hub_installed_is_other(*state, "org/m", lr_str_z(digest)));
    put_file(*state, m, "kept"); /* fetched, and nothing says by which manifest */
    assert_true(hub_installed_was_fetched(*state));
    assert_true(hub_installed_is_other(*state, "org/m", lr_str_z(digest)));
    write_manifest(*state, m);
    assert_false(hub_installed_is_other(*state, "org/m", lr_str_z(digest)));
    assert_true(hub_installed_is_other(*state, "org/m", lr_str_z(other)));
    hub_manifest_destroy(m);
    hub_manifest_destroy(next);
}

static void a_revision_with_the_same_files_is_adopted_and_no_other(void **state)
{
    struct hub_manifest *m = decode(old_text), *changed = decode(new_text);
    struct hub_manifest *renamed =
        decode(MANIFEST_OF("r3", FILE_OF("kept", HASH_A) "," FILE_OF("gone", HASH_A)));
    assert_false(hub_installed_adopt(*state, renamed)); /* there is nothing to compare with */
    write_manifest(*state, m);
    assert_false(hub_installed_adopt(*state, changed));
    assert_true(is_revision(*state, "r1"));
    assert_true(hub_installed_adopt(*state, renamed));
    assert_true(is_revision(*state, "r3"));
    hub_manifest_destroy(m);
    hub_manifest_destroy(changed);
    hub_manifest_destroy(renamed);
}

/* Folders ROOT/m, which holds the old revision, and ROOT/.incoming/m, which holds the new one
 * up to its decision. */
static void make_revisions(const char *root, char dir[LR_PATH_MAX], char incoming[LR_PATH_MAX])
{
    struct hub_manifest *m = decode(old_text), *next = decode(new_text);
    struct lr_error err;
    path_in(dir, root, "m");
    path_in(incoming, root, ".incoming/m");
    put_file(dir, m, "kept");
    put_file(dir, m, "gone");
    write_manifest(dir, m);
    hub_installed_prepare(dir, next, incoming);
    put_file(incoming, next, "sub/came");
    assert_true(is_revision(dir, "r1"));
    assert_null(hub_installed_read(incoming, "org/m"));
    assert_int_equal(hub_installed_decide(next, incoming, &err), LR_OK);
    assert_true(is_revision(incoming, "r2"));
    hub_manifest_destroy(m);
    hub_manifest_destroy(next);
}

static void check_replaced(const char *root, const char *dir, const char *incoming)
{
    struct hub_manifest *next = hub_installed_read(incoming, "org/m");
    struct lr_error err;
    assert_non_null(next);
    assert_int_equal(hub_installed_replace(dir, next, incoming, root, &err), LR_OK);
    assert_true(has(dir, "kept") && has(dir, "sub/came") && !has(dir, "gone"));
    assert_true(is_revision(dir, "r2"));
    assert_false(has(root, ".incoming")); /* nothing is left in it */
    assert_true(lr_dir_exists(root));
    hub_manifest_destroy(next);
}

static void a_decided_revision_replaces_the_files_and_links_what_stayed_the_same(void **state)
{
    char dir[LR_PATH_MAX], incoming[LR_PATH_MAX], path[LR_PATH_MAX + 8];
    struct stat before, linked;
    make_revisions(*state, dir, incoming);
    (void)snprintf(path, sizeof(path), "%s/kept", dir);
    assert_int_equal(stat(path, &before), 0);
    (void)snprintf(path, sizeof(path), "%s/kept", incoming);
    assert_int_equal(stat(path, &linked), 0);
    assert_int_equal(before.st_ino, linked.st_ino); /* no bytes were copied */
    check_replaced(*state, dir, incoming);
}

static void a_replacement_that_was_interrupted_moves_the_rest(void **state)
{
    char dir[LR_PATH_MAX], incoming[LR_PATH_MAX], from[LR_PATH_MAX + 16], to[LR_PATH_MAX + 16];
    make_revisions(*state, dir, incoming);
    (void)snprintf(from, sizeof(from), "%s/kept", incoming);
    (void)snprintf(to, sizeof(to), "%s/kept", dir);
    assert_int_equal(unlink(to), 0);
    assert_int_equal(link(from, to), 0); /* as far as the process came that was killed */
    assert_int_equal(unlink(from), 0);
    check_replaced(*state, dir, incoming);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)
    const struct CMUnitTest tests[] = {
        WITH(a_folder_knows_its_manifest_and_ignores_that_of_another_model),
        WITH(fetched_files_of_another_manifest_are_others_and_an_operators_are_not),
        WITH(a_revision_with_the_same_files_is_adopted_and_no_other),
        WITH(a_decided_revision_replaces_the_files_and_links_what_stayed_the_same),
        WITH(a_replacement_that_was_interrupted_moves_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
