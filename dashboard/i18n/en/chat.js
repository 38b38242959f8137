export default {
  table: 'Table',
  image: 'Image',
  taskOpen: 'Open',
  taskDone: 'Done',
};
