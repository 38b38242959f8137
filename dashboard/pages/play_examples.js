// pages/play_examples.js - schemas and tools to begin with; their names are texts (playground.example.<id>).

const text = (description) => ({ type: 'string', description });
const object = (properties) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});
const tool = (name, description, properties) => ({
  type: 'function',
  function: { name, description, parameters: object(properties) },
});

export const schemaExamples = [
  {
    id: 'person',
    value: object({ name: { type: 'string' }, age: { type: 'integer' }, email: { type: 'string', format: 'email' } }),
  },
  {
    id: 'verdict',
    value: object({
      label: { type: 'string', enum: ['positive', 'neutral', 'negative'] },
      reason: text('One sentence'),
    }),
  },
  { id: 'steps', value: object({ steps: { type: 'array', items: { type: 'string' } }, result: { type: 'string' } }) },
];

export const toolExamples = [
  { id: 'weather', value: [tool('get_weather', 'The weather of a city', { city: text('Name of the city') })] },
  {
    id: 'search',
    value: [
      tool('search', 'Searches the documents of the company', {
        query: { type: 'string' },
        limit: { type: 'integer', minimum: 1, maximum: 20 },
      }),
    ],
  },
  { id: 'sql', value: [tool('run_sql', 'Runs a query that only reads', { query: text('SQL') })] },
];
