// Helpers for tests of the hub: the demo model at a local hub, and the program that
// registers and downloads it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { readFolder, startHub } from '../support/hub.mjs';
import { tempDir, until } from '../support/scene.mjs';

export { until };

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const release = process.env.LLM_ROUTER_BIN ?? path.join(root, 'build/release/bin/llm-router');
// Failpoints are compiled into the debug and sanitized builds only.
export const DEBUG_BIN = process.env.LLM_ROUTER_DEBUG_BIN ?? path.join(root, 'build/debug/bin/llm-router');

export const SHARD = 'model-00001-of-00002.safetensors';
export const sha256 = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');

export function demoFiles() {
  const files = readFolder(path.join(root, 'models/demo'));
  for (const name of Object.keys(files)) if (name.includes('/') || name === 'README.md') delete files[name];
  return files;
}

// A stand-in hub with the demo model, and a folder to download into.
export async function setup(t, { files = demoFiles(), repo = 'openai/demo', options, hub: hubOptions } = {}) {
  const hub = await startHub(hubOptions);
  const dir = tempDir('hub');
  hub.add(repo, files, options);
  t.after(async () => {
    await hub.close();
    fs.rmSync(dir, { recursive: true, force: true });
  });
  const world = { hub, dir, files, out: path.join(dir, 'out'), manifestPath: path.join(dir, 'manifest.json') };

  // Resolves when it ends; `child` is there at once.
  world.start = (args, { env = {}, failpoint, hosts = [hub.storage], ulimit, sandbox = [] } = {}) => {
    const clean = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/proxy$/i.test(name) && !/^(HF_|SSL_CERT)/.test(name)),
    );
    const full = [...args, ...hosts.flatMap((host) => ['--hub-host', host])];
    let command = [failpoint !== undefined ? DEBUG_BIN : release, 'debug', ...full];
    if (ulimit) command = ['bash', '-c', `ulimit ${ulimit}; trap '' XFSZ; exec "$@"`, 'bash', ...command];
    if (sandbox.length) command = [...sandbox, ...command];
    const child = spawn(command[0], command.slice(1), {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...clean,
        HF_ENDPOINT: hub.url,
        HF_HOME: path.join(dir, 'none'),
        ...(failpoint && { LR_FAILPOINT: failpoint }),
        ...env,
      },
    });
    const run = { child, out: '', err: '' };
    child.stdout.on('data', (bytes) => {
      run.out += bytes;
    });
    child.stderr.on('data', (bytes) => {
      run.err += bytes;
    });
    run.done = new Promise((done) =>
      child.on('close', (code, signal) => {
        Object.assign(run, { code, signal });
        if (run.out.startsWith('{')) run.json = JSON.parse(run.out);
        assert.doesNotMatch(run.err, /ERROR: AddressSanitizer|LeakSanitizer|runtime error:/);
        done(run);
      }),
    );
    return run;
  };
  world.register = (name = repo, args = [], extra = {}) => world.start(['manifest', name, ...args], extra).done;
  world.startFetch = (args = [], extra = {}) =>
    world.start(
      ['fetch', '--manifest', world.manifestPath, '--output', world.out, '--backoff', '10ms', ...args],
      extra,
    );
  world.fetch = (args, extra) => world.startFetch(args, extra).done;
  // Writes the manifest; `change` may edit it first.
  world.settle = async (change = () => {}, extra) => {
    const run = await world.register(repo, [], extra);
    assert.equal(run.code, 0, run.err);
    change(run.json);
    fs.writeFileSync(world.manifestPath, JSON.stringify(run.json));
    return run.json;
  };
  world.part = (name) => path.join(world.out, '.download', `${name}.part`);
  // Every file of the model is there with the hub's bytes, and nothing half done.
  world.assertWhole = (names = Object.keys(files)) => {
    for (const name of names)
      assert.equal(sha256(fs.readFileSync(path.join(world.out, name))), sha256(files[name]), name);
    const left = fs.readdirSync(world.out, { recursive: true }).filter((name) => name.endsWith('.part'));
    assert.deepEqual(left, []);
  };
  return world;
}
