"""tests/gpu/memory.py BIN SNAPSHOT [small|elastic]: GPU memory with a full-size model (bench/gpu/snapshot.py writes one).

small    --vram-limit 15GiB: the model loads, answers a prompt of 32,000 tokens, gives the answers that it gives without the
         limit, decodes at most 2 % slower, and the GPU's memory in use, as nvidia-smi says, never exceeds the limit.
elastic  The pool of the first model grows to the threshold; then a second model loads, both answer, and /v0/memory adds up.

Memory is compared as a whole, since in a container neither NVML nor nvidia-smi can tell whose it is: nobody else may use
the GPU meanwhile.
"""
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

GIB = 1 << 30
LIMIT = 15 * GIB
WAIT_S = 120
failed = []


def check(ok, text):
    print(("ok   " if ok else "FAIL ") + text, flush=True)
    if not ok:
        failed.append(text)


def gpu_used():
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], check=True, capture_output=True, text=True).stdout
    return int(out.splitlines()[0]) << 20


class Peak:
    """The most memory in use while it runs."""

    def __init__(self):
        self.most, self.over = 0, False
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.over:
            self.most = max(self.most, gpu_used())
            time.sleep(0.1)

    def stop(self):
        self.over = True
        self.thread.join()
        return self.most


class Node:
    def __init__(self, binary, models, args=()):
        self.folder = tempfile.TemporaryDirectory()
        self.log = open(os.path.join(self.folder.name, "log"), "w+")
        self.process = subprocess.Popen(
            [binary, "node", "--listen", "127.0.0.1:0", "--device", "cuda", "--no-hf-cache", "--no-preload", "--data-dir",
             os.path.join(self.folder.name, "data"), *(x for m in models for x in ("--model", m)), *args],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r"listening on port (\d+)", line)[1])

    def get(self, path):
        call = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        call.request("GET", path)
        return json.load(call.getresponse())

    def pool(self):
        return next(p for p in self.get("/v0/memory")["pools"] if p["pool"] != "ram")

    def begin(self, model, prompt, tokens):
        call = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        call.request("POST", "/v1/completions", json.dumps(
            dict(model=model, prompt=prompt, max_tokens=tokens, temperature=0, ignore_eos=True, stream=True, stream_options={"include_usage": True})),
            {"Content-Type": "application/json"})
        return call

    def ask(self, model, prompt, tokens):
        """Text, times of the tokens and usage."""
        call = self.begin(model, prompt, tokens)
        text, times, usage = "", [], None
        for line in call.getresponse():
            if line.startswith((b'data: {"error"', b'{"error"')):
                sys.exit(f"FAIL {line.decode()[:600]}")
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event.get("choices", []):
                    times.append(time.monotonic())
                    text += choice.get("text") or ""
        return text, times, usage

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.seek(0)
        text = self.log.read()
        self.folder.cleanup()
        return text


def words_of(model):
    vocabulary = json.load(open(os.path.join(model, "tokenizer.json")))["model"]["vocab"]
    return sorted(w[1:] for w in vocabulary if re.fullmatch("\u0120[a-z]{3,9}", w))


def text_of(words, count, seed):
    return " " + " ".join(random.Random(seed).choices(words, k=count))


def decode_rate(node, name, words):
    """Tokens per second of a single answer: the median of five."""
    rates = []
    for i in range(5):
        _, times, usage = node.ask(name, text_of(words, 64, 50 + i), 512)
        rates.append((usage["completion_tokens"] - 1) / (times[-1] - times[0]))
    return statistics.median(rates)


def small(binary, model):
    name, words = os.path.basename(model), words_of(model)
    questions = [text_of(words, n, n) for n in (20, 700, 5000)]
    before = gpu_used()

    node = Node(binary, [model])
    wanted = [node.ask(name, q, 24)[0] for q in questions]
    free = decode_rate(node, name, words)
    node.stop()

    peak = Peak()
    node = Node(binary, [model], ["--vram-limit", "15GiB"])
    began = time.monotonic()
    answers = [node.ask(name, q, 24)[0] for q in questions]
    print(f"     loaded and answered in {time.monotonic() - began:.1f} s")
    check(answers == wanted, "the answers are those without the limit")
    _, times, usage = node.ask(name, text_of(words, 32000, 9), 8)
    check(usage["prompt_tokens"] >= 32000 and usage["completion_tokens"] == 8, f"a prompt of {usage['prompt_tokens']} tokens is answered")
    limited = decode_rate(node, name, words)
    check(limited >= 0.98 * free, f"decode, 1 sequence: {limited:.0f} tokens/s with the limit, {free:.0f} without")
    pool = node.pool()
    check(pool["reserved"] <= LIMIT and pool["limit"] == LIMIT, f"reserved {pool['reserved'] / GIB:.2f} GiB of {pool['limit'] / GIB:.2f}")
    log = node.stop()
    most = peak.stop() - before
    check(most <= LIMIT, f"most GPU memory in use: {most / GIB:.2f} GiB")
    print("     " + "\n     ".join(re.findall(r"event=(?:cuda|model)\.open text=.*", log)[-2:]))


def elastic(binary, model):
    words = words_of(model)
    other = os.path.join(os.path.dirname(os.path.abspath(model)), "second")
    os.makedirs(other, exist_ok=True)
    for file in os.listdir(model):
        if not os.path.exists(os.path.join(other, file)):
            os.link(os.path.join(model, file), os.path.join(other, file))
    name = os.path.basename(model)
    node = Node(binary, [model, other], ["--memory-interval", "200ms"])
    question = text_of(words, 300, 1)
    # Computed, and from the prefix cache: the second has other chunks, and random weights are close to ties.
    expected = [node.ask(name, question, 16)[0] for _ in range(2)]
    first = node.pool()["claims"][0]
    # Prompts take their pages when they are admitted: those that wait make the pool grow.
    texts = [text_of(words, 120000, 100 + i) for i in range(40)]
    began = time.monotonic()
    calls = [node.begin(name, text, 4) for text in texts]
    pool = node.pool()
    while time.monotonic() - began < 60 and pool["free"] > pool["total"] // 100 + GIB // 4:
        time.sleep(0.2)
        pool = node.pool()
    claim = pool["claims"][0]
    check(claim["kv"] > 5 * first["kv"] and pool["free"] <= pool["total"] // 100 + GIB // 4,
          f"the pool grew from {first['kv'] / GIB:.1f} to {claim['kv'] / GIB:.1f} GiB (limit {claim['kv_limit'] / GIB:.1f}), {pool['free'] / GIB:.1f} GiB "
          f"are free below the threshold, in {time.monotonic() - began:.1f} s; {gpu_used() / GIB:.1f} GiB of the GPU are in use")
    check(not pool["over"], "no alert: the threshold is kept")
    for call in calls[1:]:
        call.close()
    began = time.monotonic()
    answer = node.ask("second", question, 16)[0]
    check(len(answer) > 0, f"the second model loaded and answered in {time.monotonic() - began:.1f} s")
    answered = calls[0].getresponse().read()
    check(b"[DONE]" in answered and b'"error"' not in answered, "a long prompt of the first model went on meanwhile and was answered")
    check(node.ask(name, question, 16)[0] in expected, "the first model answers as before")
    pool = node.pool()
    check(len(pool["claims"]) == 2 and pool["reserved"] == sum(c["reserved"] for c in pool["claims"]) and pool["free"] == pool["capacity"] - pool["reserved"],
          f"/v0/memory adds up: " + ", ".join(f"{c['model']} {c['reserved'] / GIB:.1f} GiB (KV {c['kv'] / GIB:.1f}, in use {c['kv_in_use'] / GIB:.1f}, "
                                               f"cached {c['kv_cached'] / GIB:.1f}, reclaimable {c['reclaimable'] / GIB:.1f})" for c in pool["claims"]))
    log = node.stop()
    print("     " + "\n     ".join(re.findall(r"memory\.\S+ .*|worker\.(?:died|ready).*", log)[-12:]))


def main():
    binary, model, *parts = sys.argv[1:]
    for part in parts or ("small", "elastic"):
        {"small": small, "elastic": elastic}[part](binary, model.rstrip("/"))
    print(f"{len(failed)} failed")
    sys.exit(bool(failed))


main()
