/* TLS: our server with curl and with our client; certificates that must be refused. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "net/client.h"
#include "tests/unit/net/harness.h"
#include "tests/unit/net/upgrade.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

/* A self-signed certificate that is its own CA, valid from from_s to to_s from now. */
static void make_cert(const char *name, const char *alt_names, long from_s, long to_s)
{
    char file[64];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_non_null(key);
    assert_non_null(cert);
    (void)X509_set_version(cert, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), from_s);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), to_s);
    (void)X509_set_pubkey(cert, key);
    X509_NAME *subject = X509_get_subject_name(cert);
    (void)X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name,
                                     -1, -1, 0);
    (void)X509_set_issuer_name(cert, subject);
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension =
        X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, alt_names);
    (void)X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    extension = X509V3_EXT_conf_nid(NULL, &ctx, NID_basic_constraints, "critical,CA:TRUE");
    (void)X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    (void)snprintf(file, sizeof(file), "%s.crt", name);
    FILE *out = fopen(in_folder(file), "w");
    assert_non_null(out);
    assert_int_equal(PEM_write_X509(out, cert), 1);
    (void)fclose(out);
    (void)snprintf(file, sizeof(file), "%s.key", name);
    out = fopen(in_folder(file), "w");
    assert_non_null(out);
    assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    (void)fclose(out);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/net-tls-XXXXXX");
    assert_non_null(mkdtemp(folder));
    make_cert("good", "DNS:localhost,IP:127.0.0.1", -3600, 3600);
    make_cert("other", "DNS:other.example", -3600, 3600);
    make_cert("future", "DNS:localhost,IP:127.0.0.1", 3600, 7200);
    make_cert("old", "DNS:localhost,IP:127.0.0.1", -7200, -3600);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "other", "future", "old"};
    char file[64];
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(file, sizeof(file), "%s.crt", names[i]);
        (void)unlink(in_folder(file));
        (void)snprintf(file, sizeof(file), "%s.key", names[i]);
        (void)unlink(in_folder(file));
    }
    (void)unlink(in_folder("junk"));
    return rmdir(folder);
}

/* ---- a server that speaks TLS with any certificate, even one ours would refuse ---- */

static struct net_tls *server_tls;

static void serve(const char *name)
{
    char cert[64];
    char key[64];
    struct lr_error err;
    (void)snprintf(cert, sizeof(cert), "%s.crt", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    if (net_tls_server_create(in_folder(cert), in_folder(key), &server_tls, &err) != LR_OK)
        fail_msg("%s", err.text);
    harness_start((struct net_server_config){.tls = server_tls,
                                             .max_stream_bytes = 256 * 1024,
                                             .linger_ms = 200},
                  2);
}

static void serve_end(void)
{
    harness_stop();
    net_tls_destroy(server_tls);
}

struct outcome {
    bool is_done;
    struct lr_error err;
    int status;
    struct lr_buf body;
    struct net_loop *loop;
};

static void on_headers(void *arg, int status, struct net_headers headers)
{
    (void)headers;
    ((struct outcome *)arg)->status = status;
}

static void on_body(void *arg, struct lr_str bytes)
{
    lr_buf_add_str(&((struct outcome *)arg)->body, bytes);
}

static void on_done(void *arg, const struct lr_error *err)
{
    struct outcome *o = arg;
    o->is_done = true;
    if (err != NULL)
        o->err = *err;
    net_loop_stop(o->loop);
}

/* One call to our server, trusting ca (a file's name; NULL: the system). */
static void call(const char *ca, const char *url_host, const char *target, struct lr_str body,
                 unsigned times, struct outcome *o)
{
    struct lr_error err;
    struct net_loop *loop;
    struct net_client *client;
    struct net_tls *trust = NULL;
    if (ca != NULL)
        assert_int_equal(net_tls_client_create(in_folder(ca), &trust, &err), LR_OK);
    assert_int_equal(net_loop_create(&loop, &err), LR_OK);
    struct net_client_config config = {.tls = trust};
    assert_int_equal(net_client_create(loop, &config, &client, &err), LR_OK);
    char url[256];
    (void)snprintf(url, sizeof(url), "https://%s:%u%s", url_host, net_server_port(h.server),
                   target);
    for (unsigned i = 0; i < times; i++) {
        lr_buf_free(&o->body);
        *o = (struct outcome){.loop = loop};
        lr_buf_init(&o->body, (size_t)1 << 30);
        struct net_call *started;
        struct net_call_config request = {
            .url = url,
            .body = body,
            .callbacks = {
                .arg = o, .on_headers = on_headers, .on_body = on_body, .on_done = on_done}};
        assert_int_equal(net_call_start(client, &request, &started, &err), LR_OK);
        net_loop_run(loop);
        assert_true(o->is_done);
    }
    struct net_client_stats stats;
    net_client_get_stats(client, &stats);
    if (o->err.code == LR_OK)
        assert_int_equal(stats.connections_opened, 1);
    net_client_destroy(client);
    net_loop_destroy(loop);
    net_tls_destroy(trust);
}

static void our_client_talks_to_our_server(void **state)
{
    (void)state;
    serve("good");
    struct outcome o = {0};
    call("good.crt", "localhost", "/json", lr_str("", 0), 3, &o);
    assert_string_equal(o.err.text, "");
    assert_int_equal(o.status, 200);
    assert_true(lr_str_eq_z(lr_buf_str(&o.body), "{\"ok\":true}"));
    call("good.crt", "127.0.0.1", "/json", lr_str("", 0), 1, &o);
    assert_string_equal(o.err.text, "");
    lr_buf_free(&o.body);
    serve_end();
}

static void large_bodies_pass_both_ways(void **state)
{
    (void)state;
    size_t size = 5u << 20;
    char *big = malloc(size);
    assert_non_null(big);
    for (size_t i = 0; i < size; i++)
        big[i] = (char)(i * 31 + i / 1000);
    serve("good");
    struct outcome o = {0};
    call("good.crt", "localhost", "/echo", lr_str(big, size), 2, &o);
    assert_string_equal(o.err.text, "");
    assert_int_equal(o.body.len, size);
    assert_memory_equal(o.body.data, big, size);
    lr_buf_free(&o.body);
    free(big);
    serve_end();
}

static void an_upgraded_connection_is_a_stream_over_tls_too(void **state)
{
    (void)state;
    struct lr_error err;
    struct net_loop *loop;
    struct net_client *client;
    struct net_tls *trust;
    char url[256];
    serve("good");
    assert_int_equal(net_tls_client_create(in_folder("good.crt"), &trust, &err), LR_OK);
    assert_int_equal(net_loop_create(&loop, &err), LR_OK);
    struct net_client_config config = {.tls = trust};
    assert_int_equal(net_client_create(loop, &config, &client, &err), LR_OK);
    (void)snprintf(url, sizeof(url), "https://localhost:%u/upgrade", net_server_port(h.server));
    expect_stream(client, loop, url);
    net_client_destroy(client);
    net_loop_destroy(loop);
    net_tls_destroy(trust);
    serve_end();
}

static void expect_refusal(const char *server, const char *ca, const char *host,
                           const char *wanted)
{
    struct outcome o = {0};
    serve(server);
    call(ca, host, "/json", lr_str("", 0), 1, &o);
    assert_int_equal(o.err.code, LR_UPSTREAM);
    if (strstr(o.err.text, wanted) == NULL)
        fail_msg("expected \"%s\" in \"%s\"", wanted, o.err.text);
    assert_int_equal(peek_counter(&h.begun), 0); /* nothing was sent */
    lr_buf_free(&o.body);
    serve_end();
}

static void a_certificate_of_another_host_is_named(void **state)
{
    (void)state;
    expect_refusal("other", "other.crt", "localhost",
                   "certificate is for \"other.example\", not \"localhost\"");
    expect_refusal("other", "other.crt", "127.0.0.1",
                   "certificate is for \"other.example\", not \"127.0.0.1\"");
}

static void an_untrusted_certificate_is_named(void **state)
{
    (void)state;
    expect_refusal("good", "other.crt", "localhost",
                   "is signed by \"good\", which is not trusted");
    expect_refusal("good", NULL, "localhost", "is signed by \"good\", which is not trusted");
}

static void a_certificate_of_the_future_is_named(void **state)
{
    (void)state;
    expect_refusal("future", "future.crt", "localhost", "is valid only from 20");
}

/* Our server would not start with it, so OpenSSL's own server uses it. */
static void an_expired_certificate_is_named(void **state)
{
    (void)state;
    struct lr_error err;
    struct net_tls *tls;
    assert_int_equal(
        net_tls_server_create(in_folder("old.crt"), in_folder("old.key"), &tls, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "old.crt"));
    assert_non_null(strstr(err.text, "expired on 20"));

    int ports[2];
    assert_int_equal(pipe(ports), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ports[1], 1);
        (void)close(ports[0]);
        (void)execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert",
                     in_folder("old.crt"), "-key", in_folder("old.key"), "-www", (char *)NULL);
        _exit(127);
    }
    (void)close(ports[1]);
    FILE *from = fdopen(ports[0], "r");
    char line[256];
    unsigned port = 0;
    while (port == 0 && fgets(line, sizeof(line), from) != NULL)
        (void)sscanf(line, "ACCEPT 127.0.0.1:%u", &port);
    assert_int_not_equal(port, 0);

    struct outcome o = {0};
    struct net_loop *loop;
    struct net_client *client;
    struct net_tls *trust;
    assert_int_equal(net_tls_client_create(in_folder("old.crt"), &trust, &err), LR_OK);
    assert_int_equal(net_loop_create(&loop, &err), LR_OK);
    assert_int_equal(
        net_client_create(loop, &(struct net_client_config){.tls = trust}, &client, &err),
        LR_OK);
    char url[64];
    (void)snprintf(url, sizeof(url), "https://localhost:%u/", port);
    o.loop = loop;
    struct net_call *started;
    struct net_call_config request = {.url = url, .callbacks = {.arg = &o, .on_done = on_done}};
    assert_int_equal(net_call_start(client, &request, &started, &err), LR_OK);
    net_loop_run(loop);
    assert_int_equal(o.err.code, LR_UPSTREAM);
    if (strstr(o.err.text, "certificate for \"localhost, 127.0.0.1\" expired on 20") == NULL)
        fail_msg("%s", o.err.text);
    net_client_destroy(client);
    net_loop_destroy(loop);
    net_tls_destroy(trust);
    (void)kill(child, SIGTERM);
    (void)waitpid(child, NULL, 0);
    (void)fclose(from);
}

static void curl_talks_to_our_server(void **state)
{
    (void)state;
    serve("good");
    char command[512];
    char output[4096] = "";
    /* Both versions, a kept connection, an upload, a stream. */
    (void)snprintf(command, sizeof(command),
                   "curl -s --max-time 10 --cacert %s -w '%%{http_code} %%{num_connects}\\n' "
                   "https://localhost:%u/json https://localhost:%u/sse --next --tls-max 1.2 "
                   "-s --max-time 10 --cacert %s -d hello https://localhost:%u/echo",
                   in_folder("good.crt"), net_server_port(h.server), net_server_port(h.server),
                   in_folder("good.crt"), net_server_port(h.server));
    FILE *from = popen(command, "r");
    assert_non_null(from);
    size_t len = fread(output, 1, sizeof(output) - 1, from);
    output[len] = '\0';
    assert_int_equal(pclose(from), 0);
    assert_non_null(strstr(output, "{\"ok\":true}200 1\n"));
    assert_non_null(strstr(output, "data: three\n\n200 0\n"));
    assert_non_null(strstr(output, "hello"));
    serve_end();
}

/* curl asks and leaves.  On a busy machine it stays longer, so that its request arrives. */
static void ask_and_leave(const char *path, const char *options)
{
    static const char *const seconds[] = {"0.3", "3", "30"};
    unsigned before = peek_counter(&h.begun);
    for (size_t i = 0; i < 3 && peek_counter(&h.begun) == before; i++) {
        char command[256];
        (void)snprintf(
            command, sizeof(command),
            "curl -sN --max-time %s %s --cacert %s https://localhost:%u%s > /dev/null",
            seconds[i], options, in_folder("good.crt"), net_server_port(h.server), path);
        assert_int_not_equal(system(command), 0);
    }
}

static void a_client_that_leaves_a_silent_stream_is_noticed(void **state)
{
    (void)state;
    serve("good");
    unsigned trials = 0;
    for (bool is_quick = false; !is_quick; trials++) { /* a busy machine may need some */
        assert_true(trials < 20);
        ask_and_leave("/idle", "");
        uint64_t left = now_ms();
        await(&h.gone, trials + 1);
        is_quick = h.gone_at_ms <= left + 50;
    }
    serve_end();
}

static void a_slow_tls_reader_is_bounded(void **state)
{
    (void)state;
    serve("good");
    ask_and_leave("/flood", "--limit-rate 1000");
    await(&h.refused, 1);
    await(&h.gone, 1);
    assert_in_range(h.queued_max, 1, 256 * 1024 + 16 * 1024); /* records add a little */
    serve_end();
}

static void plain_http_to_a_tls_port_affects_no_other_client(void **state)
{
    (void)state;
    serve("good");
    char answer[1024];
    int fd = dial();
    say_z(fd, "GET /json HTTP/1.1\r\nHost: a\r\n\r\n");
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 0);
    (void)close(fd);
    serve_end();
}

static void wrong_files_are_named(void **state)
{
    (void)state;
    struct lr_error err;
    struct net_tls *tls;
    FILE *junk = fopen(in_folder("junk"), "w");
    assert_non_null(junk);
    (void)fputs("not PEM\n", junk);
    (void)fclose(junk);
    assert_int_equal(
        net_tls_server_create(in_folder("missing"), in_folder("good.key"), &tls, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "missing"));
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(
        net_tls_server_create(in_folder("junk"), in_folder("good.key"), &tls, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "junk is no PEM certificate"));
    assert_int_equal(
        net_tls_server_create(in_folder("good.crt"), in_folder("junk"), &tls, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "junk is no PEM private key"));
    assert_int_equal(
        net_tls_server_create(in_folder("good.crt"), in_folder("other.key"), &tls, &err),
        LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "belongs to another certificate"));
    assert_int_equal(net_tls_client_create(in_folder("junk"), &tls, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "junk"));
    assert_null(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_client_talks_to_our_server),
        cmocka_unit_test(large_bodies_pass_both_ways),
        cmocka_unit_test(an_upgraded_connection_is_a_stream_over_tls_too),
        cmocka_unit_test(a_certificate_of_another_host_is_named),
        cmocka_unit_test(an_untrusted_certificate_is_named),
        cmocka_unit_test(a_certificate_of_the_future_is_named),
        cmocka_unit_test(an_expired_certificate_is_named),
        cmocka_unit_test(curl_talks_to_our_server),
        cmocka_unit_test(a_client_that_leaves_a_silent_stream_is_noticed),
        cmocka_unit_test(a_slow_tls_reader_is_bounded),
        cmocka_unit_test(plain_http_to_a_tls_port_affects_no_other_client),
        cmocka_unit_test(wrong_files_are_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
