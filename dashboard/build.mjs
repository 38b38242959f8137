// Writes the C file that contains the dashboard:  node dashboard/build.mjs OUT.c
//
// Modules are embedded as they are, compressed, below one folder whose name is a hash of
// everything: a browser may keep them for ever, and never mixes two versions.  Bare imports
// ('preact') become relative paths, so no import map (which would be an inline script) is
// needed.  Stylesheets are joined in the order of their names, the texts of a language into
// one file, the modules of the first page into app.js: few requests before the page is shown.
import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import zlib from 'node:zlib';
import { join } from './join.mjs';

const root = path.dirname(fileURLToPath(import.meta.url));
const out = process.argv[2];
const read = (name) => fs.readFileSync(path.join(root, name), 'utf8');

// Which file of a package stands behind a bare import.  uPlot and temml ship no small module:
// their scripts get an export of the one name they define.  A module that is `alone` imports nothing.
const vendor = {
  preact: { file: 'preact/dist/preact.mjs' },
  'preact/hooks': { file: 'preact/hooks/dist/hooks.mjs' },
  htm: { file: 'htm/dist/htm.mjs' },
  'htm/preact': { file: 'htm/preact/index.mjs' },
  uplot: { file: 'uplot/dist/uPlot.iife.min.js', after: '\nexport default uPlot;\n', alone: true },
  'markdown-it': { file: 'markdown-it/dist/browser/markdown-it.esm.min.mjs', alone: true },
  temml: { file: 'temml/dist/temml.min.js', after: '\nexport default temml;\n', alone: true },
};
// The languages of lib/code.js.
for (const [, name] of read('lib/code.js').matchAll(/import\('(@highlightjs\/[^']+)'\)/g))
  vendor[name] = { file: name, alone: true };
// Packages whose code is inside markdown-it's file.
const inside = ['entities', 'linkify-it', 'mdurl', 'punycode.js', 'uc.micro'];
const types = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
};

const vendorPath = (name) =>
  `vendor/${name
    .replace('/', '-')
    .replace(/^@.*\//, 'code-')
    .replace(/(\.min)?\.js$/, '')}.js`;
const hash = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex').slice(0, 16);

function license(name) {
  const file = fs.readdirSync(path.join(root, 'node_modules', name)).find((one) => /^licen[cs]e/i.test(one));
  if (!file) throw new Error(`${name} has no licence file`);
  return read(`node_modules/${name}/${file}`);
}

function rewrite(from, text) {
  const relative = (name) => {
    const to = path.posix.relative(path.posix.dirname(from), vendorPath(name));
    return to.startsWith('.') ? to : `./${to}`;
  };
  return text.replace(/(\bfrom\s*|\bimport\s*\(?\s*)(["'])([^"'.][^"']*)\2/g, (whole, before, quote, name) => {
    if (!vendor[name]) throw new Error(`${from}: nothing stands behind "${name}"`);
    return `${before}${quote}${relative(name)}${quote}`;
  });
}

const modules = new Map();
for (const name of fs
  .readdirSync(root, { recursive: true })
  .map((n) => n.split(path.sep).join('/'))
  .sort())
  if (/^(app|theme)\.js$|^(lib|pages)\/.*\.js$/.test(name)) modules.set(name, rewrite(name, read(name)));
let headings = ''; // of the first page, painted before any script of it runs; theme.js says which is right
for (const lang of ['en', 'ja']) {
  const { default: texts } = await import(pathToFileURL(path.join(root, `i18n/${lang}.js`)));
  modules.set(`i18n/${lang}.js`, `export default ${JSON.stringify(texts)};\n`);
  headings += `<div class="page" lang="${lang}"><div class="page-head"><div class="page-title"><p class="h1" elementtiming="frame">${texts.overview.title}</p><p class="lead">${texts.overview.lead}</p></div></div></div>`;
}
for (const [name, { file, after = '', alone = false }] of Object.entries(vendor)) {
  const text = read(`node_modules/${file}`).replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n') + after;
  modules.set(vendorPath(name), alone ? text : rewrite(vendorPath(name), text));
}

const files = join(modules, ['i18n/en.js', 'pages/overview.js', 'app.js'], 'app.js');
const sheets = fs
  .readdirSync(path.join(root, 'css'))
  .filter((name) => name.endsWith('.css'))
  .sort();
files.set(
  'app.css',
  [read('node_modules/uplot/dist/uPlot.min.css'), ...sheets.map((name) => read(`css/${name}`))].join('\n'),
);
files.set('icon.svg', read('icon.svg'));
files.set(
  'licenses.txt',
  [...new Set(Object.values(vendor).map(({ file }) => /^(@[^/]+\/)?[^/]+/.exec(file)[0])), ...inside]
    .map((name) => `${name}\n\n${license(name)}`)
    .join('\n\n'),
);

const build = hash([...files].flat().join('\0'));
const index = read('index.html').replaceAll('{assets}', `assets/${build}`).replace('{headings}', headings);

const assets = [
  ['', index, '.html'],
  ...[...files].map(([name, text]) => [`${build}/${name}`, text, path.extname(name)]),
].map(([name, text, extension]) => ({
  name,
  bytes: zlib.gzipSync(text, { level: 9 }),
  type: types[extension],
  etag: hash(text),
}));

const array = (bytes) =>
  bytes
    .toString('hex')
    .replace(/../g, '0x$&,')
    .replace(/(.{100})/g, '$1\n');
fs.mkdirSync(path.dirname(out), { recursive: true });
fs.writeFileSync(
  out,
  `/* Generated by dashboard/build.mjs. */
#include "router/http/dashboard.h"

${assets.map((a, i) => `static const unsigned char bytes_${i}[] = {${array(a.bytes)}};`).join('\n')}

const struct router_asset router_assets[] = {
${assets.map((a, i) => `    {"${a.name}", "${a.type}", "\\"${a.etag}\\"", bytes_${i}, sizeof(bytes_${i})},`).join('\n')}
};
const size_t router_asset_count = ${assets.length};
`,
);
