"""Helpers for the serving benchmarks: a real router, node and worker with the echo engine, nginx
in front of the same node, the load generator, and processor time by process.

Everything is started in a temporary folder, on ports the system chose, and stopped at the end.
"""
import json, os, platform, re, signal, socket, struct, subprocess, sys, tempfile, threading, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = "bench-secret-" + "0" * 32  # what the node asks of whoever calls it


def build_dir():
    return os.environ.get("LR_BUILD", os.path.join(ROOT, "build", "release"))


def cpu_seconds(pid):
    """Processor time of a process and its threads, exact to the scheduler's clock."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def rss_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line.split()[1] for line in f if line.startswith("VmRSS")))


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [int(word) for word in f.read().split()]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, key, body=None):
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {key}")
    if body is not None:
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def call(url, key, body=None):
    return json.loads(get(url, key, body))


def until(what, check, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    sys.exit(f"waited {seconds} s in vain: {what}")


class Process:
    """One of ours: its log goes to a file, as an operator's would."""

    def __init__(self, folder, name, command, ready, env=None):
        self.log_path = os.path.join(folder, f"{name}.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True,
                                            env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        self.out = ""
        while not re.search(ready, self.out):
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"{name} did not start: {open(self.log_path).read()[-2000:]}")
            self.out += line
        self.found = re.search(ready, self.out).group(1)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def tail(self):
        with open(self.log_path) as f:
            return f.read()[-2000:]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Fleet:
    """Router (keys, usage and log on) + node + one worker with the echo engine."""

    def __init__(self, testing=None, sequences=64, router_args=(), node_args=()):
        self.temporary = tempfile.TemporaryDirectory(prefix="bench-router-")
        self.folder = self.temporary.name
        self.parts = []
        try:
            self._begin(testing or {}, sequences, router_args, node_args)
        except BaseException:
            for part in self.parts:
                print(part.tail(), file=sys.stderr)
            self.stop()
            raise

    def _begin(self, testing, sequences, router_args, node_args):
        binary = os.path.join(build_dir(), "bin", "llm-router")
        model = os.path.join(self.folder, "echo")
        self._make_model(model, testing)
        self.router = self._start("router", [binary, "router", "--listen", "127.0.0.1:0", "--data-dir",
                                             os.path.join(self.folder, "r"), "--allow-cpu-nodes", "--require-key",
                                             *router_args], r"listening on http://\S+:(\d+)")
        self.router_port = int(self.router.found)
        self.url = f"http://127.0.0.1:{self.router_port}"
        self.admin = re.search(r"shown this once: (\S+)", self.router.out).group(1)
        token = call(f"{self.url}/v0/nodes/tokens", self.admin, {})["key"]
        self.node = self._start("node", [binary, "node", "--listen", "127.0.0.1:0", "--device", "cpu",
                                         "--no-hf-cache", "--data-dir", os.path.join(self.folder, "n"),
                                         "--engines-dir", os.path.join(build_dir(), "testing", "engines"),
                                         "--router", self.url, "--node-secret", SECRET, "--model", model,
                                         "--max-sequences", str(sequences), *node_args],
                                r"listening on port (\d+)", {"LLM_ROUTER_TOKEN": token})
        self.node_port = int(self.node.found)
        nodes = lambda: call(f"{self.url}/v0/nodes", self.admin)["nodes"]
        until("the node joins", lambda: any(n["online"] for n in nodes()))
        call(f"{self.url}/v0/models/register", self.admin, {"path": "echo"})
        until("the model is ready", lambda: all(n["models"] and n["models"][0]["state"] == "ready" for n in nodes()))
        self.worker_pid = children(self.node.pid)[0]
        self.key = self.make_key("bench")

    def _start(self, name, command, ready, env=None):
        part = Process(self.folder, name, command, ready, env)
        self.parts.append(part)
        return part

    @staticmethod
    def _make_model(folder, testing):
        os.makedirs(folder)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({"architectures": ["EchoForTesting"], "model_type": "echo", "testing": testing}, f)
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            f.write('{"version":"1.0"}')
        header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        with open(os.path.join(folder, "model.safetensors"), "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header + bytes(4))

    def make_key(self, name):
        return call(f"{self.url}/v0/keys", self.admin, {"name": name, "role": "api"})["key"]

    def body(self, name, content, **more):
        path = os.path.join(self.folder, f"{name}.json")
        with open(path, "w") as f:
            json.dump({"model": "echo", "messages": [{"role": "user", "content": content}], **more}, f,
                      separators=(",", ":"))
        return path

    def start_nginx(self):
        self.nginx = Nginx(self.folder, self.node_port)
        self.parts.append(self.nginx)
        return self.nginx

    def usage_written(self):
        """Usage rows in the router's database, from its metrics."""
        text = get(f"{self.url}/metrics", self.admin)
        return int(float(re.search(r"^llm_router_usage_rows_written (\S+)", text, re.M).group(1)))

    def pids(self):
        return {"router": self.router.pid, "node": self.node.pid, "worker": self.worker_pid}

    def cpu(self):
        return {name: cpu_seconds(pid) for name, pid in self.pids().items()}

    def stop(self):
        for part in reversed(self.parts):
            part.stop()
        self.temporary.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Nginx:
    """One worker process, connections to the node kept, access log on, as the router's is."""

    def __init__(self, folder, upstream):
        self.port = free_port()
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as f:
            f.write(f"""
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log {folder}/nginx-access.log; keepalive_requests 1000000000; default_type application/json;
  client_body_temp_path {folder}/ngx-b; proxy_temp_path {folder}/ngx-p;
  fastcgi_temp_path {folder}/ngx-f; uwsgi_temp_path {folder}/ngx-u; scgi_temp_path {folder}/ngx-s;
  upstream node {{ server 127.0.0.1:{upstream}; keepalive 512; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{self.port} backlog=4096;
    location / {{
      proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host 127.0.0.1:{upstream}; proxy_buffering off;
    }}
  }}
}}""")
        self.process = subprocess.Popen(["nginx", "-p", folder, "-c", path], stderr=subprocess.DEVNULL)
        self.pid = self.process.pid

        def is_up():
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                return False
        until("nginx listens", is_up)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def load_command(mode, **words):
    return [os.path.join(build_dir(), "bench", "router_load"), mode] + [f"{k}={v}" for k, v in words.items()]


def read_result(text):
    line = text.strip().splitlines()[-1]
    return {k: float(v) for k, v in (word.split("=") for word in line.split())}


def load(mode, **words):
    """Runs the load generator to its end; a wrong answer ends the bench."""
    done = subprocess.run(load_command(mode, **words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=120)
    if done.returncode != 0:
        sys.exit(f"the load generator found wrong answers:\n{done.stdout}{done.stderr}")
    return read_result(done.stdout)


def where():
    """Commit, machine and how busy it is, for the head of a result."""
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE,
                            text=True).stdout.strip() or "unknown"
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), platform.machine())
    return (f"Date {time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit}, {cpu}, {os.cpu_count()} processors, "
            f"load average {os.getloadavg()[0]:.1f} at the end.")


class Table:
    """Figures with their bars; ok is false once one does not hold."""

    def __init__(self, title):
        self.lines = [f"## {title}", "", "| figure | measured | bar | holds |", "|---|---|---|---|"]
        self.ok = True

    def row(self, name, value, bar="", holds=None):
        if holds is not None:
            self.ok = self.ok and bool(holds)
        self.lines.append(f"| {name} | {value} | {bar} | {'' if holds is None else 'yes' if holds else 'NO'} |")

    def text(self):
        return "\n".join(self.lines) + "\n"
