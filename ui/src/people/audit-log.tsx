import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
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
              <Trans>Export {f.toUpperCase()}</Trans>
            </a>
          ))}
        </div>
      </div>
      <Filters onAsk={setAsked} />
      {list.isPending ? (
        <Skeleton rows={6} label={t`Loading the audit log`} />
      ) : list.isError && !list.data ? (
        <Failure what={t`The audit log could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      ) : entries.length === 0 ? (
        <p className="text-fg3">{asked === NOTHING ? t`No entries yet.` : t`No entries match these filters.`}</p>
      ) : (
        <>
          <ul aria-label={t`Entries, newest first`} className="divide-y divide-hairline border-y border-hairline">
            {entries.map((e) => (
              <Row key={e.id} entry={e} />
            ))}
          </ul>
          {list.hasNextPage && (
            <Button
              className="self-start"
              busy={list.isFetchingNextPage && t`Loading`}
              onClick={() => void list.fetchNextPage()}
            >
              <Trans>Older entries</Trans>
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
      aria-label={t`Filters`}
      className="grid grid-cols-2 gap-3 md:grid-cols-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (!odd)
          onAsk({ actor: actor.trim(), action: action.trim(), target: target.trim(), result, from: begin, to: end });
      }}
    >
      <TextField
        label={t`Who`}
        placeholder="ada@example.com"
        maxLength={200}
        value={actor}
        onChange={(e) => setActor(e.target.value)}
      />
      <TextField
        label={t`Action`}
        placeholder={t`member, or member.update`}
        maxLength={64}
        value={action}
        onChange={(e) => setAction(e.target.value)}
      />
      <TextField
        label={t`Target`}
        placeholder={t`workspace, or a name`}
        maxLength={200}
        value={target}
        onChange={(e) => setTarget(e.target.value)}
      />
      <Field label={t`Result`}>
        {(ids) => (
          <select
            {...ids}
            value={result}
            onChange={(e) => setResult(e.target.value as Asked["result"])}
            className={inputClass}
          >
            <option value="">
              <Trans>any</Trans>
            </option>
            <option value="done">
              <Trans>done</Trans>
            </option>
            <option value="refused">
              <Trans>refused</Trans>
            </option>
            <option value="failed">
              <Trans>failed</Trans>
            </option>
          </select>
        )}
      </Field>
      <TextField label={t`From`} type="date" value={from} onChange={(e) => setFrom(e.target.value)} />
      <TextField
        label={t`To`}
        type="date"
        value={to}
        error={odd ? t`The end date is before the start date.` : undefined}
        onChange={(e) => setTo(e.target.value)}
      />
      <div className="col-span-full flex gap-2">
        <Button type="submit">
          <Trans>Show</Trans>
        </Button>
        {any && (
          <Button look="quiet" onClick={clear}>
            <Trans>Clear</Trans>
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
          <Fact name={t`Action`} value={e.action} />
          <Fact name={t`Result`} value={e.code ? `${e.result}: ${e.code}` : e.result} />
          <Fact
            name={t`Who`}
            value={[e.actor.kind.replace("_", " "), e.actor.name, e.actor.id].filter(Boolean).join(" · ")}
          />
          <Fact name={t`With`} value={e.credential} />
          <Fact name={t`From`} value={e.ip} />
          <Fact
            name={t`Target`}
            value={[e.target.kind.replace("_", " "), e.target.name, e.target.id].filter(Boolean).join(" · ")}
          />
          {Object.entries(e.data).map(([k, v]) => (
            <Fact key={k} name={k.replaceAll("_", " ")} value={v} />
          ))}
          <Fact name={t`When`} value={exact(e.at)} />
          <Fact name={t`Request`} value={e.request_id} />
          <Fact name={t`Number`} value={String(e.seq)} />
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
