// Before anything is painted: the theme and the language this browser chose.  A plain
// script, since a module would run after the first paint.
(function () {
  try {
    var theme = localStorage.getItem('lr.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
    var lang = localStorage.getItem('lr.lang') || (navigator.language || 'en').slice(0, 2);
    document.documentElement.lang = lang === 'ja' ? 'ja' : 'en';
  } catch (error) { /* storage is off: the system's theme and English */ }
})();
