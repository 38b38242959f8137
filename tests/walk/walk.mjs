// The landmarks of a streamed request, found by tracing requests through router, node and worker.
//   node tests/walk/walk.mjs            writes docs/walk.md
//   node tests/walk/walk.mjs --check    fails where docs/walk.md names another way
// The program is built with LR_TRACE (tools/walk): each process notes the functions that it enters.  What a timer or
// a heartbeat does meanwhile is not part of each request, and so drops out.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { call, launch, makeToken, nodes, register, ROOT, sleep, tempDir, until } from '../e2e/support.mjs';

const BIN = path.join(ROOT, 'build/trace/bin/llm-router');
const PAGE = path.join(ROOT, 'docs/walk.md');
const REQUESTS = 40;
const KEPT = 15; // the shortest: in a long one a timer fires, too
const isCheck = process.argv.includes('--check');
const MOST = isCheck ? 1 : 10; // of these: a heartbeat before a request keeps what both enter from being noted again
const GAP_MS = 60; // longer than a function that was noted is not noted again (trace.c)
const OBJECTS = 8;
const OBJECT_BYTES = 256;

const now = () => process.hrtime.bigint();

/** Streams one answer; gives when it began and ended. */
async function ask(url, model, key) {
  const began = now();
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({
      model,
      stream: true,
      max_tokens: 2,
      messages: [{ role: 'user', content: 'What is blue?' }],
    }),
  });
  const text = await answer.text();
  if (answer.status !== 200 || !text.includes('[DONE]')) throw new Error(text);
  return { began, ended: now() };
}

/** The notes of a process: [function's address, nanoseconds], and the files that functions lie in. */
function readNotes(file) {
  const bytes = fs.readFileSync(file);
  const objects = [];
  for (let i = 0; i < OBJECTS; i++) {
    const base = bytes.readBigUInt64LE(i * OBJECT_BYTES);
    const name = bytes.toString('latin1', i * OBJECT_BYTES + 8, (i + 1) * OBJECT_BYTES).split('\0')[0];
    if (base !== 0n) objects.push({ base, path: name.includes('/') ? name : BIN });
  }
  objects.sort((a, b) => (a.base < b.base ? 1 : -1));
  const count = Number(bytes.readBigUInt64LE(OBJECTS * OBJECT_BYTES));
  const notes = [];
  for (let i = 0; i < count; i++) {
    const at = OBJECTS * OBJECT_BYTES + 8 + i * 16;
    if (at + 16 > bytes.length) throw new Error(`${file}: more notes than it holds`);
    notes.push([bytes.readBigUInt64LE(at), bytes.readBigUInt64LE(at + 8)]);
  }
  return { objects, notes };
}

/** Names of addresses: "file.c function". */
function nameAll(objects, addresses) {
  const names = new Map();
  for (const { base, path: file } of objects) {
    const own = addresses.filter((a) => objects.find((o) => o.base <= a).base === base);
    const input = own.map((a) => `0x${(a - base).toString(16)}`).join('\n');
    const lines = execFileSync('addr2line', ['-f', '-e', file], { input, maxBuffer: 1 << 28 })
      .toString()
      .split('\n');
    own.forEach((a, i) => {
      const source = path.relative(ROOT, path.resolve(lines[2 * i + 1].split(':')[0]));
      names.set(a, { name: lines[2 * i], file: source });
    });
  }
  return names;
}

/** For each function that requests enter: its process, and its time in one request from that request's begin. */
function common(role, { objects, notes }, windows) {
  const addresses = [...new Set(notes.map(([a]) => a))];
  const names = nameAll(objects, addresses);
  const times = new Map();
  windows.forEach(({ began, ended }, w) => {
    for (const [address, ns] of notes) {
      if (ns < began || ns > ended) continue;
      const of = times.get(address) ?? times.set(address, []).get(address);
      of[w] ??= Number(ns - began);
    }
  });
  const shortest = windows.reduce(
    (best, w, i) => (w.ended - w.began < windows[best].ended - windows[best].began ? i : best),
    0,
  );
  return [...times]
    .filter(([, of]) => Object.keys(of).length >= MOST)
    .map(([address, of]) => ({ role, ...names.get(address), at: of[shortest] ?? of.toSorted((a, b) => a - b)[0] }))
    .filter((f) => /^(src|engines)\/.*\.c$/.test(f.file));
}

const bare = (text) => text.replace(/^[^ ]+\.[ch] - /, '').trim();

/** What a file is for: the first sentence of its opening comment, or of its header's. */
function purpose(file) {
  for (const name of [file, file.replace(/\.c$/, '.h')]) {
    const text = fs.existsSync(path.join(ROOT, name)) ? fs.readFileSync(path.join(ROOT, name), 'utf8') : '';
    const comment = /^\/\*([\s\S]*?)\*\//.exec(text)?.[1].replace(/\n \*/g, '\n') ?? '';
    const first = bare(
      comment
        .split(/\n\s*\n/)[0]
        .replace(/\s+/g, ' ')
        .trim(),
    );
    if (first && !/^see /.test(first))
      return first
        .split(/(?<=[.;]) |: (?=[a-z`])/)[0]
        .replace(/ \([^)]*$/, '')
        .replace(/[.:;]$/, '');
  }
  return '';
}

const SECTIONS = [
  ['router', 'The router takes the request'],
  ['node', 'The node takes the generation'],
  ['worker', 'The worker computes'],
  ['node', 'The node passes the events on'],
  ['router', 'The router answers'],
];

/**
 * Sections of the way.  A landmark is a file that the request enters from another folder and for the first time in the
 * section, with the function that it enters there.
 */
function landmarks(all) {
  const first = (role, after) => Math.min(...all.filter((f) => f.role === role && f.at > after).map((f) => f.at));
  const told = all.find((f) => f.role === 'worker' && f.name === 'host_on_token').at;
  const starts = [0, first('node', 0), first('worker', 0), first('node', told)];
  starts.push(first('router', starts[3]));
  const ends = [starts[4], starts[3], Infinity, Infinity, Infinity];
  return SECTIONS.map(([role, title], i) => {
    const own = all
      .filter((f) => f.role === role && f.at >= starts[i] && f.at < ends[i])
      .toSorted((a, b) => a.at - b.at);
    const files = new Map();
    own.forEach((f, n) => {
      const isEntered = n === 0 || path.dirname(own[n - 1].file) !== path.dirname(f.file);
      if (isEntered && !files.has(f.file)) files.set(f.file, f);
    });
    return { title, steps: [...files.values()] };
  });
}

async function trace() {
  const dir = tempDir('walk');
  const env = { TMPDIR: dir, LLM_ROUTER_ENGINES_DIR: path.join(ROOT, 'build/trace/engines') };
  const router = await launch(
    ['router', '--listen', '127.0.0.1:0', '--data-dir', path.join(dir, 'router'), '--allow-cpu-nodes'],
    { match: /listening on (http:\/\/\S+)/, env, bin: BIN },
  );
  router.url = router.found[1];
  const token = await makeToken(router);
  const node = await launch(
    [
      'node',
      '--listen',
      '127.0.0.1:0',
      '--device',
      'cpu',
      '--threads',
      '1',
      '--no-hf-cache',
      '--data-dir',
      path.join(dir, 'node'),
      '--router',
      router.url,
      '--model',
      path.join(ROOT, 'models/demo'),
    ],
    { match: /listening on port (\d+)/, env: { ...env, LLM_ROUTER_TOKEN: token }, bin: BIN },
  );
  await until('the node has joined', async () => (await nodes(router)).some((n) => n.online));
  await register(router, 'demo');
  await until('the model is there', async () => (await call(`${router.url}/v1/models/demo`)).json?.ready);
  for (let i = 0; i < 3; i++) await ask(router.url, 'demo', 'none');
  const windows = [];
  for (let i = 0; i < REQUESTS; i++) {
    await sleep(GAP_MS);
    windows.push(await ask(router.url, 'demo', 'none'));
  }
  const short = windows.toSorted((a, b) => Number(a.ended - a.began - (b.ended - b.began))).slice(0, KEPT);
  await node.stop();
  await router.stop();
  const role = (pid) => (pid === router.pid ? 'router' : pid === node.pid ? 'node' : 'worker');
  return fs
    .readdirSync(dir)
    .map((name) => /^walk-(\d+)\.trace$/.exec(name))
    .filter(Boolean)
    .flatMap(([name, pid]) => common(role(Number(pid)), readNotes(path.join(dir, name)), short));
}

function page(sections) {
  const lines = [
    '# A streamed request, landmark by landmark',
    '',
    'This page follows `POST /v1/chat/completions` with `stream: true` through a router, a node, a worker and the gpt-oss engine on the processor, and its tokens back. `tools/walk` writes it: requests go',
    'through a build that notes which functions it enters, and where requests enter a file from another folder, the page names the function and says what the file is for.',
    'It is a map and no measure: start to read at a landmark, and follow the calls from there. `make lint` checks that the functions exist, `make test-long` that requests still go this way.',
  ];
  for (const { title, steps } of sections) {
    lines.push('', `## ${title}`);
    for (const { name, file } of steps) lines.push(`- \`${name}\` (\`${file}\`): ${purpose(file)}`);
  }
  return `${lines.join('\n')}\n`;
}

const entered = await trace();
if (isCheck) {
  const ways = new Set(entered.map(({ role, name, file }) => `${role}: ${name} (${file})`));
  const parts = fs.readFileSync(PAGE, 'utf8').split(/^## /m).slice(1);
  const named = parts.flatMap((part) => {
    const [role] = SECTIONS.find(([, title]) => part.startsWith(`${title}\n`)) ?? [];
    return [...part.matchAll(/^- `(\w+)` \(`([^`]+)`\)/gm)].map(([, name, file]) => `${role}: ${name} (${file})`);
  });
  const missing = named.filter((way) => !ways.has(way));
  if (named.length < 50 || missing.length > 0)
    throw new Error(
      `docs/walk.md names ${named.length} landmarks; no longer on the way: ${missing.join(', ')}; run tools/walk`,
    );
  console.log(`${named.length} landmarks lie on the way of each request`);
} else {
  const sections = landmarks(entered);
  fs.writeFileSync(PAGE, page(sections));
  console.log(`docs/walk.md: ${sections.map((s) => s.steps.length).join(' + ')} landmarks`);
}
