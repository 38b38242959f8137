// pages/usage.js - requests and tokens over time, of all keys or one (part of the keys page).
import { html } from 'htm/preact';
import { useState } from 'preact/hooks';
import { segment } from '../lib/api.js';
import { Chart } from '../lib/chart.js';
import { dateTime, number } from '../lib/format.js';
import { getLang, t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { Table } from '../lib/table.js';
import { ErrorNote, Skeleton } from '../lib/ui.js';

const ranges = {
  day: { slots: 24, slotS: 3600 },
  week: { slots: 7, slotS: 86400 },
  month: { slots: 30, slotS: 86400 },
};
const compact = (value) =>
  new Intl.NumberFormat(getLang(), { notation: 'compact', maximumFractionDigits: 1 }).format(value);

/** Slots begin with the hours and days of whoever looks. */
function slotTimes({ slots, slotS }, now = Date.now() / 1000) {
  const zone = (((-new Date().getTimezoneOffset() * 60) % 86400) + 86400) % 86400;
  const last = Math.floor((now + zone) / slotS) * slotS - zone;
  return { zone, times: Array.from({ length: slots }, (_, i) => last - (slots - 1 - i) * slotS) };
}

/** Rows of the API, one per slot, key and model, as columns of a chart. */
export function toColumns(rows, times, slotS) {
  const columns = { requests: times.map(() => 0), prompt: times.map(() => 0), completion: times.map(() => 0) };
  for (const row of rows) {
    const i = Math.round((row.time - times[0]) / slotS);
    if (i < 0 || i >= times.length) continue;
    columns.requests[i] += row.requests;
    columns.prompt[i] += row.prompt_tokens;
    columns.completion[i] += row.completion_tokens;
  }
  return columns;
}

export function byKey(rows) {
  const keys = new Map();
  for (const row of rows) {
    const sum = keys.get(row.key) ?? { key: row.key, requests: 0, prompt: 0, completion: 0, cached: 0 };
    sum.requests += row.requests;
    sum.prompt += row.prompt_tokens;
    sum.completion += row.completion_tokens;
    sum.cached += row.cached_tokens;
    keys.set(row.key, sum);
  }
  return [...keys.values()].sort((a, b) => b.prompt + b.completion - a.prompt - a.completion);
}

const total = (values) => values.reduce((sum, n) => sum + n, 0);

function UsageChart({ title, values, times, slotS, tone }) {
  const [hover, setHover] = useState(null);
  const shown = hover === null ? total(values) : values[hover];
  return html`<section class="card stat"><h3 class="stat-title">${title}</h3><p class="stat-figure"><span class="stat-value">${number(shown)}</span>
    <span class="stat-aside">${hover === null ? '' : dateTime(times[hover])}</span></p>
    <${Chart} label=${t('keys.chartText', { title, total: number(total(values)), most: number(Math.max(0, ...values)) })} times=${times} series=${[{ label: title, values, tone }]}
      format=${compact} height=${132} slotS=${slotS} onHover=${setHover} /></section>`;
}

export function Usage({ keys }) {
  const [range, setRange] = useState('day');
  const [key, setKey] = useState('');
  const { slotS } = ranges[range];
  const { zone, times } = slotTimes(ranges[range]);
  const { data, error } = useResource(
    `/v0/usage?since=${times[0]}&until=${times.at(-1) + slotS}&step=${slotS}&zone=${zone}${key ? `&key=${segment(key)}` : ''}`,
    { everyS: 5 },
  );
  const names = new Map(keys.map((k) => [k.id, k.name || k.id]));
  const rows = data?.usage ?? [];
  const columns = toColumns(rows, times, slotS);
  const table = [
    {
      id: 'key',
      label: t('keys.key'),
      text: (r) => names.get(r.key) ?? r.key,
      sort: (r) => names.get(r.key) ?? r.key,
      cell: (r) => html`<span class="break">${r.key === '' ? t('keys.local') : (names.get(r.key) ?? r.key)}</span>`,
    },
    { id: 'requests', label: t('keys.requests'), end: true, sort: (r) => r.requests, cell: (r) => number(r.requests) },
    { id: 'prompt', label: t('keys.promptTokens'), end: true, sort: (r) => r.prompt, cell: (r) => number(r.prompt) },
    { id: 'cached', label: t('keys.cachedTokens'), end: true, sort: (r) => r.cached, cell: (r) => number(r.cached) },
    {
      id: 'completion',
      label: t('keys.completionTokens'),
      end: true,
      sort: (r) => r.completion,
      cell: (r) => number(r.completion),
    },
  ];
  return html`<section class="section" aria-labelledby="usage-title"><div class="section-head"><h2 id="usage-title">${t('keys.usage')}</h2>
      <div class="row"><label class="inline"><span class="visually-hidden">${t('keys.usageOf')}</span><select value=${key} onChange=${(e) => setKey(e.currentTarget.value)}>
        <option value="">${t('keys.allKeys')}</option>${keys.map((k) => html`<option value=${k.id}>${k.name || k.id}</option>`)}</select></label>
      <label class="inline"><span class="visually-hidden">${t('keys.range')}</span><select value=${range} onChange=${(e) => setRange(e.currentTarget.value)}>
        ${Object.keys(ranges).map((name) => html`<option value=${name}>${t(`keys.${name}`)}</option>`)}</select></label></div></div>
    <${ErrorNote} error=${error} />
    ${!data && !error && html`<${Skeleton} lines=${4} />`}
    ${
      data &&
      html`<div class="usage-charts"><${UsageChart} title=${t('keys.requests')} values=${columns.requests} times=${times} slotS=${slotS} tone=${2} />
      <${UsageChart} title=${t('keys.promptTokens')} values=${columns.prompt} times=${times} slotS=${slotS} tone=${1} />
      <${UsageChart} title=${t('keys.completionTokens')} values=${columns.completion} times=${times} slotS=${slotS} tone=${1} /></div>
      ${rows.length > 0 && html`<${Table} caption=${t('keys.usageByKey')} rows=${byKey(rows)} rowKey=${(r) => r.key} columns=${table} pageSize=${10} />`}`
    }</section>`;
}
