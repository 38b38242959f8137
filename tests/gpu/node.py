"""tests/gpu/node.py BIN MODEL [node arguments]: the node on a real GPU.

Its figures of the GPU's memory are those of nvidia-smi, and what a worker held is free
again after kill -9.  Memory is compared as a whole, since in a container neither NVML nor
nvidia-smi can tell whose it is; so nobody else may use the GPU meanwhile.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

MIB = 1 << 20
# The driver keeps some memory for itself, which one counts as used and the other does not.
SLACK = 1024 * MIB
WAIT_S = 120


def gpu():
    """nvidia-smi's first GPU: uuid, total and used bytes."""
    out = subprocess.run(
        ["nvidia-smi", "--query-gpu=uuid,memory.total,memory.used", "--format=csv,noheader,nounits"],
        check=True, capture_output=True, text=True).stdout
    uuid, total, used = out.splitlines()[0].split(", ")
    return uuid, int(total) * MIB, int(used) * MIB


def until(what, check, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            sys.exit(f"FAIL waited {seconds} s in vain: {what}")
        time.sleep(0.1)


class Node:
    def __init__(self, binary, model, args, folder):
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "node", "--listen", "127.0.0.1:0", "--device", "cuda", "--no-hf-cache", "--no-preload",
             "--data-dir", os.path.join(folder, "data"), "--model", model, *args],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        match = re.search(r"listening on port (\d+)", line)
        if not match:
            self.process.wait()
            self.log.seek(0)
            sys.exit(f"FAIL the node did not start: {line}{self.log.read()}")
        self.url = f"http://127.0.0.1:{match[1]}"
        self.model = os.path.basename(os.path.realpath(model))

    def call(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.load(answer)

    def pool(self, uuid):
        return next((p for p in self.call("/v0/memory")["pools"] if p["pool"] == uuid), None)

    def worker(self):
        workers = self.call(f"/v0/models/{self.model}")["workers"]
        return next((w for w in workers if w["role"] == "serving" and w["ready"]), None)

    def complete(self):
        answer = self.call("/v1/completions", {"model": self.model, "prompt": "Hello", "max_tokens": 4})
        return answer["usage"]["completion_tokens"]


def check(ok, text):
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    if not ok:
        sys.exit(1)


def compare(node, when, offset=0, slack=SLACK):
    """Returns how much more the node sees in use than nvidia-smi."""
    def near():
        uuid, total, used = gpu()
        pool = node.pool(uuid)
        if pool and abs(pool["total"] - total) <= SLACK and abs(pool["used"] - used - offset) <= slack:
            return pool, pool["used"] - used
        return None
    pool, more = until(f"the node's figures are those of nvidia-smi {when}", near, 20)
    check(True, f"figures {when}: {pool['used'] // MIB} of {pool['total'] // MIB} MiB, as nvidia-smi says")
    return more


def main():
    binary, model, *args = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        node = Node(binary, model, args, folder)
        try:
            offset = compare(node, "before a load")
            before = gpu()[2]
            check(node.complete() > 0, "the model answers")
            worker = until("a worker", node.worker)
            until("its worker holds memory of the GPU", lambda: gpu()[2] - before >= 32 * MIB, 10)
            held = gpu()[2] - before
            check(True, f"its worker holds {held // MIB} MiB of the GPU")
            compare(node, "with a model", offset, 64 * MIB)
            for kill in range(3):
                os.kill(worker["pid"], signal.SIGKILL)
                until("the memory is free", lambda: gpu()[2] <= before + held // 4, 30)
                until("the node knows", lambda: not node.call(f"/v0/models/{node.model}")["workers"], 30)
                check(not node.pool(gpu()[0])["claims"], f"kill -9 number {kill + 1}: nothing is held or reserved")
                check(node.complete() > 0, "the next request works")
                worker = until("another worker", node.worker)
            node.call(f"/v0/models/{node.model}/unload", {})
            until("the memory is free", lambda: gpu()[2] <= before + held // 4, 30)
            check(True, "unloaded: the memory is free")
        finally:
            node.process.terminate()
            try:
                node.process.wait(20)
            except subprocess.TimeoutExpired:
                node.process.kill()


main()
