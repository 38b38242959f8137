export default {
  title: 'サインイン',
  key: 'キー',
  hint: 'admin のキーではすべて、api のキーではチャットを使えます。',
  action: 'サインイン',
  noKey: 'キーがない場合',
  noKeyText: 'キーはルーターの初回起動時に表示されます。admin のキーを持つ人は次のコマンドで追加できます。',
};
