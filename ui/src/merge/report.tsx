import { plural, t as tr } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { usd } from "@/format/money";
import { count, visible } from "@/format/text";
import { duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { Counts, Failure, FormError, Skeleton } from "@/kit/states";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { Attached, markdown, useAttach, useAttached } from "./attach";
import { type CardProps, MergeCard } from "./card";

type Report = Schemas["Report"];

/** What was done in the workspace, to read before a merge and to attach to it. */
export default function ReportCard({ workspace: w }: CardProps) {
  const team = useTeam();
  const [open, setOpen] = useState(false);
  const report = useQuery({
    queryKey: ["workspace", w.id, "report"] as const,
    queryFn: () => data(api.GET("/workspaces/{id}/report", { params: { path: { id: w.id } } })),
    enabled: open,
    staleTime: 10_000,
  });
  const copy = useMutation({
    mutationFn: async () => navigator.clipboard.writeText(await markdown(w.id)),
    onSuccess: () =>
      toast({ kind: "good", title: tr`Report copied`, text: tr`As Markdown, ready for a pull request or note.` }),
    onError: (error) => toastError(tr`The report could not be copied`, error),
  });
  const attached = useAttached(w);
  const attach = useAttach(w);
  const r = report.data;
  return (
    <MergeCard
      title={tr`Report`}
      aside={
        <>
          <Button busy={copy.isPending && tr`Copying`} onClick={() => copy.mutate()}>
            <Trans>Copy</Trans>
          </Button>
          <a
            className="text-accent hover:underline"
            href={`/api/v1/workspaces/${w.id}/report?format=markdown`}
            download={`${w.key}-report.md`}
          >
            <Trans>Download</Trans>
          </a>
          {w.merged_at && team.can("workspace.merge") && (
            <Button busy={attach.isPending && tr`Attaching`} onClick={() => attach.mutate()}>
              {attached ? tr`Attach again` : tr`Attach to the merge`}
            </Button>
          )}
        </>
      }
    >
      <FormError error={attach.error} />
      <p className="text-fg2">
        <Trans>Prompts, commands, changes, network hosts, time and cost.</Trans>
      </p>
      {attached && <Attached commit={attached} />}
      {open ? (
        report.isPending ? (
          <Skeleton rows={4} label={tr`Generating the report`} />
        ) : !r ? (
          <Failure
            what={tr`The report could not be generated.`}
            error={report.error}
            retry={() => void report.refetch()}
          />
        ) : (
          <Body report={r as Report} />
        )
      ) : (
        <Button className="self-start" aria-expanded={false} onClick={() => setOpen(true)}>
          <Trans>Show the report</Trans>
        </Button>
      )}
    </MergeCard>
  );
}

function Body({ report: r }: { report: Report }) {
  const t = r.totals;
  return (
    <>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-0.5">
        <Fact name={tr`Files`}>
          {plural(t.files, { one: "# file", other: "# files" })}{" "}
          <Counts additions={t.additions} deletions={t.deletions} />
        </Fact>
        <Fact name={tr`Outside the folder`}>
          {t.outside === 0 ? tr`none recorded` : plural(t.outside, { one: "# file", other: "# files" })}
        </Fact>
        <Fact name={tr`Commands`}>
          {count(t.commands)}
          {t.failed > 0 && tr`, ${count(t.failed)} failed`}
        </Fact>
        <Fact name={tr`Hosts`}>
          {r.hosts_known || t.reached + t.refused > 0 ? (
            tr`${count(t.reached)} reached, ${count(t.refused)} refused`
          ) : (
            <span className="text-fg2">
              <Trans>not known</Trans>
            </span>
          )}
        </Fact>
        <Fact name={tr`Time`}>{duration(r.costs.run_ms)}</Fact>
        <Fact name={tr`Cost`}>
          {!r.costs.shown ? (
            <span className="text-fg2">
              <Trans>hidden: requires permission to see costs</Trans>
            </span>
          ) : (
            <>
              <Trans>
                {usd(r.costs.cost_nano)} sandbox, {usd(r.costs.tokens_cost_nano)} models
              </Trans>
              {r.costs.tokens_unknown > 0 &&
                tr`, ${plural(r.costs.tokens_unknown, { one: "# request", other: "# requests" })} of unknown cost`}
            </>
          )}
        </Fact>
      </dl>
      <Part title={tr`Tests`} of={r.tests.length}>
        {r.tests.map((x) => (
          <Line key={`${x.at} ${x.name} ${x.command}`} at={x.at}>
            <Mark
              kind={x.state === "passed" || x.state === "ok" ? "review" : x.state === "running" ? "running" : "failed"}
              word={x.state.replaceAll("_", " ")}
            />{" "}
            {x.check && <span className="font-medium">{x.name} </span>}
            <Code>{x.command}</Code>
            {!x.check && (
              <span className="text-fg3">
                {" "}
                <Trans>run by an agent</Trans>
              </span>
            )}
          </Line>
        ))}
      </Part>
      <Part title={tr`Prompts`} of={t.prompts}>
        {r.prompts.map((x) => (
          <Line key={`${x.at} ${x.session_id}`} at={x.at}>
            <span className="whitespace-pre-wrap">{visible(x.text.slice(0, 500))}</span>
          </Line>
        ))}
      </Part>
      <Part title={tr`Files outside the folder`} of={t.outside}>
        {r.outside.map((x) => (
          <Line key={`${x.path} ${x.session_id}`} at={x.last_at}>
            <Code>{x.path}</Code>
          </Line>
        ))}
      </Part>
      <Part title={tr`Commands`} of={t.commands}>
        {r.commands.map((x, i) => (
          <Line key={i} at={x.at}>
            <Code>{x.text}</Code>
            {x.status !== "ok" && <span className="text-failed"> {x.status}</span>}
          </Line>
        ))}
      </Part>
      <Part title={tr`Hosts reached`} of={t.reached}>
        {r.reached.map((x) => (
          <Line key={`${x.host}:${x.port}`} at={x.last_at}>
            <Code>{`${x.host}:${x.port}`}</Code>{" "}
            <span className="text-fg3">{plural(x.times, { one: "# time", other: "# times" })}</span>
          </Line>
        ))}
      </Part>
      <Part title={tr`Hosts blocked`} of={t.refused}>
        {r.refused.map((x) => (
          <Line key={`${x.host}:${x.port}`} at={x.last_at}>
            <Code>{`${x.host}:${x.port}`}</Code>{" "}
            <span className="text-fg3">{plural(x.times, { one: "# time", other: "# times" })}</span>
          </Line>
        ))}
      </Part>
      {r.unknown.length > 0 && (
        <div>
          <h3 className="text-meta text-fg3">
            <Trans>Not recorded</Trans>
          </h3>
          <ul className="list-disc pl-5 text-fg2">
            {r.unknown.map((x) => (
              <li key={x}>{x}</li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <>
      <dt className="text-fg3">{name}</dt>
      <dd className="tabular-nums">{children}</dd>
    </>
  );
}

function Part({ title, of, children }: { title: string; of: number; children: React.ReactNode[] }) {
  if (of === 0) return null;
  return (
    <details>
      <summary className="cursor-pointer">
        {title} <span className="text-fg3 tabular-nums">{count(of)}</span>
      </summary>
      <ul className="mt-1 max-h-80 divide-y divide-hairline overflow-y-auto border-y border-hairline">
        {children}
        {of > children.length && (
          <li className="py-1 text-fg3">
            <Trans>and {count(of - children.length)} more</Trans>
          </li>
        )}
      </ul>
    </details>
  );
}

function Line({ at, children }: { at: number; children: React.ReactNode }) {
  return (
    <li className="py-1 leading-5 break-words" title={exact(at)}>
      {children}
    </li>
  );
}

function Code({ children }: { children: string }) {
  return <code className="font-mono text-code break-all whitespace-pre-wrap">{visible(children.slice(0, 500))}</code>;
}
