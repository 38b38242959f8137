// lib/i18n.js - texts in English and Japanese.
//
//   t('models.title')                     a text of i18n/<lang>/models.js, key "title"
//   t('models.count', {count: 3})         {count} is filled in; with `count`, the text may be
//                                         {one: '...', other: '...'}
//   tOr('overview.advice.x', said)        the text, or the API's own text if there is none
//   await setLang('ja')                   loads, remembers, and renders everything again
//
// A key's first part is its file.  Reasons and alerts of the API have codes with texts in reasons.js; its
// errors are shown unchanged.

const loaders = {
  en: () => import('../i18n/en.js'),
  ja: () => import('../i18n/ja.js'),
};

/** @type {Record<string, Record<string, string|Record<string, string>>>} */
let texts = {};
let lang = 'en';
const listeners = new Set();

/** @returns {'en'|'ja'} */
export const getLang = () => /** @type {'en'|'ja'} */ (lang);

/** @param {string} name */
export async function setLang(name) {
  const next = name === 'ja' ? 'ja' : 'en';
  texts = (await loaders[next]()).default;
  lang = next;
  document.documentElement.lang = next;
  try {
    localStorage.setItem('lr.lang', next);
  } catch {
    /* storage is off */
  }
  listeners.forEach((fn) => fn());
}

/** @param {() => void} fn @returns {() => void} */
export function onLang(fn) {
  listeners.add(fn);
  return () => listeners.delete(fn);
}

/** The text, or what the API said where there is none. @param {string} key @param {string} fallback @param {object} [values] */
export const tOr = (key, fallback, values) => {
  const text = t(key, values);
  return text === key ? fallback : text;
};

/**
 * @param {string} key file and key, as in 'nodes.drain'
 * @param {Record<string, string|number>} [values]
 */
export function t(key, values) {
  const dot = key.indexOf('.');
  let text = texts[key.slice(0, dot)]?.[key.slice(dot + 1)];
  if (text === undefined) return key;
  if (typeof text === 'object') text = (Number(values?.count) === 1 && text.one) || text.other;
  return values ? text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole)) : text;
}
