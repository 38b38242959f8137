// The fleet of a chaos test: three nodes; one router with SQLite, or two with PostgreSQL;
// a local hub; and a proxy on every link between a router and a node, in each direction.  The
// link to the first node uses TLS.
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { writeEchoModel } from '../support/echo_model.mjs';
import { readFolder, startHub } from '../support/hub.mjs';
import { startProxy } from '../support/proxy.mjs';
import { sleep, tempDir, until } from '../support/scene.mjs';
import { ask } from './http.mjs';
import { BIN, Disk, fakeClock, freePort, Member, Postgres, ROOT } from './members.mjs';

const run = promisify(execFile);

export const NODES = 3;
export const STEP_TIMEOUT = 6000; // of the nodes: how long a worker may hang
export const NODE_TIMEOUT = 5000; // of routers: a node that is silent for longer is offline
const DRAIN_TIMEOUT = 12000; // of nodes and routers
const DISK_MB = 384; // of memory, as far as used; downloads leave 256 alone

// The models: gpt-oss in miniature (bitwise the same answers in any batch), an engine that
// breaks on command, and an engine that comes from the hub in two revisions.
export const DEMO = 'demo',
  PARROT = 'parrot',
  HUB = 'acme/echo';
export const MODELS = [DEMO, PARROT, HUB];
export const ENGINE = { [DEMO]: 'gptoss', [PARROT]: 'faulty', [HUB]: 'echo' };
export const POISON = 'deadly';

const upper = '{% for m in messages %}{{ m.content | upper }}{% endfor %}';
const plain = '{% for m in messages %}{{ m.content }}{% endfor %}';

// A certificate for this machine that is its own CA.
function certify(dir) {
  const file = (name) => path.join(dir, name);
  // Good since yesterday: a router whose clock is slow by an hour would rightly refuse a newer one.
  const yesterday =
    fakeClock() !== undefined ? { ...process.env, LD_PRELOAD: fakeClock(), FAKETIME: '-1d' } : process.env;
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      file('node.key'),
      '-out',
      file('node.pem'),
      '-subj',
      '/CN=chaos',
      '-addext',
      'subjectAltName=IP:127.0.0.1',
      '-days',
      '90',
    ],
    { stdio: 'ignore', env: yesterday },
  );
  return { cert: file('node.pem'), key: file('node.key') };
}

// Only the engines that the storm uses, so that a node's disk stays small.  Those for tests may
// lie apart from the others.
function gatherEngines(dir) {
  const places = ['../testing/engines', '../engines'].map((place) => path.join(path.dirname(BIN), place));
  for (const name of Object.values(ENGINE)) {
    const from = places.map((place) => path.join(place, name)).find((place) => fs.existsSync(place));
    if (from === undefined) throw new Error(`the engine ${name} is in neither of ${places.join(', ')}`);
    fs.cpSync(from, path.join(dir, name), { recursive: true, dereference: true });
  }
  return dir;
}

export class Fleet {
  constructor({ database, logDir, onDeath, slow }) {
    Object.assign(this, {
      drainMs: DRAIN_TIMEOUT * slow,
      database,
      logDir,
      onDeath,
      routers: [],
      nodes: [],
      disks: [],
      proxies: [],
      tokens: [],
      clones: [],
    });
    fs.rmSync(logDir, { recursive: true, force: true });
    fs.mkdirSync(logDir, { recursive: true });
    // Also where the run ends badly: before the folders are removed.
    process.prependListener('exit', () => this.#leave());
  }

  async start() {
    this.dir = tempDir('chaos');
    fs.chmodSync(this.dir, 0o711); // PostgreSQL's user must pass through
    this.tls = certify(this.dir);
    this.ca = fs.readFileSync(this.tls.cert);
    this.engines = gatherEngines(path.join(this.dir, 'engines'));
    await this.#startHub();
    if (this.database === 'postgres') {
      const dir = path.join(this.dir, 'pg');
      fs.mkdirSync(dir);
      this.postgres = new Postgres(dir);
      await this.postgres.start();
    }
    for (let i = 0; i < (this.database === 'postgres' ? 2 : 1); i++) await this.#addRouter(i);
    for (let i = 0; i < NODES; i++) await this.#addNode(i);
    await until(
      'all nodes are online at all routers',
      async () => {
        for (const router of this.routers)
          if (((await this.nodesAt(router)) ?? []).filter((n) => n.online).length < NODES) return false;
        return true;
      },
      30000,
    );
    this.key = (await this.operate(0, '/v0/keys', { name: 'load' })).key;
    for (const id of [DEMO, PARROT]) await this.operate(0, '/v0/models/register', { path: id });
    await this.registerHub('A');
  }

  async #startHub() {
    this.hub = await startHub();
    const files = readFolder(writeEchoModel(path.join(this.dir, 'hub'), 'echo', { step_ms: 2 }));
    const repo = this.hub.add(HUB, { ...files, 'chat_template.jinja': plain });
    this.revisions = { A: repo.sha, B: repo.commit({ ...files, 'chat_template.jinja': upper }) };
    this.hubEnv = { HF_ENDPOINT: this.hub.url, HF_HOME: path.join(this.dir, 'hf') };
    for (const name of ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']) this.hubEnv[name] = '';
  }

  #disk(name) {
    const disk = new Disk(path.join(this.dir, name), DISK_MB);
    this.disks.push(disk);
    return disk;
  }

  async #link(port) {
    const proxy = await startProxy({ port });
    this.proxies.push(proxy);
    return proxy;
  }

  #member(name, role, options) {
    return new Member(name, role, {
      logDir: this.logDir,
      onDeath: this.onDeath,
      ...options,
      env: { ...this.hubEnv, ...options.env },
    });
  }

  async #addRouter(index) {
    const port = await freePort();
    const proxy = await this.#link(port);
    const disk = this.#disk(`r${index}`);
    const database = this.postgres ? ['--database', this.postgres.url] : [];
    const router = this.#member(`r${index}`, 'router', {
      match: /listening on http/,
      args: () => [
        'router',
        '--listen',
        `127.0.0.1:${port}`,
        '--data-dir',
        path.join(disk.dir, 'data'),
        '--allow-cpu-nodes',
        '--advertise',
        proxy.url,
        '--tls-ca',
        this.tls.cert,
        '--threads',
        '2',
        '--hub-host',
        this.hub.storage,
        '--drain-timeout',
        `${this.drainMs}ms`,
        '--node-timeout',
        `${NODE_TIMEOUT}ms`,
        ...database,
      ],
    });
    Object.assign(router, {
      index,
      disk,
      proxy,
      url: `http://127.0.0.1:${port}`,
      dataDir: path.join(disk.dir, 'data'),
    });
    this.routers.push(router);
    await router.start();
  }

  async #addNode(index) {
    const port = await freePort();
    const proxy = await this.#link(port);
    const disk = this.#disk(`n${index}`);
    const home = this.routers[index % this.routers.length];
    const isTls = index === 0;
    const models = path.join(disk.dir, 'data/models');
    // Where a confined engine may write.  The models name no path: they are the same on every node.
    const scratch = path.join(disk.dir, 'data/engine-scratch/faulty');
    const struck = path.join(scratch, 'struck');
    fs.mkdirSync(scratch, { recursive: true, mode: 0o700 });
    fs.mkdirSync(models, { recursive: true });
    fs.cpSync(path.join(ROOT, 'models/demo'), path.join(models, DEMO), { recursive: true });
    writeEchoModel(path.join(models, PARROT), 'faulty', {
      step_ms: 5,
      load_ms: 200,
      hang: 'probe',
      once: 'struck',
      poison: POISON,
    });
    fs.writeFileSync(struck, '');
    const advertised = isTls ? proxy.url.replace('http:', 'https:') : proxy.url;
    const tls = isTls ? ['--tls-cert', this.tls.cert, '--tls-key', this.tls.key] : [];
    const token = await this.operate(home.index, '/v0/nodes/tokens', {});
    this.tokens.push({ router: home.index, id: token.id });
    const node = this.#member(`n${index}`, 'node', {
      match: /listening on port/,
      env: { LLM_ROUTER_TOKEN: token.key },
      args: () => [
        'node',
        '--listen',
        `127.0.0.1:${port}`,
        '--device',
        'cpu',
        '--no-hf-cache',
        '--data-dir',
        path.join(disk.dir, 'data'),
        '--router',
        home.proxy.url,
        '--node-name',
        `n${index}`,
        '--model',
        path.join(models, DEMO),
        '--engines-dir',
        this.engines,
        '--advertise',
        advertised,
        '--hub-host',
        this.hub.storage,
        '--tls-ca',
        this.tls.cert,
        ...tls,
        '--threads',
        '1',
        '--engine-threads',
        '1',
        '--step-timeout',
        `${STEP_TIMEOUT}ms`,
        '--load-timeout',
        `${STEP_TIMEOUT}ms`,
        '--drain-timeout',
        `${this.drainMs}ms`,
      ],
    });
    Object.assign(node, {
      index,
      home,
      disk,
      proxy,
      isTls,
      models,
      struck,
      url: `${isTls ? 'https' : 'http'}://127.0.0.1:${port}`,
      dataDir: path.join(disk.dir, 'data'),
    });
    this.nodes.push(node);
    await node.start();
  }

  // A process with a copy of the node's folder, at an address of its own.
  async cloneOf(node) {
    const port = await freePort();
    const dir = fs.mkdtempSync(path.join(this.dir, 'clone-'));
    fs.cpSync(node.dataDir, dir, { recursive: true, filter: (file) => !/\.lock$/.test(file) });
    const change = {
      '--listen': `127.0.0.1:${port}`,
      '--data-dir': dir,
      '--advertise': node.url.replace(/\d+$/, port),
      '--model': path.join(dir, 'models', DEMO),
    };
    const args = node.args().map((arg, i, all) => change[all[i - 1]] ?? arg);
    const clone = this.#member(`${node.name}-clone`, 'node', { match: node.match, env: node.env, args: () => args });
    this.clones.push(clone);
    await clone.start();
    return clone;
  }

  // ---- what an operator does ----

  // A change at a router, tried again while the router or its database is away, as an operator would.
  async operate(index, target, body, method) {
    let answer;
    for (const end = Date.now() + 30000; Date.now() < end; await sleep(300)) {
      answer = await ask(`${this.routers[index].url}${target}`, { body, method, ms: 20000 });
      if (answer.status >= 200 && answer.status < 300) return answer.json;
      if (![0, 429, 502, 503].includes(answer.status)) break;
    }
    throw new Error(
      `${method ?? 'POST'} ${target} at r${index}: status ${answer.status}, ${answer.text.slice(0, 300)}`,
    );
  }

  forget(index, id) {
    return this.operate(index, `/v0/models/${id}`, undefined, 'DELETE');
  }
  registerPath(index, id) {
    return this.operate(index, '/v0/models/register', { path: id });
  }

  async registerHub(letter, index = 0) {
    await this.operate(index, '/v0/models/register', { repo: HUB, revision: this.revisions[letter] });
    this.revision = letter;
  }

  get secretOf() {
    return (node) => {
      try {
        return JSON.parse(fs.readFileSync(path.join(node.dataDir, 'node-identity.json'))).secret;
      } catch {
        return '';
      }
    };
  }

  // A request to the node itself, past every router and proxy.
  atNode(node, target, options = {}) {
    return ask(`${node.url}${target}`, { key: this.secretOf(node), ca: this.ca, ...options });
  }

  order(node, model, word, ms = 15000) {
    return this.atNode(node, `/v0/models/${encodeURIComponent(model)}/${word}`, { body: {}, ms });
  }

  async nodesAt(router) {
    return (await ask(`${router.url}/v0/nodes`, { ms: 3000 })).json?.nodes;
  }

  // ---- the database as it was ----

  async backup() {
    if (this.postgres) await this.postgres.backup();
    else
      await run('sqlite3', [
        path.join(this.routers[0].dataDir, 'router.db'),
        `.backup ${path.join(this.dir, 'backup.db')}`,
      ]);
    this.backedUp = this.revision;
  }

  // SQLite's is put in place while its router is down.
  async restore() {
    if (this.postgres) await this.postgres.restore();
    else {
      const file = path.join(this.routers[0].dataDir, 'router.db');
      for (const tail of ['', '-wal', '-shm']) fs.rmSync(`${file}${tail}`, { force: true });
      fs.copyFileSync(path.join(this.dir, 'backup.db'), file);
    }
    this.revision = this.backedUp;
  }

  async close() {
    const all = [...this.routers, ...this.nodes, ...this.clones];
    for (const member of all) {
      member.isExpected = true;
      member.signal('SIGCONT');
    }
    await Promise.all(all.map((m) => m.stop('SIGKILL').catch(() => {})));
    await this.hub?.close();
    await Promise.all(this.proxies.map((p) => p.close()));
    this.#leave();
  }

  #leave() {
    for (const member of [...this.routers, ...this.nodes, ...this.clones]) {
      member.isExpected = true;
      if (member.isUp) member.child.kill('SIGKILL');
    }
    this.postgres?.close();
    this.postgres = undefined;
    for (const disk of this.disks) disk.close();
  }
}
