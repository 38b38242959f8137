// The picture of a fleet with two routers on one PostgreSQL database.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startPostgres } from '../support/postgres.mjs';
import { startBrowser } from './browser.mjs';
import { addNode, keep } from './fleet.mjs';
import { call, makeEcho, nodes, online, register, say, startRouter, stream, until } from './support.mjs';

let database, first, second, browser;

before(async () => {
  database = startPostgres();
  const args = ['--database', database.url, '--allow-cpu-nodes'];
  [first, second] = [keep(await startRouter({ args })), keep(await startRouter({ args }))];
  const slow = makeEcho('slow', { step_ms: 50 });
  for (const [i, router] of [first, second].entries()) await addNode(router, slow, { name: `n${i}` });
  await until('a node is there', async () => (await online(first)) > 0);
  await register(first, 'slow');
  for (const router of [first, second])
    await until(
      'both nodes serve',
      async () =>
        (await online(router)) === 2 && (await nodes(router)).every((n) => n.models.some((m) => m.state === 'ready')),
    );
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  database.stop();
});

const address = (router) => new URL(router.url).host;

test('the picture shows every router with its traffic, every node with the requests of all routers, and a router that is gone', async () => {
  const page = await browser.open(`${first.url}/#/nodes?view=picture`);
  const box = (router) => page.locator('.fleet-router').filter({ hasText: address(router) });
  const node = (name) => page.locator('.fleet-node').filter({ hasText: name });
  await box(first).getByText('this router').waitFor();
  await box(second).getByText('0 running, 0 waiting').waitFor();
  assert.equal(await box(second).getByText('this router').count(), 0);
  for (const name of ['n0', 'n1']) await node(name).getByText('slow').waitFor();
  // Two requests to the second router, one to each node: the page of the first router shows them.
  let left = 0;
  const requests = [1, 2].map(() =>
    stream(second.url, { model: 'slow', ...say('word '.repeat(400)) })
      .catch(() => {})
      .finally(() => left++),
  );
  await box(second).getByText('2 running, 0 waiting').waitFor();
  await box(first).getByText('0 running, 0 waiting').waitFor();
  for (const name of ['n0', 'n1']) {
    await node(name).getByText('1 running, 1 loaded').waitFor();
    assert.equal(await node(name).locator('.fleet-line').getAttribute('data-busy'), 'true');
  }
  assert.equal(left, 0, 'the requests run still');
  assert.equal(await box(second).locator('.fleet-line').getAttribute('data-busy'), 'true');
  assert.equal(await box(first).locator('.fleet-line').getAttribute('data-busy'), 'false');
  await page.look('routers');
  await second.stop('SIGKILL');
  await Promise.all(requests);
  const phone = await browser.open(`${first.url}/#/nodes?view=picture`, { scheme: 'dark', size: 'phone', lang: 'ja' });
  await box(second)
    .getByText(/^silent for (\d\d s|\d+ min)/)
    .waitFor();
  assert.match(await box(second).getAttribute('class'), /offline/);
  await phone.getByText('応答なし').waitFor();
  await phone.look('routers-ja');
  const { routers } = (await call(`${first.url}/v0/routers`)).json;
  assert.deepEqual(
    routers.map((r) => [r.url, r.own, r.online]),
    [
      [first.url, true, true],
      [second.url, false, false],
    ],
  );
  page.watch.assertClean();
  phone.watch.assertClean();
});
