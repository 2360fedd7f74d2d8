// Asks Grafana's own code (@grafana/data). stdin: {"units": […], "transformers": […], "matchers": […],
// "tables": [{"frames": [{"refId", "rows": [{"labels", "value"}]}], "transformations"}]}.
// stdout: what it does not know of the first three, and the rows of each table.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

// Written for a browser.
globalThis.navigator ??= { language: 'en-US', languages: ['en-US'] };
const require = createRequire(`${process.env.NODE_HOME}/`);
const grafana = require('@grafana/data');
// Only now: what is loaded takes it for a browser with a document.
globalThis.window ??= globalThis;
const asked = JSON.parse(readFileSync(0, 'utf8'));

// Some have two names.
const transformers = [...new Set(Object.values(grafana.standardTransformers))];
grafana.standardTransformersRegistry.setInit(() =>
  transformers.map((each) => ({ id: each.id, name: each.name, transformation: async () => each }))
);
const units = new Set(
  grafana.getValueFormats().flatMap((group) => group.submenu.map((each) => each.value))
);
const missing = {
  units: asked.units.filter((each) => !units.has(each)),
  transformers: asked.transformers.filter((id) => !transformers.some((each) => each.id === id)),
  matchers: asked.matchers.filter((id) => !grafana.fieldMatchers.getIfExists(id)),
};

// As the Prometheus data source gives an instant query in the format of a table: a field a label.
function frame({ refId, rows }, count) {
  const labels = [...new Set(rows.flatMap((row) => Object.keys(row.labels)))].sort();
  const value = count > 1 ? `Value #${refId}` : 'Value';
  return grafana.toDataFrame({
    refId,
    fields: [
      { name: 'Time', type: 'time', values: rows.map(() => 0) },
      ...labels.map((name) => ({
        name, type: 'string', values: rows.map((row) => row.labels[name] ?? ''),
      })),
      { name: value, type: 'number', values: rows.map((row) => row.value) },
    ],
  });
}

async function rows({ frames, transformations }) {
  // Without rows a query gives no frame at all.
  const full = frames.filter((each) => each.rows.length > 0);
  const made = full.map((each) => frame(each, frames.length));
  const context = { interpolate: (text) => text };
  const out = await new Promise((resolve, reject) =>
    grafana.transformDataFrame(transformations, made, context)
      .subscribe({ next: resolve, error: reject })
  );
  return out.map((each) => {
    const titles = each.fields.map((field) => field.config.displayName ?? field.name);
    return Array.from({ length: each.length }, (_, index) =>
      Object.fromEntries(titles.map((title, at) => [title, each.fields[at].values[index]]))
    );
  });
}

const tables = [];
for (const each of asked.tables) {
  tables.push(await rows(each));
}
process.stdout.write(JSON.stringify({ missing, tables }));
