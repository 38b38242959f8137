// The commands of the operators' documents are run, each document on a machine of its own: an overlay
// of this machine with the package installed (tests/support/overlay).
//
//   ```sh                  is run; a command that fails fails the test
//   ```sh no-run: REASON   is not run
//   ```nginx FILE          is written to FILE
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { ROOT } from '../support/program.mjs';
import { tempDir } from '../support/scene.mjs';

const LONG = process.env.LR_LONG === '1';
const run = promisify(execFile);
const PAGES = [
  'air-gap',
  'backup',
  'containers',
  'failures',
  'kubernetes',
  'operating',
  'reverse-proxy',
  'sizing',
  'systemd',
  'tls',
  'upgrade',
];

// The fences of a page: {language, rest, text}.
const fences = (page) =>
  [
    ...fs.readFileSync(path.join(ROOT, `docs/${page}.md`), 'utf8').matchAll(/^```(\w+)(?: (.*))?\n([\s\S]*?)^```$/gm),
  ].map(([, language, rest, text]) => ({ language, rest, text }));

function script(page) {
  const lines = ['set -eu'];
  for (const { language, rest, text } of fences(page))
    if (language === 'sh' && rest === undefined) lines.push('set -x', text.trimEnd(), '{ set +x; } 2> /dev/null');
    else if (rest?.startsWith('/')) lines.push(`cat > ${rest} <<'END-OF-FENCE'\n${text}END-OF-FENCE`);
  return lines.length > 1 ? `${lines.join('\n')}\n` : undefined;
}

describe('the documents', () => {
  it('have commands that are run, or that say why not', () => {
    for (const page of PAGES)
      for (const { language, rest } of fences(page))
        if (language === 'sh' && rest !== undefined) assert.match(rest, /^no-run: \w.{5,}$/, page);
  });

  // docs/operating.md explains and names machines of others; what can be run is on the other pages.
  if (LONG)
    it('of which docs/operating.md has none that could be run', () => {
      assert.equal(script('operating'), undefined);
    });

  it('have scripts without mistakes of the shell', () => {
    for (const page of PAGES.filter(script)) execFileSync('bash', ['-n'], { input: script(page) });
  });
});

if (LONG)
  describe('the commands of', () => {
    let deb;
    before(async () => {
      assert.equal(process.getuid(), 0, 'an overlay of this machine needs the rights of root');
      const { stdout } = await run(path.join(ROOT, 'tools/deb'), ['--fast', '--out', tempDir('deb')]);
      deb = stdout.trim().split('\n').at(-1);
    });
    for (const page of PAGES.filter(script))
      it(`docs/${page}.md work`, async () => {
        const file = path.join(tempDir('docs'), 'script');
        fs.writeFileSync(file, script(page));
        try {
          await run(path.join(ROOT, 'tests/support/overlay'), [deb, file], { maxBuffer: 1 << 26, timeout: 300000 });
        } catch (error) {
          throw new Error(`${error.stdout}\n${error.stderr}`);
        }
      });
  });
