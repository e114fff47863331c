import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Check, Field, inputClass, TextField } from "@/kit/field";
import { Once } from "@/kit/once";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";

type Webhook = Schemas["Webhook"];
type Kind = Schemas["NotifyKind"];
type Format = Webhook["format"];

const KINDS: [Kind, string][] = [
  ["question", "needs somebody"],
  ["failed", "has failed"],
  ["stuck", "is stuck"],
  ["budget", "nears or reaches a limit of time or money"],
  ["review", "has worked on a review"],
  ["finished", "has finished"],
];
const FORMATS: [Format, string][] = [
  ["json", "JSON, signed"],
  ["slack", "Slack, Mattermost"],
  ["discord", "Discord"],
];

const keyOf = (team: string) => ["team", team, "webhooks"] as const;
const deliveriesKey = (id: string) => ["webhook", id, "deliveries"] as const;

/** The addresses the server calls when something of the team needs somebody. */
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
          Webhooks
        </h2>
        <p className="text-fg2">
          Parawork calls these addresses as soon as an agent of the team needs somebody, fails, is stuck or is done.
        </p>
      </div>
      {made && (
        <Once
          title={made.webhook.name}
          text={made.signing_key}
          label="the signing key"
          onDone={() => setMade(undefined)}
        />
      )}
      {list.isPending ? (
        <Skeleton rows={2} label="Loading the webhooks" />
      ) : list.isError && !list.data ? (
        <Failure what="The webhooks could not be loaded." error={list.error} retry={() => void list.refetch()} />
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
          Add a webhook
        </Button>
      )}
    </section>
  );
}

function Add({ close, made }: { close: () => void; made: (m: Schemas["CreatedWebhook"]) => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const [url, setUrl] = useState("");
  const [name, setName] = useState("");
  const [format, setFormat] = useState<Format>("json");
  const [kinds, setKinds] = useState<Kind[]>(KINDS.map(([k]) => k));
  const add = useMutation({
    mutationFn: () =>
      data(
        api.POST("/teams/{team}/webhooks", {
          params: { path: { team: team.slug } },
          body: { url: url.trim(), name: name.trim() || undefined, format, kinds },
        }),
      ),
    onSuccess: (m) => {
      void client.invalidateQueries({ queryKey: keyOf(team.slug) });
      made(m);
    },
  });
  const guess = (address: string) => {
    setUrl(address);
    if (/^https:\/\/hooks\.slack\.com\//.test(address)) setFormat("slack");
    else if (/^https:\/\/(\w+\.)?discord(app)?\.com\/api\/webhooks\//.test(address)) setFormat("discord");
  };
  return (
    <form
      className="flex flex-col gap-3 rounded-md border border-hairline p-3"
      onSubmit={(e) => {
        e.preventDefault();
        add.mutate();
      }}
    >
      <TextField
        label="Address"
        type="url"
        required
        autoFocus
        mono
        maxLength={2048}
        placeholder="https://hooks.example.com/…"
        hint="Kept encrypted and not shown again."
        value={url}
        error={fieldError(add.error, "url")}
        onChange={(e) => guess(e.target.value)}
      />
      <div className="flex flex-wrap gap-3">
        <TextField
          fieldClass="min-w-40 flex-1"
          label="Name"
          maxLength={200}
          placeholder="Team channel"
          value={name}
          error={fieldError(add.error, "name")}
          onChange={(e) => setName(e.target.value)}
        />
        <Field label="Format" className="w-48">
          {(ids) => (
            <select
              {...ids}
              value={format}
              onChange={(e) => setFormat(e.target.value as Format)}
              className={inputClass}
            >
              {FORMATS.map(([f, words]) => (
                <option key={f} value={f}>
                  {words}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <KindChecks kinds={kinds} onChange={setKinds} />
      <FormError
        error={add.error && !fieldError(add.error, "url") && !fieldError(add.error, "name") ? add.error : null}
      />
      <div className="flex gap-2">
        <Button type="submit" look="primary" busy={add.isPending && "Adding"} disabled={kinds.length === 0}>
          Add
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </form>
  );
}

function KindChecks({ kinds, onChange }: { kinds: Kind[]; onChange: (k: Kind[]) => void }) {
  return (
    <fieldset>
      <legend className="mb-1 font-medium">When an agent</legend>
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
  const client = useQueryClient();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const refresh = () => {
    void client.invalidateQueries({ queryKey: keyOf(team.slug) });
    void client.invalidateQueries({ queryKey: deliveriesKey(w.id) });
  };
  const path = { path: { id: w.id } };
  const change = useMutation({
    mutationFn: (body: Schemas["WebhookChange"]) => data(api.PATCH("/webhooks/{id}", { params: path, body })),
    onSuccess: refresh,
    onError: (error) => toastError(`${w.name} was not changed`, error),
  });
  const test = useMutation({
    mutationFn: () => data(api.POST("/webhooks/{id}/test", { params: path })),
    onSuccess: (d) => {
      if (d.state === "delivered")
        toast({ kind: "good", title: "It arrived", text: `${w.name} answered ${d.status}.` });
      else toast({ kind: "bad", title: "It did not arrive", text: `${w.name}: ${d.error}.` });
      refresh();
    },
    onError: (error) => toastError("The test was not sent", error),
  });
  const remove = useMutation({
    mutationFn: () => api.DELETE("/webhooks/{id}", { params: path }),
    onSuccess: refresh,
    onError: (error) => toastError(`${w.name} was not deleted`, error),
  });
  const ask = async () => {
    const sure = await confirm({
      title: `Delete the webhook ${w.name}?`,
      body: "What still waits to be sent to it is never sent.",
      action: "Delete",
      danger: true,
    });
    if (sure) remove.mutate();
  };
  return (
    <li className="flex flex-col gap-2 py-2.5">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <div className="min-w-0 flex-1 basis-56">
          <p className="truncate font-medium">{w.name}</p>
          <p className="truncate text-meta text-fg3">
            <span className="font-mono text-[12px]">{w.shown_url}</span> · {FORMATS.find(([f]) => f === w.format)?.[1]}
          </p>
          <Standing webhook={w} now={now} />
        </div>
        <Button
          busy={test.isPending && "Sending"}
          onClick={() => test.mutate()}
          aria-label={`Send a test to ${w.name}`}
        >
          Test
        </Button>
        <Button
          busy={change.isPending}
          onClick={() => change.mutate({ enabled: !w.enabled })}
          aria-label={`Switch ${w.enabled ? "off" : "on"} ${w.name}`}
        >
          {w.enabled ? "Switch off" : "Switch on"}
        </Button>
        <Button aria-expanded={open} onClick={() => setOpen(!open)} aria-label={`More about ${w.name}`}>
          More
        </Button>
      </div>
      {open && (
        <div className="flex flex-col gap-3 border-l-2 border-hairline pl-3">
          <KindChecks kinds={w.kinds} onChange={(kinds) => kinds.length > 0 && change.mutate({ kinds })} />
          <Deliveries webhook={w} />
          <Button look="danger" className="self-start" onClick={() => void ask()}>
            Delete
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
        <span aria-hidden>□ </span>Switched off. {w.why_disabled}
      </p>
    );
  if (w.failing_since)
    return (
      <p className="text-meta text-failed" title={exact(w.failing_since)}>
        <span aria-hidden>▲ </span>Deliveries began to fail {ago(w.failing_since, now)}. They are tried again.
      </p>
    );
  return null;
}

const STATES: Record<Schemas["WebhookDelivery"]["state"], string> = {
  pending: "on its way",
  delivered: "delivered",
  given_up: "given up",
  dropped: "dropped",
};

function Deliveries({ webhook: w }: { webhook: Webhook }) {
  const client = useQueryClient();
  const now = useNow();
  const list = useQuery({
    queryKey: deliveriesKey(w.id),
    queryFn: async () =>
      (await data(api.GET("/webhooks/{id}/deliveries", { params: { path: { id: w.id }, query: { limit: 20 } } })))
        .items,
    refetchInterval: 5_000,
  });
  const again = useMutation({
    mutationFn: (id: string) =>
      data(api.POST("/webhooks/{id}/redeliver", { params: { path: { id: w.id } }, body: { delivery_id: id } })),
    onSuccess: () => client.invalidateQueries({ queryKey: deliveriesKey(w.id) }),
    onError: (error) => toastError("It was not sent again", error),
  });
  if (!list.data) return <Skeleton rows={2} label="Loading the deliveries" />;
  if (list.data.length === 0) return <p className="text-fg3">Nothing was sent yet.</p>;
  return (
    <table className="w-full text-left text-meta">
      <caption className="sr-only">The last deliveries to {w.name}</caption>
      <thead className="text-fg3">
        <tr>
          <th className="py-1 pr-3 font-normal">When</th>
          <th className="py-1 pr-3 font-normal">About</th>
          <th className="py-1 pr-3 font-normal">How it went</th>
          <th className="py-1">
            <span className="sr-only">Again</span>
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
                  aria-label={`Send again what was sent ${ago(d.created_at, now)}`}
                  onClick={() => again.mutate(d.id)}
                >
                  Send again
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
