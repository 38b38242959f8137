#!/usr/bin/env python3
"""bench/gpu/recovery.py BINARY MODEL [--device cuda] [--streams 32] [--tokens 1500] [--kills 3] [--limit 4]: kills the worker
while streams run and measures the pause of each stream.  The exit status is 0 only if every stream was answered completely, the longest pause is
within the limit, and the node is online with its model ready afterwards."""
import argparse, http.client, json, os, signal, statistics, threading, time

from server import Server

arguments = argparse.ArgumentParser()
arguments.add_argument("binary")
arguments.add_argument("model")
arguments.add_argument("--device", default="cuda")
arguments.add_argument("--streams", type=int, default=32)
arguments.add_argument("--tokens", type=int, default=1500)
arguments.add_argument("--kills", type=int, default=3, help="rounds with one kill each")
arguments.add_argument("--limit", type=float, default=4)
arguments.add_argument("--port", type=int, default=21680)
args = arguments.parse_args()
server = Server(args.binary, args.model, args.device, args.port)


def workers():
    """The children of our children that are workers: the node of `up` is a process of its own."""
    parents, found = {}, []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(p)] = int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1])
            if open(f"/proc/{p}/cmdline").read().split("\0")[1:2] == ["worker"]:
                found.append(int(p))
        except OSError:
            pass

    def is_ours(pid):
        while pid in parents and pid != server.process.pid:
            pid = parents[pid]
        return pid == server.process.pid

    return [p for p in found if is_ours(p)]


def stream(i, name, out):
    body = json.dumps(dict(model=name, prompt=f"{i} " + "the quick brown fox jumps over the lazy dog and counts. " * 6, max_tokens=args.tokens,
                           stream=True, ignore_eos=True, temperature=0, stream_options={"include_usage": True}))
    call = http.client.HTTPConnection("127.0.0.1", args.port, timeout=180)
    call.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    times, usage = [], None
    for line in call.getresponse():
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            times.append(time.time())
            usage = event.get("usage") or usage
            if "error" in event:
                usage = None
                break
    out[i] = (times, usage)


def round_of_streams(name, kill):
    out, killed = {}, 0.0
    threads = [threading.Thread(target=stream, args=(i, name, out)) for i in range(args.streams)]
    begun = time.time()
    for t in threads:
        t.start()
    if kill:
        time.sleep(undisturbed * 0.45)
        killed = time.time()
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
    for t in threads:
        t.join()
    lost = [i for i in range(args.streams) if not out.get(i, (0, None))[1] or out[i][1]["completion_tokens"] != args.tokens]
    silence = max((b - a for times, _ in out.values() for a, b in zip(times, times[1:]) if b > killed), default=0)
    return time.time() - begun, lost, silence


name = server.until_ready("the model is ready")
undisturbed, lost, gap = round_of_streams(name, False)
undisturbed, lost, gap = round_of_streams(name, False)  # the first one warms up
print(f"undisturbed: {args.streams} streams of {args.tokens} tokens in {undisturbed:.2f} s, longest gap {gap:.2f} s")
silences, all_lost = [], len(lost)
for _ in range(args.kills):
    took, lost, silence = round_of_streams(name, True)
    silences.append(silence)
    all_lost += len(lost)
    print(f"worker killed after {undisturbed * 0.45:.2f} s: {took:.2f} s in all, longest silence {silence:.2f} s, {len(lost)} lost")
    server.until_ready("the node is well again", 30)
loads = [line.split(" ms=")[1].split()[0] for line in server.log().splitlines() if "worker.ready" in line]
refused = server.log().count("node.refused")
fine = all_lost == 0 and max(silences) <= args.limit and refused == 0
server.stop(0 if fine else 1, f"longest silence {max(silences):.2f} s (median {statistics.median(silences):.2f}, limit {args.limit:g}), {all_lost} lost, "
     f"loads took {', '.join(loads)} ms, node online and model ready, heartbeats refused: {refused}")
