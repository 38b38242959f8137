"""A server for the drivers of this folder: `llm-router up` with one model, in a folder of its own."""
import http.client, json, os, shutil, signal, subprocess, sys, tempfile, time


class Server:
    def __init__(self, binary, model, device, port, more=()):
        self.port = port
        self.folder = tempfile.mkdtemp()
        self.log_file = os.path.join(self.folder, "log")
        self.process = subprocess.Popen(
            [binary, "up", "--device", device, "--model", model, "--listen", f"127.0.0.1:{port}", "--data-dir", os.path.join(self.folder, "data"),
             "--no-hf-cache", *more],
            stderr=open(self.log_file, "w"), stdout=subprocess.DEVNULL, env=dict(os.environ, HOME=self.folder))

    def log(self):
        return open(self.log_file).read()

    def get(self, path):
        call = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        call.request("GET", path)
        return json.load(call.getresponse())

    def is_ready(self):
        nodes = self.get("/v0/nodes")["nodes"]
        return nodes and self.get("/v1/models")["data"] and all(n["online"] and n["models"][0]["state"] == "ready" for n in nodes)

    def until_ready(self, what, seconds=120):
        end = time.time() + seconds
        while time.time() < end and self.process.poll() is None:
            try:
                if self.is_ready():
                    return self.get("/v1/models")["data"][0]["id"]
            except (OSError, ValueError, KeyError, IndexError):
                pass
            time.sleep(0.05)
        print(self.log()[-2000:])
        self.stop(1, f"waited in vain: {what}")

    def stop(self, code, text):
        """Ends the server and this program."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        print(text)
        sys.exit(code)
