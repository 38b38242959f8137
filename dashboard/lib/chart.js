// lib/chart.js - a small live chart over time.
//
//   <Chart label="Tokens per second" times=${[seconds...]} series=${[{label, values, tone: 1}]}
//          format=${(v) => text} height=${88} />
// Colours come from the stylesheet (--chart-1, --chart-2), so that both themes fit.  The
// picture has a text for screen readers; the figures stand beside it, not only in it.
import uPlot from 'uplot';
import { html } from 'htm/preact';
import { useEffect, useRef } from 'preact/hooks';

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function options(node, { series, format, height }) {
  const line = css('--line');
  const text = css('--text-3');
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return {
    width: node.clientWidth || 300,
    height,
    padding: [6, 0, 0, 0],
    legend: { show: false },
    cursor: { x: true, y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high * 1.15, 1e-3) || 1] } },
    axes: [
      { show: false },
      { side: 1, size: 44, gap: 4, font, stroke: text, ticks: { show: false }, grid: { stroke: line, width: 1 }, splits: (_, __, low, high) => [0, high / 1.15], values: (_, values) => values.map((v) => (v === 0 ? '0' : format(v))) },
    ],
    series: [{}, ...series.map((s) => {
      const color = css(`--chart-${s.tone ?? 1}`);
      return { label: s.label, stroke: color, width: 1.5, fill: s.fill === false ? undefined : css(`--chart-${s.tone ?? 1}-fill`), points: { show: false }, spanGaps: false };
    })],
  };
}

export function Chart({ label, times, series, format, height = 88, onHover }) {
  const host = useRef(null);
  const plot = useRef(null);
  const latest = useRef(null);
  latest.current = [times, ...series.map((s) => s.values)];
  useEffect(() => {
    const make = () => {
      plot.current?.destroy();
      const o = options(host.current, { series, format, height });
      o.hooks = { setCursor: [(u) => onHover?.(u.cursor.idx ?? null)] };
      plot.current = new uPlot(o, latest.current, host.current);
    };
    make();
    const sizes = new ResizeObserver(() => plot.current.setSize({ width: host.current.clientWidth, height }));
    sizes.observe(host.current);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', make);
    addEventListener('lr-theme', make);
    return () => {
      sizes.disconnect();
      scheme.removeEventListener('change', make);
      removeEventListener('lr-theme', make);
      plot.current.destroy();
      plot.current = null;
    };
  }, [series.length, height]);
  useEffect(() => { plot.current?.setData(latest.current); });
  return html`<div class="chart" role="img" aria-label=${label} ref=${host}></div>`;
}
