// pages/usage.js - requests, tokens and cost over time, stacked by key, model or owner, of all keys or one (a page of the
// keys).
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { segment } from '../lib/api.js';
import { Chart, Legend } from '../lib/chart.js';
import { dateTime, number } from '../lib/format.js';
import { getLang, t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { Table } from '../lib/table.js';
import { ErrorNote, Icon, Skeleton } from '../lib/ui.js';

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

const TONES = [1, 4, 2, 5, 7, 6]; // without the red of errors
const SERIES_MAX = TONES.length; // the colours that a reader can tell apart; the rest is one series
const OTHERS = '\n'; // no key and no model has this name

const GROUPS = ['key', 'model', 'owner'];

/** What is counted: the members of a row. */
const measures = {
  requests: (row) => row.requests,
  tokens: (row) => row.prompt_tokens + row.completion_tokens,
  prompt: (row) => row.prompt_tokens,
  completion: (row) => row.completion_tokens,
};

/**
 * Rows of the API, one per slot and group, as series of a stacked chart: the largest first, the rest together.
 * @param {object[]} rows @param {number[]} times @param {number} slotS
 * @param {'key'|'model'|'owner'} by @param {keyof typeof measures} measure
 * @returns {{name: string, values: number[], sum: number}[]}
 */
export function stackedBy(rows, times, slotS, by, measure) {
  const groups = new Map();
  for (const row of rows) {
    const i = Math.round((row.time - times[0]) / slotS);
    if (i < 0 || i >= times.length) continue;
    const group = groups.get(row[by]) ?? { name: row[by], values: times.map(() => 0), sum: 0 };
    const value = measures[measure](row);
    group.values[i] += value;
    group.sum += value;
    groups.set(row[by], group);
  }
  const all = [...groups.values()]
    .filter((g) => g.sum > 0)
    .sort((x, y) => y.sum - x.sum || x.name.localeCompare(y.name));
  const rest = all.slice(SERIES_MAX - 1);
  if (all.length <= SERIES_MAX) return all;
  return [
    ...all.slice(0, SERIES_MAX - 1),
    {
      name: OTHERS,
      values: times.map((_, i) => rest.reduce((sum, g) => sum + g.values[i], 0)),
      sum: rest.reduce((sum, g) => sum + g.sum, 0),
    },
  ];
}

/** Sums by key, model or owner, the largest first. */
export function sumsBy(rows, by) {
  const groups = new Map();
  for (const row of rows) {
    const sum = groups.get(row[by]) ?? { name: row[by], requests: 0, prompt: 0, completion: 0, cached: 0, cost: null };
    sum.requests += row.requests;
    sum.prompt += row.prompt_tokens;
    sum.completion += row.completion_tokens;
    sum.cached += row.cached_tokens;
    if (typeof row.cost === 'number') sum.cost = (sum.cost ?? 0) + row.cost;
    groups.set(row[by], sum);
  }
  return [...groups.values()].sort((a, b) => b.prompt + b.completion - a.prompt - a.completion);
}

const total = (values) => values.reduce((sum, n) => sum + n, 0);

function UsageChart({ title, groups, label, times, slotS }) {
  const [hover, setHover] = useState(null);
  const sums = times.map((_, i) => groups.reduce((sum, g) => sum + g.values[i], 0));
  const shown = hover === null ? total(sums) : sums[hover];
  const series = useMemo(
    () => groups.map((g, i) => ({ label: label(g.name), values: g.values, tone: TONES[i] })),
    [groups],
  );
  return html`<section class="card stat"><h3 class="stat-title">${title}</h3><p class="stat-figure"><span class="stat-value">${number(shown)}</span>
    <span class="stat-aside">${hover === null ? '' : dateTime(times[hover])}</span></p>
    <${Chart} label=${t('keys.chartText', { title, total: number(total(sums)), most: number(Math.max(0, ...sums)) })} times=${times} series=${series.length > 0 ? series : [{ label: title, values: sums, tone: 1 }]}
      format=${compact} height=${150} slotS=${slotS} stacked onHover=${setHover} /></section>`;
}

export function Usage({ keys }) {
  const [range, setRange] = useState('day');
  const [key, setKey] = useState('');
  const [by, setBy] = useState('key');
  const { slotS } = ranges[range];
  const { zone, times } = slotTimes(ranges[range]);
  const query = `/v0/usage?since=${times[0]}&until=${times.at(-1) + slotS}&step=${slotS}&zone=${zone}${key ? `&key=${segment(key)}` : ''}`;
  const { data, error } = useResource(`${query}&by=${by}`, { everyS: 5 });
  // While the next grouping is on its way the rows are those of the last one.
  const rows = (data?.usage ?? []).filter((row) => row[by] !== undefined);
  const names = new Map(keys.map((k) => [k.id, k.name || k.id]));
  const keyName = (id) => (id === '' ? t('keys.local') : (names.get(id) ?? id));
  const label = (name) =>
    name === OTHERS ? t('keys.others') : by === 'key' ? keyName(name) : name || t('keys.noOwner');
  const charts = useMemo(
    () => ['requests', 'prompt', 'completion'].map((measure) => stackedBy(rows, times, slotS, by, measure)),
    [data, by, times[0]],
  );
  const tokens = useMemo(() => stackedBy(rows, times, slotS, by, 'tokens'), [data, by, times[0]]);
  const sums = sumsBy(rows, by);
  const hasCost = sums.some((s) => s.cost !== null);
  const figure = (id, title) => ({ id, label: title, end: true, sort: (r) => r[id] ?? 0, cell: (r) => number(r[id]) });
  const table = [
    {
      id: 'name',
      label: t(`keys.${by}`),
      text: (r) => label(r.name),
      sort: (r) => label(r.name),
      cell: (r) => html`<span class="break">${label(r.name)}</span>`,
    },
    figure('requests', t('keys.requests')),
    figure('prompt', t('keys.promptTokens')),
    figure('cached', t('keys.cachedTokens')),
    figure('completion', t('keys.completionTokens')),
    ...(hasCost
      ? [
          {
            ...figure('cost', `${t('keys.cost')}${data.currency ? ` (${data.currency})` : ''}`),
            cell: (r) => (r.cost === null ? '–' : number(r.cost, 4)),
          },
        ]
      : []),
  ];
  // One order of colours for all charts: that of the tokens.
  const order = new Map(tokens.map((g, i) => [g.name, i]));
  const sorted = (groups) =>
    groups.map((g) => ({ ...g, rank: order.get(g.name) ?? TONES.length - 1 })).sort((a, b) => a.rank - b.rank);
  return html`<section class="section" aria-labelledby="usage-title"><div class="section-head"><h2 id="usage-title">${t('keys.usage')}</h2>
      <div class="row"><label class="inline"><span class="visually-hidden">${t('keys.usageOf')}</span><select value=${key} onChange=${(e) => setKey(e.currentTarget.value)}>
        <option value="">${t('keys.allKeys')}</option>${keys.map((k) => html`<option value=${k.id}>${k.name || k.id}</option>`)}</select></label>
      <label class="inline"><span class="visually-hidden">${t('keys.by')}</span><select value=${by} onChange=${(e) => setBy(e.currentTarget.value)}>
        ${GROUPS.map((name) => html`<option value=${name}>${t(`keys.by_${name}`)}</option>`)}</select></label>
      <label class="inline"><span class="visually-hidden">${t('keys.range')}</span><select value=${range} onChange=${(e) => setRange(e.currentTarget.value)}>
        ${Object.keys(ranges).map((name) => html`<option value=${name}>${t(`keys.${name}`)}</option>`)}</select></label>
      ${rows.length > 0 && ['csv', 'jsonl'].map((format) => html`<a class="button" key=${format} href=${`${query}&by=key,owner,model&format=${format}`} download><${Icon} name="save" /><span>${t(`keys.export_${format}`)}</span></a>`)}</div></div>
    <${ErrorNote} error=${error} />
    ${!data && !error && html`<${Skeleton} lines=${4} />`}
    ${
      data &&
      html`<div class="usage-charts">${['requests', 'promptTokens', 'completionTokens'].map((title, i) => html`<${UsageChart} key=${title} title=${t(`keys.${title}`)} groups=${sorted(charts[i])} label=${label} times=${times} slotS=${slotS} />`)}</div>
      ${tokens.length > 0 && html`<${Legend} class="blocks" series=${tokens.map((g, i) => ({ label: label(g.name), tone: TONES[i] }))} />`}
      ${rows.length > 0 && html`<${Table} caption=${t(`keys.usageBy_${by}`)} rows=${sums} rowKey=${(r) => r.name} columns=${table} pageSize=${10} />`}`
    }</section>`;
}
