// lib/ui.js - the components that every page uses.
//
//   <Button onClick=... kind="primary|quiet|danger" busy=${bool} icon="plus" changes>Text</Button>
//                                         changes: not there for a viewer, whose changes the router refuses
//   <Badge tone="good|warn|bad|busy|plain">ready</Badge>
//   <Field label="Name" hint="..." error="...">${(props) => html`<input ...${props} />`}</Field>
//   <Dialog open=${bool} title="..." onClose=${fn} footer=${vnode} sticky=${bool}>...</Dialog>
//   await confirm({title, text, action, danger, choice: 'Also delete files'})   -> null | {choice: bool}
//   toast('Saved')                        a message that disappears after six seconds
//   <ErrorNote error=${ApiError} onDismiss=${fn} />       the API's message, until dismissed
//   <Empty icon="models" title="..." text="...">next step</Empty>
//   <Page title="..." lead="..." actions=${vnode}>...</Page>   a page's heading and body
//   <Icon name="..." /> <Meter value max label /> <CopyButton text /> <Skeleton lines />
//   <Facts items=${[[label, value], ...]} />
// Table and its paging: lib/table.js.
//
// Text is always a child or an attribute value, so nothing that comes from a model, a node
// or a user is ever read as HTML.
import { html } from 'htm/preact';
import { render } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { t } from './i18n.js';
import { mayChange } from './me.js';

const paths = {
  overview: 'M3 12l4-5 4 3 5-7M3 17h14',
  models: 'M10 2.5l6.5 3.7v7.6L10 17.5l-6.5-3.7V6.2zM3.5 6.2L10 10l6.5-3.8M10 10v7.5',
  nodes: 'M3.5 3.5h13v5h-13zM3.5 11.5h13v5h-13zM6.5 6h.01M6.5 14h.01',
  playground: 'M3 4.5h14v9H9l-4 3v-3H3z',
  requests: 'M3 5h9M3 10h14M3 15h6M15 3.5v3M12 13.5v3',
  self: 'M10 10.2a3.4 3.4 0 1 0 0-6.8 3.4 3.4 0 0 0 0 6.8zM3.5 17c.8-3 3.4-4.6 6.5-4.6s5.7 1.6 6.5 4.6',
  keys: 'M12.5 9.5a3.5 3.5 0 1 0-3.3-2.3L3 13.4V17h3.6v-2.2h2.2v-2.2h1.5l.9-.9M13.2 6.3h.01',
  plus: 'M10 4v12M4 10h12',
  close: 'M5 5l10 10M15 5L5 15',
  check: 'M4 10.5l4 4 8-9',
  copy: 'M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7',
  alert: 'M10 3l7.5 13.5h-15zM10 8v4M10 14.2v.01',
  search: 'M8.7 14.4a5.7 5.7 0 1 0 0-11.4 5.7 5.7 0 0 0 0 11.4zM13 13l4 4',
  back: 'M12 4l-6 6 6 6',
  next: 'M8 4l6 6-6 6',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  trash: 'M4 5.5h12M8 5.5V3.5h4v2M5.5 5.5l.7 11h7.6l.7-11',
  pin: 'M7 3h6l-.7 5.5 2.7 3H5l2.7-3zM10 11.5V17',
  reload: 'M16 10a6 6 0 1 1-1.8-4.3M16 3v3.5h-3.5',
  sun: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.8v1.7M10 16.5v1.7M1.8 10h1.7M16.5 10h1.7M4.2 4.2l1.2 1.2M14.6 14.6l1.2 1.2M15.8 4.2l-1.2 1.2M5.4 14.6l-1.2 1.2',
  moon: 'M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3z',
  auto: 'M10 2.8a7.2 7.2 0 1 0 0 14.4zM10 2.8a7.2 7.2 0 0 1 0 14.4',
  leave: 'M8 3.5H3.5v13H8M12 6l4 4-4 4M16 10H7.5',
  send: 'M10 16V4M5 9l5-5 5 5',
  stop: 'M5.5 5.5h9v9h-9z',
  edit: 'M4 16l.8-3.5L13.5 3.8l2.7 2.7L7.5 15.2z',
  branch:
    'M6 6.7v6.6M6 6.7a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6zM6 16.9a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6zM14 8.7a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6zM14 8.7c0 3.5-8 1.5-8 4.6',
  list: 'M4 5.5h12M4 10h12M4 14.5h8',
  sliders: 'M3.5 6.5h6M13.5 6.5h3M11.5 4.5v4M3.5 13.5h3M10.5 13.5h6M8.5 11.5v4',
  keyboard: 'M2.5 5.5h15v9h-15zM5.5 8.5h.01M8.5 8.5h.01M11.5 8.5h.01M14.5 8.5h.01M7 11.5h6',
  code: 'M7 5.5L2.5 10 7 14.5M13 5.5l4.5 4.5-4.5 4.5',
  file: 'M5 2.5h6.5L15 6v11.5H5zM11.5 2.5V6H15',
  attach: 'M15.5 9.5l-6 6a3.5 3.5 0 0 1-5-5l6.5-6.5a2.4 2.4 0 0 1 3.4 3.4l-6.4 6.4a1.2 1.2 0 0 1-1.7-1.7l5.7-5.7',
  save: 'M10 3v9.5M6 9l4 4 4-4M3.5 16.5h13',
  columns: 'M3 3.5h14v13H3zM10 3.5v13',
  spark: 'M10 2.5l1.8 5.7 5.7 1.8-5.7 1.8L10 17.5l-1.8-5.7L2.5 10l5.7-1.8z',
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false"><path d=${paths[name]} /></svg>`;

export function Button({
  kind = 'plain',
  busy = false,
  icon,
  children,
  label,
  class: more = '',
  disabled,
  changes = false,
  ...rest
}) {
  if (changes && !mayChange()) return null;
  return html`<button type="button" class="button ${kind} ${children ? '' : 'icon-only'} ${more}" aria-label=${label} title=${children ? undefined : label}
    disabled=${disabled} aria-disabled=${busy || undefined} aria-busy=${busy || undefined} ...${rest} onClick=${busy ? undefined : rest.onClick}>
    ${busy ? html`<span class="spinner" aria-hidden="true"></span>` : icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}</button>`;
}

export const Badge = ({ tone = 'plain', children }) => html`<span class="badge ${tone}">${children}</span>`;

/** The child is a function of the props that tie input, label, hint and error together. */
export function Field({ label, hint, error, children, class: more = '' }) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined;
  return html`<div class="field ${more}"><label for=${id}>${label}</label>
    ${children({ id, 'aria-describedby': described, 'aria-invalid': error ? 'true' : undefined })}
    ${hint && html`<p class="hint" id="${id}-hint">${hint}</p>`}
    ${error && html`<p class="field-error" id="${id}-error">${error}</p>`}</div>`;
}

/** A modal <dialog>: the browser keeps the focus inside and gives it back.  A sticky one shows what cannot be shown
 * again: neither Esc nor the browser closes it, only a button of its footer.
 * The dialog opens and closes while the page is rendered. If it did so after the next frame, a key pressed in between
 * would be lost. */
export function Dialog({ open, title, onClose, children, footer, wide = false, sticky = false, class: more = '' }) {
  const ref = useRef(null);
  const id = `dialog-${useId()}`; // confirm() renders beside the page, where useId counts anew
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (open && !dialog.open) dialog.showModal();
    if (!open) dialog.close();
  }, [open]);
  // A dialog that is removed while it is open does not give the focus back.
  useLayoutEffect(() => {
    const dialog = ref.current;
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${ref} class="dialog ${wide ? 'wide' : ''} ${more}" aria-labelledby=${id}
    onKeyDown=${(event) => {
      if (sticky && event.key === 'Escape') event.preventDefault();
    }}
    onClose=${() => {
      if (sticky && open) ref.current?.showModal(); // a browser may close it without asking
    }}
    onCancel=${(event) => {
      if (event.target === ref.current) {
        event.preventDefault();
        if (!sticky) onClose();
      }
    }}>
    ${
      open &&
      html`<header><h2 id=${id}>${title}</h2>${!sticky && html`<${Button} kind="quiet" icon="close" label=${t('common.close')} onClick=${onClose} />`}</header>
    <div class="dialog-body">${children}</div>${footer && html`<footer>${footer}</footer>`}`
    }</dialog>`;
}

function ConfirmBox({ title, text, lines, action, danger, choice, done }) {
  const [chosen, setChosen] = useState(false);
  return html`<${Dialog} open title=${title} onClose=${() => done(null)} footer=${html`
    ${!lines && html`<${Button} onClick=${() => done(null)}>${t('common.cancel')}<//>`}
    <${Button} kind=${danger ? 'danger' : 'primary'} onClick=${() => done({ choice: chosen })}>${action}<//>`}>
    ${text && html`<p>${text}</p>`}${lines && html`<ul class="lines">${lines.map((line) => html`<li>${line}</li>`)}</ul>`}
    ${choice && html`<label class="check"><input type="checkbox" checked=${chosen} onChange=${(e) => setChosen(e.currentTarget.checked)} /><span>${choice}</span></label>`}<//>`;
}

/**
 * @param {{title: string, text?: string, action: string, danger?: boolean, choice?: string, lines?: string[]}} question
 *   with `lines` it is no question but news, to be read and closed
 * @returns {Promise<null|{choice: boolean}>} null: no
 */
export function confirm(question) {
  return new Promise((resolve) => {
    const host = document.body.appendChild(document.createElement('div'));
    const done = (answer) => {
      render(null, host);
      host.remove();
      resolve(answer);
    };
    render(html`<${ConfirmBox} ...${question} done=${done} />`, host);
  });
}

const toasts = { list: [], listeners: new Set(), last: 0 };
function tellToasts() {
  toasts.listeners.forEach((fn) => fn(toasts.list));
}

/** @param {string} text @param {'good'|'plain'} [tone] */
export function toast(text, tone = 'good') {
  const id = ++toasts.last;
  toasts.list = [...toasts.list.slice(-2), { id, text, tone }];
  tellToasts();
  setTimeout(() => {
    toasts.list = toasts.list.filter((x) => x.id !== id);
    tellToasts();
  }, 6000);
}

/** Once, in the shell: the live region exists before anything is said in it. */
export function Toasts() {
  const [list, setList] = useState(toasts.list);
  useEffect(() => {
    toasts.listeners.add(setList);
    return () => {
      toasts.listeners.delete(setList);
    };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${list.map((x) => html`<div class="toast ${x.tone}" key=${x.id}><${Icon} name="check" /><span>${x.text}</span></div>`)}</div>`;
}

/** What the API said, with what helps to find it in the log. */
export function ErrorNote({ error, onDismiss }) {
  if (!error) return null;
  return html`<div class="note bad" role="alert"><${Icon} name="alert" /><div class="note-text"><p class="error-message">${error.code === 'unreachable' ? t('common.unreachable') : error.message}</p>
    ${error.status > 0 && html`<p class="note-facts">${['HTTP ' + error.status, error.code, error.requestId].filter(Boolean).join(' · ')}</p>`}</div>
    ${onDismiss && html`<${Button} kind="quiet" icon="close" label=${t('common.dismiss')} onClick=${onDismiss} />`}</div>`;
}

export const Note = ({ tone = 'plain', icon = 'alert', children }) =>
  html`<div class="note ${tone}"><${Icon} name=${icon} /><div class="note-text">${children}</div></div>`;

export const Empty = ({
  icon,
  title,
  text,
  children,
}) => html`<div class="empty"><div class="empty-icon"><${Icon} name=${icon} /></div>
  <h2>${title}</h2><p>${text}</p>${children && html`<div class="empty-actions">${children}</div>`}</div>`;

let isFirstPage = true;

/** The heading takes the focus when another page opens, so that a screen reader says where it is. */
export function Page({ title, lead, actions, children, back }) {
  const ref = useRef(null);
  useEffect(() => {
    document.title = `${title} · llm-router`;
  }, [title]);
  useEffect(() => {
    if (!isFirstPage) ref.current?.focus({ preventScroll: true });
    isFirstPage = false;
  }, []);
  return html`<div class="page"><header class="page-head"><div class="page-title">
    ${back && html`<a class="back" href=${back.href}><${Icon} name="back" />${back.text}</a>`}
    <h1 tabindex="-1" elementtiming="title" ref=${ref}>${title}</h1>${lead && html`<p class="lead">${lead}</p>`}${!mayChange() && html`<p class="small muted read-only"><${Badge}>${t('common.readOnly')}<//> ${t('common.readOnlyText')}</p>`}</div>
    ${actions && html`<div class="page-actions">${actions}</div>`}</header>${children}</div>`;
}

export const Meter = ({
  value,
  max,
  label,
  tone = '',
}) => html`<div class="meter ${tone}" role="progressbar" aria-label=${label} aria-valuemin="0"
  aria-valuemax="100" aria-valuenow=${Math.round(max > 0 ? (100 * value) / max : 0)}><span style=${{ width: `${max > 0 ? Math.min(100, (100 * value) / max) : 0}%` }}></span></div>`;

export const Facts = ({ items }) =>
  html`<dl class="facts">${items.filter(Boolean).map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl>`;

export const Skeleton = ({ lines = 3 }) =>
  html`<div class="skeleton" aria-hidden="true">${Array.from({ length: lines }, () => html`<span></span>`)}</div>`;

/** Browsers offer the clipboard only on https and on this machine; elsewhere the old way works. */
async function copyText(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'visually-hidden';
  const host = document.querySelector('dialog[open]') ?? document.body; // a modal keeps the focus inside
  host.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** With `isBare` only the picture. */
export function CopyButton({ text, label = t('common.copy'), isBare = false }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2000);
  };
  const said = done ? t('common.copied') : label;
  return html`<${Button} kind="quiet" icon=${done ? 'check' : 'copy'} label=${isBare ? said : undefined} onClick=${copy}>${isBare ? '' : said}<//>`;
}

/** Runs an order, one at a time; keeps its error until dismissed. */
export function useOrder() {
  const [busy, setBusy] = useState('');
  const [error, setError] = useState(null);
  const run = async (name, fn) => {
    setBusy(name);
    try {
      const answer = await fn();
      setError(null);
      return answer;
    } catch (failure) {
      setError(failure);
      return undefined;
    } finally {
      setBusy('');
    }
  };
  return { busy, error, run, dismiss: () => setError(null) };
}

/** False until the first frame with the component is on the screen (effects run after it): what is built later does not
 * delay that frame. */
export function usePainted() {
  const [isPainted, setPainted] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setPainted(true));
    return () => clearTimeout(timer);
  }, []);
  return isPainted;
}
