// lib/format.js - numbers, bytes and times for people, in the page's language.
import { getLang } from './i18n.js';

/** 12,345 or 1.2; at most `digits` after the point.  By hand, since both languages write numbers
 * alike and the browser's formatter takes longer to wake than the first page to draw. */
export function number(value, digits = 0) {
  if (!Number.isFinite(value)) return '–';
  const [whole, part] = value.toFixed(digits).split('.');
  const rest = part?.replace(/0+$/, '');
  return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest ? `.${rest}` : '');
}

/** Three figures that matter: 0.42, 8.1, 120, 12,300. @param {number} value */
export const figure = (value) => number(value, value >= 100 ? 0 : value >= 10 ? 1 : 2);

/** 12.3 GB, powers of 1024 as memory is counted. @param {number} value */
export function bytes(value) {
  if (!Number.isFinite(value)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (value >= 1024 && i < units.length - 1) {
    value /= 1024;
    i++;
  }
  return `${number(value, i === 0 || value >= 100 ? 0 : 1)} ${units[i]}`;
}

const units = {
  en: { s: ' s', min: ' min', h: ' h', d: ' d', gap: ' ' },
  ja: { s: '秒', min: '分', h: '時間', d: '日', gap: '' },
};

/** 850 ms, 12 s, 3 min 5 s, 2 h 10 min. @param {number} ms */
export function duration(ms) {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 1000) return `${number(ms)} ms`;
  const u = units[getLang()];
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s}${u.s}`;
  if (s < 3600) return `${Math.floor(s / 60)}${u.min}${u.gap}${s % 60}${u.s}`;
  if (s < 86400) return `${Math.floor(s / 3600)}${u.h}${u.gap}${Math.floor((s % 3600) / 60)}${u.min}`;
  return `${number(Math.floor(s / 86400))}${u.d}${u.gap}${Math.floor((s % 86400) / 3600)}${u.h}`;
}

/** @param {number|string|Date} time seconds since 1970, or what Date takes */
const toDate = (time) => (typeof time === 'number' ? new Date(time * 1000) : new Date(time));

/** 15 Nov 2026, 05:32 @param {number|string|Date} time */
export const dateTime = (time) =>
  new Intl.DateTimeFormat(getLang(), { dateStyle: 'medium', timeStyle: 'short' }).format(toDate(time));

/** 05:32:07 @param {number|string|Date} time */
export const clock = (time) => new Intl.DateTimeFormat(getLang(), { timeStyle: 'medium' }).format(toDate(time));

/** "3 minutes ago" @param {number|string|Date} time @param {number} [now] ms */
export function ago(time, now = Date.now()) {
  const seconds = (toDate(time).getTime() - now) / 1000;
  const relative = new Intl.RelativeTimeFormat(getLang(), { numeric: 'auto' });
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(Math.round(seconds), 'second');
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute');
  if (size < 86400) return relative.format(Math.round(seconds / 3600), 'hour');
  return relative.format(Math.round(seconds / 86400), 'day');
}
