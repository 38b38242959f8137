// pages/requests.js - the request log, live: the last requests with key, model, node, times and tokens;
// one request: pages/request.js.
import { html } from 'htm/preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { api } from '../lib/api.js';
import { clock, dateTime, duration, figure, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { live, useLive } from '../lib/live.js';
import { href } from '../lib/route.js';
import { Table } from '../lib/table.js';
import { Button, Empty, ErrorNote, Icon, Page, Skeleton } from '../lib/ui.js';
import { RequestBadge, whyNode } from '../lib/request.js';
import Request from './request.js';

const PAGE = 50;

const ms = (value) =>
  value === undefined
    ? '–'
    : value < 10
      ? `${number(value, 1)} ms`
      : value < 10000
        ? `${number(value)} ms`
        : duration(value);

const columns = () => [
  {
    id: 'time',
    label: t('requests.time'),
    cell: (r) =>
      html`<a class="row-link number request-at" href=${href('requests', r.id)} title=${dateTime(r.time_ms / 1000)}>${clock(r.time_ms / 1000)}</a><span class="row-sub request-api" title=${r.api}>${r.api}</span>`,
  },
  {
    id: 'model',
    label: t('requests.model'),
    cell: (r) =>
      html`<span class="break request-name">${r.model || '–'}</span><span class="row-sub break">${r.key ? r.key_name || r.key : t('requests.noKey')}</span>`,
  },
  { id: 'status', label: t('requests.status'), cell: (r) => html`<${RequestBadge} request=${r} />` },
  {
    id: 'node',
    label: t('requests.node'),
    cell: (r) =>
      r.node
        ? html`<span>${r.node_name || r.node}</span><span class="row-sub">${whyNode(r)}</span>`
        : html`<span class="muted">–</span>`,
  },
  { id: 'wait', label: t('requests.wait'), end: true, cell: (r) => ms(r.wait_ms) },
  { id: 'first', label: t('requests.first'), end: true, cell: (r) => ms(r.first_token_ms) },
  {
    id: 'speed',
    label: t('requests.speed'),
    end: true,
    cell: (r) => (r.tokens_per_second === undefined ? '–' : figure(r.tokens_per_second)),
  },
  {
    id: 'tokens',
    label: t('requests.tokens'),
    end: true,
    cell: (r) =>
      r.prompt_tokens || r.completion_tokens
        ? html`<span class="nowrap">${number(r.prompt_tokens)} → ${number(r.completion_tokens)}</span>${r.cached_tokens > 0 && html`<span class="row-sub">${t('requests.cached', { count: number(r.cached_tokens) })}</span>`}`
        : '–',
  },
  { id: 'total', label: t('requests.total'), end: true, cell: (r) => ms(r.total_ms) },
];

/** The log's pages so far; the first is read again whenever the log has changed. */
function useLog(query, isLive) {
  const [log, setLog] = useState({ query: null, rows: [], more: false, capacity: 0, error: null });
  const job = useRef({});
  const read = async (before) => {
    const mine = (job.current = { busy: true });
    try {
      const got = await api.get(`/v0/requests?limit=${PAGE}${query}${before ? `&before=${before}` : ''}`);
      if (job.current !== mine) return;
      setLog((old) => ({
        query,
        rows: before ? [...old.rows, ...got.requests] : got.requests,
        more: got.more,
        capacity: got.capacity,
        error: null,
      }));
    } catch (error) {
      if (job.current === mine) setLog((old) => ({ ...old, query, error }));
    }
    mine.busy = false;
  };
  useEffect(() => {
    let changes = -1;
    let hasRunning = false;
    read();
    return live.subscribe((event) => {
      if (event.event !== 'stats' || !isLive || job.current.busy) return;
      // What runs grows older without a change of the log.
      if (event.request_log_changes !== changes || hasRunning) read();
      hasRunning = event.in_flight > 0;
      changes = event.request_log_changes;
    });
  }, [query, isLive]);
  return { ...log, isCurrent: log.query === query, readMore: () => read(log.rows.at(-1)?.id) };
}

const Choice = ({ label, value, onChange, children }) =>
  html`<span class="inline"><select aria-label=${label} value=${value} onChange=${(e) => onChange(e.currentTarget.value)}>${children}</select></span>`;

function List({ route }) {
  const [filter, setFilter] = useState(() => ({
    status: route.query.get('status') ?? '',
    model: route.query.get('model') ?? '',
    node: route.query.get('node') ?? '',
    key: route.query.get('key') ?? '',
    q: route.query.get('q') ?? '',
  }));
  const [isLive, setLive] = useState(true);
  const models = useLive('models').items;
  const nodes = useLive('nodes').items;
  const query = Object.entries(filter)
    .filter(([, value]) => value)
    .map(([name, value]) => `&${name}=${encodeURIComponent(value)}`)
    .join('');
  const log = useLog(query, isLive);
  const set = (name) => (value) => setFilter({ ...filter, [name]: value });
  const isFiltered = query !== '';
  const named = (list, value) => (value && !list.includes(value) ? [value, ...list] : list);
  return html`<${Page} title=${t('requests.title')} lead=${t('requests.lead')}>
    <${ErrorNote} error=${log.error} />
    <div class="table-tools request-tools"><div class="search"><${Icon} name="search" /><input type="search" aria-label=${t('requests.search')} placeholder=${t('requests.search')} value=${filter.q} onInput=${(e) => set('q')(e.currentTarget.value)} /></div>
      <${Choice} label=${t('requests.status')} value=${filter.status} onChange=${set('status')}><option value="">${t('requests.anyStatus')}</option>
        ${['running', 'ok', 'failed', '429', '503'].map((s) => html`<option value=${s}>${/^\d/.test(s) ? s : t(`requests.${s}`)}</option>`)}<//>
      <${Choice} label=${t('requests.model')} value=${filter.model} onChange=${set('model')}><option value="">${t('requests.anyModel')}</option>
        ${named(
          models.map((m) => m.id),
          filter.model,
        ).map((id) => html`<option value=${id}>${id}</option>`)}<//>
      <${Choice} label=${t('requests.node')} value=${filter.node} onChange=${set('node')}><option value="">${t('requests.anyNode')}</option>
        ${nodes.map((n) => html`<option value=${n.id}>${n.name}</option>`)}<//>
      ${filter.key && html`<span class="chip"><span class="break">${filter.key}</span><${Button} kind="quiet" icon="close" label=${t('requests.anyKey')} onClick=${() => set('key')('')} /></span>`}
      <label class="check"><input type="checkbox" checked=${isLive} onChange=${(e) => setLive(e.currentTarget.checked)} /><span>${t('requests.live')}</span></label></div>
    ${
      !log.isCurrent
        ? !log.error && html`<${Skeleton} lines=${6} />`
        : log.capacity === 0 && !log.error
          ? html`<${Empty} icon="requests" title=${t('requests.offTitle')} text=${t('requests.offText')} />`
          : log.rows.length === 0
            ? !log.error &&
              html`<${Empty} icon="requests" title=${t(isFiltered ? 'requests.noneTitle' : 'requests.emptyTitle')} text=${t(isFiltered ? 'requests.noneText' : 'requests.emptyText')} />`
            : html`<${Table} caption=${t('requests.title')} rows=${log.rows} rowKey=${(r) => r.id} columns=${columns()} rowHref=${(r) => href('requests', r.id)} rowClass=${(r) => (r.status >= 500 || r.status === 429 ? 'broken' : '')} pageSize=${100000} />
              ${log.more && html`<div><${Button} onClick=${log.readMore}>${t('requests.older')}<//></div>`}`
    }
    <p class="small muted">${t('requests.kept', { count: number(log.capacity) })}</p><//>`;
}

export default function Requests({ route }) {
  return route.id
    ? html`<${Request} key=${route.id} id=${route.id} />`
    : html`<${List} key=${route.query.toString()} route=${route} />`;
}
