/* What a service manager passes on, and what it hears. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/passing.h"
#include "base/service.h"

/* The variables are read once a process, so each case runs in a child. */
static void in_child(void (*fn)(int), int fd)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        fn(fd);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define MUST(condition)                                                                        \
    if (!(condition)) {                                                                        \
        (void)fprintf(stderr, "line %d: not %s\n", __LINE__, #condition);                      \
        _exit(1);                                                                              \
    }

static void set_pid(const char *name)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%ld", (long)getpid());
    (void)setenv(name, text, 1);
}

static void read_named(int fd)
{
    int sockets[LR_SERVICE_SOCKETS_MAX];
    (void)setenv("LISTEN_FDS", "3", 1);
    (void)setenv("LISTEN_FDNAMES", "web:llm-router-memory:local", 1);
    (void)setenv("WATCHDOG_USEC", "3000000", 1);
    set_pid("LISTEN_PID");
    set_pid("WATCHDOG_PID");
    for (int i = 3; i <= 5; i++)
        MUST(dup2(fd, i) == i);
    lr_service_read();
    MUST(lr_service_sockets(sockets) == 2 && sockets[0] == 3 && sockets[1] == 5);
    MUST(lr_service_take_stored() == 4 && lr_service_take_stored() == -1);
    MUST(lr_service_watchdog_ms() == 1500);
    MUST((fcntl(3, F_GETFD) & FD_CLOEXEC) != 0);
    MUST(getenv("LISTEN_FDS") == NULL && getenv("WATCHDOG_USEC") == NULL);
}

static void read_of_another_process(int fd)
{
    int sockets[LR_SERVICE_SOCKETS_MAX];
    (void)fd;
    (void)setenv("LISTEN_FDS", "1", 1);
    (void)setenv("LISTEN_PID", "1", 1);
    (void)setenv("WATCHDOG_USEC", "3000000", 1);
    (void)setenv("WATCHDOG_PID", "1", 1);
    lr_service_read();
    MUST(lr_service_sockets(sockets) == 0 && lr_service_watchdog_ms() == 0);
    lr_service_tell("READY=1"); /* nobody hears it */
}

static void variables_of_this_process_are_read_and_removed(void **state)
{
    (void)state;
    in_child(read_named, 1);
    in_child(read_of_another_process, 1);
}

static void tell_ready(int fd)
{
    lr_service_read();
    lr_service_tell("READY=1\nSTATUS=%s", "serves");
    lr_service_store(fd);
}

static void messages_are_datagrams_to_a_file_or_a_name(void **state)
{
    char dir[] = "/tmp/lr-service-XXXXXX", path[64], text[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (int is_name = 0; is_name < 2; is_name++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        (void)snprintf(path, sizeof(path), "%s%s/n", is_name ? "@" : "", dir);
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        if (is_name)
            address.sun_path[0] = '\0';
        assert_int_equal(
            bind(fd, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))),
            0);
        (void)setenv("NOTIFY_SOCKET", path, 1);
        in_child(tell_ready, 1);
        ssize_t n = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);
        assert_true(n > 0);
        text[n] = '\0';
        assert_string_equal(text, "READY=1\nSTATUS=serves");
        struct lr_passed stored;
        assert_int_equal(lr_passing_receive(fd, false, &stored, NULL), LR_OK);
        assert_string_equal(stored.text, "FDSTORE=1\nFDNAME=llm-router-memory");
        assert_int_equal(stored.count, 1);
        (void)close(stored.fds[0]);
        (void)close(fd);
        if (!is_name)
            (void)unlink(path);
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)rmdir(dir);
}

static void descriptors_pass_between_two_processes(void **state)
{
    char dir[128], text[16];
    struct lr_passed heard;
    struct lr_error err;
    int listener, fd, file;
    pid_t pid;
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/lr-passing-%ld-%0*d", (long)getpid(), 70, 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(lr_passing_connect(dir, "s", 1000, &fd, &pid, &err), LR_NOT_FOUND);
    assert_int_equal(lr_passing_listen(dir, "s", &listener, &err), LR_OK);
    assert_int_equal(lr_passing_accept(listener, &pid), -1);
    assert_int_equal(lr_passing_connect(dir, "s", 60000, &fd, &pid, &err), LR_OK);
    assert_int_equal(pid, getpid());
    int peer = lr_passing_accept(listener, &pid);
    assert_true(peer >= 0);
    assert_int_equal(lr_passing_receive(peer, false, &heard, &err), LR_TIMEOUT);
    assert_int_equal(lr_passing_file(LR_STR_LIT("secrets"), &file, &err), LR_OK);
    assert_int_equal(lr_passing_send(fd, LR_STR_LIT("here"), &file, 1, &err), LR_OK);
    assert_int_equal(lr_passing_send(fd, LR_STR_LIT("more"), NULL, 0, &err), LR_OK);
    (void)close(file);
    assert_int_equal(lr_passing_receive(peer, true, &heard, &err), LR_OK);
    assert_string_equal(heard.text, "here");
    assert_int_equal(heard.count, 1);
    assert_int_equal(pread(heard.fds[0], text, sizeof(text), 0), 7);
    (void)close(heard.fds[0]);
    assert_int_equal(lr_passing_receive(peer, true, &heard, &err), LR_OK);
    assert_string_equal(heard.text, "more");
    (void)close(fd);
    assert_int_equal(lr_passing_receive(peer, false, &heard, &err), LR_UNAVAILABLE);
    (void)close(peer);
    (void)close(listener);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(unlink(path), 0);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_of_this_process_are_read_and_removed),
        cmocka_unit_test(messages_are_datagrams_to_a_file_or_a_name),
        cmocka_unit_test(descriptors_pass_between_two_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
