export default {
  table: '表',
  image: '画像',
  taskOpen: '未完了',
  taskDone: '完了',
};
