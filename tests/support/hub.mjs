// A local replacement of the Hugging Face hub: a real HTTP server that behaves like the hub.  Listings carry commits, sizes and LFS hashes; large files are redirected
// to a storage server of another origin with a signed address that expires;
// private, gated and unknown repositories answer as the hub does.  A test scripts faults
// per file.
//
// The search finds public repositories by words; `downloads` is an option of add().
//
//   const hub = await startHub();
//   hub.add('openai/demo', { 'config.json': '{}', 'model.safetensors': bytes });
//   hub.script('model.safetensors', [{ cut: 1000 }, { status: 503 }]); // then as usual
//   ... HF_ENDPOINT=hub.url, --hub-host hub.storage
//   await hub.close();
//
// A script's step, used up by one request for that file's bytes:
//   { status, headers }   answer this instead          { cut: n }      n bytes, then reset
//   { stall: n }          n bytes, then silence        { rate: n }     n bytes a second
//   { flip: n }           byte n of the file is wrong  { noRange }     ignore Range
//   { redirect: url }     send the client there        { weak }        a weak ETag
//   { gate: promise, after: n }  n bytes, then wait for the promise
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const hex = (name, bytes) => crypto.createHash(name).update(bytes).digest('hex');

const isLfs = (name, size) => /\.(safetensors|bin|gguf)$/.test(name) || name === 'tokenizer.json' || size > 10_000_000;

class Repo {
  constructor(id, files, options) {
    Object.assign(this, { id, private: false, gated: false, ...options });
    this.revisions = new Map(); // commit -> Map(name -> file)
    this.refs = {};
    this.commit(files);
  }

  // A new commit on main that holds exactly these files.
  commit(files) {
    const tree = new Map();
    for (const [name, content] of Object.entries(files)) {
      const bytes = Buffer.isBuffer(content) ? content : Buffer.from(content);
      const header = Buffer.from(`blob ${bytes.length}\0`);
      tree.set(name, {
        name,
        bytes,
        lfs: isLfs(name, bytes.length),
        sha256: hex('sha256', bytes),
        blobId: hex('sha1', Buffer.concat([header, bytes])),
        etag: `"${hex('md5', bytes)}"`,
      });
    }
    const sha = hex('sha1', Buffer.from([...tree.values()].map((f) => f.name + f.blobId).join()));
    this.revisions.set(sha, tree);
    this.refs.main = sha;
    return sha;
  }

  get sha() {
    return this.refs.main;
  }
  tree(revision = 'main') {
    const sha = this.refs[revision] ?? revision;
    return this.revisions.has(sha) ? { sha, files: this.revisions.get(sha) } : undefined;
  }
}

// All files of a folder, as add() takes them.
export function readFolder(dir, prefix = '') {
  const files = {};
  for (const entry of fs.readdirSync(dir, { withFileTypes: true })) {
    const full = path.join(dir, entry.name);
    if (entry.isDirectory()) Object.assign(files, readFolder(full, `${prefix}${entry.name}/`));
    else files[prefix + entry.name] = fs.readFileSync(full);
  }
  return files;
}

const listen = (server, host) => new Promise((done) => server.listen(0, host, () => done(server.address().port)));

export async function startHub({ token = 'hf_stand_in', pageSize = 0, prefix = '' } = {}) {
  const repos = new Map();
  const scripts = new Map();
  const requests = [];
  const sockets = new Set();
  const secret = crypto.randomBytes(16);
  const hub = { repos, requests, token, pageSize, down: false, rateLimit: undefined };

  const front = http.createServer((req, res) => receive('hub', req, res));
  const storage = http.createServer((req, res) => receive('storage', req, res));
  for (const server of [front, storage]) {
    server.keepAliveTimeout = 30000;
    server.on('connection', (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
    });
  }
  const port = await listen(front, '127.0.0.1');
  const storagePort = await listen(storage, '127.0.0.1');
  hub.port = port;
  hub.url = `http://127.0.0.1:${port}${prefix}`;
  hub.storage = `127.0.0.1:${storagePort}`;

  hub.add = (id, files, options) => {
    const repo = new Repo(id, files, options);
    repos.set(id.toLowerCase(), repo);
    return repo;
  };
  hub.script = (name, steps) => scripts.set(name, [...steps]);
  // Requests for a file's bytes, wherever they were answered.
  hub.served = (name) => requests.filter((r) => r.file === name && r.sent !== undefined);
  hub.close = () =>
    new Promise((done) => {
      let open = 2;
      for (const server of [front, storage])
        server.close(() => {
          if (--open === 0) done();
        });
      for (const socket of sockets) socket.destroy();
    });

  function receive(where, req, res) {
    const url = new URL(req.url, `http://${req.headers.host}`);
    const record = {
      where,
      method: req.method,
      path: url.pathname,
      query: url.search,
      headers: req.headers,
      at: Date.now(),
    };
    requests.push(record);
    if (hub.down) return void res.socket.destroy();
    if (where === 'storage') return serveStorage(record, url, req, res);
    if (!url.pathname.startsWith(prefix)) return fail(res, 404, 'not here');
    const parts = url.pathname
      .slice(prefix.length + 1)
      .split('/')
      .map(decodeURIComponent);
    if (hub.rateLimit !== undefined)
      return fail(res, 429, 'Too Many Requests', undefined, { 'retry-after': String(hub.rateLimit) });
    if (parts[0] === 'api' && parts[1] === 'models' && parts.length === 2) return serveSearch(url, res);
    if (parts[0] === 'api' && parts[1] === 'models') return serveApi(parts.slice(2), url, req, res);
    if (parts[2] === 'resolve') return serveResolve(record, parts, req, res);
    return fail(res, 404, 'Sorry, we can not find the page you are looking for.');
  }

  function fail(res, status, message, code, headers = {}) {
    if (code) headers['x-error-code'] = code;
    res.writeHead(status, { 'content-type': 'application/json', 'x-error-message': message, ...headers });
    res.end(JSON.stringify({ error: message }));
  }

  // The repository, or undefined after an answer was sent.
  function authorize(id, req, res, forBytes) {
    const repo = repos.get(id.toLowerCase());
    const given = req.headers.authorization?.replace('Bearer ', '');
    const known = given === token;
    if (given !== undefined && !known) return void fail(res, 401, 'Invalid credentials in Authorization header');
    if (repo === undefined || (repo.private && !known))
      // the two are not told apart
      return void (known
        ? fail(res, 404, 'Repository not found', 'RepoNotFound')
        : fail(res, 401, 'Invalid username or password.', hub.hidesCode ? undefined : 'RepoNotFound'));
    if (repo.gated && forBytes && !(known && repo.granted))
      return void fail(res, known ? 403 : 401, `Access to model ${repo.id} is restricted.`, 'GatedRepo');
    return repo;
  }

  // Public repositories whose name has every word, as the hub's search finds them.
  function serveSearch(url, res) {
    const words = (url.searchParams.get('search') ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const filter = url.searchParams.get('filter');
    const tagsOf = (repo) => {
      const names = [...repo.tree().files.keys()];
      return ['gguf', 'safetensors'].filter((tag) => names.some((name) => name.endsWith(`.${tag}`)));
    };
    const found = [...repos.values()]
      .filter((repo) => !repo.private && words.every((word) => repo.id.toLowerCase().includes(word)))
      .map((repo) => ({ repo, tags: tagsOf(repo) }))
      .filter(({ tags }) => filter === null || tags.includes(filter))
      .sort((a, b) => (b.repo.downloads ?? 1) - (a.repo.downloads ?? 1))
      .slice(0, Number(url.searchParams.get('limit') ?? 30));
    res.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
    res.end(
      JSON.stringify(
        found.map(({ repo, tags }) => ({
          _id: '65f0',
          id: repo.id,
          modelId: repo.id,
          downloads: repo.downloads ?? 1,
          likes: 3,
          private: false,
          gated: repo.gated ? 'manual' : false,
          tags: [...tags, 'text-generation'],
        })),
      ),
    );
  }

  function serveApi(parts, url, req, res) {
    const repo = authorize(parts.slice(0, 2).join('/'), req, res, false);
    if (repo === undefined) return;
    const tree = repo.tree(parts[2] === 'revision' ? parts[3] : 'main');
    if (tree === undefined) return fail(res, 404, `Invalid rev id: ${parts[3]}`, 'RevisionNotFound');
    const blobs = url.searchParams.get('blobs') === 'true';
    let siblings = [...tree.files.values()].map((f) => ({
      rfilename: f.name,
      ...(blobs && { size: f.bytes.length, blobId: f.blobId }),
      ...(blobs && f.lfs && { lfs: { sha256: f.sha256, size: f.bytes.length, pointerSize: 134 } }),
    }));
    const headers = { 'content-type': 'application/json; charset=utf-8' };
    if (hub.pageSize > 0) {
      const from = Number(url.searchParams.get('cursor') ?? 0);
      if (from + hub.pageSize < siblings.length) {
        const next = new URL(hub.url + url.pathname.slice(prefix.length));
        next.search = `?blobs=${blobs}&cursor=${from + hub.pageSize}`;
        headers.link = `<${next}>; rel="next"`;
      }
      siblings = siblings.slice(from, from + hub.pageSize);
    }
    res.writeHead(200, headers);
    res.end(
      JSON.stringify({
        _id: '65f0',
        id: repo.id,
        modelId: repo.id,
        author: repo.id.split('/')[0],
        sha: tree.sha,
        private: repo.private,
        gated: repo.gated ? 'manual' : false,
        disabled: false,
        downloads: 1,
        likes: 1,
        tags: ['safetensors'],
        siblings,
        usedStorage: 1,
      }),
    );
  }

  function sign(text) {
    return crypto.createHmac('sha256', secret).update(text).digest('hex');
  }

  function serveResolve(record, parts, req, res) {
    const repo = authorize(parts.slice(0, 2).join('/'), req, res, true);
    if (repo === undefined) return;
    const tree = repo.tree(parts[3]);
    if (tree === undefined) return fail(res, 404, `Invalid rev id: ${parts[3]}`, 'RevisionNotFound');
    const file = tree.files.get(parts.slice(4).join('/'));
    if (file === undefined) return fail(res, 404, 'Entry not found', 'EntryNotFound');
    record.file = file.name;
    const common = { 'x-repo-commit': tree.sha, 'accept-ranges': 'bytes', 'access-control-allow-origin': hub.url };
    if (!file.lfs) return send(record, file, `"${file.blobId}"`, common, req, res);
    const step = scripts.get(file.name)?.[0];
    if (step?.redirect !== undefined) {
      scripts.get(file.name).shift();
      res.writeHead(302, { ...common, location: step.redirect });
      return res.end();
    }
    const expires = Date.now() + (hub.addressLife ?? 3600000);
    const target =
      `/repos/${repo.id}/${file.sha256}?Expires=${expires}&Signature=${sign(`${file.sha256}${expires}`)}` +
      `&commit=${tree.sha}&name=${encodeURIComponent(file.name)}`;
    res.writeHead(302, {
      ...common,
      location: `http://${hub.storage}${target}`,
      'x-linked-size': file.bytes.length,
      'x-linked-etag': `"${file.sha256}"`,
      etag: `"${file.blobId}"`,
      'content-type': 'text/plain',
    });
    res.end('Found. Redirecting');
  }

  function serveStorage(record, url, req, res) {
    const [, , org, name, sha256] = url.pathname.split('/');
    const expires = url.searchParams.get('Expires');
    if (url.searchParams.get('Signature') !== sign(`${sha256}${expires}`) || Number(expires) < Date.now())
      return fail(res, 403, 'AccessDenied');
    const repo = repos.get(`${org}/${name}`.toLowerCase());
    const file = repo?.tree(url.searchParams.get('commit'))?.files.get(url.searchParams.get('name'));
    if (file === undefined) return fail(res, 404, 'NoSuchKey');
    record.file = file.name;
    send(record, file, file.etag, { 'accept-ranges': 'bytes' }, req, res);
  }

  async function send(record, file, etag, headers, req, res) {
    const step = scripts.get(file.name)?.shift() ?? {};
    let { bytes } = file;
    if (step.status !== undefined) return fail(res, step.status, 'scripted', step.code, step.headers);
    if (step.redirect !== undefined) {
      res.writeHead(302, { location: step.redirect });
      return void res.end();
    }
    if (step.bytes !== undefined) {
      bytes = step.bytes;
      etag = `"${hex('md5', bytes)}"`;
    }
    if (step.flip !== undefined) {
      bytes = Buffer.from(bytes);
      bytes[step.flip] ^= 1;
    }
    if (step.weak) etag = `W/${etag}`;
    const range = req.headers.range?.match(/^bytes=(\d+)-(\d*)$/);
    const condition = req.headers['if-range'];
    let from = 0,
      status = 200;
    if (range && !step.noRange && (condition === undefined || (condition === etag && !step.weak))) {
      from = Number(range[1]);
      status = 206;
      if (from >= bytes.length) {
        res.writeHead(416, { 'content-range': `bytes */${bytes.length}` });
        return void res.end();
      }
      headers['content-range'] = `bytes ${from}-${bytes.length - 1}/${bytes.length}`;
    }
    record.status = status;
    record.from = from;
    record.sent = 0;
    res.writeHead(status, {
      ...headers,
      etag,
      'content-length': bytes.length - from,
      'content-type': 'application/octet-stream',
    });
    if (req.method === 'HEAD') return void res.end();
    await stream(record, bytes.subarray(from), step, res);
  }

  async function stream(record, bytes, step, res) {
    const end = step.cut ?? step.stall ?? (step.gate ? step.after : bytes.length);
    const chunk = step.rate !== undefined ? Math.max(1, Math.floor(step.rate / 20)) : 256 << 10;
    for (let at = 0; at < Math.min(end, bytes.length) && !res.destroyed; ) {
      const next = Math.min(at + chunk, end, bytes.length);
      await new Promise((done) => {
        const gone = () => done();
        res.once('close', gone);
        res.write(bytes.subarray(at, next), () => {
          res.off('close', gone);
          done();
        });
      });
      record.sent += next - at;
      at = next;
      if (step.rate !== undefined) await new Promise((done) => setTimeout(done, 50));
    }
    if (step.cut !== undefined) return void res.socket?.destroy();
    if (step.stall !== undefined) return;
    if (step.gate) {
      step.reached?.();
      await step.gate;
      if (!res.destroyed) res.write(bytes.subarray(end));
      record.sent += bytes.length - end;
    }
    res.end();
  }

  return hub;
}
