"""tests/gpu/node.py BIN MODEL [node arguments]: the node on a real GPU.

Its figures of the GPU's memory are those of nvidia-smi; a worker keeps to its allotment and
gives a cancelled request's pages back; what it held is free again after kill -9, an unload
and a normal exit; what cannot fit is refused with both numbers.  Memory is compared as a
whole, since in a container neither NVML nor nvidia-smi can tell whose it is; so nobody else
may use the GPU meanwhile.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
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
    def __init__(self, binary, model, args, folder, env=None):
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "node", "--listen", "127.0.0.1:0", "--device", "cuda", "--no-hf-cache", "--no-preload",
             "--data-dir", os.path.join(folder, "data"), "--model", model, *args],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **(env or {})})
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

    def begin(self, max_tokens):
        """A stream that goes on; closing the connection cancels it."""
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=WAIT_S)
        connection.request("POST", "/v1/completions", json.dumps(
            {"model": self.model, "prompt": "Hello", "max_tokens": max_tokens, "ignore_eos": True, "stream": True}),
            {"Content-Type": "application/json"})
        answer = connection.getresponse()
        check(answer.status == 200 and answer.readline().startswith(b"data:"), "a stream begins")
        return connection, answer

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


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


def cancel(node, held):
    worker = node.worker()
    streams = [node.begin(worker["max_context"] // 2) for _ in range(4)]
    until("pages are in use", lambda: node.worker()["stats"]["pages_in_use"] > 0, 20)
    before = gpu()[2]
    for connection, answer in streams:
        answer.close()
        connection.close()

    def idle():
        stats = node.worker()["stats"]
        return stats["sequences"] == 0 and stats["pages_in_use"] == 0 and stats["kv_bytes_in_use"] == 0
    until("cancelled requests give their pages back", idle, 20)
    check(abs(gpu()[2] - before) <= 16 * MIB, "cancel: pages are back, and the GPU's memory is as before")
    reserved = sum(claim["reserved"] for claim in node.pool(gpu()[0])["claims"])
    check(held <= reserved, f"the worker keeps to its allotment: {held // MIB} of {reserved // MIB} MiB")


def too_large(binary, model, args):
    with tempfile.TemporaryDirectory() as folder:
        node = Node(binary, model, [*args, "--max-tokens", "1000000000"], folder)
        try:
            node.complete()
            check(False, "1,000,000,000 tokens of KV cache must not fit")
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            numbers = [int(number) for number in re.findall(r"\d{9,}", text)]
            check("out_of_vram" in text and len(numbers) > 1 and numbers[0] > numbers[-1],
                  f"too large is refused with both numbers: {text[:300]}")
        finally:
            node.stop()


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
            cancel(node, held)
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
            check(node.complete() > 0, "the next request works")
            node.stop()
            until("the memory is free after the node's exit", lambda: gpu()[2] <= before + 16 * MIB, 30)
            check(node.process.returncode == 0, "a normal exit: the memory is free")
        finally:
            node.stop()
    too_large(binary, model, args)


if __name__ == "__main__":
    main()
