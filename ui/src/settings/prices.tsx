import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { exactUsd, momentUtc } from "@/costs/amounts";
import { dollarsOrNothing } from "@/costs/codecs";
import { addPrice, instanceKeys, type Price, pricesQuery } from "@/costs/operator-api";
import { type Book, books, hourOf } from "@/costs/prices";
import { hourly } from "@/format/money";
import { useNow } from "@/format/now";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import type { Entry } from "@/kit/settings/schema";
import { Failure, Skeleton } from "@/kit/states";
import { toast } from "@/state/toasts";
import { instanceQuery } from "./instance-api";

/** What a second in each place costs, from when on. For operators. */
export default function PricesSettings() {
  const now = useNow(30_000);
  const prices = useQuery(pricesQuery());
  const places = useQuery(instanceQuery());
  const [changing, setChanging] = useState<Book | undefined>();
  if (prices.isPending) return <Skeleton rows={5} label={t`Loading the prices`} />;
  if (prices.isError && !prices.data)
    return (
      <Failure what={t`The prices could not be loaded.`} error={prices.error} retry={() => void prices.refetch()} />
    );
  const kinds = (places.data?.places ?? []).filter((p) => !p.free);
  const name = (kind: string) => kinds.find((p) => p.kind === kind)?.label ?? kind;
  const known = books(prices.data, now);
  const list = [
    ...known,
    ...kinds
      .filter((p) => !known.some((b) => b.executor === p.kind))
      .map((p): Book => ({ executor: p.kind, now: undefined, coming: [], past: [] })),
  ];
  return (
    <section aria-labelledby="prices" className="flex flex-col gap-4">
      <div>
        <h2 id="prices" className="text-title font-semibold">
          <Trans>Prices of places</Trans>
        </h2>
        <p className="max-w-2xl text-fg2">
          <Trans>
            The price of a core and a GiB of memory per second. Prices are never changed: a new price applies from its
            date, and earlier usage keeps its cost. Work on this server is free.
          </Trans>
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
                <Button onClick={() => setChanging(b)} aria-label={t`New price of ${name(b.executor)}`}>
                  <Trans>New price</Trans>
                </Button>
              )}
            </div>
            {b.coming.map((p) => (
              <p key={p.id} className="text-needs">
                <span aria-hidden>◆ </span>
                <Trans>From {momentUtc(p.effective_from)}:</Trans> <Rates price={p} />
              </p>
            ))}
            {changing?.executor === b.executor && (
              <NewPriceForm book={b} name={name(b.executor)} close={() => setChanging(undefined)} />
            )}
            {b.past.length > 0 && (
              <details className="text-meta">
                <summary className="flex min-h-6 w-fit cursor-pointer items-center text-accent">
                  {b.past.length === 1 ? t`The price before` : t`${b.past.length} prices before`}
                </summary>
                <ul className="mt-1 text-fg2">
                  {b.past.map((p) => (
                    <li key={p.id}>
                      <Trans>From {momentUtc(p.effective_from)}:</Trans> <Rates price={p} />
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
    return (
      <p className="text-fg2">
        <Trans>Free and not counted in quotas. Its time is still recorded.</Trans>
      </p>
    );
  return (
    <p className="text-fg2">
      <Rates price={p} />
      <span className="block text-meta text-fg3">
        <Trans>Since {momentUtc(p.effective_from)}</Trans>
        {p.created_by === "" && t`, as it came with Parawork or config.json`}
      </span>
    </p>
  );
}

function Rates({ price: p }: { price: Price }) {
  if (p.vcpu_second_nano === 0 && p.gib_second_nano === 0)
    return (
      <span>
        <Trans>costs nothing{p.metered ? t`, and its time counts in quotas` : ""}</Trans>
      </span>
    );
  return (
    <span className="tabular-nums">
      <Trans>
        {exactUsd(p.vcpu_second_nano)} a core and {exactUsd(p.gib_second_nano)} a GiB each second; 2 cores with 2 GB
        cost {hourly(hourOf(p, 2, 2048))} an hour;{" "}
        {p.metered ? t`its time counts in quotas` : t`its time does not count in quotas`}
      </Trans>
    </span>
  );
}

const A_SECOND: Entry<NewPriceValues>[] = (
  [
    ["vcpu_second_nano", t`A core, $ a second`],
    ["gib_second_nano", t`A GiB of memory, $ a second`],
  ] as const
).map(([name, label]) => ({
  name,
  label,
  type: "text",
  codec: dollarsOrNothing(t`Dollars a second, such as 0.000014; at most nine digits after the point.`),
  placeholder: "0",
  hint: (nano) => (nano ? t`${hourly(nano * 3600)} an hour` : "nothing"),
  input: { inputMode: "decimal" },
}));

interface NewPriceValues {
  vcpu_second_nano: number;
  gib_second_nano: number;
  effective_from: string;
  metered: boolean;
}

function NewPriceForm({ book, name, close }: { book: Book; name: string; close: () => void }) {
  const p = book.now;
  return (
    <SettingsForm<NewPriceValues, Price>
      label={t`New price of ${name}`}
      className="gap-3 panel p-3"
      create
      loaded={{
        vcpu_second_nano: p?.vcpu_second_nano ?? 0,
        gib_second_nano: p?.gib_second_nano ?? 0,
        effective_from: "",
        metered: p?.metered ?? true,
      }}
      fields={[
        {
          className: "grid gap-3 sm:grid-cols-3",
          fields: [
            ...A_SECOND,
            {
              name: "effective_from",
              label: t`From`,
              type: "text",
              hint: t`Leave empty to apply now. A day begins at 00:00 UTC.`,
              input: { type: "date" },
            },
          ],
        },
        {
          name: "metered",
          label: t`Its time counts in quotas`,
          type: "boolean",
          hint: t`Only such places count in monthly hours and concurrent sandboxes.`,
        },
      ]}
      save={(_, { effective_from: day, ...rest }) =>
        addPrice({
          executor: book.executor,
          ...rest,
          ...(day && { effective_from: Date.parse(`${day}T00:00:00Z`) }),
        })
      }
      refresh={[instanceKeys.prices, ["team"]]}
      onSaved={(made) => {
        toast({
          kind: "good",
          title: t`The price of ${name} is saved`,
          text: t`It applies from ${momentUtc(made.effective_from)}.`,
        });
        close();
      }}
      button={t`Save the price`}
      cancel={close}
    />
  );
}
