"""tests/gpu/replicas.py BIN MODEL: two replicas of a model on one real GPU, its number given twice.

Both answer; one of them is killed (-9) under load: every answer is complete, and afterwards both serve again.  Texts are not
compared: with other numbers of sequences the GPU may order two nearly equal logits differently (docs/cuda-notes.md).
"""
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

PORT, USERS, TOKENS = 21780, 16, 200


def check(ok, text):
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    if not ok:
        sys.exit(1)


def call(path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text)


def until(what, look, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            value = look()
        except (OSError, ValueError, KeyError, IndexError):
            value = None
        if value:
            return value
        time.sleep(0.02)
    check(False, f"waited {seconds} s in vain: {what}")


def workers():
    node = call("/v0/nodes")[1]["nodes"][0]
    models = call(f"/v0/nodes/{node['id']}/models")[1]["models"]
    return [w for w in models[0]["workers"] if w["role"] == "serving" and w["ready"]]


def both():
    found = workers()
    return found if len(found) == 2 else None


def answer(model, user):
    """What was wrong with an answer; empty: nothing."""
    status, body = call("/v1/completions", {"model": model, "prompt": f"Story {user}:", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True})
    if status != 200 or body["usage"]["completion_tokens"] != TOKENS:
        return f"status {status}: {str(body)[:200]}"
    return ""


class Load:
    """Users who ask again and again until the end."""

    def __init__(self, model):
        self.stop, self.count, self.lost = False, 0, []
        self.threads = [threading.Thread(target=self.user, args=(model, i)) for i in range(USERS)]
        for t in self.threads:
            t.start()

    def user(self, model, i):
        while not self.stop:
            try:
                failure = answer(model, i)
            except OSError as error:
                failure = str(error)
            if failure:
                self.lost.append(failure)
            self.count += 1

    def end(self):
        self.stop = True
        for t in self.threads:
            t.join()


def run():
    model = until("a model", lambda: call("/v1/models")[1]["data"][0]["id"])
    check(not answer(model, 0), "the model answers")
    until("two replicas", both)
    load = Load(model)
    until("both replicas have work", lambda: (found := both()) and all(w["stats"]["sequences"] > 0 for w in found))
    check(True, "two replicas on one GPU, and both have work")
    before, victim = load.count, workers()[0]["pid"]
    os.kill(victim, signal.SIGKILL)
    until("the other one serves alone", lambda: victim not in [w["pid"] for w in workers()])
    until("two replicas again, both with work",
          lambda: (found := both()) and victim not in [w["pid"] for w in found] and all(w["stats"]["sequences"] > 0 for w in found))
    load.end()
    check(load.count > before and not load.lost, f"one of two replicas was killed under load: {load.count} answers, {len(load.lost)} lost {load.lost[:2]}")


def main():
    binary, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        log = open(os.path.join(folder, "log"), "w+")
        server = subprocess.Popen(
            [binary, "up", "--device", "cuda", "--gpus", "0,0", "--replicas", "2", "--model", model, "--listen", f"127.0.0.1:{PORT}",
             "--max-sequences", str(USERS), "--data-dir", os.path.join(folder, "data"), "--no-hf-cache"],
            stdout=subprocess.DEVNULL, stderr=log, env=dict(os.environ, HOME=folder))
        failed = True
        try:
            run()
            failed = False
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
            if failed:
                log.seek(0)
                print(log.read()[-3000:])


main()
