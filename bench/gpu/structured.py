#!/usr/bin/env python3
"""bench/gpu/structured.py BINARY MODEL [--schemas FILE] [--device cuda] [--streams 64] [--tokens 1000] [--rounds 3] [--least 0.95]: the rate of greedy streams with a
different schema each against the rate of the same streams without schemas, on one server.  A rate is tokens a second in the time in which all
streams run.  FILE has a JSON Schema on each line, for example from MaskBench, none of them with $ref; without it the schemas are made here.  MODEL
is a gpt-oss snapshot; its tokenizer decides how much masks cost, so give gpt-oss's own to bench/gpu/snapshot.py.  The exit
status is 0 only if every answer with a schema has all its tokens and the median rate with schemas is at least the given share of that without."""
import argparse, http.client, json, multiprocessing, os, statistics, threading, time

from server import Server

WORDS = ["amber", "birch", "cobalt", "dune", "ember", "fjord", "grove", "harbor", "island", "jade", "kelp", "lagoon", "meadow", "nectar", "opal", "pine"]
FORMATS = ["date", "date-time", "email", "uuid", "ipv4", "hostname", "time", "uri"]
PATTERNS = ["^[A-Z]{2}[0-9]{4}$", "^[a-z]+(-[a-z]+)*$", "^(red|green|blue)[0-9]{1,3}$", "^[0-9a-f]{8,32}$", "^\\+[0-9]{7,15}$", "^v[0-9]+\\.[0-9]+$",
            "^[^,;]{3,30}$", "^(?!tmp)[a-z_]{4,20}$"]


def value(n, depth=0):
    """A schema, different for each number."""
    kind, word = n % 8, WORDS[n // 8 % 16]
    if kind == 0:
        return {"type": "string", "maxLength": 8 + n % 40}
    if kind == 1:
        return {"enum": [word + str(n + i) for i in range(3 + n % 20)]}
    if kind == 2:
        return {"type": "string", "pattern": PATTERNS[n // 8 % 8]}
    if kind == 3:
        return {"type": "string", "format": FORMATS[n // 8 % 8]}
    if kind == 4:
        return {"type": "integer", "minimum": -n, "maximum": 100 * n + 7}
    if kind == 5:
        return {"type": "array", "items": value(n // 2 + 1, depth + 1), "minItems": 1, "maxItems": 2 + n % 6} if depth < 3 else {"type": "boolean"}
    if kind == 6:
        return {"anyOf": [value(n // 2 + 3, depth + 1), {"type": "null"}, {"const": word}]} if depth < 3 else {"type": "null"}
    return record(n // 2 + 5, depth + 1) if depth < 3 else {"type": "number"}


def record(n, depth=0):
    names = [WORDS[(n + i) % 16] + ("" if i < 16 else str(i)) for i in range(3 + n % 9)]
    return {"type": "object", "properties": {name: value(n + 3 * i + 1, depth) for i, name in enumerate(names)},
            "required": names[: 1 + n % len(names)], "additionalProperties": n % 3 == 0}


def schema(i, tokens, given):
    """So long that the answer never ends before its last token."""
    return {"type": "array", "items": given[i % len(given)] if given else record(i), "minItems": tokens}


def bias_of(model):
    """Against the beginnings of "analysis", so that an answer begins with its JSON and not with reasoning."""
    vocabulary = json.load(open(os.path.join(model, "tokenizer.json")))["model"]["vocab"]
    return {str(vocabulary[text]): -100 for text in ("analysis"[:n] for n in range(1, 9)) if text in vocabulary}


def stream(body, port, barrier, out, i):
    times, usage, error = [], None, ""
    call = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    barrier.wait()
    call.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    for line in call.getresponse():
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
            if b'"usage":{' in line:
                usage = json.loads(line[6:])["usage"]["completion_tokens"]
        if line.startswith((b'data: {"error"', b'{"error"')):
            error = line.decode()[:300]
    out.put((i, times, usage, error))


def client(bodies, port, barrier, out):
    threads = [threading.Thread(target=stream, args=(body, port, barrier, out, i)) for i, body in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def rate_of(bodies, tokens, port):
    """Tokens a second, while all streams run."""
    barrier, out = multiprocessing.Barrier(len(bodies)), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=client, args=(bodies[k::8], port, barrier, out)) for k in range(8) if bodies[k::8]]
    for p in processes:
        p.start()
    answers = [out.get() for _ in bodies]
    for p in processes:
        p.join()
    for i, times, usage, error in answers:
        if usage != tokens or error:
            return 0, f"stream {i}: {usage} of {tokens} tokens {error}"
    begin = max(times[0] for _, times, _, _ in answers)
    end = min(times[-1] for _, times, _, _ in answers)
    # Some tokens have no event of their own: each event stands for its share of the tokens.
    made = sum(usage / len(times) * sum(begin < t <= end for t in times) for _, times, usage, _ in answers)
    return (made / (end - begin), "") if end > begin else (0, "the streams did not run together: more tokens are needed")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("model")
    arguments.add_argument("--schemas")
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--streams", type=int, default=64)
    arguments.add_argument("--tokens", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--least", type=float, default=0.95)
    arguments.add_argument("--port", type=int, default=21690)
    args = arguments.parse_args()
    server = Server(args.binary, args.model, args.device, args.port)
    name = server.until_ready("the model is ready")
    bias = bias_of(args.model)
    given = [json.loads(line) for line in open(args.schemas)] if args.schemas else []

    def body(i, has_schema):
        wanted, text = schema(i, args.tokens, given), f"Answer {i} with a list."
        more = {"logit_bias": bias, "response_format": {"type": "json_schema", "json_schema": {"name": f"list{i}", "schema": wanted}}}
        if not has_schema:  # the prompt has the schema in either case, so that both kinds of streams have the same depth
            more, text = {"ignore_eos": True}, text + json.dumps(wanted)
        return i, json.dumps(dict(model=name, messages=[{"role": "user", "content": text}], max_tokens=args.tokens, temperature=0, stream=True,
                                  stream_options={"include_usage": True}, **more))

    rates = {False: [], True: []}
    for round_number in range(args.rounds + 1):  # the first one warms up
        for has_schema in (False, True):
            rate, error = rate_of([body(i, has_schema) for i in range(args.streams)], args.tokens, args.port)
            if error:
                print(server.log()[-2000:])
                server.stop(1, error)
            if round_number > 0:
                rates[has_schema].append(rate)
                print(f"{'with' if has_schema else 'without'} schemas: {rate:.0f} tokens/s", flush=True)
    free, bound = statistics.median(rates[False]), statistics.median(rates[True])
    server.stop(0 if bound >= args.least * free else 1, f"{args.streams} streams of {args.tokens} tokens: {free:.0f} tokens/s without schemas, "
                f"{bound:.0f} with {args.streams} different schemas: {bound / free:.1%} (at least {args.least:.0%})")


if __name__ == "__main__":
    main()
