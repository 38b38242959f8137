// A model's answer in the browser: markdown, code, formulas, and text that means harm.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openDocument } from '../../dashboard/lib/markdown.js';
import { SCHEMES, SIZES, startBrowser } from './browser.mjs';
import { LONG, makeEcho, startUp } from './support.mjs';

let up, browser;
before(async () => {
  // The echo model says again what it hears, a byte a step.
  up = await startUp({ args: ['--model', makeEcho('echo'), '--model', makeEcho('slow', { step_ms: 3 })] });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await up?.stop();
});

async function ask(model, text, options) {
  const page = await browser.open(`${up.url}/#/playground/${model}`, options);
  const box = page.locator('.composer textarea');
  await box.fill(text);
  await box.press('Enter');
  page.answer = page.locator('.turn.model').last();
  page.ended = () => page.answer.locator('.turn-tools').waitFor();
  return page;
}

const SAMPLE = `## Sizes

A *table*, ~~old~~ **new**, with \`code\` and [the guide](https://example.com/guide?a=1):

| Model | Weights | Fits |
|:------|--------:|:----:|
| gpt-oss-20b | 12.8 GiB | yes |
| gpt-oss-120b | 60.8 GiB | no |

1. First
2. Second
   - nested
     more

- [ ] open task
- [x] finished task

> A quote
> of two lines.

\`\`\`python
def area(r: float) -> float:
    """The area of a circle."""
    return 3.14159 * r ** 2  # almost
\`\`\`

The area is $A = \\pi r^2$, it costs $5 or $6, and

$$
\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}
$$

See https://example.com/plain.
`;

test('an answer is rendered: tables, lists, tasks, quotes, code with colours and a copy button, links, formulas', async () => {
  for (const scheme of LONG ? SCHEMES : ['light'])
    for (const size of LONG ? Object.keys(SIZES) : ['desktop'])
      for (const lang of LONG ? ['en', 'ja'] : ['en']) {
        const page = await ask('echo', SAMPLE, { scheme, size, lang });
        await page.ended();
        const { answer } = page;
        await answer.locator('math').nth(1).waitFor();
        await answer.locator('.hl-keyword').first().waitFor();
        const texts = (selector) => answer.locator(`.prose ${selector}`).allTextContents();
        assert.deepEqual(await texts('[role=heading]'), ['Sizes']);
        assert.deepEqual(await texts('th'), ['Model', 'Weights', 'Fits']);
        assert.deepEqual(await texts('td.right'), ['12.8 GiB', '60.8 GiB']);
        assert.deepEqual(await texts('ol > li'), ['First', 'Secondnested\nmore']);
        assert.deepEqual(await texts('.task'), ['open task', 'finished task']);
        assert.equal(await answer.locator('.task-box.done').count(), 1);
        assert.deepEqual(await texts('blockquote'), ['A quote\nof two lines.']);
        assert.deepEqual([await texts('em'), await texts('s'), await texts('strong')], [['table'], ['old'], ['new']]);
        assert.deepEqual(await texts('.hl-keyword'), ['def', 'return']);
        assert.deepEqual(await texts('.hl-comment'), ['# almost']);
        assert.equal(await answer.locator('math').count(), 2, 'prices are no formulas');
        const links = await answer
          .locator('.prose a')
          .evaluateAll((all) => all.map((a) => [a.textContent, a.href, a.target, a.rel]));
        const rel = 'noopener noreferrer nofollow';
        assert.deepEqual(links, [
          ['the guide', 'https://example.com/guide?a=1', '_blank', rel],
          ['https://example.com/plain', 'https://example.com/plain', '_blank', rel],
        ]);
        assert.deepEqual(await texts('.link-host'), ['example.com'], 'the text of a link does not hide where it leads');
        await page.look(`prose${lang === 'ja' ? '-ja' : ''}`);
        if (size === 'desktop' && lang === 'en') {
          await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
          await answer.locator('.code-head button').click();
          await answer.locator('.code-head').getByText('Copied').waitFor();
          assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^def area.*\*\* 2 {2}# almost$/s);
        }
        page.watch.assertClean();
        await page.context().close();
      }
});

test('while an answer grows, its finished blocks stay the same elements', async () => {
  const page = await ask('slow', SAMPLE);
  const table = await page.waitForSelector('.prose td.right');
  await page.ended();
  await page.answer.locator('math').nth(1).waitFor(); // what draws formulas arrives when the first one is there
  assert.equal(await table.evaluate((cell) => cell.isConnected), true);
  const text = await page.answer.locator('.prose').textContent();
  await page.reload();
  await page.locator('.chats .chat').first().click();
  await page.locator('.prose .hl-keyword').first().waitFor();
  await page.locator('.prose math').nth(1).waitFor();
  assert.equal(await page.locator('.turn.model .prose').textContent(), text, 'the same as when it is shown at once');
  page.watch.assertClean();
  await page.context().close();
});

const HOSTILE = [
  '<script>globalThis.broken = 1</script><img src=x onerror="globalThis.broken = 2">',
  '<a href="javascript:globalThis.broken=3">html</a>',
  '[script](javascript:globalThis.broken=4) [data](data:text/html,<script>broken=5</script>) [page](#/keys) [call](/v0/session)',
  '[odd](  JaVaScRiPt:alert(1)) <javascript:alert(1)> [tab](java\tscript:alert(1)) [name]',
  '[name]: javascript:alert(1)',
  '![pixel](https://evil.example/pixel.png) ![](https://evil.example/x.png "t")',
  '$\\href{javascript:globalThis.broken=6}{x}$ $\\includegraphics{https://evil.example/a.png}$ $\\unknown{$',
  '```js" onmouseover="globalThis.broken=7\nalert(1)\n```',
  `|a|\n|-|\n|<img src=x onerror=alert(1)>|`,
].join('\n\n');

test('hostile markdown runs nothing, loads nothing and leads nowhere', async () => {
  const page = await ask('echo', HOSTILE);
  await page.ended();
  await page.answer.locator('.formula').first().waitFor();
  await page.answer.locator('.prose-table').waitFor();
  const found = await page.answer.evaluate((answer) => ({
    broken: globalThis.broken,
    active: answer.querySelectorAll('img, script, iframe, object, [onerror], [onmouseover], [style*=url]').length,
    links: [...answer.querySelectorAll('a')].map((a) => a.href),
    mathLinks: answer.querySelectorAll('math [href]').length,
  }));
  assert.deepEqual(found, {
    broken: undefined,
    active: 0,
    links: ['https://evil.example/pixel.png', 'https://evil.example/x.png'], // as links to click, not as images
    mathLinks: 0,
  });
  page.watch.assertClean();
  await page.context().close();
});

test('markdown of any depth and width costs little time and stays readable', () => {
  const size = LONG ? 50000 : 20000;
  const rows = (n, row) => `|${'a|'.repeat(row)}\n|${'-|'.repeat(row)}\n${`|${'x|'.repeat(row)}\n`.repeat(n)}`;
  const cases = {
    quotes: '>'.repeat(size),
    lists: Array.from({ length: 1000 }, (_, i) => `${' '.repeat(i * 2)}- x`).join('\n'),
    brackets: '['.repeat(size),
    images: '!['.repeat(size),
    stars: '*a '.repeat(size),
    emphasis: '_a __b '.repeat(size / 3),
    ticks: Array.from({ length: 300 }, (_, i) => '`'.repeat(i)).join(' '),
    dollars: '$a'.repeat(size),
    parentheses: '\\('.repeat(size),
    formulas: '$$\n'.repeat(size / 4),
    fences: '```\n'.repeat(size / 4),
    links: '[a](b '.repeat(size / 4),
    definitions: '[a]: b\n'.repeat(size / 10),
    addresses: 'https://a.'.repeat(size / 10),
    long: rows(size / 4, 2),
    wide: rows(10, size / 20),
  };
  for (const [name, text] of Object.entries(cases)) {
    const before = process.cpuUsage();
    openDocument().show(text);
    const ms = process.cpuUsage(before).user / 1000;
    assert.ok(ms < 2000, `${name}: ${Math.round(ms)} ms of processor time`);
  }
});

/** The vnodes without what the view keeps in them. */
const plain = (nodes) =>
  JSON.stringify(nodes, (key, value) =>
    key.startsWith('__') ? undefined : typeof value === 'function' ? value.name : value,
  );

test('a text that arrives in pieces becomes the same elements, and a piece costs its last block only', () => {
  const text = `${SAMPLE}\n[late] and\n\n[late]: https://example.com/late\n`;
  for (const whole of [SAMPLE, text, HOSTILE]) {
    const open = openDocument();
    let last;
    for (let end = 1; end <= whole.length; end++) last = open.show(whole.slice(0, end));
    assert.equal(plain(last), plain(openDocument().show(whole)));
  }
  const open = openDocument();
  const first = open.show(SAMPLE);
  const second = open.show(`${SAMPLE}And more.`);
  first.slice(0, -1).forEach((node, i) => assert.equal(second[i], node));
});
