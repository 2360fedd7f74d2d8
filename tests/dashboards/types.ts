// Grafana's published types (@grafana/schema), made strict where Grafana leaves them open: a panel's
// options and its fields' own settings are those of its kind, and nothing else may stand beside them.
import type { Dashboard, AnnotationQuery, DataQuery, FieldConfig } from '@grafana/schema';
import type {
  FieldConfigSource, Panel as RawPanel, RowPanel,
} from '@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type * as stat from '@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as table from '@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as bar from '@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type * as states from '@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';
import type * as series from '@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';

/** JSON holds an enumeration's text, which TypeScript does not take for the enumeration. */
export type Plain<T> = unknown extends T ? T
  : T extends string ? `${T}`
  : T extends number | boolean | null | undefined ? T
  : T extends Array<infer U> ? Array<Plain<U>>
  : T extends object ? { [K in keyof T]: Plain<T[K]> }
  : T;

/** Not in @grafana/schema: as @grafana/prometheus 13.2.3 has it, in dataquery.d.ts. */
interface Prometheus extends DataQuery {
  expr: string;
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  range?: boolean;
  legendFormat?: string;
  interval?: string;
}

/** What an override may set, by the name under which Grafana knows it. */
type Overridable<C> = {
  [K in keyof Omit<FieldConfig, 'custom'> & string]: { id: K; value: FieldConfig[K] };
}[keyof Omit<FieldConfig, 'custom'> & string] | {
  [K in keyof C & string]: { id: `custom.${K}`; value: C[K] };
}[keyof C & string];

/** `matcher` and the ids of transformations are plain text in Grafana's types; transforms.mjs asks
 * Grafana's code about them. */
interface Fields<C> {
  defaults: Omit<FieldConfig, 'custom'> & { custom?: C };
  overrides: Array<{
    matcher: FieldConfigSource['overrides'][number]['matcher'];
    properties: Array<Overridable<C>>;
  }>;
}

type Of<Kind extends string, Options, Custom> = Plain<
  Omit<RawPanel, 'type' | 'options' | 'fieldConfig' | 'targets'> & {
    type: Kind;
    options: Options;
    fieldConfig: Fields<Custom>;
    targets: Prometheus[];
  }
>;

export type Panels = {
  timeseries: Of<'timeseries', series.Options, series.FieldConfig>;
  stat: Of<'stat', stat.Options, Record<string, never>>;
  table: Of<'table', table.Options, Partial<table.FieldConfig> & { width?: number }>;
  bargauge: Of<'bargauge', bar.Options, Record<string, never>>;
  'state-timeline': Of<'state-timeline', states.Options, states.FieldConfig>;
  row: Plain<RowPanel>;
};

/** Read by @grafana/prometheus (annotations.ts); Grafana's types leave them out. */
interface Annotation extends AnnotationQuery<Prometheus> {
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
}

export type Frame = Plain<
  Omit<Dashboard, 'panels' | 'annotations'> & { annotations: { list: Annotation[] } }
>;
