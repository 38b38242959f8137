// pages/gpus.js - charts of the GPUs of one node: load, memory, temperature and power, from the history (part of the node page).
import { html } from 'htm/preact';
import { useMemo, useState } from 'preact/hooks';
import { Chart } from '../lib/chart.js';
import { bytes, clock, dateTime, number } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { useResource } from '../lib/live.js';
import { ErrorNote } from '../lib/ui.js';

const ranges = { '15m': 900, '1h': 3600, '24h': 86400, '7d': 7 * 86400 };

/** Each: the column of the history, and how a value of it is written. */
const cards = [
  { id: 'utilization', column: 'utilization_percent', format: (v) => `${number(v)} %` },
  { id: 'gpuMemory', column: 'memory_used_bytes', format: bytes },
  { id: 'temperature', column: 'temperature_celsius', format: (v) => `${number(v)} °C`, tone: 2 },
  { id: 'power', column: 'power_milliwatts', format: (v) => `${number(v / 1000)} W`, tone: 2 },
];

function GpuCard({ card, gpu, times, windowS }) {
  const [hover, setHover] = useState(null);
  const values = gpu[card.column];
  const series = useMemo(() => [{ label: card.id, values, tone: card.tone ?? 1 }], [values]);
  const value = hover === null ? values.findLast((v) => v !== null) : values[hover];
  const title = t(`nodes.${card.id}`);
  const text = value === null || value === undefined ? '–' : card.format(value);
  if (values.every((v) => v === null)) return null;
  return html`<section class="card stat"><h3 class="stat-title">${title}</h3><p class="stat-figure"><span class="stat-value">${text}</span>
    <span class="stat-aside">${hover !== null ? (windowS > 86400 ? dateTime : clock)(times[hover]) : card.id === 'gpuMemory' ? t('nodes.ofTotal', { total: bytes(gpu.memory_total_bytes.findLast((v) => v !== null)) }) : ''}</span></p>
    <${Chart} label=${`${gpu.title}: ${title} ${text}`} times=${times} series=${series} format=${card.format} height=${104} windowS=${windowS} onHover=${setHover} /></section>`;
}

/** @param {{id: string}} props the node */
export function Gpus({ id }) {
  const [range, setRange] = useState('1h');
  const { data, error } = useResource(`/v0/history?range=${range}&node=${encodeURIComponent(id)}`, { everyS: 10 });
  const shown = (data?.gpus ?? []).filter((g) => cards.some((c) => g[c.column].some((v) => v !== null)));
  if (!error && shown.length === 0) return null;
  return html`<section class="section" aria-labelledby="gpus-title"><div class="section-head"><h2 id="gpus-title">${t('nodes.devices')}</h2>
      <fieldset class="choice ranges"><legend class="visually-hidden">${t('overview.range')}</legend>${Object.keys(
        ranges,
      ).map(
        (name) =>
          html`<label key=${name}><input type="radio" name="gpu-range" value=${name} checked=${range === name} onChange=${() => setRange(name)} /><span>${t(`overview.range_${name}`)}</span></label>`,
      )}</fieldset></div>
    <${ErrorNote} error=${error} />
    ${shown.map((g) => html`<div class="gpu" key=${g.device}><h3>${g.title} <span class="muted small">${g.device}</span></h3><div class="stats">${cards.map((card) => html`<${GpuCard} key=${card.id} card=${card} gpu=${g} times=${data.time} windowS=${ranges[range]} />`)}</div></div>`)}</section>`;
}
