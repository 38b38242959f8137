// pages/play_compose.js - the box in which a message is written, with its files (part of the playground).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { bytes } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { Button, Icon } from '../lib/ui.js';

const FILE_MAX = 512 << 10;
const FILES_MAX = 8;
const HEIGHT_MAX = 240;

/** A text file, or the sentence that says why not. @param {File} file */
async function readText(file) {
  if (file.size > FILE_MAX) return { problem: t('playground.fileLarge', { name: file.name, limit: bytes(FILE_MAX) }) };
  const text = await file.text();
  // What is no text has zeros, or bytes that are no UTF-8.
  if (text.includes('\0') || text.includes('\ufffd'))
    return { problem: t('playground.fileBinary', { name: file.name }) };
  return { file: { name: file.name, text } };
}

export const FileChip = ({ file, onRemove }) =>
  html`<span class="file-chip"><${Icon} name="file" /><span class="file-chip-name">${file.name}</span><span class="muted number">${bytes(file.text.length)}</span>
    ${onRemove && html`<button type="button" class="chip-close" aria-label=${t('playground.fileRemove', { name: file.name })} onClick=${onRemove}><${Icon} name="close" /></button>`}</span>`;

export function Composer({ isRunning, canSend, draft, onDraft, files, onFiles, onSend, onStop }) {
  const area = useRef(null);
  const picker = useRef(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    area.current.style.height = 'auto';
    area.current.style.height = `${Math.min(area.current.scrollHeight + 2, HEIGHT_MAX)}px`;
  }, [draft]);
  // Enter that ends the composition of a Japanese word does not send.
  const key = (event) => {
    if (event.key === 'Escape' && isRunning) onStop();
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!isRunning && canSend) onSend();
  };
  const attach = async (list) => {
    const read = await Promise.all([...list].slice(0, FILES_MAX).map(readText));
    setProblem(
      read
        .map((r) => r.problem)
        .filter(Boolean)
        .join(' '),
    );
    onFiles([...files, ...read.map((r) => r.file).filter(Boolean)].slice(-FILES_MAX));
    area.current?.focus();
  };
  const drop = (event) => {
    if (!event.dataTransfer?.files.length) return;
    event.preventDefault();
    attach(event.dataTransfer.files);
  };
  return html`<div class="composer card" onDragOver=${(e) => e.preventDefault()} onDrop=${drop}>
    ${problem && html`<p class="field-error composer-note" role="alert">${problem}</p>`}
    ${files.length > 0 && html`<div class="chips">${files.map((file, i) => html`<${FileChip} key=${i} file=${file} onRemove=${() => onFiles(files.filter((_, j) => j !== i))} />`)}</div>`}
    <div class="composer-row"><input ref=${picker} type="file" multiple class="visually-hidden" tabindex="-1" aria-label=${t('playground.attach')} onChange=${(
      e,
    ) => {
      attach(e.currentTarget.files);
      e.currentTarget.value = '';
    }} />
    <${Button} kind="quiet" icon="attach" label=${t('playground.attach')} onClick=${() => picker.current.click()} />
    <textarea ref=${area} rows="1" aria-label=${t('playground.message')} placeholder=${t('playground.placeholder')} value=${draft}
      onInput=${(e) => onDraft(e.currentTarget.value)} onKeyDown=${key} />
    ${
      isRunning
        ? html`<${Button} icon="stop" label=${t('playground.stop')} onClick=${onStop} />`
        : html`<${Button} kind="primary" icon="send" label=${t('playground.send')} disabled=${!canSend} onClick=${onSend} />`
    }</div></div>`;
}
