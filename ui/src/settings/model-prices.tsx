import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { addPrice, type ModelPrice, modelKeys, nanoOf, perMillion, pricesByModel, pricesQuery } from "@/costs/models";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
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
          Prices of models
        </h2>
        <p className="text-fg2">
          USD for a million tokens. What a model that is not listed costs is unknown, never nothing. Your own rows count
          before those that came with the program.
        </p>
      </div>
      <NewPrice />
      {prices.isPending ? (
        <Skeleton rows={6} label="Loading the prices" />
      ) : prices.isError && !prices.data ? (
        <Failure what="The prices could not be loaded." error={prices.error} retry={() => void prices.refetch()} />
      ) : (
        <>
          <div className="flex flex-wrap items-end gap-4">
            <TextField
              label="Find a model"
              type="search"
              fieldClass="w-64 max-w-full"
              value={find}
              onChange={(e) => setFind(e.target.value)}
            />
            <Check label="Also earlier and later prices" checked={all} onChange={(e) => setAll(e.target.checked)} />
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

const FIELDS = [
  ["input", "Input"],
  ["output", "Output"],
  ["read", "Cache read"],
  ["write", "Cache write"],
  ["hour", "Cache write, 1 h"],
] as const;
type Name = (typeof FIELDS)[number][0];
const EMPTY: Record<Name, string> = { input: "", output: "", read: "", write: "", hour: "" };

function NewPrice() {
  const client = useQueryClient();
  const [model, setModel] = useState("");
  const [text, setText] = useState(EMPTY);
  const needed = (name: Name) => name === "input" || name === "output";
  const add = useMutation({
    mutationFn: () => {
      const of = (name: Name) => nanoOf(text[name]);
      return addPrice({
        model: model.trim(),
        input_nano: of("input") ?? 0,
        output_nano: of("output") ?? 0,
        cache_read_nano: of("read") ?? null,
        cache_write_nano: of("write") ?? null,
        cache_write_hour_nano: of("hour") ?? null,
      });
    },
    onSuccess: (p) => {
      setModel("");
      setText(EMPTY);
      void client.invalidateQueries({ queryKey: modelKeys.prices });
      toast({ title: `${p.model} costs that from now on.` });
    },
  });
  const wrong = (name: Name) =>
    text[name] !== "" && nanoOf(text[name]) === undefined ? "An amount such as 0.125." : undefined;
  const ready = model.trim() !== "" && FIELDS.every(([n]) => !wrong(n) && (!needed(n) || text[n] !== ""));
  return (
    <form
      aria-label="New price"
      className="flex flex-col gap-3 rounded-md border border-hairline p-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (ready) add.mutate();
      }}
    >
      <div className="grid grid-cols-2 gap-3 sm:grid-cols-6">
        <TextField
          fieldClass="col-span-2 sm:col-span-6"
          label="Model"
          required
          maxLength={200}
          placeholder="my-model, or my-* for names that begin so"
          value={model}
          onChange={(e) => setModel(e.target.value)}
        />
        {FIELDS.map(([name, label]) => (
          <TextField
            key={name}
            label={label}
            inputMode="decimal"
            required={needed(name)}
            placeholder={needed(name) ? "" : "as input"}
            value={text[name]}
            error={wrong(name)}
            onChange={(e) => setText({ ...text, [name]: e.target.value })}
          />
        ))}
      </div>
      <FormError error={add.error} />
      <Button type="submit" className="self-start" disabled={!ready} busy={add.isPending && "Adding"}>
        Add the price from now on
      </Button>
    </form>
  );
}

function Table({ rows }: { rows: ModelPrice[] }) {
  if (rows.length === 0) return <p className="text-fg3">No such model is listed.</p>;
  return (
    <div
      className="max-h-[32rem] overflow-auto border-y border-hairline"
      role="region"
      aria-label="Prices"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
    >
      <table className="w-full text-left tabular-nums">
        <thead className="sticky top-0 bg-bg1">
          <tr>
            {["Model", "Input", "Output", "Cache read", "Cache write", "1 h", "From", "By"].map((t, i) => (
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
                {p.built_in ? "the program" : "an operator"}
                {p.in_force ? "" : ", not now"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
