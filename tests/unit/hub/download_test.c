/* Downloads within one process: joined, cancelled, watched, ended.  The server is a thread that
 * answers every request with the same bytes, or holds them back. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "hub/download.h"

enum { BODY_BYTES = 300000, FILES = 12 };

static char body[BODY_BYTES];
static char body_sha256[LR_SHA256_HEX_LEN + 1];

struct server {
    int fd;
    uint16_t port;
    pthread_t thread;
    atomic_int requests;
    atomic_bool is_holding; /* headers and half of the bytes, then nothing */
};

static void *serve_one(void *arg)
{
    struct server *s = ((void **)arg)[0];
    int fd = (int)(intptr_t)((void **)arg)[1];
    char text[4096];
    size_t len = 0;
    free(arg);
    for (;;) {
        ssize_t got = read(fd, text + len, sizeof(text) - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
        text[len] = '\0';
        if (strstr(text, "\r\n\r\n") == NULL)
            continue;
        len = 0;
        (void)atomic_fetch_add(&s->requests, 1);
        char head[128];
        int head_len = snprintf(head, sizeof(head),
                                "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BODY_BYTES);
        if (write(fd, head, (size_t)head_len) < 0)
            break;
        for (size_t at = 0; at < BODY_BYTES;) {
            ssize_t put = write(fd, body + at, at == 0 ? BODY_BYTES / 2 : BODY_BYTES - at);
            if (put <= 0)
                break;
            at += (size_t)put;
            while (atomic_load(&s->is_holding))
                (void)usleep(1000);
        }
    }
    (void)close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    struct server *s = arg;
    for (int fd; (fd = accept(s->fd, NULL, NULL)) >= 0;) {
        pthread_t thread;
        void **pair = malloc(2 * sizeof(*pair));
        pair[0] = s;
        pair[1] = (void *)(intptr_t)fd;
        (void)pthread_create(&thread, NULL, serve_one, pair);
        (void)pthread_detach(thread);
    }
    return NULL;
}

static struct server server;
static struct hub_client client;
static char root[] = "/tmp/lr-download-XXXXXX";

static int start(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    char endpoint[64];
    unsigned char digest[LR_SHA256_LEN];
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < BODY_BYTES; i++)
        body[i] = (char)(i * 7);
    lr_sha256_of(lr_str(body, BODY_BYTES), digest);
    lr_sha256_hex(digest, body_sha256);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server.fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(server.fd, 64) != 0 ||
        getsockname(server.fd, (struct sockaddr *)&address, &len) != 0)
        return -1;
    server.port = ntohs(address.sin_port);
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", server.port);
    (void)setenv("HF_ENDPOINT", endpoint, 1);
    (void)setenv("no_proxy", "*", 1);
    lr_log_set(LR_LOG_ERROR, LR_LOG_TEXT);
    if (mkdtemp(root) == NULL || hub_client_init(&client, NULL, 0, NULL) != LR_OK)
        return -1;
    return pthread_create(&server.thread, NULL, serve, &server);
}

static int stop(void **state)
{
    (void)state;
    atomic_store(&server.is_holding, false);
    (void)shutdown(server.fd, SHUT_RDWR);
    (void)pthread_join(server.thread, NULL);
    (void)close(server.fd);
    return lr_dir_remove(root, NULL) == LR_OK ? 0 : -1;
}

static struct hub_manifest *make_manifest(const char *revision)
{
    struct lr_buf json;
    struct hub_manifest *m;
    struct lr_error err;
    lr_buf_init(&json, 1 << 20);
    lr_buf_addf(&json,
                "{\"version\":1,\"id\":\"a/b\",\"format\":\"safetensors\",\"revision\":\"%s\","
                "\"runtimes\":[\"gptoss\"],\"files\":[",
                revision);
    for (int i = 0; i < FILES; i++)
        lr_buf_addf(&json,
                    "%s{\"name\":\"f%d\",\"url\":\"%s/f%d\",\"size\":%d,\"sha256\":\"%s\"}",
                    i == 0 ? "" : ",", i, client.policy.endpoint, i, BODY_BYTES, body_sha256);
    lr_buf_add_z(&json, "]}");
    if (hub_manifest_decode(lr_buf_str(&json), &m, &err) != LR_OK)
        fail_msg("%s", err.text);
    lr_buf_free(&json);
    return m;
}

static struct hub_downloads *make_downloads(uint64_t reserve)
{
    struct hub_downloads *all;
    struct hub_downloads_options options = {.backoff_ms = 5, .disk_reserve = reserve};
    assert_int_equal(hub_downloads_create(&client, &options, &all, NULL), LR_OK);
    return all;
}

static void dir_of(char out[LR_PATH_MAX], const char *name)
{
    (void)snprintf(out, LR_PATH_MAX, "%s/%s", root, name);
}

static void count_call(void *arg, struct hub_download *download)
{
    struct hub_progress p;
    hub_download_progress(download, &p);
    (void)atomic_fetch_add((atomic_int *)arg, 1);
}

static void two_starts_for_one_folder_are_one_download(void **state)
{
    char dir[LR_PATH_MAX], other[LR_PATH_MAX + 8];
    struct hub_downloads *all = make_downloads(1);
    struct hub_manifest *m = make_manifest("r1"), *newer = make_manifest("r2");
    struct hub_download *a, *b, *c;
    struct hub_progress p;
    struct lr_error err;
    atomic_int calls = 0;
    (void)state;
    dir_of(dir, "shared");
    (void)snprintf(other, sizeof(other), "%s/.", dir); /* another name of the same folder */
    atomic_store(&server.is_holding, true);
    int before = atomic_load(&server.requests);
    assert_int_equal(hub_download_start(all, m, dir, NULL, count_call, &calls, &a, &err),
                     LR_OK);
    assert_int_equal(hub_download_start(all, m, other, NULL, NULL, NULL, &b, &err), LR_OK);
    assert_ptr_equal(a, b);
    assert_int_equal(hub_download_start(all, newer, dir, NULL, NULL, NULL, &c, &err),
                     LR_CONFLICT);
    assert_non_null(strstr(err.text, "another revision"));
    assert_null(c);
    atomic_store(&server.is_holding, false);
    assert_true(hub_download_wait(a, 20000));
    hub_download_progress(a, &p);
    assert_int_equal(p.state, HUB_DOWNLOAD_DONE);
    assert_int_equal(p.done_bytes, (uint64_t)FILES * BODY_BYTES);
    assert_int_equal(p.files_done, FILES);
    assert_int_equal(p.remaining_ms, 0);
    assert_int_equal(atomic_load(&server.requests) - before, FILES); /* each once */
    hub_download_release(b, NULL, NULL);
    hub_download_release(a, count_call, &calls);
    int seen = atomic_load(&calls);
    assert_true(seen >= FILES);

    /* Everything is there: the next start ends without a request. */
    assert_int_equal(hub_download_start(all, m, dir, NULL, count_call, &calls, &a, &err),
                     LR_OK);
    assert_true(hub_download_wait(a, 20000));
    assert_int_equal(atomic_load(&server.requests) - before, FILES);
    hub_download_release(a, count_call, &calls);
    hub_manifest_destroy(m);
    hub_manifest_destroy(newer);
    hub_downloads_destroy(all);
}

static void a_cancelled_download_keeps_its_bytes_and_can_be_started_at_once(void **state)
{
    char dir[LR_PATH_MAX], part[LR_PATH_MAX + 32];
    struct hub_downloads *all = make_downloads(1);
    struct hub_manifest *m = make_manifest("r1");
    struct hub_download *a;
    struct hub_progress p;
    uint64_t size = 0;
    (void)state;
    dir_of(dir, "cancelled");
    (void)snprintf(part, sizeof(part), "%s/.download/f0.part", dir);
    atomic_store(&server.is_holding, true);
    assert_int_equal(hub_download_start(all, m, dir, NULL, NULL, NULL, &a, NULL), LR_OK);
    while (lr_file_size(part, &size, NULL) != LR_OK || size == 0)
        (void)usleep(1000);
    hub_download_cancel(a);
    assert_true(hub_download_wait(a, 10000));
    hub_download_progress(a, &p);
    assert_int_equal(p.state, HUB_DOWNLOAD_CANCELLED);
    hub_download_release(a, NULL, NULL);
    assert_int_equal(lr_file_size(part, &size, NULL), LR_OK);
    assert_true(size > 0);
    atomic_store(&server.is_holding, false);
    assert_int_equal(hub_download_start(all, m, dir, NULL, NULL, NULL, &a, NULL), LR_OK);
    assert_true(hub_download_wait(a, 20000));
    hub_download_progress(a, &p);
    assert_int_equal(p.state, HUB_DOWNLOAD_DONE);
    hub_download_release(a, NULL, NULL);
    hub_manifest_destroy(m);
    hub_downloads_destroy(all);
}

static void downloads_that_still_run_end_with_their_owner(void **state)
{
    char dir[LR_PATH_MAX];
    struct hub_downloads *all = make_downloads(1);
    struct hub_manifest *m = make_manifest("r1");
    struct hub_download *a;
    struct hub_progress p;
    struct hub_file_progress files[FILES];
    (void)state;
    dir_of(dir, "left");
    atomic_store(&server.is_holding, true);
    assert_int_equal(hub_download_start(all, m, dir, NULL, NULL, NULL, &a, NULL), LR_OK);
    hub_downloads_destroy(all);
    atomic_store(&server.is_holding, false);
    assert_true(hub_download_wait(a, 0));
    hub_download_progress(a, &p);
    assert_int_equal(p.state, HUB_DOWNLOAD_CANCELLED);
    assert_int_equal(hub_download_files(a, files, FILES), FILES);
    hub_download_cancel(a); /* no effect */
    hub_download_release(a, NULL, NULL);
    hub_manifest_destroy(m);
}

static void a_download_that_the_node_cannot_take_fails_at_once_with_the_reason(void **state)
{
    static const char *const llama[] = {"llama_cpp", NULL};
    char dir[LR_PATH_MAX];
    struct hub_downloads *all = make_downloads((uint64_t)1 << 60);
    struct hub_manifest *m = make_manifest("r1");
    struct hub_filter filter = {.runtimes = llama};
    struct hub_download *a;
    struct lr_error err;
    (void)state;
    dir_of(dir, "refused");
    assert_int_equal(hub_download_start(all, m, dir, &filter, NULL, NULL, &a, &err),
                     LR_UNSUPPORTED);
    assert_null(a);
    assert_int_equal(hub_download_start(all, m, dir, NULL, NULL, NULL, &a, &err),
                     LR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "a/b needs 3.4 MiB more (3600000 bytes)"));
    assert_null(a);
    hub_manifest_destroy(m);
    hub_downloads_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_starts_for_one_folder_are_one_download),
        cmocka_unit_test(a_cancelled_download_keeps_its_bytes_and_can_be_started_at_once),
        cmocka_unit_test(downloads_that_still_run_end_with_their_owner),
        cmocka_unit_test(a_download_that_the_node_cannot_take_fails_at_once_with_the_reason),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
