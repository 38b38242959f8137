// i18n/reasons.js - the sentences of errors that the page shows, from the catalogue of the program
// (src/base/errors.def).  Runs where the page is built, never in the page.
import fs from 'node:fs';

const rows = fs
  .readFileSync(new URL('../../src/base/errors.def', import.meta.url), 'utf8')
  .matchAll(/^LR_REASON\((\w+), \w+, \d+,((?:\s*"(?:[^"\\]|\\.)*")+),((?:\s*"(?:[^"\\]|\\.)*")+)\)$/gm);
const words = (literals) =>
  [...literals.matchAll(/"(?:[^"\\]|\\.)*"/g)]
    .map(([literal]) => JSON.parse(literal))
    .join('')
    .replace(/\{(\w+):\d+\}/g, '{$1}');

export const reasons = { en: {}, ja: {} };
for (const [, id, sentence, japanese] of rows) {
  reasons.en[id] = words(sentence);
  reasons.ja[id] = words(japanese);
}
