// Helpers for browser tests: Debian's Chromium, and checks of every page that it opens.
//
//   const browser = await startBrowser();                    close it in after()
//   const page = await browser.open(url, {scheme: 'dark', size: 'phone', lang: 'ja'});
//   page.watch.allow(400)                                    an error status that this test provokes
//   await page.visit('#/models')                             another page of the dashboard, once it is drawn
//   await page.look('models')                                axe, and a screenshot to look at
//   page.watch.assertClean()                                 no error, no request to another host, no inline script
//
// Screenshots are in build/test-log/screens/<name>-<scheme>-<size>.png.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { ROOT } from './support.mjs';

const EXECUTABLE =
  process.env.CHROMIUM ??
  ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((file) => fs.existsSync(file));
const SCREENS = path.join(ROOT, 'build/test-log/screens');
const AXE = fs.readFileSync(path.join(ROOT, 'tests/node_modules/axe-core/axe.min.js'), 'utf8');

export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 375, height: 812 } };
export const SCHEMES = ['light', 'dark'];

/** Collects whatever a page must not do. */
class Watch {
  constructor(page, origin) {
    this.origin = origin;
    this.problems = [];
    this.allowed = new Set();
    this.bytes = 0;
    page.on('console', (message) => {
      if (message.type() !== 'error') return;
      const status = message.text().match(/responded with a status of (\d+)/)?.[1];
      if (!status || !this.allowed.has(Number(status)))
        this.problems.push(`console: ${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => this.problems.push(`page: ${error.stack}`));
    page.on('request', (request) => {
      if (!/^(data|blob|about):/.test(request.url()) && new URL(request.url()).origin !== origin)
        this.problems.push(`foreign request: ${request.url()}`);
    });
  }

  /** Answers with this status are part of the test. */
  allow(...statuses) {
    statuses.forEach((status) => this.allowed.add(status));
  }

  assertClean() {
    assert.deepEqual(this.problems, []);
  }
}

async function assertNothingInline(page) {
  const found = await page.evaluate(() => {
    const bad = [...document.scripts].filter((s) => !s.src).map((s) => s.outerHTML);
    for (const element of document.querySelectorAll('*'))
      for (const { name } of element.attributes) if (name.startsWith('on')) bad.push(`${element.tagName} ${name}`);
    return bad;
  });
  assert.deepEqual(found, [], 'inline scripts or handlers');
}

/** Serious and critical findings of axe, as texts. */
async function axe(page) {
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] });
    return violations
      .filter((v) => v.impact === 'serious' || v.impact === 'critical')
      .flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(' ')}: ${n.failureSummary}`));
  });
}

export async function startBrowser() {
  assert.ok(EXECUTABLE, 'Chromium is missing: run tools/setup test');
  const chrome = await chromium.launch({
    executablePath: EXECUTABLE,
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
    timeout: 120000,
  });
  fs.mkdirSync(SCREENS, { recursive: true });
  return {
    close: () => chrome.close(),
    /** A page of its own, with nothing remembered; `context` shares another page's cookies. */
    async open(url, { scheme = 'light', size = 'desktop', lang = 'en', wait = true, context } = {}) {
      const mine =
        context ??
        (await chrome.newContext({
          colorScheme: scheme,
          viewport: SIZES[size],
          locale: lang,
          reducedMotion: 'reduce',
        }));
      const page = await mine.newPage();
      page.setDefaultTimeout(60000);
      page.watch = new Watch(page, new URL(url).origin);
      /** `goto` resolves before the dashboard has heard of the new address: what is asked next may still find the old page. */
      page.visit = (hash) =>
        page.evaluate(
          (next) =>
            new Promise((done) => {
              if (location.hash === next) return done();
              addEventListener('hashchange', () => setTimeout(done), { once: true });
              location.hash = next;
            }),
          hash,
        );
      /** Whoever looks at the pictures later should not see half of an animation. */
      page.look = async (name, { fullPage = true } = {}) => {
        await page.evaluate(() => {
          scrollTo(0, 0);
          return document.fonts.ready;
        });
        await page.screenshot({ path: path.join(SCREENS, `${name}-${scheme}-${size}.png`), fullPage });
        assert.deepEqual(await axe(page), [], `${name}, ${scheme}, ${size}`);
        await assertNothingInline(page);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(width <= SIZES[size].width, `${name}: ${width} px wide on a screen of ${SIZES[size].width}`);
      };
      await page.goto(url);
      if (wait) await page.locator('h1').first().waitFor();
      // The page listens to keys after its first paint only: a key that is pressed before is lost.
      if (wait)
        await page.evaluate(
          () => new Promise((done) => requestAnimationFrame(() => setTimeout(() => setTimeout(done)))),
        );
      return page;
    },
  };
}
