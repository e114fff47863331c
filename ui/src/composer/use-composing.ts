import { t } from "@lingui/core/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAgentChoice } from "@/agents/agent-choice";
import { useAttachments } from "@/agents/attach";
import type { Attached } from "@/agents/attachments";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OWN, ownArgs } from "@/agents/own";
import { useOwnChoice } from "@/agents/own-options";
import type { PermissionChoice } from "@/agents/permissions";
import { api, data, type Project, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { agentsQuery, branchNameQuery, keys, projectExecutorsQuery, workspacesQuery } from "@/api/queries";
import { splitCommand } from "@/format/command";
import { useLatencies } from "@/sandboxes/regions";
import type { Place as PlaceInfo } from "@/sandboxes/remote";
import { chosenSize, sizeId } from "@/sandboxes/remote-words";
import { firstPlace, placeBody, placeId } from "@/sandboxes/which";
import { guessSize } from "@/sessions/start";
import { isCoarse } from "@/state/look";
import { isString, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { nameFrom } from "./derive";
import { usePromptDraft } from "./draft";
import type { Try } from "./several";
import { useSettled } from "./use-settled";

interface Sent {
  prompt: string;
  files: readonly Attached[];
}

/** All that is chosen for a new workspace, what is derived from it, and how it is made. */
export function useComposing(projects: Project[], first: Project) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [project, setProjectTo] = useState(first);
  const [name, setName] = useState("");
  const [base, setBase] = useState("");
  const [branch, setBranch] = useState<string | undefined>(undefined); // undefined follows the suggestion
  const [chosen, setPermissions] = useState<PermissionChoice | undefined>(undefined); // undefined: as config.json says
  const [executor, setExecutor] = useState<string | undefined>(undefined);
  const [region, setRegion] = useState<string | undefined>(undefined); // of the place; undefined: the nearest
  const [chosenSizeId, setSize] = useState<string | undefined>(undefined); // undefined: the last one here, else the place's own
  const [fallback, setFallback] = useState(false);
  const [secret, setSecret] = useState(false); // only its owner sees it
  const [folder, setFolder] = useState(""); // of a machine: the folder whose repository to use
  const [tries, setTries] = useState<Try[] | undefined>(undefined); // several agents; undefined: one
  const [runKey, setRunKey] = useState(newKey);

  const used = useQuery(workspacesQuery(team.slug)).data?.some((w) => w.project_id === project.id);
  const draft = usePromptDraft(project, used ?? true);
  const prompt = draft.text;
  const agents = useQuery(agentsQuery(team.slug));
  const choice = useAgentChoice(
    agents.data,
    recall(`agent.${project.id}`, isString) ?? recall("agent", isString),
    (agent) => recall(`account.${project.id}.${agent}`, isString),
  );
  const executors = useQuery(projectExecutorsQuery(team.slug, project.id));
  const several = tries !== undefined;
  const talks = choice.agent !== "" && choice.agent !== SHELL && choice.agent !== COMMAND;
  const derivedName = nameFrom(prompt) || choice.info?.name || (choice.agent === SHELL ? t`Shell` : t`New workspace`);
  const settled = useSettled(name.trim() || nameFrom(prompt), 200);
  const suggestion = useQuery(branchNameQuery(project.id, settled));
  const place =
    executor ?? firstPlace(executors.data?.items, executors.data?.suggested, recall(`place.${project.id}`, isString));
  const said: PlaceInfo | undefined = executors.data?.items.find((e) => placeId(e) === place);
  const there = said?.region_of ? (executors.data?.items.find((e) => e.kind === said.region_of) ?? said) : said;
  const mine = useLatencies(executors.data?.items);
  const wish = region ?? place; // a region by hand, else the place, which means its nearest
  const machine = there?.runner_id || "";
  const size = chosenSize(there, chosenSizeId ?? recall(`size.${project.id}.${place}`, isString));
  const argv = splitCommand(prompt);
  const own = useOwnChoice(choice.agent, project.id);
  const attachments = useAttachments(!several && talks);
  const isolated = there?.isolated ?? false;
  const permissions = chosen ?? { all: choice.info?.default_permissions === "all", confirmed: false };

  const done = async () => {
    remember("project", project.id);
    draft.sent();
    await client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
  };
  /** The session that the server starts once the workspace is ready. */
  const startOf = ({ prompt, files }: Sent): Schemas["NewStart"] => ({
    agent: choice.agent,
    ...(talks && prompt.trim() ? { prompt } : {}),
    ...(choice.agent === COMMAND ? { argv: splitCommand(prompt) } : own.argv ? { argv: own.argv } : {}),
    ...(choice.account ? { account_id: choice.account } : {}),
    ...(choice.info?.takes_permissions ? { permissions: permissions.all ? "all" : "ask" } : {}),
    ...(choice.info?.takes_permissions && permissions.confirmed ? { confirm_no_boundary: true } : {}),
    ...(files.length > 0 ? { attachments: files.map(({ name, data }) => ({ name, data })) } : {}),
    ...(isCoarse() ? {} : guessSize()),
  });
  const create = useMutation({
    // What is sent is fixed when it is: the list of workspaces may change what is suggested before the answer is there.
    mutationFn: (sent: Sent) =>
      data(
        api.POST("/teams/{team}/workspaces", {
          params: { path: { team: team.slug } },
          body: {
            project_id: project.id,
            name: name.trim() || derivedName,
            ...(base ? { base } : {}),
            ...(branch?.trim() ? { branch: branch.trim() } : {}),
            ...(wish ? placeBody(wish) : {}),
            ...(there?.regions && mine ? { latencies: mine } : {}),
            ...(machine && folder ? { runner_folder: folder } : {}),
            ...(size ? { resources: { cpus: size.cpus, memory_mb: size.memory_mb } } : {}),
            ...(there?.own_disk && there.fallback && fallback ? { fallback_ok: true } : {}),
            ...(secret ? { private: true } : {}),
            ...(choice.agent ? { start: startOf(sent) } : {}),
          },
        }),
      ),
    onSuccess: async (w) => {
      remember(`agent.${project.id}`, choice.agent);
      if (talks) remember("agent", choice.agent);
      own.keep();
      if (choice.account) remember(`account.${project.id}.${choice.agent}`, choice.account);
      if (place) remember(`place.${project.id}`, place);
      void client.invalidateQueries({ queryKey: keys.executors(team.slug) }); // another one is suggested now
      if (size) remember(`size.${project.id}.${place}`, sizeId(size));
      void done();
      await navigate({
        to: "/$team/w/$key",
        params: { team: team.slug, key: w.key },
        search: choice.agent === SHELL ? { tab: "shell" } : {},
      });
    },
  });
  const run = useMutation({
    mutationFn: (list: Try[]) =>
      data(
        api.POST("/teams/{team}/runs", {
          params: { path: { team: team.slug }, header: { "Idempotency-Key": runKey } },
          body: {
            project_id: project.id,
            prompt,
            ...(name.trim() ? { name: name.trim() } : {}),
            ...(base ? { base } : {}),
            ...(place ? placeBody(place) : {}),
            attempts: list.map((t) => ({
              agent: t.agent,
              ...(t.accountId ? { account_id: t.accountId } : {}),
              ...(t.agent === OWN && t.own ? { argv: ownArgs(t.own) } : {}),
            })),
          },
        }),
      ),
    onSuccess: async (r) => {
      void done();
      await navigate({ to: "/$team/runs/$run", params: { team: team.slug, run: r.id } });
    },
    onError: () => setRunKey(newKey()),
  });

  const error = several ? run.error : create.error;
  const field = (f: string) => fieldError(error, f);
  const unsure =
    !several && choice.info?.takes_permissions === true && permissions.all && !isolated && !permissions.confirmed;
  const agentName = choice.info?.name ?? t`The agent`;
  const reason = (() => {
    if (executors.data?.suggested?.ask && place === "") return t`Choose where it runs.`;
    if (executors.data && !there) return t`No place can be used now. See where it runs.`;
    if (several)
      return prompt.trim() === "" ? t`Write what the agents should do.` : tries.length === 0 ? t`Add an attempt.` : "";
    if (choice.agent === "") return "";
    if (agents.isPending) return t`Looking for agents…`;
    if (choice.info?.needs_account) return t`${agentName} needs an account.`;
    if (!choice.ready) return t`${agentName} cannot start here. Choose another agent.`;
    if (choice.agent === COMMAND && argv.length === 0) return t`Write the command.`;
    if (attachments.takes && attachments.list.length > 0 && prompt.trim() === "")
      return t`Write what the agent should do with the files.`;
    if (unsure) return t`Nothing contains ${agentName} here: confirm its permissions.`;
    return "";
  })();
  const busy = create.isPending || run.isPending;
  return {
    project,
    setProject: (id: string) => {
      const next = projects.find((p) => p.id === id);
      if (!next || next.id === project.id) return;
      draft.moveTo(next.id);
      setProjectTo(next);
      // The branch chosen of another project means nothing here.
      setBase("");
      setBranch(undefined);
      setFolder("");
    },
    name,
    setName,
    derivedName,
    base,
    setBase,
    branch,
    setBranch,
    suggested: settled ? (suggestion.data ?? "") : "",
    prompt,
    setPrompt: draft.set,
    agents,
    choice,
    own,
    attachments,
    permissions,
    setPermissions,
    isolated,
    executors,
    place,
    setPlace: (to: string) => {
      setExecutor(to);
      setRegion(undefined);
      setSize(undefined);
      setFolder("");
      setFallback(false); // agreed for the place it was asked about
    },
    there,
    machine,
    mine,
    wish,
    setRegion,
    chosenByHand: executor !== undefined || region !== undefined,
    size,
    setSize,
    fallback,
    setFallback,
    folder,
    setFolder,
    secret,
    setSecret,
    tries,
    setTries,
    several,
    fieldError: field,
    placeError: field("executor") ?? field("runner_id") ?? field("runner_folder") ?? field("resources"),
    error,
    /** Why it cannot be created now; "" when it can. */
    reason,
    busy,
    go: () => {
      if (reason !== "" || busy) return;
      if (tries) run.mutate(tries);
      else create.mutate({ prompt, files: attachments.takes ? attachments.list : [] });
    },
  };
}

export type Composing = ReturnType<typeof useComposing>;

const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
