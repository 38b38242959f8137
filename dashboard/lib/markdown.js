// lib/markdown.js - a model's text as elements: markdown, tables, task lists, formulas.
//
//   const document = openDocument()
//   document.show(text)     vnodes, one for each block of the text so far
//
// markdown-it turns the text into tokens and this file turns the tokens into elements: no text is
// ever read as HTML.  A text that has grown is parsed from its last block on; the elements of the
// blocks before are the same objects, so the view does not touch them.
// Loaded on demand (lib/prose.js), with its library.
import MarkdownIt from 'markdown-it';
import { html } from 'htm/preact';
import { Code, Formula } from './code.js';
import { t } from './i18n.js';

const NESTING_MAX = 40; // deeper lists and quotes are shown as they were written
const ELEMENTS_MAX = 20000; // of one block: more would stop the browser
const FORMULA_MAX = 2000; // characters; also how far a lone $ looks for its end

/** Only addresses that a click may open; everything else stays text. @param {string} url */
export function safeUrl(url) {
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return null;
  try {
    return new URL(url).href;
  } catch {
    return null;
  }
}

const closers = { '\\(': '\\)', '\\[': '\\]', $$: '$$' };

/** \( a \), \[ a \], $$ a $$ and $a$ within a line of text. */
function inlineFormula(state, silent) {
  const { src, pos } = state;
  const two = src.slice(pos, pos + 2);
  let begin, end, length;
  if (closers[two]) {
    begin = pos + 2;
    end = src.slice(begin, begin + FORMULA_MAX).indexOf(closers[two]);
    length = 2;
  } else if (src[pos] === '$' && /[^\s$]/.test(src[pos + 1] ?? ' ')) {
    begin = pos + 1;
    // Prices are no formulas: no space before the end, no digit after it.
    end = src.slice(begin, begin + FORMULA_MAX).search(/[^\s\\]\$(?!\d)/) + 1 || -1;
    length = 1;
    if (src.slice(begin, begin + end).includes('\n\n')) end = -1;
  } else return false;
  if (end < 1) return false;
  if (!silent) {
    const token = state.push('formula', 'math', 0);
    token.content = src.slice(begin, begin + end);
    token.block = two === '\\[' || two === '$$';
  }
  state.pos = begin + end + length;
  return true;
}

/** A formula on lines of its own, between $$ or \[ and \]. */
function blockFormula(state, startLine, endLine, silent) {
  const line = (n) => state.src.slice(state.bMarks[n] + state.tShift[n], state.eMarks[n]);
  const first = line(startLine);
  const closer = closers[first.slice(0, 2)];
  if (!closer || first.startsWith('\\(') || state.sCount[startLine] - state.blkIndent >= 4) return false;
  const inner = first.slice(2);
  let content = inner;
  let last = startLine;
  let isClosed = inner.trimEnd().endsWith(closer);
  if (!isClosed && inner.includes(closer)) return false; // more follows on the line: a line of text
  while (!isClosed && last + 1 < endLine && state.sCount[last + 1] >= state.blkIndent) {
    last++;
    content += `\n${line(last)}`;
    isClosed = line(last).trimEnd().endsWith(closer);
  }
  if (content.length > FORMULA_MAX) return false;
  if (silent) return true;
  const token = state.push('formula_block', 'math', 0);
  token.content = isClosed ? content.trimEnd().slice(0, -2) : content;
  token.block = true;
  token.hidden = !isClosed; // not whole yet: shown as it is written
  token.map = [startLine, last + 1];
  state.line = last + 1;
  return true;
}

const parser = new MarkdownIt({ html: false, linkify: true, maxNesting: NESTING_MAX });
parser.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
parser.validateLink = (url) => safeUrl(url) !== null;
parser.inline.ruler.before('escape', 'formula', inlineFormula);
parser.block.ruler.before('fence', 'formula_block', blockFormula, {
  alt: ['paragraph', 'reference', 'blockquote', 'list'],
});

/** A link with the host it leads to, where its text does not say so; images are links too, since
 * the page loads nothing from another host. */
function Anchor({ url, children, text }) {
  const to = safeUrl(url);
  if (!to) return children;
  const { host } = new URL(to);
  return html`<a href=${to} target="_blank" rel="noopener noreferrer nofollow" title=${to}>${children}</a>${
    host && !text.includes(host) && html`<span class="link-host">${host}</span>`
  }`;
}

const textOf = (tokens) => tokens.map((x) => (x.children ? textOf(x.children) : x.content)).join('');

/** What a token that opens an element becomes. */
const elements = {
  paragraph_open: (_, children) => html`<p>${children}</p>`,
  blockquote_open: (_, children) => html`<blockquote>${children}</blockquote>`,
  bullet_list_open: (_, children) => html`<ul>${children}</ul>`,
  ordered_list_open: (token, children) => html`<ol start=${token.attrGet('start') ?? undefined}>${children}</ol>`,
  table_open: (_, children) =>
    html`<div class="prose-table" role="region" aria-label=${t('chat.table')} tabindex="0"><table>${children}</table></div>`,
  thead_open: (_, children) => html`<thead>${children}</thead>`,
  tbody_open: (_, children) => html`<tbody>${children}</tbody>`,
  tr_open: (_, children) => html`<tr>${children}</tr>`,
  th_open: (token, children) => html`<th scope="col" class=${align(token)}>${children}</th>`,
  td_open: (token, children) => html`<td class=${align(token)}>${children}</td>`,
  em_open: (_, children) => html`<em>${children}</em>`,
  strong_open: (_, children) => html`<strong>${children}</strong>`,
  s_open: (_, children) => html`<s>${children}</s>`,
};
const align = (token) => /right|center/.exec(token.attrGet('style') ?? '')?.[0] ?? '';

/** Headings of an answer begin below those of the page. */
const heading = (tag, children) => {
  const level = Number(tag.slice(1));
  return html`<div class=${`heading h${level}`} role="heading" aria-level=${Math.min(6, level + 3)}>${children}</div>`;
};

const TASK = /^\[([ xX])\]\s+/;

/** An item that begins with [ ] or [x] has a box, which shows and does not change. */
function listItem(children, inner) {
  const words = inner.find((x) => x.type === 'inline')?.children ?? [];
  const mark = words[0]?.type === 'text' && inner[0].type === 'paragraph_open' && words[0].mark;
  if (!mark) return html`<li>${children}</li>`;
  const isDone = mark !== ' ';
  return html`<li class="task"><span class="task-box ${isDone ? 'done' : ''}" role="img" aria-label=${t(isDone ? 'chat.taskDone' : 'chat.taskOpen')}></span><div>${children}</div></li>`;
}

function takeTaskMark(inline) {
  const first = inline?.children?.[0];
  const found = first?.type === 'text' && TASK.exec(first.content);
  if (!found) return;
  first.mark = found[1];
  first.content = first.content.slice(found[0].length);
}

function leaf(token) {
  switch (token.type) {
    case 'text':
    case 'text_special':
      return token.content;
    case 'softbreak':
      return '\n';
    case 'hardbreak':
      return html`<br />`;
    case 'hr':
      return html`<hr />`;
    case 'code_inline':
      return html`<code>${token.content}</code>`;
    case 'fence':
    case 'code_block':
      return html`<${Code} text=${token.content.replace(/\n$/, '')} language=${token.info.trim().split(/\s/)[0] ?? ''} />`;
    case 'formula':
    case 'formula_block':
      return html`<${Formula} text=${token.content} isBlock=${token.block} isOpen=${token.hidden} />`;
    case 'image': {
      const alt = textOf(token.children ?? []) || t('chat.image');
      return html`<${Anchor} url=${token.attrGet('src')} text=${alt}>${alt}<//>`;
    }
    default:
      return token.content;
  }
}

/** The elements of a list of tokens: each opening token takes all until its closing one. */
function build(tokens, count) {
  const out = [];
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i];
    if (++count.all > ELEMENTS_MAX) throw new Error('too large');
    if (token.type === 'inline') {
      out.push(...build(token.children, count));
      continue;
    }
    if (token.nesting !== 1) {
      out.push(leaf(token));
      continue;
    }
    let end = i + 1;
    for (let depth = 1; (depth += tokens[end].nesting) > 0; ) end++;
    const inner = tokens.slice(i + 1, end);
    if (token.type === 'list_item_open' && inner[0]?.type === 'paragraph_open') takeTaskMark(inner[1]);
    const children = build(inner, count);
    if (token.type === 'heading_open') out.push(heading(token.tag, children));
    else if (token.type === 'list_item_open') out.push(listItem(children, inner));
    else if (token.type === 'link_open')
      out.push(html`<${Anchor} url=${token.attrGet('href')} text=${textOf(inner)}>${children}<//>`);
    else if (token.type === 'paragraph_open' && token.hidden) out.push(...children);
    else out.push(elements[token.type] ? elements[token.type](token, children) : children);
    i = end;
  }
  return out;
}

const isTooDeep = (tokens) =>
  tokens.some((x) => x.level >= NESTING_MAX - 1 || x.children?.some((y) => y.level >= NESTING_MAX - 1));

/** One block as one vnode; what is too deep or too large is shown as it was written. */
function toElement(tokens, source, key) {
  let children = null;
  if (!isTooDeep(tokens)) {
    try {
      children = build(tokens, { all: 0 });
    } catch {
      /* too large */
    }
  }
  return html`<div class="block" key=${key}>${children ?? html`<p class="as-written">${source}</p>`}</div>`;
}

/** Top-level blocks: {from, to (lines), tokens} */
function split(tokens) {
  const out = [];
  let open = null;
  for (const token of tokens) {
    open ??= { from: token.map?.[0] ?? out.at(-1)?.to ?? 0, to: 0, tokens: [] };
    open.tokens.push(token);
    if (token.map) open.to = Math.max(open.to, token.map[1]);
    if (token.level === 0 && token.nesting !== 1) {
      out.push(open);
      open = null;
    }
  }
  return out;
}

const DEFINES_LINK = /^ {0,3}\[[^\]\n]{1,200}\]:/m;

/** The blocks of source: where each begins, its text and its tokens. */
function parse(source) {
  const lines = [0];
  for (let at = source.indexOf('\n'); at >= 0; at = source.indexOf('\n', at + 1)) lines.push(at + 1);
  const offset = (line) => (line < lines.length ? lines[line] : source.length);
  return split(parser.parse(source, {})).map(({ from, to, tokens }) => ({
    start: offset(from),
    source: source.slice(offset(from), offset(to)),
    tokens,
  }));
}

export function openDocument() {
  let text = '';
  let blocks = []; // {start: offset of the block in the text, source, vnode}

  return {
    /** @param {string} next @returns {import('preact').VNode[]} */
    show(next) {
      // A link that is defined by name may stand in any block: such a text is parsed as a whole.
      const grows = blocks.length > 0 && next.startsWith(text) && !DEFINES_LINK.test(next);
      const from = grows ? blocks.at(-1).start : 0;
      const kept = grows ? blocks.slice(0, -1) : [];
      text = next;
      const made = parse(text.slice(from)).map(({ start, source, tokens }, i) => ({
        start: from + start,
        source,
        vnode: toElement(tokens, source, kept.length + i),
      }));
      blocks = [...kept, ...made];
      return blocks.map((block) => block.vnode);
    },
  };
}
