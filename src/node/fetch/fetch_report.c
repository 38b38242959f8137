/* node/fetch/fetch_report.c - what is told of downloads: to whoever asks this node, and to
 * routers.
 */
#include "hub/download.h"
#include "node/fetch/fetch_jobs.h"
#include "node/state.h"
#include "wire/fleet.h"

void node_fetch_put(struct lr_json_writer *w, const struct node_model *model)
{
    const struct node_fetch_job *job = node_fetch_find(model->node->fetch, lr_str_z(model->id));
    struct hub_progress p;
    if (job == NULL || job->download == NULL)
        return;
    hub_download_progress(job->download, &p);
    lr_json_key(w, "download");
    lr_json_begin_object(w);
    lr_json_member_z(w, "state", hub_download_state_name(p.state));
    lr_json_member_u64(w, "done_bytes", p.done_bytes);
    lr_json_member_u64(w, "total_bytes", p.total_bytes);
    lr_json_member_u64(w, "files_done", p.files_done);
    lr_json_member_u64(w, "files", p.file_count);
    lr_json_member_u64(w, "rate", p.rate);
    if (p.remaining_ms != UINT64_MAX)
        lr_json_member_u64(w, "remaining_ms", p.remaining_ms);
    lr_json_end_object(w);
}

/* ---- for the router ---- */

enum { FILES_MAX = 512 };

static bool is_news(enum hub_file_state state)
{
    return state != HUB_FILE_WAITING && state != HUB_FILE_DONE;
}

/* Of a model with very many files those under way, so that a heartbeat stays small. */
static size_t report_files(const struct node_fetch_job *job, struct lr_arena *arena,
                           struct wire_fleet_file *out)
{
    static struct hub_file_progress files[FILES_MAX]; /* large; the loop is its only user */
    size_t count = hub_download_files(job->download, files, FILES_MAX), written = 0;
    bool all = count <= WIRE_FLEET_FILES_MAX;
    for (size_t i = 0; i < count && written < WIRE_FLEET_FILES_MAX; i++) {
        struct lr_str name = lr_str_z(files[i].name), reason = lr_str_z(files[i].reason);
        if (!all && !is_news(files[i].state))
            continue;
        out[written++] = (struct wire_fleet_file){
            .name = lr_str(lr_arena_copy(arena, name), name.len),
            .state = lr_str_z(hub_file_state_name(files[i].state)),
            .reason = lr_str(lr_arena_copy(arena, reason), reason.len),
            .size = files[i].size,
            .done = files[i].done,
        };
        if (out[written - 1].name.ptr == NULL || out[written - 1].reason.ptr == NULL)
            return written - 1;
    }
    return written;
}

size_t node_fetch_report(const struct node_fetch *fetch, struct lr_arena *arena,
                         struct wire_fleet_download *out, size_t max)
{
    size_t count = 0;
    for (const struct node_fetch_job *job = fetch->jobs; job != NULL && count < max;
         job = job->next) {
        struct hub_progress p;
        struct wire_fleet_file *files;
        if (job->download == NULL)
            continue;
        files = lr_arena_zalloc(arena, WIRE_FLEET_FILES_MAX * sizeof(*files));
        if (files == NULL)
            break;
        hub_download_progress(job->download, &p);
        out[count++] = (struct wire_fleet_download){
            .id = lr_str_z(job->manifest->id),
            .done_bytes = p.done_bytes,
            .total_bytes = p.total_bytes,
            .rate = p.rate,
            .remaining_ms = p.remaining_ms,
            .files_done = p.files_done,
            .files = p.file_count,
            .file = files,
            .file_count = report_files(job, arena, files),
        };
    }
    return count;
}
