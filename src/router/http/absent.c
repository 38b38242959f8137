/* router/http/absent.c - endpoints that other servers have and this one does not: what each
 * would do, and the nearest thing here. */
#include "router/http/api.h"

static const struct {
    const char *path; /* or anything below it */
    const char *sentence;
} absent[] = {
    {"/v1/messages/batches",
     "batches of messages would be answered within a day; this server has none: send each to "
     "POST /v1/messages, the queue keeps their order"},
    {"/v1/batches", "a batch would answer a file of requests later; this server has none: send "
                    "the requests one by one, or POST /v1/responses with \"background\": true"},
    {"/v1/files", "files would be stored for later requests; this server stores none: put the "
                  "text into the messages"},
    {"/v1/uploads",
     "uploads would store large files; this server stores none: put the text into "
     "the messages"},
    {"/v1/images", "images would be generated or changed; models here write text alone: POST "
                   "/v1/chat/completions"},
    {"/v1/audio",
     "speech would be recognised or spoken; models here read and write text alone: "
     "POST /v1/chat/completions"},
    {"/v1/realtime",
     "a spoken conversation would be held; models here read and write text alone: "
     "POST /v1/chat/completions with \"stream\": true"},
    {"/v1/videos", "videos would be generated; models here write text alone: POST "
                   "/v1/chat/completions"},
    {"/v1/moderations",
     "a text would be judged; this server has no such judge: ask a model, with "
     "a schema for its answer (POST /v1/chat/completions)"},
    {"/v1/assistants",
     "assistants would be kept with their files; this server keeps none: POST "
     "/v1/responses with \"instructions\" and \"tools\""},
    {"/v1/threads", "conversations would be kept for assistants; here POST /v1/responses keeps "
                    "them with \"previous_response_id\""},
    {"/v1/conversations",
     "conversations would be kept under an id; here POST /v1/responses keeps "
     "them with \"previous_response_id\""},
    {"/v1/vector_stores",
     "files would be searched by meaning; this server stores none: vectors "
     "come from POST /v1/embeddings"},
    {"/v1/fine_tuning",
     "a model would be trained further; models are only run here: llm-router "
     "pull fetches one that was trained elsewhere"},
    {"/v1/fine-tunes", "a model would be trained further; models are only run here: llm-router "
                       "pull fetches one that was trained elsewhere"},
    {"/v1/evals", "models would be judged on data; this server has no such jobs: send the "
                  "requests to POST /v1/chat/completions"},
    {"/v1/organization",
     "projects, users and costs would be managed; here GET /v0/usage and GET "
     "/v0/keys, for admins"},
    {"/v1/edits", "a text would be edited by an instruction; POST /v1/chat/completions does"},
    {"/v1/skills", "skills would be stored; this server stores none: put the text into the "
                   "messages"},
    {"/api/push",
     "a model would be uploaded; models are only run here, and the hub's own tools "
     "upload (hf upload)"},
    {"/api/blobs",
     "a file of a model would be uploaded; models come from a repository or lie on "
     "a node: POST /api/pull, or llm-router register --path"},
};

lr_code router_explain_absent(struct lr_str path, struct lr_error *err)
{
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        size_t len = strlen(absent[i].path);
        if (lr_str_starts(path, absent[i].path) && (path.len == len || path.ptr[len] == '/'))
            return lr_fail(err, LR_NOT_FOUND, "there is no %s here: %s", absent[i].path,
                           absent[i].sentence);
    }
    return err->code;
}
