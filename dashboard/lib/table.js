// lib/table.js - a table that stays usable with thousands of rows: filtered, sorted, and
// shown a page at a time (rows that are not drawn cost nothing, and a screen reader gets a
// plain table).  On a phone each row becomes a card; `label` of a column stands before its value.
//
//   <Table caption="Models" rows=${items} rowKey=${(m) => m.id} columns=${[
//     {id: 'name', label: 'Name', cell: (m) => m.id, sort: (m) => m.id, text: (m) => m.id},
//     {id: 'state', label: 'State', cell: (m) => html`<${Badge}>...`, text: (m) => m.state},
//     {id: 'size', label: 'Size', cell: ..., sort: (m) => m.size, end: true}]}
//     filter="Filter models" empty=${vnode} actions=${vnode} pageSize=${50} />
// `text` is what the filter looks at; `end` aligns numbers at the end.  With `rowHref`, a function of
// a row, a click anywhere in the row opens that page; the keyboard has the link in the first cell.
import { html } from 'htm/preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { t } from './i18n.js';
import { number } from './format.js';
import { Button, Icon } from './ui.js';

const compare = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b)));

function select(rows, columns, words, sort) {
  const texts = columns.filter((c) => c.text);
  let found = rows;
  if (words.length)
    found = rows.filter((row) => {
      const text = texts
        .map((c) => c.text(row))
        .join(' ')
        .toLowerCase();
      return words.every((word) => text.includes(word));
    });
  const by = sort && columns.find((c) => c.id === sort.id)?.sort;
  return by ? [...found].sort((a, b) => (sort.down ? compare(by(b), by(a)) : compare(by(a), by(b)))) : found;
}

function Head({ column, sort, onSort }) {
  if (!column.sort)
    return html`<th scope="col" class=${column.end ? 'end' : ''}>${column.hidden ? html`<span class="visually-hidden">${column.label}</span>` : column.label}</th>`;
  const active = sort?.id === column.id;
  return html`<th scope="col" class=${column.end ? 'end' : ''} aria-sort=${active ? (sort.down ? 'descending' : 'ascending') : undefined}>
    <button type="button" class="sort ${active ? (sort.down ? 'down' : 'up') : ''}" onClick=${() => onSort({ id: column.id, down: active && !sort.down })}>${column.label}</button></th>`;
}

function Pager({ count, size, at, onPage }) {
  const pages = Math.ceil(count / size);
  if (pages <= 1) return null;
  return html`<nav class="pager" aria-label=${t('common.pages')}>
    <${Button} kind="quiet" icon="back" label=${t('common.previous')} disabled=${at === 0} onClick=${() => onPage(at - 1)} />
    <span>${t('common.pageOf', { from: number(at * size + 1), to: number(Math.min(count, (at + 1) * size)), count: number(count) })}</span>
    <${Button} kind="quiet" icon="next" label=${t('common.next')} disabled=${at >= pages - 1} onClick=${() => onPage(at + 1)} /></nav>`;
}

/** Opens the row's page, unless the click was for something inside the row, or ends a selection of text. */
function openRow(event, to) {
  if (!to || event.defaultPrevented || event.target.closest('a, button, input, select, label, summary, textarea'))
    return;
  if (getSelection()?.toString()) return;
  if (event.ctrlKey || event.metaKey || event.button === 1) open(to, '_blank', 'noopener');
  else if (event.button === 0) location.hash = to;
}

export function Table({
  caption,
  rows,
  columns,
  rowKey,
  filter,
  empty,
  actions,
  pageSize = 50,
  initialSort,
  rowHref,
  rowClass,
}) {
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState(initialSort);
  const [page, setPage] = useState(0);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = useMemo(() => select(rows, columns, words, sort), [rows, columns, query, sort]);
  const last = Math.max(0, Math.ceil(found.length / pageSize) - 1);
  const at = Math.min(page, last);
  useEffect(() => setPage(0), [query, sort]);
  const box = useRef(null);
  // Only what scrolls needs to be reached by keyboard.
  useEffect(() => {
    if (box.current) box.current.tabIndex = box.current.scrollWidth > box.current.clientWidth ? 0 : -1;
  });
  if (rows.length === 0 && empty) return empty;
  const shown = found.slice(at * pageSize, (at + 1) * pageSize);
  return html`<div class="table-box">
    ${
      (filter || actions) &&
      html`<div class="table-tools">
      ${filter && html`<div class="search"><${Icon} name="search" /><input type="search" aria-label=${filter} placeholder=${filter} value=${query} onInput=${(e) => setQuery(e.currentTarget.value)} /></div>`}
      ${actions}<span class="visually-hidden" role="status">${query ? t('common.found', { count: found.length }) : ''}</span></div>`
    }
    <div class="table-scroll" role="region" aria-label=${caption} ref=${box}><table><caption class="visually-hidden">${caption}</caption>
      <thead><tr>${columns.map((c) => html`<${Head} column=${c} sort=${sort} onSort=${setSort} />`)}</tr></thead>
      <tbody>${shown.map(
        (row) =>
          html`<tr key=${rowKey(row)} class="${rowHref?.(row) ? 'opens' : ''} ${rowClass?.(row) ?? ''}" onClick=${rowHref && ((e) => openRow(e, rowHref(row)))} onAuxClick=${rowHref && ((e) => openRow(e, rowHref(row)))}>${columns.map(
            (c, i) =>
              i === 0
                ? html`<th scope="row" class=${c.end ? 'end' : ''}>${c.cell(row)}</th>`
                : html`<td class=${c.end ? 'end' : ''} data-label=${c.hidden ? undefined : c.label}><div class="cell">${c.cell(row)}</div></td>`,
          )}</tr>`,
      )}
      ${shown.length === 0 && html`<tr><td class="none" colspan=${columns.length}>${t('common.nothingFound')}</td></tr>`}</tbody></table></div>
    <${Pager} count=${found.length} size=${pageSize} at=${at} onPage=${setPage} /></div>`;
}
