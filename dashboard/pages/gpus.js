// pages/gpus.js - the GPUs of one node (part of the node page): their figures now, or at the time under the pointer, and
// a chart of each figure over time with a line for each GPU.  A node without GPUs has the chart of its memory.
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { Chart, Legend } from '../lib/chart.js';
import { bytes, clock, dateTime, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { Table } from '../lib/table.js';
import { Badge, ErrorNote, Meter } from '../lib/ui.js';

const ranges = { '15m': 900, '1h': 3600, '24h': 86400, '7d': 7 * 86400 };
const tones = [1, 4, 2, 5, 7, 8, 3, 6]; // neighbours differ most

const sum = (values) => values.reduce((a, b) => a + b, 0);
const mean = (values) => sum(values) / values.length;
const highest = (values) => Math.max(...values);

/** Each: the column of the history, how a value is written, and what all GPUs come to. */
const figures = [
  { id: 'utilization', column: 'utilization_percent', format: (v) => `${number(v)} %`, whole: mean, said: 'gpuMean' },
  { id: 'gpuMemory', column: 'memory_used_bytes', format: bytes, whole: sum, said: 'gpuSum' },
  {
    id: 'temperature',
    column: 'temperature_celsius',
    format: (v) => `${number(v)} °C`,
    whole: highest,
    said: 'gpuMost',
  },
  { id: 'power', column: 'power_milliwatts', format: (v) => `${number(v / 1000)} W`, whole: sum, said: 'gpuSum' },
  { id: 'clock', column: 'clock_mhz', format: (v) => `${number(v / 1000, 2)} GHz`, whole: mean, said: 'gpuMean' },
];

const isTold = (value) => value !== null && value !== undefined;

/** The top of a scale that everybody knows: 100 %, all memory, the limit of the power. */
function scaleTop(figure, devices) {
  if (figure.id === 'utilization') return 100;
  if (figure.id === 'gpuMemory') return highest(devices.map((d) => d.total));
  if (figure.id === 'power') return highest(devices.map((d) => d.limit ?? 0));
  return 0;
}

/** A GPU as its node reports the GPU now, with its part of the history. */
function devicesOf(node, history) {
  const gpus = node.memory.filter((p) => p.name !== 'ram');
  return (gpus.length > 0 ? gpus : node.memory).map((pool, i) => ({
    id: pool.name,
    label: gpus.length > 0 ? t('nodes.gpuNumber', { number: i }) : pool.title,
    title: pool.title,
    tone: tones[i % tones.length],
    total: pool.total,
    limit: pool.gpu?.power_limit_milliwatts,
    gpu: pool.gpu ?? {},
    now: { ...pool.gpu, memory_used_bytes: pool.used },
    past: history?.gpus.find((g) => g.device === pool.name),
  }));
}

const THROTTLED = { hot: 0x8 | 0x20 | 0x40, capped: 0x4 | 0x80 }; // NVML's bits

function Health({ gpu }) {
  const bits = gpu.throttle_reasons ?? 0;
  const badge = gpu.faulty
    ? html`<${Badge} tone="bad">${t('nodes.gpuFaulty')}<//>`
    : bits & THROTTLED.hot
      ? html`<${Badge} tone="warn">${t('nodes.gpuHot')}<//>`
      : bits & THROTTLED.capped
        ? html`<${Badge} tone="warn">${t('nodes.gpuCapped')}<//>`
        : html`<${Badge} tone="good">${t('nodes.gpuWell')}<//>`;
  const errors = [
    gpu.ecc_uncorrected_total > 0 && t('nodes.gpuUncorrected', { count: gpu.ecc_uncorrected_total }),
    gpu.ecc_corrected_total > 0 && t('nodes.gpuCorrected', { count: gpu.ecc_corrected_total }),
    isTold(gpu.last_xid) && t('nodes.gpuXid', { xid: gpu.last_xid }),
  ].filter(Boolean);
  return html`${badge}${errors.length > 0 && html`<span class="row-sub">${errors.join(', ')}</span>`}`;
}

/** `at` gives a device's value of a figure: now, or at the time under the pointer. */
const columns = (shown, at) => [
  {
    id: 'gpu',
    label: t('nodes.gpu'),
    cell: (d) =>
      html`<span class="gpu-name" data-tone=${d.tone}><i class="swatch"></i>${d.label}</span><span class="row-sub">${d.title}</span>`,
  },
  { id: 'status', label: t('nodes.status'), cell: (d) => html`<${Health} gpu=${d.gpu} />` },
  ...shown.map((figure) => ({
    id: figure.id,
    label: t(`nodes.${figure.id}`),
    end: figure.id !== 'gpuMemory',
    cell: (d) => {
      const value = at(d, figure);
      if (!isTold(value)) return '–';
      if (figure.id === 'gpuMemory')
        return html`<div class="gpu-memory"><${Meter} value=${value} max=${d.total} label=${`${d.label} ${t('nodes.gpuMemory')}`} /><span class="small muted number">${t('nodes.used', { used: bytes(value), total: bytes(d.total) })}</span></div>`;
      return html`<span>${figure.format(value)}</span>${figure.id === 'power' && isTold(d.limit) && html`<span class="row-sub">${t('nodes.ofTotal', { total: figure.format(d.limit) })}</span>`}`;
    },
  })),
];

function FigureCard({ figure, devices, times, hover, windowS, at, onHover }) {
  const drawn = devices.filter((d) => d.past?.[figure.column].some(isTold));
  const series = useMemo(
    () => drawn.map((d) => ({ label: d.label, values: d.past[figure.column], tone: d.tone, fill: drawn.length === 1 })),
    [times],
  );
  if (drawn.length === 0) return null;
  const title = t(`nodes.${figure.id}`);
  const values = drawn.map((d) => at(d, figure)).filter(isTold);
  const text = values.length > 0 ? figure.format(figure.whole(values)) : '–';
  const tops = drawn.map((d) => (figure.id === 'gpuMemory' ? d.total : figure.id === 'power' ? d.limit : undefined));
  let said = drawn.length > 1 ? t(`nodes.${figure.said}`) : '';
  if (tops.every(isTold)) said = t('nodes.ofTotal', { total: figure.format(sum(tops)) });
  if (hover !== null) said = (windowS > 86400 ? dateTime : clock)(times[hover]);
  const label = `${title}: ${drawn.map((d) => `${d.label} ${isTold(at(d, figure)) ? figure.format(at(d, figure)) : '–'}`).join(', ')}`;
  return html`<section class="card stat"><h3>${title}</h3><p class="stat-figure"><span class="stat-value">${text}</span><span class="stat-aside">${said}</span></p>
    <${Chart} label=${label} times=${times} series=${series} format=${figure.format} height=${120} windowS=${windowS} most=${scaleTop(figure, drawn)} together="gpus" onHover=${onHover} /></section>`;
}

/** @param {{node: object}} props as in /v0/nodes */
export function Gpus({ node }) {
  const [range, setRange] = useState('15m');
  const [hover, setHover] = useState(null);
  const { data, error } = useResource(`/v0/history?range=${range}&node=${encodeURIComponent(node.id)}`, { everyS: 10 });
  const devices = useMemo(() => devicesOf(node, data), [node, data]);
  const isGpu = devices[0] && devices[0].id !== 'ram';
  const isPast = hover !== null && data && hover < data.time.length;
  const at = (device, figure) => (isPast ? device.past?.[figure.column][hover] : device.now[figure.column]);
  const shown = figures.filter((f) => devices.some((d) => isTold(d.now[f.column]) || d.past?.[f.column].some(isTold)));
  const hasPast = devices.some((d) => d.past);
  if (devices.length === 0 || (!isGpu && !hasPast && !error)) return null;
  return html`<section class="section gpus" aria-labelledby="gpus-title"><div class="section-head"><h2 id="gpus-title">${t(isGpu ? 'nodes.gpus' : 'nodes.memoryOverTime')}</h2>
      <fieldset class="choice ranges"><legend class="visually-hidden">${t('overview.range')}</legend>${Object.keys(
        ranges,
      ).map(
        (name) =>
          html`<label key=${name}><input type="radio" name="gpu-range" value=${name} checked=${range === name} onChange=${() => setRange(name)} /><span>${t(`overview.range_${name}`)}</span></label>`,
      )}</fieldset></div>
    <${ErrorNote} error=${error} />
    ${isGpu && html`<${Table} caption=${t('nodes.gpus')} rows=${devices} rowKey=${(d) => d.id} columns=${columns(shown, at)} pageSize=${16} />`}
    ${isGpu && data && !hasPast && html`<p class="small muted">${t('nodes.gpuSoon')}</p>`}
    ${devices.length > 1 && hasPast && html`<${Legend} series=${devices} />`}
    ${hasPast && html`<div class="gpu-charts">${shown.map((f) => html`<${FigureCard} key=${f.id} figure=${f} devices=${devices} times=${data.time} hover=${isPast ? hover : null} windowS=${ranges[range]} at=${at} onHover=${setHover} />`)}</div>`}</section>`;
}
