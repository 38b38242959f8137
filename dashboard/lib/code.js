// lib/code.js - a block of code with its colours and a copy button, and a formula.
//
// The libraries arrive when the first block of code or the first formula is shown, a language
// when it is named for the first time.  Until then the text is there without colours.
import { html } from 'htm/preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { CopyButton } from './ui.js';

const COLOURED_MAX = 60000; // characters: more takes longer than a frame

const languages = {
  bash: () => import('@highlightjs/cdn-assets/es/languages/bash.min.js'),
  c: () => import('@highlightjs/cdn-assets/es/languages/c.min.js'),
  cpp: () => import('@highlightjs/cdn-assets/es/languages/cpp.min.js'),
  csharp: () => import('@highlightjs/cdn-assets/es/languages/csharp.min.js'),
  css: () => import('@highlightjs/cdn-assets/es/languages/css.min.js'),
  diff: () => import('@highlightjs/cdn-assets/es/languages/diff.min.js'),
  dockerfile: () => import('@highlightjs/cdn-assets/es/languages/dockerfile.min.js'),
  go: () => import('@highlightjs/cdn-assets/es/languages/go.min.js'),
  ini: () => import('@highlightjs/cdn-assets/es/languages/ini.min.js'),
  java: () => import('@highlightjs/cdn-assets/es/languages/java.min.js'),
  javascript: () => import('@highlightjs/cdn-assets/es/languages/javascript.min.js'),
  json: () => import('@highlightjs/cdn-assets/es/languages/json.min.js'),
  kotlin: () => import('@highlightjs/cdn-assets/es/languages/kotlin.min.js'),
  lua: () => import('@highlightjs/cdn-assets/es/languages/lua.min.js'),
  makefile: () => import('@highlightjs/cdn-assets/es/languages/makefile.min.js'),
  php: () => import('@highlightjs/cdn-assets/es/languages/php.min.js'),
  python: () => import('@highlightjs/cdn-assets/es/languages/python.min.js'),
  ruby: () => import('@highlightjs/cdn-assets/es/languages/ruby.min.js'),
  rust: () => import('@highlightjs/cdn-assets/es/languages/rust.min.js'),
  sql: () => import('@highlightjs/cdn-assets/es/languages/sql.min.js'),
  swift: () => import('@highlightjs/cdn-assets/es/languages/swift.min.js'),
  typescript: () => import('@highlightjs/cdn-assets/es/languages/typescript.min.js'),
  xml: () => import('@highlightjs/cdn-assets/es/languages/xml.min.js'),
  yaml: () => import('@highlightjs/cdn-assets/es/languages/yaml.min.js'),
};
const aliases = {
  sh: 'bash',
  shell: 'bash',
  zsh: 'bash',
  console: 'bash',
  h: 'c',
  'c++': 'cpp',
  cc: 'cpp',
  cs: 'csharp',
  'c#': 'csharp',
  patch: 'diff',
  docker: 'dockerfile',
  golang: 'go',
  toml: 'ini',
  js: 'javascript',
  jsx: 'javascript',
  mjs: 'javascript',
  jsonc: 'json',
  json5: 'json',
  kt: 'kotlin',
  make: 'makefile',
  py: 'python',
  python3: 'python',
  rb: 'ruby',
  rs: 'rust',
  ts: 'typescript',
  tsx: 'typescript',
  html: 'xml',
  svg: 'xml',
  yml: 'yaml',
}; // prettier-ignore

let core = null; // the library, once it is there
const known = new Map(); // language -> promise; true when it has arrived

async function learn(language) {
  const [library, grammar] = await Promise.all([
    import('@highlightjs/cdn-assets/es/core.min.js'),
    languages[language](),
  ]);
  core ??= library.default;
  core.registerLanguage(language, grammar.default);
  known.set(language, true);
}

/** The tree of the library as elements. */
const paint = (node) =>
  typeof node === 'string'
    ? node
    : node.scope
      ? html`<span class=${`hl-${node.scope.split('.')[0]}`}>${node.children.map(paint)}</span>`
      : node.children.map(paint);

function colours(text, language) {
  try {
    return paint(core.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode);
  } catch {
    return text;
  }
}

export function Code({ text, language }) {
  const named = language.toLowerCase();
  const name = Object.hasOwn(languages, named) ? named : Object.hasOwn(aliases, named) ? aliases[named] : '';
  const [, setArrived] = useState(0);
  const isKnown = known.get(name) === true && text.length <= COLOURED_MAX;
  useEffect(() => {
    if (!name || known.get(name) === true) return undefined;
    let isHere = true;
    if (!known.has(name)) known.set(name, learn(name));
    known.get(name).then(
      () => isHere && setArrived((n) => n + 1),
      () => known.delete(name), // without colours; the next block asks again
    );
    return () => {
      isHere = false;
    };
  }, [name]);
  const shown = useMemo(() => (isKnown ? colours(text, name) : text), [text, name, isKnown]);
  return html`<div class="code"><div class="code-head"><span>${language}</span><${CopyButton} text=${text} /></div><pre tabindex="0"><code>${shown}</code></pre></div>`;
}

let formulas = null;
let library = null;

/** TeX as MathML, which the browser itself draws; what is no TeX stays as it was written. */
export function Formula({ text, isBlock = false, isOpen = false }) {
  const host = useRef(null);
  const [isHere, setHere] = useState(library !== null);
  useEffect(() => {
    let isMounted = true;
    formulas ??= import('temml').then((module) => {
      library = module.default;
    });
    formulas.then(
      () => isMounted && setHere(true),
      () => {
        formulas = null;
      },
    );
    return () => {
      isMounted = false;
    };
  }, []);
  const isDrawn = isHere && !isOpen;
  useLayoutEffect(() => {
    if (!isDrawn) return;
    host.current.replaceChildren();
    try {
      library.render(text, host.current, {
        displayMode: isBlock,
        throwOnError: true,
        trust: false,
        maxSize: [20, 200],
        maxExpand: 200,
      });
    } catch {
      host.current.textContent = text;
    }
  }, [text, isBlock, isDrawn]);
  const kind = `formula ${isBlock ? 'on-its-own' : ''}`;
  return isDrawn
    ? html`<span key="drawn" class=${kind} ref=${host}></span>`
    : html`<code key="source" class=${kind}>${text}</code>`;
}
