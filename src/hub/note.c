/* hub/note.c - see hub/note.h. */
#include "hub/note.h"

#include <stdio.h>

#include "base/json.h"

enum { NOTE_BYTES_MAX = 64 << 10 };

lr_code hub_paths_make(struct hub_paths *paths, const char *dir, const char *name,
                       struct lr_error *err)
{
    char folder[LR_PATH_MAX];
    struct lr_error why;
    lr_code code = lr_path_join(paths->whole, dir, lr_str_z(name), &why);
    int len = snprintf(folder, sizeof(folder), "%s/.download/%s", dir, name);
    if (code == LR_OK && (len < 0 || len + 8 >= LR_PATH_MAX))
        code = lr_fail(&why, LR_INVALID_ARGUMENT, "the path is too long");
    if (code != LR_OK)
        return lr_fail(err, code, "file \"%.200s\" of the manifest: %s", name, why.text);
    (void)snprintf(paths->part, sizeof(paths->part), "%.*s.part", len, folder);
    (void)snprintf(paths->note, sizeof(paths->note), "%.*s.json", len, folder);
    return LR_OK;
}

static lr_code create_parent(const char *path, struct lr_error *err)
{
    char folder[LR_PATH_MAX];
    size_t len = (size_t)(lr_path_base(path) - path);
    if (len <= 1)
        return LR_OK;
    memcpy(folder, path, len - 1);
    folder[len - 1] = '\0';
    return lr_dir_create(folder, err);
}

lr_code hub_paths_create(const struct hub_paths *paths, struct lr_error *err)
{
    lr_code code = create_parent(paths->part, err);
    return code == LR_OK ? create_parent(paths->whole, err) : code;
}

static void copy_member(const struct lr_json *tree, const char *key, char *out, size_t cap)
{
    struct lr_str text;
    if (!lr_json_str(lr_json_get(tree, key), &text) || text.len >= cap)
        text.len = 0;
    else
        memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
}

bool hub_note_read(const char *path, struct hub_note *out)
{
    struct lr_arena arena;
    struct lr_str text;
    const struct lr_json *tree = NULL;
    memset(out, 0, sizeof(*out));
    if (!lr_file_exists(path))
        return false;
    lr_arena_init(&arena, 4 * NOTE_BYTES_MAX);
    bool ok = lr_file_read(&arena, path, NOTE_BYTES_MAX, &text, NULL) == LR_OK &&
              lr_json_parse(&arena, text, NULL, &tree, NULL) == LR_OK &&
              lr_json_u64(lr_json_get(tree, "size"), &out->size);
    copy_member(tree, "sha256", out->sha256, sizeof(out->sha256));
    copy_member(tree, "etag", out->etag, sizeof(out->etag));
    copy_member(tree, "url", out->url, sizeof(out->url));
    (void)lr_json_i64(lr_json_get(tree, "verified_ns"), &out->verified_ns);
    lr_arena_free(&arena);
    return ok;
}

lr_code hub_note_write(const char *path, const struct hub_note *note, struct lr_error *err)
{
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, NOTE_BYTES_MAX);
    lr_json_writer_init(&w, &text);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "size", note->size);
    lr_json_member_z(&w, "sha256", note->sha256);
    lr_json_member_z(&w, "etag", note->etag);
    lr_json_member_z(&w, "url", note->url);
    if (note->verified_ns != 0)
        lr_json_member_i64(&w, "verified_ns", note->verified_ns);
    lr_json_end_object(&w);
    lr_code code = lr_file_write_atomic(path, lr_buf_str(&text), 0600, err);
    lr_buf_free(&text);
    return code;
}

void hub_note_of(const struct hub_manifest_file *file, struct hub_note *out)
{
    memset(out, 0, sizeof(*out));
    out->size = file->size;
    (void)snprintf(out->sha256, sizeof(out->sha256), "%s",
                   file->sha256 != NULL ? file->sha256 : "");
    (void)snprintf(out->url, sizeof(out->url), "%s", file->url);
}

bool hub_note_fits(const struct hub_note *note, const struct hub_manifest_file *file)
{
    if (note->size != file->size)
        return false;
    if (file->sha256 != NULL)
        return strcmp(note->sha256, file->sha256) == 0;
    return note->sha256[0] == '\0' && strcmp(note->url, file->url) == 0;
}

bool hub_note_proves(const struct hub_paths *paths, const struct hub_manifest_file *file)
{
    struct hub_note note;
    struct lr_stat info;
    return lr_stat(paths->whole, &info) && info.kind == LR_KIND_FILE &&
           info.size == file->size && hub_note_read(paths->note, &note) &&
           hub_note_fits(&note, file) && note.verified_ns != 0 &&
           note.verified_ns == info.changed_ns;
}

lr_code hub_note_seal(const struct hub_paths *paths, const struct hub_manifest_file *file,
                      struct lr_error *err)
{
    struct hub_note note;
    struct lr_stat info;
    hub_note_of(file, &note);
    if (!lr_stat(paths->whole, &info))
        return lr_fail_errno(err, LR_IO, "cannot look at %.300s", paths->whole);
    note.verified_ns = info.changed_ns;
    return hub_note_write(paths->note, &note, err);
}
