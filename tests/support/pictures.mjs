// Makes the pictures of docs/dashboard.md:  tools/pictures  (docs/dashboard/*.webp)
//
// A router with three nodes of the CPU serves the demo model and models of the testing engine under
// some load; the conversation of the playground was written for its picture.  Chromium itself
// encodes WebP.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import {
  makeEcho,
  ROOT,
  call,
  DEMO,
  online,
  register,
  say,
  sleep,
  startNode,
  startRouter,
  until,
} from '../e2e/support.mjs';

const OUT = path.join(ROOT, 'docs/dashboard');
const GIB = 2 ** 30;
const LIMIT = 600 * 1024; // all pictures together
const LOAD_S = Number(process.env.LOAD_SECONDS ?? 100);

const ANSWER = `**UDP** sends and forgets; **TCP** promises delivery, in order. The price is a round trip before the first byte:

| | TCP | UDP |
|---|:--:|:--:|
| Connection | handshake | none |
| Order and delivery | guaranteed | not guaranteed |
| Header | 20 bytes | 8 bytes |
| Typical use | web, databases | calls, games, DNS |

The throughput of one TCP connection follows from the loss rate $p$:

$$
B \\approx \\frac{\\mathrm{MSS}}{\\mathrm{RTT}} \\sqrt{\\frac{3}{2p}}
$$

\`\`\`python
import socket

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.sendto(b"ping", ("127.0.0.1", 9999))  # no handshake
\`\`\`
`;

const message = (role, content, facts) => ({ role, content, ...(facts ? { facts } : {}), finish: 'stop' });
const facts = { tokens: 238, speed: 412, firstMs: 61, model: 'demo', node: '', prompt: 74, cached: 64 };
const chats = [
  ['tcp', 'Compare TCP and UDP', ANSWER],
  ['merge', 'Merge two sorted lists', 'Walk both lists with one index each.'],
  ['notes', 'Release notes for 0.1', 'Here is a draft.'],
].map(([id, title, answer], i) => ({
  id,
  title,
  model: 'demo',
  at: Date.now() - i * 5400000 - 60000,
  messages: [
    message('user', title),
    { ...message('assistant', answer, facts), reasoning: 'The user wants a comparison.' },
  ],
}));

async function startFleet() {
  const router = await startRouter({ args: ['--allow-cpu-nodes'] });
  const chat = makeEcho('chat', { step_ms: 12, weights_bytes: 4 * GIB });
  const code = makeEcho('coder', { step_ms: 25, weights_bytes: 7 * GIB });
  const nodes = [];
  for (const [name, models] of [
    ['alder', [DEMO, chat]],
    ['birch', [chat, code]],
    ['cedar', [code, DEMO]],
  ])
    nodes.push(await startNode(router, { name, args: models.flatMap((m) => ['--model', m]) }));
  await until('all nodes', async () => (await online(router)) === 3);
  return { router, nodes };
}

/** Requests of a few keys' worth, more and fewer, until it is told to end. */
function startLoad(url) {
  let isOver = false;
  const worker = async (model, text, pauseMs) => {
    for (let i = 0; !isOver; i++) {
      await call(`${url}/v1/chat/completions`, {
        body: { model, max_tokens: 200, ...say(text.repeat(1 + (i % 3))) },
      }).catch(() => {});
      await sleep(pauseMs * (1 + Math.sin(Date.now() / 9000)));
    }
  };
  const all = [
    worker('demo', 'Count from 1 to 12. ', 120),
    worker('chat', 'The quick brown fox. ', 200),
    worker('chat', 'Good morning, everybody. ', 500),
    worker('coder', 'def main(): pass ', 300),
  ];
  return () => {
    isOver = true;
    return Promise.all(all);
  };
}

async function toWebp(browser, png) {
  const page = await browser.newPage();
  const data = await page.evaluate(
    async (source) => {
      const image = new Image();
      image.src = source;
      await image.decode();
      const canvas = document.createElement('canvas');
      canvas.width = image.width;
      canvas.height = image.height;
      canvas.getContext('2d').drawImage(image, 0, 0);
      return canvas.toDataURL('image/webp', 0.88);
    },
    `data:image/png;base64,${png.toString('base64')}`,
  );
  await page.close();
  assert.match(data, /^data:image\/webp/);
  return Buffer.from(data.split(',')[1], 'base64');
}

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
fs.mkdirSync(OUT, { recursive: true });

async function take(name, url, scheme, ready, prepare = async () => {}) {
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width: 1280, height: 800 },
    deviceScaleFactor: 1.5,
    locale: 'en',
    reducedMotion: 'reduce',
  });
  await context.addInitScript((list) => localStorage.setItem('lr.chats.local', JSON.stringify(list)), chats);
  const page = await context.newPage();
  await page.goto(url);
  await page.locator(ready).first().waitFor();
  await prepare(page);
  await sleep(1500); // charts and fonts
  fs.writeFileSync(path.join(OUT, `${name}.webp`), await toWebp(browser, await page.screenshot()));
  await context.close();
}

const { router, nodes } = await startFleet();
await take('welcome', router.url, 'dark', '.offer');
for (const id of ['demo', 'chat', 'coder']) await register(router, id);
const stopLoad = startLoad(router.url);
await sleep(LOAD_S * 1000);
const node = (await call(`${router.url}/v0/nodes`)).json.nodes.find((n) => n.name === 'birch');
await take('overview', router.url, 'light', '.chart canvas');
await take('node', `${router.url}/#/nodes/${node.id}`, 'dark', '.memory-bar');
await take('requests', `${router.url}/#/requests`, 'light', 'tbody tr');
await take('palette', `${router.url}/#/models`, 'dark', 'tbody tr', async (page) => {
  await page.keyboard.press('Control+k');
  await page.locator('.palette input').fill('de');
  await page.locator('.palette-entry').nth(2).waitFor();
});
await stopLoad();
await take('playground', `${router.url}/#/playground?chat=tcp`, 'light', '.prose math', async (page) => {
  await page.locator('.hl-keyword').first().waitFor();
  await page.evaluate(() => scrollTo(0, 0));
});
await browser.close();
await Promise.all([router, ...nodes].map((p) => p.stop('SIGKILL')));
const sizes = fs
  .readdirSync(OUT)
  .filter((f) => f.endsWith('.webp'))
  .map((f) => [f, fs.statSync(path.join(OUT, f)).size]);
const sum = sizes.reduce((n, [, size]) => n + size, 0);
for (const [file, size] of sizes) console.log(`${file} ${size}`);
assert.ok(sizes.length === 6 && sum <= LIMIT, `${sizes.length} pictures, ${sum} bytes`);
process.exit(0);
