// Secrets are not on command lines, not in workers, and not in the database.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import {
  BIN,
  call,
  launch,
  makeEcho,
  makeToken,
  online,
  register,
  startNode,
  startRouter,
  startUp,
  tempDir,
  until,
} from './support.mjs';

const all = [];
const keep = (process) => {
  all.push(process);
  return process;
};
after(() => Promise.all(all.map((p) => p.stop('SIGKILL'))));

const cpu = ['--allow-cpu-nodes'];
// Empty where the process has ended meanwhile.
const read = (pid, what) => {
  try {
    return fs
      .readFileSync(`/proc/${pid}/${what}`, 'latin1')
      .split('\0')
      .filter((text) => text !== '');
  } catch {
    return [];
  }
};
const childrenOf = (pid) =>
  fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
const secretOf = (node) => JSON.parse(fs.readFileSync(path.join(node.dir, 'node-identity.json'), 'utf8')).secret;
const inFiles = (dir, text) =>
  fs
    .readdirSync(dir)
    .filter((name) => name.startsWith('router.db') && fs.readFileSync(path.join(dir, name)).includes(text));
const file = (text, dir = tempDir('secret')) => {
  fs.writeFileSync(path.join(dir, 'it'), text, { mode: 0o600 });
  return path.join(dir, 'it');
};

const worker = (node, id) =>
  until('its worker runs', async () =>
    childrenOf(node.pid).find((pid) => read(pid, 'cmdline').includes(`--label=${id}`)),
  );

test('a worker gets the variables that drivers and libraries need, and no other', async () => {
  const router = keep(await startRouter({ args: cpu }));
  const given = {
    HF_TOKEN: 'hf_geheim',
    LLM_ROUTER_NODE_SECRET: 'geheim-'.repeat(6),
    LLM_ROUTER_DATABASE: 'postgres://u:geheim@h/d',
    AWS_SECRET_ACCESS_KEY: 'geheim',
    HTTPS_PROXY: 'http://u:geheim@h',
    CUDA_VISIBLE_DEVICES: '0',
    NVIDIA_TF32_OVERRIDE: '0',
    VK_ICD_FILENAMES: '/x',
    LD_LIBRARY_PATH: '/nowhere',
    LC_ALL: 'C',
    LSAN_OPTIONS: 'exitcode=7',
  };
  const node = keep(await startNode(router, { args: ['--model', makeEcho('m')], env: given }));
  const env = read(await worker(node, 'm'), 'environ');
  assert.ok(
    !env.some((text) => text.includes('geheim') || text.startsWith('LLM_ROUTER_') || text.startsWith('HF_')),
    env.join(' '),
  );
  for (const name of [
    'CUDA_VISIBLE_DEVICES',
    'NVIDIA_TF32_OVERRIDE',
    'VK_ICD_FILENAMES',
    'LD_LIBRARY_PATH',
    'LC_ALL',
    'LSAN_OPTIONS',
  ])
    assert.ok(env.includes(`${name}=${given[name]}`), `${name} is passed on`);
  const others = env
    .map((text) => text.split('=')[0])
    .filter((name) => !/^(CUDA_|NVIDIA_|VK_|LC_)|SAN_OPTIONS$/.test(name));
  assert.deepEqual(
    others.filter((name) => !['PATH', 'LD_LIBRARY_PATH', 'TMPDIR', 'LANG'].includes(name)),
    [],
  );
});

test('no other process of the user reads the memory, the environment or the descriptors of a router or a node', async () => {
  // Root may read everything by its capabilities: neither these processes nor their reader have any.
  const [bin, ...drop] = process.getuid() === 0 ? ['setpriv', '--bounding-set=-all'] : ['env'];
  const reads = (pid, what) => spawnSync(bin, [...drop, 'ls', '-l', `/proc/${pid}/${what}`]).status === 0;
  const shows = (pid, what) => spawnSync(bin, [...drop, 'head', '-c', '1', `/proc/${pid}/${what}`]).status === 0;
  const open = async (args, match, env) => keep(await launch([...drop, ...args], { bin, match, env }));
  const other = await open(['sh', '-c', 'echo here; exec sleep 60'], /here/);
  assert.ok(reads(other.pid, 'fd/0') && shows(other.pid, 'environ') && shows(other.pid, 'maps'), 'the check sees');
  const listen = ['--listen', '127.0.0.1:0', '--data-dir'];
  const router = await open([BIN, 'router', ...listen, tempDir('r'), ...cpu], /listening on (http:\/\/\S+)/);
  const to = ['--router', router.found[1], '--device', 'cpu', '--no-hf-cache', '--model', makeEcho('m')];
  const node = await open([BIN, 'node', ...listen, tempDir('n'), ...to], /listening on port/, {
    LLM_ROUTER_TOKEN: (await call(`${router.found[1]}/v0/nodes/tokens`, { body: {} })).json.key,
  });
  for (const { pid } of [router, node]) {
    assert.equal(reads(pid, 'fd/0'), false);
    for (const what of ['environ', 'maps']) assert.equal(shows(pid, what), false, what);
  }
});

test('up passes the node-secret of a setting or a file to its node, never on a command line', async () => {
  const secret = 'geheim-'.repeat(6);
  for (const [args, env] of [
    [['--node-secret-file', file(`${secret}\n`)], {}],
    [[], { LLM_ROUTER_NODE_SECRET: secret }],
  ]) {
    const dir = tempDir('up');
    const up = keep(
      await launch(
        [
          'up',
          '--listen',
          '127.0.0.1:0',
          '--device',
          'cpu',
          '--no-hf-cache',
          '--data-dir',
          dir,
          '--model',
          makeEcho('m'),
          ...args,
        ],
        { match: /is ready at (http:\/\/\S+)/, env },
      ),
    );
    up.url = up.found[1];
    const node = childrenOf(up.pid)[0];
    for (const pid of [up.pid, node, ...childrenOf(node)])
      assert.ok(!read(pid, 'cmdline').some((text) => text.includes('geheim')), read(pid, 'cmdline').join(' '));
    const { nodes } = (await call(`${up.url}/v0/nodes`)).json;
    const health = (key) =>
      fetch(`${nodes[0].url}/v0/models`, { headers: key ? { authorization: `Bearer ${key}` } : {} });
    assert.deepEqual(
      [(await health()).status, (await health(secret)).status],
      [401, 200],
      'the node asks for that secret',
    );
    await up.stop();
  }
  const up = keep(await startUp({ args: ['--node-secret', secret, '--model', makeEcho('m')] }));
  assert.ok(
    !read(childrenOf(up.pid)[0], 'cmdline').some((text) => text.includes('geheim')),
    'nor where up was told on its own',
  );
});

test('a node joins with the token of --token-file; --token together with it, an empty file and a missing file are refused with the reason', async () => {
  const router = keep(await startRouter({ args: cpu }));
  const start = (args, env = {}) =>
    launch(
      [
        'node',
        '--listen',
        '127.0.0.1:0',
        '--device',
        'cpu',
        '--no-hf-cache',
        '--data-dir',
        tempDir('node'),
        '--router',
        router.url,
        ...args,
      ],
      { match: /listening on port/, env },
    );
  keep(await start(['--token-file', file(`${await makeToken(router)}\n`)]));
  await until('it has joined', async () => (await online(router)) === 1);
  await assert.rejects(
    start(['--token-file', file('x')], { LLM_ROUTER_TOKEN: 'y' }),
    /give token or token-file, not both/,
  );
  await assert.rejects(start(['--token-file', file(' \n')]), /setting token-file: .*is empty/);
  await assert.rejects(start(['--node-secret-file', '/nowhere/x']), /setting node-secret-file: .*\/nowhere\/x/);
});

test('the database keeps hashes of node secrets, also of rows that an older release wrote, and nodes are reached as before', async () => {
  let router = keep(await startRouter({ args: cpu }));
  const node = keep(await startNode(router, { args: ['--model', makeEcho('m')] }));
  await until('it has joined', async () => (await online(router)) === 1);
  const secret = secretOf(node),
    dir = router.dir;
  const stored = () => {
    const db = new DatabaseSync(path.join(dir, 'router.db'), { readOnly: true });
    const rows = db.prepare('SELECT secret FROM nodes').all();
    db.close();
    return rows.map((row) => row.secret);
  };
  await until('it is stored', () => stored().length === 1);
  assert.match(stored()[0], /^sha256:[0-9a-f]{64}$/);
  assert.deepEqual(inFiles(dir, secret), []);
  for (const name of fs.readdirSync(dir).filter((n) => n.startsWith('router.db')))
    assert.equal(fs.statSync(path.join(dir, name)).mode & 0o077, 0, `${name} is the user's alone`);

  await router.stop();
  const db = new DatabaseSync(path.join(dir, 'router.db'));
  // What version 5 of the database had; everything later goes.
  const old = {
    keys: 'id name role hash created_ms expires_ms revoked_ms requests_per_minute tokens_per_minute models',
    models: 'folded_id id source format manifest chat_template created_ms path generation',
    nodes: 'id name url secret device joined_ms drained',
    usage: 'time_ms key_id model node request_id status prompt_tokens completion_tokens cached_tokens wait_ms total_ms',
    audit: 'time_ms actor action target detail',
    routers: 'url seen_ms',
    counters: 'name value',
    schema_version: 'number',
  };
  for (const { name } of db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all())
    if (!(name in old)) db.exec(`DROP TABLE "${name}"`);
    else
      for (const column of db.prepare(`PRAGMA table_info("${name}")`).all())
        if (!old[name].split(' ').includes(column.name)) db.exec(`ALTER TABLE "${name}" DROP COLUMN ${column.name}`);
  db.exec(
    `UPDATE nodes SET secret = '${secret}'; UPDATE schema_version SET number = 5; DELETE FROM counters WHERE name = 'message'; PRAGMA wal_checkpoint(TRUNCATE)`,
  );
  db.close();
  assert.notDeepEqual(inFiles(dir, secret), []);
  router = keep(await startRouter({ args: cpu, dir, port: new URL(router.url).port }));
  await until('it is back by its secret', async () => (await online(router)) === 1);
  assert.match(stored()[0], /^sha256:/);
  await register(router, 'm');
  const answer = await until('it answers', async () => {
    const reply = await call(`${router.url}/v1/chat/completions`, {
      body: { model: 'm', messages: [{ role: 'user', content: 'hallo' }] },
    });
    return reply.status === 200 && reply.json;
  });
  assert.match(answer.choices[0].message.content, /hallo/);
  await router.stop(); // closing writes the log into the file
  assert.deepEqual(inFiles(dir, secret), [], 'nor on a page that is free now');
});
