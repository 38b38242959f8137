// Chats in the browser: streams, stopping, reasoning, tools, curl, conversations.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { startBrowser } from './browser.mjs';
import { call, DEMO, makeEcho, nodes, ROOT, say, startUp, until } from './support.mjs';

const HOSTILE = '<img src=x onerror="globalThis.broken = true"><script>globalThis.broken = true</script>';
const weather = JSON.stringify([
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather of a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
]);
let up, browser;

before(async () => {
  // The echo model says again what it hears, a byte a step.
  up = await startUp({
    args: ['--model', DEMO, '--model', makeEcho('echo'), '--model', makeEcho('slow', { step_ms: 25 })],
  });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await up?.stop();
});

async function open(model, options) {
  const page = await browser.open(`${up.url}/#/playground/${model}`, options);
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  assert.equal(await page.getByRole('combobox', { name: 'Model' }).inputValue(), model);
  page.say = async (text) => {
    await page.getByRole('textbox', { name: 'Message' }).fill(text);
    await page.getByRole('textbox', { name: 'Message' }).press('Enter');
  };
  page.answer = page.locator('.turn.model').last();
  page.ended = () => page.answer.locator('.turn-tools').waitFor();
  page.assertUnbroken = async () =>
    assert.deepEqual(
      await page.evaluate(() => [globalThis.broken, document.querySelectorAll('main img, main script').length]),
      [undefined, 0],
    );
  return page;
}

const shown = async (page) => (await page.answer.locator('.prose').textContent()) ?? '';

test('an answer grows while it is streamed, and ends with its figures', async () => {
  const page = await open('slow');
  // Five seconds: a browser that begins to read a second late must not change the speed much.
  const said = 'The quick brown fox jumps over the lazy dog, again and again and again. '.repeat(3).trim();
  // The page itself notes each state of the answer that it shows: the test may be too slow to see them.
  await page.evaluate(() => {
    globalThis.seen = [];
    new MutationObserver(() => {
      const answer = document.querySelector('.turn.model');
      const text = answer?.querySelector('.prose')?.textContent;
      if (text && text !== globalThis.seen.at(-1)?.text)
        globalThis.seen.push({ text, isBusy: answer.getAttribute('aria-busy') === 'true' });
    }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  await page.say(said);
  await page.ended();
  assert.equal(await shown(page), said);
  const seen = (await page.evaluate(() => globalThis.seen)).filter(({ text }) => text.length < said.length);
  assert.ok(seen.length >= 3, `${seen.length} states before the whole answer`);
  for (const { text, isBusy } of seen) assert.ok(isBusy && said.startsWith(text), text);
  assert.equal(await page.locator('.bubble').textContent(), said);
  const facts = await page.answer.locator('.turn-facts').textContent();
  assert.match(facts, new RegExp(`^${said.length + 1} tokens`), 'a byte each, and the end');
  const speed = Number(facts.match(/([\d.,]+) tokens\/s/)[1]);
  assert.ok(speed > 2 && speed < 80, `${speed} tokens/s at 25 ms a step`);
  assert.match(facts, /first token after \d+/);
  await page.getByText('The answer is complete.').waitFor({ state: 'attached' });
  page.watch.assertClean();
  await page.context().close();
});

test('stop ends an answer at once, in the browser and on the node, and keeps the text so far', async () => {
  const page = await open('slow');
  await page.say('x'.repeat(2000));
  await until('it runs', async () => (await shown(page)).length > 3);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.ended();
  assert.match(await page.answer.locator('.turn-facts').textContent(), /stopped/);
  const kept = await shown(page);
  assert.ok(kept.length > 3 && kept.length < 2000);
  await until('the node is free', async () => (await nodes(up))[0].models.every((m) => m.inflight === 0));
  // The conversation goes on from there.
  await page.say('short');
  await until('the next answer', async () => (await shown(page)) === 'short');
  page.watch.assertClean();
  await page.context().close();
});

test('reasoning is folded and opens by keyboard', async () => {
  const page = await open('demo');
  await page.say('Count from 1 to 12');
  await page.ended();
  assert.match(await shown(page), /10, 11, 12/);
  const text = page.answer.locator('.reasoning-text');
  assert.equal(await text.isVisible(), false);
  await page.answer.locator('summary').focus();
  await page.keyboard.press('Enter');
  assert.equal(await text.isVisible(), true);
  assert.ok((await text.textContent()).length > 5);
  page.watch.assertClean();
  await page.context().close();
});

test('a tool call is shown with its arguments; its result is sent and the model continues', async () => {
  const page = await open('demo');
  await page.getByRole('textbox', { name: 'Tools (JSON)' }).fill('{"type": 1}');
  await page.getByText('Must be a list').waitFor();
  await page.getByRole('textbox', { name: 'Message' }).fill('What is the weather in Paris?');
  assert.equal(await page.getByRole('button', { name: 'Send' }).isDisabled(), true, 'not with broken tools');
  await page.getByRole('textbox', { name: 'Tools (JSON)' }).fill(weather);
  await page.getByLabel('Temperature').fill('0');
  await page.say('What is the weather in Paris?');
  const tool = page.locator('.tool');
  await page.ended(); // until then the arguments grow, and no result can be sent
  assert.equal(await tool.locator('code').textContent(), 'get_weather');
  assert.match(await tool.locator('pre').first().textContent(), /"city": "Paris"/);
  await tool.getByLabel('Result').fill('{"temperature": 21, "sky": "sunny"}');
  await page.look('playground-tool');
  await page.getByRole('button', { name: 'Send result' }).click();
  await until('the model goes on', async () => (await page.locator('.turn.model').count()) === 2);
  await page.ended();
  assert.ok((await shown(page)).length > 3);
  assert.equal(await page.locator('.tool pre').nth(1).textContent(), '{"temperature": 21, "sky": "sunny"}');
  page.watch.assertClean();
  await page.context().close();
});

test('the code for curl and JavaScript sends the same request, with any characters', async () => {
  const page = await open('echo');
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  const said = `it's "quoted" $HOME \`id\` \\n !! ${HOSTILE} 日本 \n second line`;
  await page.getByLabel('System prompt').fill("It's a system's prompt");
  await page.getByRole('textbox', { name: 'Message' }).fill(said);
  await page.getByRole('button', { name: 'Use in code' }).click();
  const dialog = page.getByRole('dialog');
  const copy = async (name) => {
    await dialog.getByRole('tab', { name }).click();
    await dialog.locator('.code-head button').click();
    await dialog.getByText('Copied').waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const command = await copy('curl');
  assert.match(command, /^curl 'http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions' \\\n/);
  const { stdout } = await promisify(execFile)('bash', ['-c', `${command} -sS --noproxy '*'`]);
  const chunks = stdout
    .split('\n\n')
    .map((line) => line.replace(/^data: /, ''))
    .filter((line) => line.startsWith('{'))
    .map(JSON.parse);
  assert.equal(chunks.map((c) => c.choices[0]?.delta?.content ?? '').join(''), said.trim());
  const script = await copy('JavaScript');
  const ran = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: path.join(ROOT, 'tests'),
  });
  assert.equal(ran.stdout, said.trim());
  const python = await copy('Python');
  await promisify(execFile)('python3', ['-c', 'import ast, sys; ast.parse(sys.argv[1])', python]);
  assert.match(await copy('Claude Code'), /ANTHROPIC_BASE_URL='http.*claude --model 'echo'/s);
  await dialog.getByRole('tab', { name: 'Claude Code' }).press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Codex');
  assert.match(await dialog.locator('pre').textContent(), /^codex -m 'echo' -c model_provider=llm-router/);
  await page.look('playground-code', { fullPage: false });
  await page.assertUnbroken();
  page.watch.assertClean();
  await page.context().close();
});

test('messages of users and models are shown as text, never as HTML; code is shown as code', async () => {
  const page = await open('echo');
  const said = `${HOSTILE}\n\`\`\`html\n${HOSTILE}\n\`\`\`\nuse \`${HOSTILE}\` and <b>this</b>`;
  await page.say(said);
  await page.ended();
  assert.equal(await page.locator('.bubble').textContent(), said);
  assert.equal(await page.answer.locator('.code pre').textContent(), HOSTILE);
  assert.equal(await page.answer.locator('.code-head span').first().textContent(), 'html');
  assert.equal(await page.answer.locator('p code').textContent(), HOSTILE);
  assert.match(await page.answer.locator('p').first().textContent(), /^<img src=x/);
  await page.assertUnbroken();
  // Ids of models cannot hold such a name; the page would not mind.
  const refused = await call(`${up.url}/v0/models/register`, { body: { path: 'echo', name: HOSTILE } });
  assert.ok(refused.status >= 400 && refused.status < 500);
  await page.route('**/v1/models', (route) =>
    route.fulfill({
      json: {
        object: 'list',
        data: [
          { id: HOSTILE, ready: true, state: HOSTILE },
          { id: 'b', ready: false, state: HOSTILE },
        ],
      },
    }),
  );
  await page.reload();
  await page.getByRole('combobox', { name: 'Model' }).waitFor();
  assert.equal(await page.getByRole('combobox', { name: 'Model' }).inputValue(), HOSTILE);
  await page.assertUnbroken();
  page.watch.assertClean();
  await page.context().close();
});

test("an error shows the API's message, and the same question can be sent again", async () => {
  const page = await open('echo');
  page.watch.allow(400);
  const { error } = (
    await call(`${up.url}/v1/chat/completions`, { body: { model: 'echo', temperature: 9, ...say('hello') } })
  ).json;
  await page.getByLabel('Temperature').fill('9');
  await page.say('hello');
  await page.getByRole('alert').waitFor();
  assert.equal(await page.locator('.error-message').textContent(), error.message);
  await page.getByLabel('Temperature').fill('');
  await page.getByRole('button', { name: 'Try again' }).click();
  await until('it works now', async () => (await page.getByRole('alert').count()) === 0);
  await page.ended();
  assert.equal(await shown(page), 'hello');
  page.watch.assertClean();
  await page.context().close();
});

test('conversations stay in this browser: reopened after a reload, continued, deleted, limited in number', async () => {
  const page = await open('echo');
  await page.say('the first one');
  await page.ended();
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.say('the second one');
  await page.ended();
  await page.reload();
  const list = page.locator('.chats .chat-title');
  await list.first().waitFor();
  assert.deepEqual(await list.allTextContents(), ['the second one', 'the first one']);
  await page.getByRole('button', { name: 'the first one', exact: false }).first().click();
  assert.equal(await page.locator('.bubble').textContent(), 'the first one');
  await page.say('and on');
  await until('it went on', async () => (await page.locator('.turn').count()) === 4);
  await page.ended();
  await page.getByRole('button', { name: 'Delete "the second one"' }).click();
  assert.deepEqual(await list.allTextContents(), ['the first one']);
  const full = await page.evaluate(() => {
    const big = { id: 'big', title: 'big', model: '', at: 0, messages: [{ role: 'user', content: 'y'.repeat(60000) }] };
    localStorage.setItem(
      'lr.chats.local',
      JSON.stringify(Array.from({ length: 80 }, (_, i) => ({ ...big, id: `big${i}` }))),
    );
    return localStorage.getItem('lr.chats.local').length;
  });
  assert.ok(full > 4_000_000);
  await page.reload();
  await page.say('one more');
  await page.ended();
  const kept = await page.evaluate(() => ({
    size: localStorage.getItem('lr.chats.local').length,
    count: JSON.parse(localStorage.getItem('lr.chats.local')).length,
  }));
  assert.ok(kept.size <= 2 << 20 && kept.count <= 50, JSON.stringify(kept));
  await page.getByRole('button', { name: 'Delete all' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete all' }).click();
  await page.getByText('No conversations yet.').waitFor();
  page.watch.assertClean();
  await page.context().close();
});

test('the playground has no accessibility or layout fault in both themes, on a phone, and in Japanese', async () => {
  for (const [scheme, size] of [
    ['light', 'desktop'],
    ['dark', 'desktop'],
    ['dark', 'phone'],
  ]) {
    const page = await open('demo', { scheme, size });
    await page.say('Write hello world in Python');
    await page.ended();
    await page.look('playground', { fullPage: false });
    if (size === 'phone') {
      await page.getByRole('button', { name: 'Settings' }).click();
      await page.look('playground-settings', { fullPage: false });
    }
    page.watch.assertClean();
    await page.context().close();
  }
  const page = await browser.open(`${up.url}/#/playground`, { lang: 'ja' });
  await page.getByRole('textbox', { name: 'メッセージ' }).fill('日本');
  // Enter that ends the composition of a word does not send it.
  await page.getByRole('textbox', { name: 'メッセージ' }).dispatchEvent('keydown', { key: 'Enter', isComposing: true });
  assert.equal(await page.locator('.turn').count(), 0);
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'ja');
  page.watch.assertClean();
  await page.context().close();
});
