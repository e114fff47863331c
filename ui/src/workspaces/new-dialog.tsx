import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { AgentChoice, useAgentChoice } from "@/agents/agent-choice";
import { AttachField, useAttachments } from "@/agents/attach";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OWN, ownArgs } from "@/agents/own";
import { OwnOptions, useOwnChoice } from "@/agents/own-options";
import { type PermissionChoice, Permissions } from "@/agents/permissions";
import { type Agent, api, data, type Project } from "@/api/client";
import { fieldError } from "@/api/problem";
import { agentsQuery, branchNameQuery, keys, projectExecutorsQuery, projectsQuery } from "@/api/queries";
import { splitCommand } from "@/format/command";
import { Button, buttonClass } from "@/kit/button";
import { Combobox } from "@/kit/combobox";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Check, Field, TextArea, TextField } from "@/kit/field";
import { lazy } from "@/kit/part";
import { Empty, Failure, FormError, Skeleton } from "@/kit/states";
import { PlaceChoice } from "@/sandboxes/place-choice";
import { useLatencies } from "@/sandboxes/regions";
import type { Place as PlaceInfo } from "@/sandboxes/remote";
import { chosenSize, sizeId } from "@/sandboxes/remote-words";
import { firstPlace, placeBody, placeId } from "@/sandboxes/which";
import { addPendingStart, holdFiles } from "@/sessions/pending-start";
import { isString, recall, remember } from "@/state/remember";
import { useTeam } from "@/state/team";
import { BaseBranch } from "./base-branch";
import { Several, type Try, usable } from "./several";
import { useSettled } from "./use-settled";

const MachineTerms = lazy(() => import("@/sandboxes/machine-terms"));
const RegionChoice = lazy(() => import("@/sandboxes/region-choice"));
const WhyNew = lazy(() => import("@/sandboxes/why").then((m) => ({ default: m.WhyNew })));

/** A new workspace: what, by whom, from where, in which place. */
export default function NewWorkspaceDialog({ projectId }: { projectId: string }) {
  const team = useTeam();
  const navigate = useNavigate();
  const projects = useQuery(projectsQuery(team.slug));
  const close = () => void navigate({ to: ".", search: (s) => ({ ...s, new: undefined }) });
  const ready = projects.data?.filter((p) => p.state === "ready") ?? [];
  const last = recall("project", isString);
  const first = ready.find((p) => p.id === projectId) ?? ready.find((p) => p.id === last) ?? ready[0];

  return (
    <Dialog
      open
      onClose={close}
      wide
      title="New workspace"
      about="A branch in its own folder, and an agent to work in it."
    >
      {projects.isPending ? (
        <DialogBody>
          <Skeleton label="Loading the projects" />
        </DialogBody>
      ) : projects.isError && !projects.data ? (
        <DialogBody className="pb-5">
          <Failure
            what="The projects could not be loaded."
            error={projects.error}
            retry={() => void projects.refetch()}
          />
        </DialogBody>
      ) : !first ? (
        <DialogBody className="pb-5">
          <Empty
            title={
              projects.data?.some((p) => p.state === "cloning")
                ? "Your project is still being cloned"
                : "Add a project first"
            }
            action={
              <Link to="/$team/p" params={{ team: team.slug }} className={buttonClass("primary")}>
                Go to projects
              </Link>
            }
          >
            A workspace is a branch of one of your projects.
          </Empty>
        </DialogBody>
      ) : (
        <NewWorkspaceForm projects={ready} first={first} onClose={close} />
      )}
    </Dialog>
  );
}

function NewWorkspaceForm({ projects, first, onClose }: { projects: Project[]; first: Project; onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [project, setProject] = useState(first);
  const [name, setName] = useState("");
  const [base, setBase] = useState("");
  const [branch, setBranch] = useState<string | undefined>(undefined); // undefined follows the suggestion
  const [prompt, setPrompt] = useState("");
  const [command, setCommand] = useState("");
  const [chosen, setChosen] = useState<PermissionChoice | undefined>(undefined); // undefined: as config.json says
  const [executor, setExecutor] = useState<string | undefined>(undefined);
  const [region, setRegion] = useState<string | undefined>(undefined); // of the place; undefined: the nearest
  const [why, setWhy] = useState(false);
  const [size, setSize] = useState<string | undefined>(undefined); // undefined: the last one here, else the place's own
  const [fallback, setFallback] = useState(false);
  const [secret, setSecret] = useState(false); // only its owner sees it
  const [folder, setFolder] = useState(""); // of a machine: the folder whose repository to use
  const [tries, setTries] = useState<Try[] | undefined>(undefined); // several agents; undefined: one

  const agents = useQuery(agentsQuery(team.slug));
  const choice = useAgentChoice(agents.data, recall(`agent.${project.id}`, isString), (agent) =>
    recall(`account.${project.id}.${agent}`, isString),
  );
  const executors = useQuery(projectExecutorsQuery(team.slug, project.id));
  const settled = useSettled(name.trim(), 200);
  const suggestion = useQuery(branchNameQuery(project.id, settled));
  const place =
    executor ?? firstPlace(executors.data?.items, executors.data?.suggested, recall(`place.${project.id}`, isString));
  const said: PlaceInfo | undefined = executors.data?.items.find((e) => placeId(e) === place);
  const there = said?.region_of ? (executors.data?.items.find((e) => e.kind === said.region_of) ?? said) : said;
  const mine = useLatencies(executors.data?.items);
  const wish = region ?? place; // a region by hand, else the place, which means its nearest
  const machine = there?.runner_id || "";
  const wanted = chosenSize(there, size ?? recall(`size.${project.id}.${place}`, isString));
  const argv = splitCommand(command);
  const own = useOwnChoice(choice.agent, project.id);
  const attachments = useAttachments(own.argv !== undefined);
  const talks = choice.agent !== "" && choice.agent !== SHELL && choice.agent !== COMMAND;

  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/teams/{team}/workspaces", {
          params: { path: { team: team.slug } },
          body: {
            project_id: project.id,
            name: name.trim(),
            ...(base ? { base } : {}),
            ...(branch?.trim() ? { branch: branch.trim() } : {}),
            ...(wish ? placeBody(wish) : {}),
            ...(there?.regions && mine ? { latencies: mine } : {}),
            ...(machine && folder ? { runner_folder: folder } : {}),
            ...(wanted ? { resources: { cpus: wanted.cpus, memory_mb: wanted.memory_mb } } : {}),
            ...(there?.own_disk && there.fallback && fallback ? { fallback_ok: true } : {}),
            ...(secret ? { private: true } : {}),
          },
        }),
      ),
    onSuccess: async (w) => {
      remember("project", project.id);
      remember(`agent.${project.id}`, choice.agent);
      own.keep();
      if (choice.account) remember(`account.${project.id}.${choice.agent}`, choice.account);
      if (place) remember(`place.${project.id}`, place);
      void client.invalidateQueries({ queryKey: keys.executors(team.slug) }); // another one is suggested now
      if (wanted) remember(`size.${project.id}.${place}`, sizeId(wanted));
      if (choice.agent) {
        addPendingStart({
          workspaceId: w.id,
          agent: choice.agent,
          prompt: talks ? prompt : "",
          ...(choice.agent === COMMAND ? { argv } : own.argv ? { argv: own.argv } : {}),
          ...(choice.account ? { account: choice.account } : {}),
          ...(choice.info?.takes_permissions
            ? { permissions: permissions.all ? "all" : "ask", confirmed: permissions.confirmed }
            : {}),
          ...(attachments.takes && attachments.list.length > 0 ? { files: attachments.list.length } : {}),
          at: Date.now(),
        });
        if (attachments.takes && attachments.list.length > 0) holdFiles(w.id, attachments.list);
      }
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
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
      remember("project", project.id);
      void client.invalidateQueries({ queryKey: ["team", team.slug, "workspaces"] });
      await navigate({ to: "/$team/runs/$run", params: { team: team.slug, run: r.id } });
    },
    onError: () => setRunKey(newKey()),
  });
  const [runKey, setRunKey] = useState(newKey);
  const permissions = chosen ?? { all: choice.info?.default_permissions === "all", confirmed: false };
  const isolated = there?.isolated ?? false;
  const unsure = choice.info?.takes_permissions === true && permissions.all && !isolated && !permissions.confirmed;
  const several = tries !== undefined;
  const field = (f: string) => fieldError(several ? run.error : create.error, f);
  const named = ["name", "base", "branch", "executor", "runner_id", "runner_folder", "resources"].some(field);
  const undecided = place === "" && executors.data?.suggested?.ask === true;
  const ready = undecided
    ? false
    : several
      ? prompt.trim() !== "" && tries.length > 0 && !run.isPending
      : name.trim() !== "" &&
        (choice.agent === "" || choice.ready) &&
        (choice.agent !== COMMAND || argv.length > 0) &&
        !unsure &&
        !create.isPending;
  const go = () => {
    if (!ready) return;
    if (several) run.mutate(tries);
    else create.mutate();
  };

  return (
    <form
      className="flex min-h-0 flex-1 flex-col"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
      onKeyDown={(e) => {
        if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
          e.preventDefault();
          go();
        }
      }}
    >
      <DialogBody className="flex flex-col gap-4">
        <div className="grid gap-4 sm:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
          <TextField
            label="Name"
            required={!several}
            hint={several ? "Leave empty to use the beginning of the prompt." : undefined}
            autoFocus
            maxLength={200}
            placeholder="Retry webhook delivery with jitter"
            value={name}
            error={field("name")}
            onChange={(e) => setName(e.target.value)}
          />
          <Field label="Project" error={field("project_id")}>
            {(ids) => (
              <Combobox
                {...ids}
                label="Project"
                value={project.id}
                onChange={(id) => {
                  // The branch chosen of another project means nothing here.
                  setProject(projects.find((p) => p.id === id) ?? project);
                  setBase("");
                  setBranch(undefined);
                  setFolder("");
                }}
                options={projects.map((p) => ({ value: p.id, text: p.name }))}
              />
            )}
          </Field>
        </div>
        <div className="grid gap-4 sm:grid-cols-2">
          <BaseBranch project={project} value={base} onChange={setBase} error={field("base")} />
          {!several && (
            <TextField
              label="Branch"
              mono
              spellCheck={false}
              autoCapitalize="none"
              value={branch ?? (settled ? (suggestion.data ?? "") : "")}
              placeholder="From the name"
              error={field("branch")}
              hint={branch === undefined ? "Generated from the name. You can change it." : undefined}
              onChange={(e) => setBranch(e.target.value)}
              onBlur={() => branch?.trim() === "" && setBranch(undefined)}
            />
          )}
        </div>
        {several ? (
          <Several agents={agents.data} tries={tries} onChange={setTries} />
        ) : (
          <>
            <AgentChoice query={agents} choice={choice} withShell withNone />
            {own.argv && choice.ready && <OwnOptions start={own.start} onChange={own.set} account={choice.account} />}
          </>
        )}
        <Button
          className="self-start"
          aria-pressed={several}
          disabled={agents.data === undefined}
          onClick={() => setTries(several ? undefined : firstTries(agents.data, choice.agent))}
        >
          {several ? "Run with one agent" : "Run with several agents"}
        </Button>
        {(several || talks) && (
          <TextArea
            label="Prompt"
            rows={4}
            placeholder={several ? "What should they do?" : "What should it do? Leave empty to start without a task."}
            required={several}
            value={prompt}
            onChange={(e) => setPrompt(e.target.value)}
          />
        )}
        {!several && attachments.takes && <AttachField files={attachments} />}
        {!several && choice.agent === COMMAND && (
          <TextField
            label="Command"
            mono
            placeholder="npm run dev"
            value={command}
            spellCheck={false}
            onChange={(e) => setCommand(e.target.value)}
          />
        )}
        <PlaceChoice
          query={executors}
          value={there ? placeId(there) : place}
          onChange={(chosenPlace) => {
            setExecutor(chosenPlace);
            setRegion(undefined);
            setSize(undefined);
            setFolder("");
            setFallback(false); // agreed for the place it was asked about
          }}
          error={field("executor") ?? field("runner_id") ?? field("runner_folder") ?? field("resources")}
          size={wanted && sizeId(wanted)}
          onSize={several ? undefined : setSize}
          fallback={fallback}
          onFallback={several ? undefined : setFallback}
        />
        {there?.regions && !several && (
          <Suspense>
            <RegionChoice
              place={there.kind}
              name={there.name}
              regions={there.regions}
              mine={mine}
              value={wish}
              onChange={(chosen) => setRegion(chosen)}
            />
          </Suspense>
        )}
        {!several && (
          <Button className="self-start" aria-expanded={why} onClick={() => setWhy(!why)}>
            Why here?
          </Button>
        )}
        {why && !several && (
          <Suspense>
            <WhyNew
              projectId={project.id}
              place={executor === undefined && region === undefined ? "" : wish}
              mine={mine}
            />
          </Suspense>
        )}
        {machine && !several && (
          <Suspense>
            <MachineTerms
              key={`${machine} ${project.id}`}
              machineId={machine}
              project={project}
              folder={folder}
              onFolder={setFolder}
            />
          </Suspense>
        )}
        {!several && choice.info?.takes_permissions && (
          <Permissions value={permissions} onChange={setChosen} isolated={isolated} />
        )}
        {!several && (
          <Check
            label="Private"
            hint="Only you can see the workspace. Its branch is still visible in the project's repository."
            checked={secret}
            onChange={(e) => setSecret(e.target.checked)}
          />
        )}
        <FormError error={several ? run.error : create.error && !named ? create.error : null} />
      </DialogBody>
      <DialogFoot>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          type="submit"
          look="primary"
          keys="mod+enter"
          disabled={!ready}
          busy={(create.isPending || run.isPending) && "Creating"}
        >
          {several ? "Run and compare" : "Create"}
        </Button>
      </DialogFoot>
    </form>
  );
}

const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

/** What several agents begin with: each that can be started, the chosen one first; two of the only one. */
function firstTries(agents: Agent[] | undefined, chosen: string): Try[] {
  const can = usable(agents).filter((a) => a.agent !== SHELL);
  const order = [...can.filter((a) => a.agent === chosen), ...can.filter((a) => a.agent !== chosen)].slice(0, 3);
  const list = order.length === 1 ? [order[0]!, order[0]!] : order;
  return list.map((a) => ({ agent: a.agent, accountId: "" }));
}
