// A router and some nodes that serve one model, for tests of serving.
import fs from 'node:fs';
import path from 'node:path';
import { after } from 'node:test';
import { call, makeEcho, nodes, online, register, startNode, startRouter, tempDir, until } from './support.mjs';
import { startProxy } from '../support/proxy.mjs';

const left = [];
after(async () => {
  await Promise.all(left.map((p) => p.stop?.('SIGKILL') ?? p.close()));
});
export const keep = (process) => {
  left.push(process);
  return process;
};

export const idOf = (model) => model.split('/').pop();

// With `proxied` each node is reached through a proxy of its own, all[i].proxy.
export async function fleet(count, model, { args = [], nodeArgs = [], proxied = false, isLoaded = true, env } = {}) {
  const router = keep(await startRouter({ args: ['--allow-cpu-nodes', ...args], env }));
  const all = [];
  for (let i = 0; i < count; i++) all.push(await addNode(router, model, { name: `n${i}`, args: nodeArgs, proxied }));
  await until('all nodes online', async () => (await online(router)) === count);
  await register(router, idOf(model));
  if (isLoaded)
    await until('all loaded', async () => (await nodes(router)).every((n) => n.models[0].state === 'ready'));
  return { router, all };
}

export async function addNode(router, model, { name, args = [], proxied = false, ...more } = {}) {
  const proxy = proxied ? keep(await startProxy()) : undefined;
  const node = keep(
    await startNode(router, {
      name,
      ...more,
      args: ['--model', model, ...(proxy ? ['--advertise', proxy.url] : []), ...args],
    }),
  );
  if (proxy) {
    proxy.port = node.port;
    node.proxy = proxy;
  }
  return node;
}

// A key whose usage a test can tell from others'.
export const makeKey = async (router, more = {}) =>
  (await call(`${router.url}/v0/keys`, { body: { name: 'k', ...more } })).json;

export const used = (router, key) =>
  until('usage is written', async () =>
    (await call(`${router.url}/v0/usage`)).json.usage.find((u) => u.key === key.id),
  );

export const metric = async (router, name) =>
  Number((await call(`${router.url}/metrics`)).text.match(new RegExp(`^\\S*${name}(?:{[^}]*})? (\\d+)`, 'm'))?.[1]);

export const inflight = async (router) => (await nodes(router)).map((n) => n.models[0]?.inflight ?? 0);

export const allIdle = (router, ms) =>
  until('no slot is taken', async () => (await inflight(router)).every((n) => n === 0), ms);

// A model whose answers stand still where a test needs it, however slow the machine is: its n-th token comes when
// open(n) was called.
export function makeGated(id, testing = {}) {
  const gate = path.join(tempDir('gate'), 'gate');
  const open = (count) => fs.writeFileSync(gate, 'x'.repeat(count));
  open(0);
  return { model: makeEcho(id, { gate, ...testing }), open };
}

// A model of the engine that breaks on command (engines/testing/testing.h).
export function makeFaulty(id, testing) {
  const dir = makeEcho(id, testing);
  const file = path.join(dir, 'config.json');
  fs.writeFileSync(file, JSON.stringify({ ...JSON.parse(fs.readFileSync(file)), model_type: 'faulty' }));
  return dir;
}
