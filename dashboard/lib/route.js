// lib/route.js - hash routes: #/models, #/models/<id>, #/nodes/<id>?tab=logs
import { useEffect, useRef, useState } from 'preact/hooks';

/** @returns {{page: string, id: string, query: URLSearchParams}} */
export function parseRoute(hash = location.hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [page, ...rest] = path.split('/');
  let id = '';
  try {
    id = rest.map(decodeURIComponent).join('/');
  } catch {
    /* a broken escape is no id */
  }
  return { page: page || 'overview', id, query: new URLSearchParams(query) };
}

/** @param {string} page @param {string} [id] */
export const href = (page, id) => (id === undefined ? `#/${page}` : `#/${page}/${encodeURIComponent(id)}`);

/** @param {string} page @param {string} [id] */
export function go(page, id) {
  location.hash = href(page, id);
}

export function useRoute() {
  const [route, setRoute] = useState(parseRoute);
  const shown = useRef(location.hash);
  useEffect(() => {
    const change = () => setRoute(parseRoute());
    addEventListener('hashchange', change);
    if (location.hash !== shown.current) change(); // moved on between drawing and listening
    return () => removeEventListener('hashchange', change);
  }, []);
  return route;
}
