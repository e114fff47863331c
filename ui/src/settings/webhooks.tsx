import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check } from "@/kit/field";
import { Once } from "@/kit/once";
import { SettingsForm } from "@/kit/settings/form";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";

type Webhook = Schemas["Webhook"];
type Kind = Schemas["NotifyKind"];
type Format = Webhook["format"];

const KINDS: [Kind, string][] = [
  ["question", t`needs attention`],
  ["failed", t`has failed`],
  ["stuck", t`is stuck`],
  ["budget", t`nears or reaches a limit of time or money`],
  ["review", t`has worked on a review`],
  ["finished", t`has finished`],
];
const FORMATS: [Format, string][] = [
  ["json", t`JSON, signed`],
  ["slack", t`Slack, Mattermost`],
  ["discord", "Discord"],
];

const keyOf = (team: string) => ["team", team, "webhooks"] as const;
const deliveriesKey = (id: string) => ["webhook", id, "deliveries"] as const;

/** The addresses the server calls when something of the team needs attention. */
export default function Webhooks() {
  const team = useTeam();
  const list = useQuery({
    queryKey: keyOf(team.slug),
    queryFn: async () =>
      (await data(api.GET("/teams/{team}/webhooks", { params: { path: { team: team.slug } } }))).items,
  });
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<Schemas["CreatedWebhook"] | undefined>();
  return (
    <section aria-labelledby="webhooks" className="flex flex-col gap-3">
      <div>
        <h2 id="webhooks" className="text-title font-semibold">
          <Trans>Webhooks</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>
            Parawork calls these addresses when an agent of the team needs attention, fails, is stuck or finishes.
          </Trans>
        </p>
      </div>
      {made && (
        <Once
          title={made.webhook.name}
          text={made.signing_key}
          label={t`the signing key`}
          onDone={() => setMade(undefined)}
        />
      )}
      {list.isPending ? (
        <Skeleton rows={2} label={t`Loading the webhooks`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The webhooks could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : (
        list.data.length > 0 && (
          <ul className="divide-y divide-hairline border-y border-hairline">
            {list.data.map((w) => (
              <Row key={w.id} webhook={w} />
            ))}
          </ul>
        )
      )}
      {adding ? (
        <Add
          close={() => setAdding(false)}
          made={(m) => {
            setAdding(false);
            setMade(m);
          }}
        />
      ) : (
        <Button className="self-start" onClick={() => setAdding(true)}>
          <Trans>Add a webhook</Trans>
        </Button>
      )}
    </section>
  );
}

function Add({ close, made }: { close: () => void; made: (m: Schemas["CreatedWebhook"]) => void }) {
  const team = useTeam();
  return (
    <SettingsForm
      className="gap-3 panel p-3"
      create
      loaded={{ url: "", name: "", format: "json" as Format, kinds: KINDS.map(([k]) => k) }}
      fields={[
        {
          name: "url",
          label: t`Address`,
          type: "text",
          mono: true,
          placeholder: "https://hooks.example.com/…",
          hint: t`Stored encrypted and not shown again.`,
          derive: formatOf,
          input: { type: "url", required: true, autoFocus: true, maxLength: 2048 },
        },
        {
          className: "flex flex-wrap gap-3",
          fields: [
            {
              name: "name",
              label: t`Name`,
              type: "text",
              placeholder: t`Team channel`,
              className: "min-w-40 flex-1",
              input: { maxLength: 200 },
            },
            {
              name: "format",
              label: t`Format`,
              type: "choice",
              className: "w-48",
              options: FORMATS.map(([value, label]) => ({ value, label })),
            },
          ],
        },
        {
          name: "kinds",
          label: t`When an agent`,
          type: "custom",
          check: (kinds) => (kinds.length === 0 ? t`Choose at least one.` : undefined),
          render: ({ value, set }) => <KindChecks kinds={value} onChange={set} />,
        },
      ]}
      save={(_, { name, ...rest }) =>
        data(
          api.POST("/teams/{team}/webhooks", {
            params: { path: { team: team.slug } },
            body: { ...rest, name: name || undefined },
          }),
        )
      }
      refresh={[keyOf(team.slug)]}
      onSaved={made}
      button={t`Add`}
      busy={t`Adding`}
      cancel={close}
    />
  );
}

/** The format that an address asks for. */
function formatOf(address: string): { format?: Format } {
  if (/^https:\/\/hooks\.slack\.com\//.test(address)) return { format: "slack" };
  if (/^https:\/\/(\w+\.)?discord(app)?\.com\/api\/webhooks\//.test(address)) return { format: "discord" };
  return {};
}

function KindChecks({ kinds, onChange }: { kinds: Kind[]; onChange: (k: Kind[]) => void }) {
  return (
    <fieldset>
      <legend className="mb-1 font-medium">
        <Trans>When an agent</Trans>
      </legend>
      <div className="flex flex-wrap gap-x-4">
        {KINDS.map(([kind, words]) => (
          <Check
            key={kind}
            label={words}
            checked={kinds.includes(kind)}
            onChange={(e) => onChange(e.target.checked ? [...kinds, kind] : kinds.filter((k) => k !== kind))}
          />
        ))}
      </div>
    </fieldset>
  );
}

function Row({ webhook: w }: { webhook: Webhook }) {
  const team = useTeam();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const refresh = [keyOf(team.slug), deliveriesKey(w.id)];
  const path = { path: { id: w.id } };
  const change = useAction({
    act: (body: Schemas["WebhookChange"]) => data(api.PATCH("/webhooks/{id}", { params: path, body })),
    refresh,
    failed: t`${w.name} was not changed`,
  });
  const test = useAction({
    act: () => data(api.POST("/webhooks/{id}/test", { params: path })),
    done: (d) =>
      d.state === "delivered"
        ? toast({ kind: "good", title: t`Delivered`, text: t`${w.name} answered ${d.status ?? ""}.` })
        : toast({ kind: "bad", title: t`Not delivered`, text: `${w.name}: ${d.error}.` }),
    refresh,
    failed: t`The test was not sent`,
  });
  const remove = useAction({
    act: () => api.DELETE("/webhooks/{id}", { params: path }),
    confirm: {
      title: t`Delete the webhook ${w.name}?`,
      body: t`Pending deliveries are never sent.`,
      action: t`Delete`,
      danger: true,
    },
    refresh,
    failed: t`${w.name} was not deleted`,
  });
  return (
    <li className="flex flex-col gap-2 py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <div className="min-w-0 flex-1 basis-56">
          <p className="truncate font-medium">{w.name}</p>
          <p className="truncate text-meta text-fg3">
            <span className="font-mono text-code">{w.shown_url}</span> · {FORMATS.find(([f]) => f === w.format)?.[1]}
          </p>
          <Standing webhook={w} now={now} />
        </div>
        <Button busy={test.busy && t`Sending`} onClick={() => void test.run()} aria-label={t`Send a test to ${w.name}`}>
          <Trans>Test</Trans>
        </Button>
        <Button
          busy={change.busy}
          onClick={() => void change.run({ enabled: !w.enabled })}
          aria-label={`${w.enabled ? t`Disable` : t`Enable`} ${w.name}`}
        >
          {w.enabled ? t`Disable` : t`Enable`}
        </Button>
        <Button aria-expanded={open} onClick={() => setOpen(!open)} aria-label={t`More actions for ${w.name}`}>
          <Trans>More</Trans>
        </Button>
      </div>
      {open && (
        <div className="flex flex-col gap-3 border-l-2 border-hairline pl-3">
          <KindChecks kinds={w.kinds} onChange={(kinds) => kinds.length > 0 && void change.run({ kinds })} />
          <Deliveries webhook={w} />
          <Button look="danger" className="self-start" onClick={() => void remove.run()}>
            <Trans>Delete</Trans>
          </Button>
        </div>
      )}
    </li>
  );
}

function Standing({ webhook: w, now }: { webhook: Webhook; now: number }) {
  if (!w.enabled)
    return (
      <p className="text-meta text-fg2">
        <span aria-hidden>□ </span>
        <Trans>Disabled. {w.disabled_reason}</Trans>
      </p>
    );
  if (w.failing_since)
    return (
      <p className="text-meta text-failed" title={exact(w.failing_since)}>
        <span aria-hidden>▲ </span>
        <Trans>Deliveries started failing {ago(w.failing_since, now)}. Parawork retries them.</Trans>
      </p>
    );
  return null;
}

const STATES: Record<Schemas["WebhookDelivery"]["state"], string> = {
  pending: t`on its way`,
  delivered: t`delivered`,
  given_up: t`given up`,
  dropped: t`dropped`,
};

function Deliveries({ webhook: w }: { webhook: Webhook }) {
  const now = useNow();
  const list = useQuery({
    queryKey: deliveriesKey(w.id),
    queryFn: async () =>
      (await data(api.GET("/webhooks/{id}/deliveries", { params: { path: { id: w.id }, query: { limit: 20 } } })))
        .items,
    refetchInterval: 5_000,
  });
  const again = useAction({
    act: (id: string) =>
      data(api.POST("/webhooks/{id}/redeliver", { params: { path: { id: w.id } }, body: { delivery_id: id } })),
    refresh: [deliveriesKey(w.id)],
    failed: t`The delivery was not sent again`,
  });
  if (!list.data) return <Skeleton rows={2} label={t`Loading the deliveries`} />;
  if (list.data.length === 0)
    return (
      <p className="text-fg3">
        <Trans>No deliveries yet.</Trans>
      </p>
    );
  return (
    <table className="w-full text-left text-meta">
      <caption className="sr-only">
        <Trans>The last deliveries to {w.name}</Trans>
      </caption>
      <thead className="text-fg3">
        <tr>
          <th className="py-1 pr-3 font-normal">
            <Trans>When</Trans>
          </th>
          <th className="py-1 pr-3 font-normal">
            <Trans>About</Trans>
          </th>
          <th className="py-1 pr-3 font-normal">
            <Trans>Result</Trans>
          </th>
          <th className="py-1">
            <span className="sr-only">
              <Trans>Again</Trans>
            </span>
          </th>
        </tr>
      </thead>
      <tbody>
        {list.data.map((d) => (
          <tr key={d.id} className="border-t border-hairline">
            <td className="py-1 pr-3 whitespace-nowrap text-fg3" title={exact(d.created_at)}>
              {ago(d.created_at, now)}
            </td>
            <td className="py-1 pr-3">{d.kind}</td>
            <td className="py-1 pr-3">
              <span className={d.state === "given_up" ? "text-failed" : ""}>{STATES[d.state]}</span>
              {d.status ? ` · ${d.status}` : ""}
              {d.error && <span className="text-fg3"> · {d.error}</span>}
            </td>
            <td className="py-1 text-right">
              {d.state !== "pending" && d.kind !== "ping" && (
                <button
                  type="button"
                  className="min-h-6 text-accent hover:underline"
                  aria-label={t`Send again what was sent ${ago(d.created_at, now)}`}
                  onClick={() => void again.run(d.id)}
                >
                  <Trans>Send again</Trans>
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
