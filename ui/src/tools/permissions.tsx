import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { Button } from "@/kit/button";
import { Segmented, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import TurnLimits from "./limits";

type Rule = Schemas["PermissionRule"];
type Effect = Schemas["PermissionEffect"];
interface Owner {
  team: string;
  /** Absent: the rules are the whole team's. */
  project?: string;
}

const WORDS: Record<Effect, string> = { allow: t`Allow`, ask: t`Ask`, deny: t`Deny` };

const EFFECTS = [
  ["allow", WORDS.allow],
  ["ask", WORDS.ask],
  ["deny", WORDS.deny],
] as const;

function keyOf({ team, project }: Owner) {
  return ["permission-rules", team, project ?? ""];
}

/** By which rules Parawork's own agent may call tools in a project, or in all of a team. */
export default function PermissionRules({ team, project, readOnly }: Owner & { readOnly: boolean }) {
  const owner = { team, project };
  const list = useQuery({
    queryKey: keyOf(owner),
    queryFn: () =>
      data(
        project
          ? api.GET("/projects/{id}/permission-rules", { params: { path: { id: project } } })
          : api.GET("/teams/{team}/permission-rules", { params: { path: { team } } }),
      ),
  });
  const items = list.data?.items ?? [];
  return (
    <section aria-labelledby="permission-rules" className="mt-8 flex max-w-form flex-col gap-3">
      <h2 id="permission-rules" className="text-title font-semibold">
        <Trans>Permissions of the agent Parawork</Trans>
      </h2>
      <p className="text-fg2">
        <Trans>
          Rules decide before anybody is asked. Deny beats ask, and ask beats allow
          {project ? t`, also of the team's rules.` : t`, in all projects.`}
        </Trans>
      </p>
      {list.isPending && <Skeleton rows={2} label={t`Loading the rules`} />}
      {list.isError && !list.data && (
        <Failure what={t`The rules could not be loaded.`} error={list.error} retry={() => void list.refetch()} />
      )}
      {list.data && items.length === 0 && (
        <p className="text-fg3">
          <Trans>No rules yet.</Trans>
        </p>
      )}
      {items.length > 0 && (
        <ul aria-label={t`Permission rules`} className="divide-y divide-hairline border-y border-hairline">
          {items.map((r) => (
            <Row key={r.id} owner={owner} rule={r} readOnly={readOnly || (r.scope === "team" && !!project)} />
          ))}
        </ul>
      )}
      {!readOnly && <Add owner={owner} />}
      <Try owner={owner} />
      <TurnLimits team={team} project={project} readOnly={readOnly} />
    </section>
  );
}

function Row({ owner, rule: r, readOnly }: { owner: Owner; rule: Rule; readOnly: boolean }) {
  const client = useQueryClient();
  const text = `${r.tool}${r.pattern ? `: ${r.pattern}` : ""}`;
  const remove = useAction({
    act: () => data(api.DELETE("/permission-rules/{id}", { params: { path: { id: r.id } } })),
    confirm: { title: t`Remove this rule?`, body: text, action: t`Remove`, danger: true },
    done: () => client.invalidateQueries({ queryKey: ["permission-rules"] }),
    failed: t`The rule was not removed`,
  });
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 gap-y-1 py-2">
      <span className="w-12 font-medium">{WORDS[r.effect]}</span>
      <code className="min-w-0 flex-1 basis-56 break-words">{text}</code>
      {owner.project && <span className="text-meta text-fg3">{r.scope}</span>}
      {!readOnly && (
        <Button look="quiet" busy={remove.busy && t`Removing`} onClick={() => void remove.run()}>
          <Trans>Remove</Trans>
          <span className="sr-only"> {text}</span>
        </Button>
      )}
    </li>
  );
}

function Add({ owner }: { owner: Owner }) {
  const client = useQueryClient();
  const [tool, setTool] = useState("run_command");
  const [pattern, setPattern] = useState("");
  const [effect, setEffect] = useState<Effect>("allow");
  const save = useMutation({
    mutationFn: () => {
      const body = { tool: tool.trim(), pattern: pattern.trim(), effect };
      return data(
        owner.project
          ? api.POST("/projects/{id}/permission-rules", { params: { path: { id: owner.project } }, body })
          : api.POST("/teams/{team}/permission-rules", { params: { path: { team: owner.team } }, body }),
      );
    },
    onSuccess: () => {
      setPattern("");
      void client.invalidateQueries({ queryKey: ["permission-rules"] });
    },
  });
  return (
    <form
      aria-label={t`Add a permission rule`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <Segmented label={t`Effect`} value={effect} onChange={setEffect} options={EFFECTS} />
      <TextField
        label={t`Tool`}
        required
        maxLength={64}
        value={tool}
        hint="A tool such as run_command, a group such as files, or * for all."
        onChange={(e) => setTool(e.target.value)}
      />
      <TextField
        label={t`Pattern`}
        maxLength={500}
        value={pattern}
        placeholder="git status *"
        hint="A command, a path such as src/**, or a host such as *.example.com. Empty: every call."
        onChange={(e) => setPattern(e.target.value)}
      />
      <FormError error={save.error} />
      <Button type="submit" className="self-start" busy={save.isPending && t`Adding`}>
        <Trans>Add a rule</Trans>
      </Button>
    </form>
  );
}

/** What can be tried: a tool, and the argument that its rules are about. */
const TRIES = {
  command: [t`Command`, "run_command", "command"],
  read: [t`Read a file`, "file_read", "path"],
  write: [t`Write a file`, "file_write", "path"],
  page: [t`Web page`, "web_fetch", "url"],
} as const;
type Tried = keyof typeof TRIES;

function Try({ owner }: { owner: Owner }) {
  const [what, setWhat] = useState<Tried>("command");
  const [value, setValue] = useState("");
  const tried = useMutation({
    mutationFn: () => {
      const [, tool, argument] = TRIES[what];
      const given = what === "page" && !value.includes("://") ? `https://${value.trim()}` : value;
      const body = { tool, arguments: { [argument]: given }, isolated: true };
      return data(
        owner.project
          ? api.POST("/projects/{id}/permission-rules/try", { params: { path: { id: owner.project } }, body })
          : api.POST("/teams/{team}/permission-rules/try", { params: { path: { team: owner.team } }, body }),
      );
    },
  });
  const d = tried.data;
  return (
    <form
      aria-label={t`Try a call`}
      className="flex flex-col gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        tried.mutate();
      }}
    >
      <Segmented
        label={t`Try a call`}
        value={what}
        onChange={(to) => {
          setWhat(to);
          tried.reset();
        }}
        options={(Object.keys(TRIES) as Tried[]).map((k) => [k, TRIES[k][0]] as const)}
      />
      <TextField
        label={what === "command" ? t`Command` : what === "page" ? t`Host or address` : t`Path`}
        required
        value={value}
        hint={what === "read" || what === "write" ? t`Nothing is done. Links are not followed.` : t`Nothing is done.`}
        onChange={(e) => setValue(e.target.value)}
      />
      <FormError error={tried.error} />
      <p role="status" className="text-fg2">
        {d &&
          `${WORDS[d.effect]}: ${d.rule ? t`the rule ${d.rule.effect} ${d.rule.tool}${d.rule.pattern ? `: ${d.rule.pattern}` : ""} of the ${d.rule.scope}` : t`no rule applies`}. ${d.reason}`}
      </p>
      <Button type="submit" className="self-start" busy={tried.isPending && t`Trying`}>
        <Trans>Try</Trans>
      </Button>
    </form>
  );
}
