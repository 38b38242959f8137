// lib/chart.js - a chart over time, with a time axis and a legend.
//
//   <Chart label="Tokens per second" times=${[seconds...]} series=${[{label, values, tone: 1}]}
//          format=${(v) => text} height=${108} windowS=${900} />
// The chart shows the last `windowS` seconds of its data, or less while there is less.  With `slotS` the
// chart shows all data, with one bar for each interval of that many seconds; with `stacked` the
// bars of the series stand on each other.  `most` is the top of the scale; without it the scale follows the values.
// The cursors of charts with the same `together` move together.
// Colours come from the stylesheet (--chart-1 ...), so that both themes fit.  The
// picture has a text for screen readers; the figures are also beside the picture.
//   <Legend series=${[{label, tone}]} />  the colour of each series
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';
import { getLang } from './i18n.js';

const WINDOW_LEAST_S = 120;
const DAY_S = 86400;
const NARROW_PX = 220;
/** Steps of the time axis: labels have no seconds. */
const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080].map((minutes) => 60 * minutes);

/** A canvas takes colours, not variables: the browser resolves them on an element, once a theme. */
const colors = new Map();
function color(name) {
  if (!colors.has(name)) {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = `var(${name})`;
    colors.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return colors.get(name);
}

/** The library comes after the first page has been painted: figures are there without it. */
let library;
const load = () => (library ??= import('uplot').then((module) => module.default));

/** Hours and minutes within a day, days beyond. */
const axisText = (slotS, windowS) => {
  const isLong = slotS ? slotS >= DAY_S : windowS > 2 * DAY_S;
  const form = new Intl.DateTimeFormat(
    getLang(),
    isLong ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
  );
  return (u, seconds) => seconds.map((s) => (u.data[0].length > 0 ? form.format(new Date(s * 1000)) : ''));
};

/** The values of a series and of all below it, so that each bar ends where the next begins. */
export function stack(columns) {
  let below = [];
  return columns.map((values) => {
    below = values.map((v, i) => (below[i] ?? 0) + (v ?? 0));
    return below;
  });
}

/** Values without a neighbour: a line would not show them. */
function alone(u, series) {
  const values = u.data[series];
  const has = (i) => values[i] !== null && values[i] !== undefined;
  return values.map((_, i) => i).filter((i) => has(i) && !has(i - 1) && !has(i + 1));
}

function options(Plot, node, { series, format, height, slotS, windowS, most, together }) {
  const top = most ? 1.06 : 1.2; // some air above the highest value
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return {
    width: node.clientWidth || 300,
    height,
    padding: [4, node.clientWidth < NARROW_PX ? 14 : 0, 0, slotS ? 14 : 0],
    legend: { show: false },
    cursor: {
      x: true,
      y: false,
      points: { size: 6 },
      drag: { x: false, y: false },
      ...(together && { sync: { key: together } }),
    },
    scales: {
      x: {
        time: true,
        range: (_, low, high) =>
          slotS
            ? [low - slotS / 2, high + slotS / 2]
            : [Math.max(high - windowS, Math.min(low, high - WINDOW_LEAST_S)), high],
      },
      y: { range: (_, low, high) => [0, Math.max(high ?? 0, most ?? 0) * top || 1] },
    },
    axes: [
      {
        size: 22,
        gap: 4,
        space: slotS ? 70 : 60,
        incrs: TICKS_S,
        font,
        stroke: color('--text-3'),
        ticks: { show: false },
        grid: { show: false },
        values: axisText(slotS, windowS),
      },
      {
        show: node.clientWidth >= NARROW_PX,
        side: 1,
        size: 58, // "1.86 GHz"; the same in all charts, so that times stand above each other
        gap: 6,
        font,
        stroke: color('--text-3'),
        ticks: { show: false },
        grid: { stroke: color('--line'), width: 1 },
        splits: (_, __, low, high) => [0, high / top],
        values: (u, values) =>
          values.map((v) => (v === 0 ? '0' : u.data.slice(1).some((d) => d.some((x) => x > 0)) ? format(v) : '')),
      },
    ],
    series: [
      {},
      ...series.map((s) => ({
        label: s.label,
        stroke: color(`--chart-${s.tone ?? 1}`),
        width: slotS ? 0 : 1.5,
        points: { show: !slotS, size: 4, fill: color(`--chart-${s.tone ?? 1}`), filter: alone },
        spanGaps: false,
        fill: s.fill === false ? undefined : color(slotS ? `--chart-${s.tone ?? 1}` : `--chart-${s.tone ?? 1}-fill`),
        ...(slotS ? { paths: Plot.paths.bars({ size: [0.72, 40], radius: 0.2 }) } : {}),
      })),
    ],
  };
}

/** A swatch and a name for each series. */
export const Legend = ({ series, class: more = '' }) =>
  html`<ul class="legend ${more}" aria-hidden="true">${series.map((s) => html`<li key=${s.label}><span class="line" data-tone=${s.tone ?? 1}></span>${s.label}</li>`)}</ul>`;

export function Chart({
  label,
  times,
  series,
  format,
  height = 108,
  slotS = 0,
  windowS = 900,
  stacked = false,
  most = 0,
  together = '',
  onHover,
}) {
  const host = useRef(null);
  const plot = useRef(null);
  const latest = useRef(null);
  const columns = series.map((s) => s.values);
  // The highest sum is drawn first, and the lower ones over it.
  latest.current = [times, ...(stacked ? stack(columns).reverse() : columns)];
  useEffect(() => {
    let isOver = false;
    const make = async () => {
      const Plot = await load();
      // A page that is left loses its elements at once, and is told so after the next paint.
      if (isOver || !host.current) return;
      plot.current?.destroy();
      const o = options(Plot, host.current, {
        series: stacked ? [...series].reverse() : series,
        format,
        height,
        slotS,
        windowS,
        most,
        together,
      });
      o.hooks = { setCursor: [(u) => onHover?.(u.cursor.idx ?? null)] };
      plot.current = new Plot(o, latest.current, host.current);
    };
    const remake = () => {
      colors.clear();
      make();
    };
    make();
    const sizes = new ResizeObserver(() => {
      if (host.current) plot.current?.setSize({ width: host.current.clientWidth, height });
    });
    sizes.observe(host.current);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', remake);
    addEventListener('lr-theme', remake);
    return () => {
      isOver = true;
      sizes.disconnect();
      scheme.removeEventListener('change', remake);
      removeEventListener('lr-theme', remake);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [series.map((s) => s.label).join('\n'), height, slotS, windowS, stacked, most]);
  useEffect(() => {
    plot.current?.setData(latest.current);
  }, [times, series]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${host}></div>`;
}
