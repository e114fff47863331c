import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { addPrice, type ModelPrice, modelKeys, nanoOf, perMillion, pricesByModel, pricesQuery } from "@/costs/models";
import { exact } from "@/format/time";
import { Check, TextField } from "@/kit/field";
import { SettingsForm } from "@/kit/settings/form";
import type { Entry } from "@/kit/settings/schema";
import { Failure, Skeleton } from "@/kit/states";
import { toast } from "@/state/toasts";

/** What models cost, by name and date. Rows are added and never change. */
export function ModelPrices() {
  const prices = useQuery(pricesQuery());
  const [find, setFind] = useState("");
  const [all, setAll] = useState(false);
  return (
    <section aria-labelledby="model-prices" className="flex flex-col gap-3">
      <div>
        <h2 id="model-prices" className="text-title font-semibold">
          <Trans>Prices of models</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>
            USD per million tokens. The cost of a model that is not listed is unknown, not zero. Your own rows override
            the built-in ones.
          </Trans>
        </p>
      </div>
      <NewPrice />
      {prices.isPending ? (
        <Skeleton rows={6} label={t`Loading the prices`} />
      ) : prices.isError && !prices.data ? (
        <Failure what={t`The prices could not be loaded.`} error={prices.error} retry={() => void prices.refetch()} />
      ) : (
        <>
          <div className="flex flex-wrap items-end gap-4">
            <TextField
              label={t`Find a model`}
              type="search"
              fieldClass="w-64 max-w-full"
              value={find}
              onChange={(e) => setFind(e.target.value)}
            />
            <Check label={t`Include past and future prices`} checked={all} onChange={(e) => setAll(e.target.checked)} />
          </div>
          <Table
            rows={(all ? prices.data : pricesByModel(prices.data).now).filter((p) =>
              p.model.toLowerCase().includes(find.trim().toLowerCase()),
            )}
          />
        </>
      )}
    </section>
  );
}

interface Values {
  model: string;
  input_nano: number | null;
  output_nano: number | null;
  cache_read_nano: number | null;
  cache_write_nano: number | null;
  cache_write_hour_nano: number | null;
}

const EMPTY: Values = {
  model: "",
  input_nano: null,
  output_nano: null,
  cache_read_nano: null,
  cache_write_nano: null,
  cache_write_hour_nano: null,
};

const amount = (name: Exclude<keyof Values, "model">, label: string, required = false): Entry<Values> => ({
  name,
  label,
  type: "text",
  codec: {
    format: () => "", // nothing is loaded
    parse: (text) => (text === "" ? null : nanoOf(text)),
    message: t`Enter an amount such as 0.125.`,
  },
  placeholder: required ? "" : t`as input`,
  input: { inputMode: "decimal", required },
});

const PRICE: Entry<Values>[] = [
  {
    className: "grid grid-cols-2 gap-3 sm:grid-cols-6",
    fields: [
      {
        name: "model",
        label: t`Model`,
        type: "text",
        placeholder: "my-model, or my-* for a prefix",
        className: "col-span-2 sm:col-span-6",
        input: { required: true, maxLength: 200 },
      },
      amount("input_nano", t`Input`, true),
      amount("output_nano", t`Output`, true),
      amount("cache_read_nano", t`Cache read`),
      amount("cache_write_nano", t`Cache write`),
      amount("cache_write_hour_nano", t`Cache write, 1 h`),
    ],
  },
];

function NewPrice() {
  return (
    <SettingsForm
      label={t`New price`}
      className="gap-3 panel p-3"
      create
      loaded={EMPTY}
      fields={PRICE}
      save={(_, { input_nano, output_nano, ...rest }) =>
        addPrice({ ...rest, input_nano: input_nano ?? 0, output_nano: output_nano ?? 0 })
      }
      refresh={[modelKeys.prices]}
      onSaved={(p) => void toast({ title: t`${p.model} has this price from now on.` })}
      button={t`Add price`}
      busy={t`Adding`}
      look="plain"
    />
  );
}

function Table({ rows }: { rows: ModelPrice[] }) {
  if (rows.length === 0)
    return (
      <p className="text-fg3">
        <Trans>No model matches.</Trans>
      </p>
    );
  return (
    <div
      className="max-h-[32rem] overflow-auto border-y border-hairline"
      role="region"
      aria-label={t`Prices`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
    >
      <table className="w-full text-left tabular-nums">
        <thead className="sticky top-0 bg-bg1">
          <tr>
            {[t`Model`, t`Input`, t`Output`, t`Cache read`, t`Cache write`, "1 h", t`From`, t`By`].map((t, i) => (
              <th
                key={t}
                scope="col"
                className={`py-1 pr-5 font-medium whitespace-nowrap ${i > 0 && i < 6 ? "text-right" : ""}`}
              >
                {t}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((p) => (
            <tr key={p.id} className="border-t border-hairline">
              <th scope="row" className="py-1 pr-5 font-normal whitespace-nowrap">
                {p.model}
              </th>
              {[p.input_nano, p.output_nano, p.cache_read_nano, p.cache_write_nano, p.cache_write_hour_nano].map(
                (n, i) => (
                  <td key={i} className="py-1 pr-5 text-right whitespace-nowrap">
                    {perMillion(n)}
                  </td>
                ),
              )}
              <td className="py-1 pr-5 whitespace-nowrap text-fg2">{exact(p.effective_from)}</td>
              <td className="py-1 pr-5 whitespace-nowrap text-fg2">
                {p.built_in ? t`the program` : t`an operator`}
                {p.in_force ? "" : t`, not now`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
