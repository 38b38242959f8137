"""A small service manager, as systemd is one, for tests.

    manager.py [--listen] -- PROGRAM ARGS...

Starts the program with NOTIFY_SOCKET, WATCHDOG_USEC and, with --listen, a listening socket of
127.0.0.1 that the manager keeps. Writes a line of JSON for each event to standard output:
{"port": N}, {"pid": N}, {"notify": "READY=1"}, {"ended": STATUS}. Reads commands from standard
input: the name of a signal (TERM, HUP, KILL) for the main process, `start` for a new process, and
`quit`. The program's own output goes to standard error. Descriptors that the program stores are
given to its next process.
"""
import array, json, os, select, signal, socket, sys, tempfile

split = sys.argv.index("--")
listens = "--listen" in sys.argv[:split]
program = sys.argv[split + 1:]
folder = tempfile.mkdtemp(prefix="lr-manager-")
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(os.path.join(folder, "notify"))
listener = None
if listens:
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
stored = []  # (name, descriptor)
pids = set()
main = 0


def tell(**event):
    print(json.dumps(event), flush=True)


def start():
    global main
    given = ([("llm-router.socket", listener.fileno())] if listener else []) + stored
    pid = os.fork()
    if pid != 0:
        pids.add(pid)
        main = pid
        tell(pid=pid)
        return
    # Out of the way of 3, 4, ... first.
    copies = [os.dup(os.dup2(fd, 40 + i)) for i, (_, fd) in enumerate(given)]
    for i, fd in enumerate(copies):
        os.dup2(fd, 3 + i, inheritable=True)
    env = dict(os.environ, NOTIFY_SOCKET=os.path.join(folder, "notify"), WATCHDOG_USEC="2000000")
    if given:
        env.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)),
                   LISTEN_FDNAMES=":".join(name for name, _ in given))
    os.dup2(2, 1)
    os.execvpe(program[0], program, env)


def hear():
    global main
    space = socket.CMSG_SPACE(4 * array.array("i").itemsize)
    text, ancillary, _, _ = notify.recvmsg(4096, space)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data)
    fields = dict(line.split("=", 1) for line in text.decode().split("\n"))
    name = fields.get("FDNAME")
    if "FDSTORE" in fields:
        stored.extend((name, fd) for fd in fds)
    if "FDSTOREREMOVE" in fields:
        for entry in [e for e in stored if e[0] == name]:
            os.close(entry[1])
            stored.remove(entry)
    if "MAINPID" in fields:
        main = int(fields["MAINPID"])
    tell(notify=text.decode(), fds=len(fds))


def reap():
    while pids:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        pids.discard(pid)
        tell(ended=os.waitstatus_to_exitcode(status), of=pid)


if listener:
    tell(port=listener.getsockname()[1])
start()
commands = b""
while True:
    ready, _, _ = select.select([0, notify], [], [], 0.02)
    if notify in ready:
        hear()
    reap()
    if 0 in ready:
        chunk = os.read(0, 4096)
        if not chunk:
            chunk = b"quit\n"
        commands += chunk
        *lines, commands = commands.split(b"\n")
        for line in lines:
            word = line.decode()
            if word == "start":
                start()
            elif word == "quit":
                for pid in pids | {main}:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                os.unlink(os.path.join(folder, "notify"))
                os.rmdir(folder)
                sys.exit(0)
            else:
                os.kill(main, getattr(signal, "SIG" + word))
