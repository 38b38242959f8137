// lib/prose.js - a model's text for reading: paragraphs, code between ``` fences, `code`
// in a line.  Everything else stays as it was written; nothing is ever read as HTML.
import { html } from 'htm/preact';
import { useMemo } from 'preact/hooks';
import { CopyButton } from './ui.js';

/** @returns {{code: boolean, language?: string, text: string}[]} an open fence goes to the end */
export function blocks(text) {
  const out = [];
  let lines = [];
  let fence = null;
  const end = () => {
    if (lines.length && (fence || lines.some((l) => l.trim())))
      out.push({ code: fence !== null, language: fence?.language, text: lines.join('\n') });
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)\s*$/.exec(line);
    if (fence === null && mark) {
      end();
      fence = { mark: mark[1], language: mark[2] };
    } else if (
      fence !== null &&
      mark &&
      !mark[2] &&
      mark[1][0] === fence.mark[0] &&
      mark[1].length >= fence.mark.length
    ) {
      end();
      fence = null;
    } else {
      lines.push(line);
    }
  }
  end();
  return out;
}

const inline = (text) =>
  text.split(/(`[^`\n]+`)/).map((part, i) => (i % 2 ? html`<code>${part.slice(1, -1)}</code>` : part));

/** The same text is the same nodes: a long conversation costs nothing while its end grows. */
export function Prose({ text }) {
  return useMemo(
    () =>
      html`<div class="prose">${blocks(text).map((block, i) =>
        block.code
          ? html`<div class="code" key=${i}><div class="code-head"><span>${block.language}</span><${CopyButton} text=${block.text} /></div><pre tabindex="0">${block.text}</pre></div>`
          : html`<p key=${i}>${inline(block.text.trim())}</p>`,
      )}</div>`,
    [text],
  );
}
