export default {
  title: 'Sign in',
  key: 'Key',
  hint: 'A key of role admin opens every page, a key of role api the playground.',
  action: 'Sign in',
  noKey: 'No key?',
  noKeyText: 'The router printed an admin key at its first start. With an admin key you can create more keys:',
};
