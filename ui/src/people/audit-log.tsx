import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { apiUrl } from "@/api/client";
import { useNow } from "@/format/now";
import { clock, exact } from "@/format/time";
import { Button, buttonClass } from "@/kit/button";
import { Field, inputClass, TextField } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { type Asked, auditQuery, type Entry, exportPath } from "./api";
import { actionWords, actorWords, dayOf } from "./words";

const NOTHING: Asked = { actor: "", action: "", target: "", result: "" };

/** Who did what: of a team, or of the instance where there is no team. */
export function AuditLog({ team, title, about }: { team?: string; title: string; about: string }) {
  const [asked, setAsked] = useState(NOTHING);
  const list = useInfiniteQuery(auditQuery(team, asked));
  const entries = list.data?.pages.flatMap((p) => p.items) ?? [];
  return (
    <section aria-labelledby="audit" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="audit" className="text-title font-semibold">
            {title}
          </h2>
          <p className="text-fg2">{about}</p>
        </div>
        <div className="flex gap-2">
          {(["csv", "json"] as const).map((f) => (
            <a key={f} href={apiUrl(exportPath(team, asked, f))} download className={buttonClass()}>
              Export {f.toUpperCase()}
            </a>
          ))}
        </div>
      </div>
      <Filters onAsk={setAsked} />
      {list.isPending ? (
        <Skeleton rows={6} label="Loading the audit log" />
      ) : list.isError && !list.data ? (
        <Failure what="The audit log could not be loaded." error={list.error} retry={() => void list.refetch()} />
      ) : entries.length === 0 ? (
        <p className="text-fg3">{asked === NOTHING ? "No entries yet." : "No entries match these filters."}</p>
      ) : (
        <>
          <ul aria-label="Entries, newest first" className="divide-y divide-hairline border-y border-hairline">
            {entries.map((e) => (
              <Row key={e.id} entry={e} />
            ))}
          </ul>
          {list.hasNextPage && (
            <Button
              className="self-start"
              busy={list.isFetchingNextPage && "Loading"}
              onClick={() => void list.fetchNextPage()}
            >
              Older entries
            </Button>
          )}
        </>
      )}
    </section>
  );
}

function Filters({ onAsk }: { onAsk: (a: Asked) => void }) {
  const [actor, setActor] = useState("");
  const [action, setAction] = useState("");
  const [target, setTarget] = useState("");
  const [result, setResult] = useState<Asked["result"]>("");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const begin = dayOf(from);
  const end = dayOf(to, true);
  const odd = begin !== undefined && end !== undefined && end <= begin;
  const any = Boolean(actor || action || target || result || from || to);
  const clear = () => {
    for (const set of [setActor, setAction, setTarget, setFrom, setTo]) set("");
    setResult("");
    onAsk(NOTHING);
  };
  return (
    <form
      aria-label="Filters"
      className="grid grid-cols-2 gap-3 md:grid-cols-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!odd)
          onAsk({ actor: actor.trim(), action: action.trim(), target: target.trim(), result, from: begin, to: end });
      }}
    >
      <TextField
        label="Who"
        placeholder="ada@example.com"
        maxLength={200}
        value={actor}
        onChange={(e) => setActor(e.target.value)}
      />
      <TextField
        label="Action"
        placeholder="member, or member.update"
        maxLength={64}
        value={action}
        onChange={(e) => setAction(e.target.value)}
      />
      <TextField
        label="Target"
        placeholder="workspace, or a name"
        maxLength={200}
        value={target}
        onChange={(e) => setTarget(e.target.value)}
      />
      <Field label="Result">
        {(ids) => (
          <select
            {...ids}
            value={result}
            onChange={(e) => setResult(e.target.value as Asked["result"])}
            className={inputClass}
          >
            <option value="">any</option>
            <option value="done">done</option>
            <option value="refused">refused</option>
            <option value="failed">failed</option>
          </select>
        )}
      </Field>
      <TextField label="From" type="date" value={from} onChange={(e) => setFrom(e.target.value)} />
      <TextField
        label="To"
        type="date"
        value={to}
        error={odd ? "The end date is before the start date." : undefined}
        onChange={(e) => setTo(e.target.value)}
      />
      <div className="col-span-full flex gap-2">
        <Button type="submit">Show</Button>
        {any && (
          <Button look="quiet" onClick={clear}>
            Clear
          </Button>
        )}
      </div>
    </form>
  );
}

function Row({ entry: e }: { entry: Entry }) {
  const now = useNow();
  const what = e.target.name || (e.target.kind && e.target.kind !== "team" ? e.target.id : "");
  return (
    <li>
      <details className="group">
        <summary className="flex min-h-9 cursor-pointer flex-wrap items-baseline gap-x-2 py-1.5 -outline-offset-2 hover:bg-bg2 pointer-coarse:min-h-11">
          <time
            dateTime={new Date(e.at).toISOString()}
            title={exact(e.at)}
            className="w-32 shrink-0 text-meta text-fg3 tabular-nums"
          >
            {clock(e.at, now)}
          </time>
          <span className="min-w-0 flex-1 basis-56 break-words">
            <span className="font-medium">{actorWords(e.actor)}</span> {actionWords(e.action, e.data)}
            {what && <span className="text-fg2"> {what}</span>}
          </span>
          {e.result !== "done" && (
            <span className={e.result === "failed" ? "text-failed" : "text-needs"}>
              <span aria-hidden>{e.result === "failed" ? "▲ " : "■ "}</span>
              {e.result}
            </span>
          )}
        </summary>
        <dl className="mb-2 grid grid-cols-[minmax(6rem,auto)_1fr] gap-x-4 gap-y-0.5 border-l-2 border-hairline pl-3 text-meta break-words">
          <Fact name="Action" value={e.action} />
          <Fact name="Result" value={e.code ? `${e.result}: ${e.code}` : e.result} />
          <Fact
            name="Who"
            value={[e.actor.kind.replace("_", " "), e.actor.name, e.actor.id].filter(Boolean).join(" · ")}
          />
          <Fact name="With" value={e.credential} />
          <Fact name="From" value={e.ip} />
          <Fact
            name="Target"
            value={[e.target.kind.replace("_", " "), e.target.name, e.target.id].filter(Boolean).join(" · ")}
          />
          {Object.entries(e.data).map(([k, v]) => (
            <Fact key={k} name={k.replaceAll("_", " ")} value={v} />
          ))}
          <Fact name="When" value={exact(e.at)} />
          <Fact name="Request" value={e.request_id} />
          <Fact name="Number" value={String(e.seq)} />
        </dl>
      </details>
    </li>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  if (!value) return null;
  return (
    <>
      <dt className="text-fg3">{name}</dt>
      <dd className="min-w-0 break-all">{value}</dd>
    </>
  );
}
