import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError } from "@/api/problem";
import { executorsQuery } from "@/api/queries";
import { exactUsd, momentUtc, readUsd, usdField } from "@/costs/amounts";
import { addPrice, instanceKeys, type NewPrice, type Price, pricesQuery } from "@/costs/operator-api";
import { type Book, books, hourOf } from "@/costs/prices";
import { hourly } from "@/format/money";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { Check, Field, inputClass, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

/** Work on the server itself has no price. */
const FREE: ReadonlySet<string> = new Set(["local", "bubblewrap"]);

/** What a second in each place costs, from when on. For operators. */
export default function PricesSettings() {
  const team = useTeam();
  const now = useNow(30_000);
  const prices = useQuery(pricesQuery());
  const places = useQuery(executorsQuery(team.slug));
  const [changing, setChanging] = useState<Book | undefined>();
  if (prices.isPending) return <Skeleton rows={5} label="Loading the prices" />;
  if (prices.isError && !prices.data)
    return <Failure what="The prices could not be loaded." error={prices.error} retry={() => void prices.refetch()} />;
  const kinds = [
    ...new Map(
      (places.data ?? [])
        .filter((p) => !FREE.has(p.kind))
        .map((p) => [p.kind, p.runner_id ? "Members' machines" : p.name]),
    ).entries(),
  ];
  const name = (kind: string) => kinds.find(([k]) => k === kind)?.[1] ?? kind;
  const known = books(prices.data, now);
  const list = [
    ...known,
    ...kinds
      .filter(([k]) => !known.some((b) => b.executor === k))
      .map(([k]): Book => ({ executor: k, now: undefined, coming: [], past: [] })),
  ];
  return (
    <section aria-labelledby="prices" className="flex flex-col gap-4">
      <div>
        <h2 id="prices" className="text-title font-semibold">
          Prices of places
        </h2>
        <p className="max-w-2xl text-fg2">
          What a second of a core and of a GiB of memory costs. Prices are never changed: a new one holds from its day
          on, and what ran before keeps what it cost. Work on this server itself is free.
        </p>
      </div>
      <ul className="divide-y divide-hairline border-y border-hairline">
        {list.map((b) => (
          <li key={b.executor} className="flex flex-col gap-2 py-2.5">
            <div className="flex flex-wrap items-start gap-x-4 gap-y-1">
              <div className="min-w-0 flex-1 basis-64">
                <h3 className="font-medium">{name(b.executor)}</h3>
                <Now price={b.now} />
              </div>
              {changing?.executor !== b.executor && (
                <Button onClick={() => setChanging(b)} aria-label={`New price of ${name(b.executor)}`}>
                  New price
                </Button>
              )}
            </div>
            {b.coming.map((p) => (
              <p key={p.id} className="text-needs">
                <span aria-hidden>◆ </span>
                From {momentUtc(p.effective_from)}: <Rates price={p} />
              </p>
            ))}
            {changing?.executor === b.executor && (
              <NewPriceForm book={b} name={name(b.executor)} close={() => setChanging(undefined)} />
            )}
            {b.past.length > 0 && (
              <details className="text-meta">
                <summary className="flex min-h-6 w-fit cursor-pointer items-center text-accent">
                  {b.past.length === 1 ? "The price before" : `${b.past.length} prices before`}
                </summary>
                <ul className="mt-1 text-fg2">
                  {b.past.map((p) => (
                    <li key={p.id}>
                      From {momentUtc(p.effective_from)}: <Rates price={p} />
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Now({ price: p }: { price: Price | undefined }) {
  if (!p)
    return <p className="text-fg2">Costs nothing and counts in nobody's quota. Its time is recorded all the same.</p>;
  return (
    <p className="text-fg2">
      <Rates price={p} />
      <span className="block text-meta text-fg3">
        Since {momentUtc(p.effective_from)}
        {p.created_by === "" && ", as it came with Parawork or config.json"}
      </span>
    </p>
  );
}

function Rates({ price: p }: { price: Price }) {
  if (p.vcpu_second_nano === 0 && p.gib_second_nano === 0)
    return <span>costs nothing{p.metered ? ", and its time counts in quotas" : ""}</span>;
  return (
    <span className="tabular-nums">
      {exactUsd(p.vcpu_second_nano)} a core and {exactUsd(p.gib_second_nano)} a GiB each second; 2 cores with 2 GB cost{" "}
      {hourly(hourOf(p, 2, 2048))} an hour;{" "}
      {p.metered ? "its time counts in quotas" : "its time does not count in quotas"}
    </span>
  );
}

const FIELDS = ["vcpu_second_nano", "gib_second_nano", "effective_from", "executor"];

function NewPriceForm({ book, name, close }: { book: Book; name: string; close: () => void }) {
  const client = useQueryClient();
  const p = book.now;
  const [cpu, setCpu] = useState(p ? usdField(p.vcpu_second_nano) : "");
  const [gib, setGib] = useState(p ? usdField(p.gib_second_nano) : "");
  const [metered, setMetered] = useState(p?.metered ?? true);
  const [day, setDay] = useState("");
  const save = useMutation({
    mutationFn: (n: NewPrice) => addPrice(n),
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: instanceKeys.prices });
      void client.invalidateQueries({ queryKey: ["team"] });
      toast({
        kind: "good",
        title: `The price of ${name} is saved`,
        text: `It holds from ${momentUtc(made.effective_from)}.`,
      });
      close();
    },
  });
  const c = readUsd(cpu);
  const g = readUsd(gib);
  const bad = "Dollars a second, such as 0.000014; at most nine digits after the point.";
  const wrong = c === undefined || g === undefined;
  const err = (f: string) => fieldError(save.error, f);
  const date = day ? Date.parse(`${day}T00:00:00Z`) : undefined;
  return (
    <form
      aria-label={`New price of ${name}`}
      className="flex flex-col gap-3 rounded-md border border-hairline bg-bg1 p-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (wrong) return;
        save.mutate({
          executor: book.executor,
          vcpu_second_nano: c ?? 0,
          gib_second_nano: g ?? 0,
          metered,
          ...(date === undefined ? {} : { effective_from: date }),
        });
      }}
    >
      <div className="grid gap-3 sm:grid-cols-3">
        <TextField
          label="A core, $ a second"
          inputMode="decimal"
          placeholder="0"
          value={cpu}
          error={c === undefined ? bad : err("vcpu_second_nano")}
          hint={c ? `${hourly(c * 3600)} an hour` : "nothing"}
          onChange={(e) => setCpu(e.target.value)}
        />
        <TextField
          label="A GiB of memory, $ a second"
          inputMode="decimal"
          placeholder="0"
          value={gib}
          error={g === undefined ? bad : err("gib_second_nano")}
          hint={g ? `${hourly(g * 3600)} an hour` : "nothing"}
          onChange={(e) => setGib(e.target.value)}
        />
        <Field label="From" hint="Empty: from now on. A day begins at 00:00 UTC." error={err("effective_from")}>
          {(ids) => (
            <input {...ids} type="date" value={day} onChange={(e) => setDay(e.target.value)} className={inputClass} />
          )}
        </Field>
      </div>
      <Check
        label="Its time counts in quotas"
        hint="Hours of a month and sandboxes at once are of such places only."
        checked={metered}
        onChange={(e) => setMetered(e.target.checked)}
      />
      {!FIELDS.some(err) && <FormError error={save.error} />}
      <div className="flex gap-2">
        <Button type="submit" look="primary" disabled={wrong} busy={save.isPending && "Saving"}>
          Save the price
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </form>
  );
}
