// pages/audit.js - the audit log, newest entry first (a page of the keys).
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { dateTime } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live } from '../lib/live.js';
import { Table } from '../lib/table.js';
import { Button, ErrorNote } from '../lib/ui.js';

const PAGE = 25;

const value = (v, name) => {
  if (v === undefined) return '';
  if (name === 'expires' && v > 0) return dateTime(v);
  return Array.isArray(v) ? v.join(' ') : String(v);
};
/** "name: a → b" for each changed member; the detail where nothing can be compared. */
function changes(r) {
  const names = [...new Set([...Object.keys(r.before ?? {}), ...Object.keys(r.after ?? {})])];
  const lines = names.map((name) => {
    const [before, after] = [value(r.before?.[name], name), value(r.after?.[name], name)];
    return r.before && r.after ? `${name}: ${before} → ${after}` : `${name}: ${before || after}`;
  });
  return lines.length > 0 ? lines : [r.detail];
}

/** @param {{keys: {id: string, name: string}[]}} props */
export function Audit({ keys }) {
  const [log, setLog] = useState({ rows: [], until: 0, more: false, error: null, isLoaded: false });
  const [isBusy, setBusy] = useState(false);
  const names = new Map(keys.map((k) => [k.id, k.name || k.id]));
  const read = async (before) => {
    setBusy(true);
    try {
      const answer = await api.get(
        `/v0/audit?limit=${PAGE}&offset=${before.rows.length}${before.until ? `&until=${before.until}` : ''}`,
      );
      setLog({
        rows: [...before.rows, ...answer.audit],
        until: answer.until,
        more: answer.more,
        error: null,
        isLoaded: true,
      });
    } catch (error) {
      setLog({ ...before, error, isLoaded: true });
    }
    setBusy(false);
  };
  const shown = useRef(0);
  shown.current = log.rows.length;
  // The first page is live; older pages stay as they were read.
  useEffect(() => {
    let ticks = 0;
    const first = () => read({ rows: [], until: 0 });
    first();
    return live.subscribe((event) => {
      if (event.event === 'stats' && ++ticks % 3 === 0 && shown.current <= PAGE) first();
    });
  }, []);
  const columns = [
    {
      id: 'time',
      label: t('keys.time'),
      cell: (r) =>
        html`<time class="nowrap" datetime=${new Date(r.time * 1000).toISOString()}>${dateTime(r.time)}</time>`,
    },
    {
      id: 'actor',
      label: t('keys.actor'),
      text: (r) => r.actor_name || r.actor,
      cell: (r) => html`<span class="break" title=${r.actor}>${r.actor_name || r.actor}</span>`,
    },
    {
      id: 'address',
      label: t('keys.address'),
      text: (r) => r.from,
      cell: (r) => html`<span class="audit-from">${r.from}</span>`,
    },
    { id: 'action', label: t('keys.action'), text: (r) => r.action, cell: (r) => html`<code>${r.action}</code>` },
    {
      id: 'target',
      label: t('keys.target'),
      text: (r) => `${r.target} ${names.get(r.target) ?? ''}`,
      cell: (r) => html`<span class="break">${names.get(r.target) ?? r.target}</span>`,
    },
    {
      id: 'change',
      label: t('keys.change'),
      text: (r) => changes(r).join(' '),
      cell: (r) => changes(r).map((line) => html`<div class="break muted">${line}</div>`),
    },
  ];
  return html`<section class="section">
    <${ErrorNote} error=${log.error} />
    ${
      log.rows.length > 0
        ? html`<${Table} caption=${t('keys.audit')} rows=${log.rows.map((row, i) => ({ ...row, i }))} rowKey=${(r) => r.i} columns=${columns} pageSize=${10000} />`
        : log.isLoaded && !log.error && html`<p class="muted">${t('keys.noAudit')}</p>`
    }
    ${log.more && html`<div><${Button} busy=${isBusy} onClick=${() => read(log)}>${t('keys.older')}<//></div>`}</section>`;
}
