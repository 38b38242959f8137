// lib/prose.js - a model's text for reading: markdown, code, formulas (lib/markdown.js).
//
// The parser is loaded on demand: prepareProse() asks for it before the first text is there.
// Until the parser has arrived the text is shown as it was written; nothing is ever read as HTML.
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

let markdown = null;
let loading = null;

export function prepareProse() {
  loading ??= import('./markdown.js').then(
    (module) => {
      markdown = module;
    },
    () => {
      loading = null;
    },
  );
  return loading;
}

/** The same text is the same nodes: a long conversation costs nothing while its end grows. */
export function Prose({ text }) {
  const [isReady, setReady] = useState(markdown !== null);
  const open = useRef(null);
  useEffect(() => {
    let isHere = true;
    if (!isReady) prepareProse().then(() => isHere && setReady(markdown !== null));
    return () => {
      isHere = false;
    };
  }, []);
  return useMemo(() => {
    if (!isReady) return html`<div class="prose"><p>${text}</p></div>`;
    open.current ??= markdown.openDocument();
    return html`<div class="prose">${open.current.show(text)}</div>`;
  }, [text, isReady]);
}
