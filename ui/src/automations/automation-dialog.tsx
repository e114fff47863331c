import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { AgentSelect, startableAgents } from "@/agents/agent-select";
import { api, data, type Schemas } from "@/api/client";
import { agentsQuery, projectsQuery } from "@/api/queries";
import { nano } from "@/format/money";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Check, Field, inputClass, Segmented, TextArea, TextField } from "@/kit/field";
import { CopyLine, FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { useTeam } from "@/state/team";
import { type Automation, automationsKey, EVENTS, type Kind, names } from "./automations";

const KINDS: readonly (readonly [Kind, string])[] = [
  ["schedule", t`At times`],
  ["git_host", t`Git host`],
  ["webhook", t`Webhook`],
  ["manual", t`By hand`],
];

// Not for translation: names of the template.
const PLACEHOLDERS = "{{event.title}}, {{event.number}}, {{event.body}}, {{event.comment}}, {{event.url}}";

/** When an automation acts, what its agent is asked for, and how much it may cost. */
export function AutomationDialog({ of, onClose }: { of: Automation | undefined; onClose: () => void }) {
  const team = useTeam();
  const agents = useQuery(agentsQuery(team.slug));
  const projects = useQuery(projectsQuery(team.slug));
  const [name, setName] = useState(of?.name ?? "");
  const [kind, setKind] = useState<Kind>(of?.trigger.kind ?? "schedule");
  const [cron, setCron] = useState(of?.trigger.cron ?? "0 6 * * 1-5");
  const [zone, setZone] = useState(of?.trigger.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [missed, setMissed] = useState(of?.trigger.missed === "run_once");
  const [events, setEvents] = useState<string[]>(of?.trigger.events ?? ["issue_labelled"]);
  const [labels, setLabels] = useState((of?.trigger.labels ?? []).join(", "));
  const [branches, setBranches] = useState((of?.trigger.branches ?? []).join(", "));
  const [authors, setAuthors] = useState((of?.trigger.authors ?? []).join(", "));
  const [prompt, setPrompt] = useState(of?.work.prompt ?? "");
  const [agent, setAgent] = useState(of?.work.agent ?? "");
  const [project, setProject] = useState(of?.work.project_id ?? "");
  const [minutes, setMinutes] = useState(String((of?.work.timeout_ms ?? 1_800_000) / 60_000));
  const [attempts, setAttempts] = useState(String(of?.attempts ?? 1));
  const [perRun, setPerRun] = useState(of?.limits.run_nano ? String(of.limits.run_nano / 1e9) : "");
  const [perMonth, setPerMonth] = useState(of?.limits.month_nano ? String(of.limits.month_nano / 1e9) : "");
  const [unisolated, setUnisolated] = useState(of?.work.confirm_no_boundary ?? false);
  const [sample, setSample] = useState("");
  const [sampleOf, setSampleOf] = useState("issues");
  const [made, setMade] = useState<Automation>();

  const usable = startableAgents(agents.data);
  const chosen = agent || usable[0]?.agent || "";
  const trigger: Schemas["AutomationTrigger"] =
    kind === "schedule"
      ? { kind, cron, time_zone: zone, missed: missed ? "run_once" : "skip" }
      : kind === "git_host"
        ? { kind, events, labels: names(labels), branches: names(branches), authors: names(authors) }
        : { kind };
  const work: Schemas["AutomationWork"] = {
    ...of?.work,
    prompt,
    agent: chosen,
    project_id: project || undefined,
    timeout_ms: Math.round(Number(minutes) * 60_000),
    confirm_no_boundary: unisolated,
  };
  const limits = { run_nano: nano(perRun) ?? -1, month_nano: nano(perMonth) ?? -1 };
  const save = useAction({
    act: () => {
      const body = { name, trigger, work, attempts: Number(attempts), limits };
      return of
        ? data(api.PATCH("/automations/{id}", { params: { path: { id: of.id } }, body }))
        : data(api.POST("/teams/{team}/automations", { params: { path: { team: team.slug } }, body }));
    },
    refresh: [automationsKey(team.slug)],
    done: (a: Automation) => (a.secret ? setMade(a) : onClose()),
  });
  const preview = useAction({
    act: () =>
      data(
        api.POST("/teams/{team}/automations/preview", {
          params: { path: { team: team.slug } },
          body: sample.trim()
            ? { trigger, work, event: sample, headers: { "X-GitHub-Event": sampleOf } }
            : { trigger: kind === "git_host" ? { kind: "manual" } : trigger, work }, // what a git host reports has an event
        }),
      ),
    done: (p: Schemas["AutomationPreview"]) => setShown(p),
  });
  const [shown, setShown] = useState<Schemas["AutomationPreview"]>();
  const missing = !name.trim()
    ? t`Give it a name.`
    : !prompt.trim()
      ? t`Write what the agent should do.`
      : !chosen
        ? t`No agent can be used here.`
        : undefined;

  if (made)
    return (
      <Dialog open onClose={onClose} title={t`Report events to it`}>
        <DialogBody className="flex flex-col gap-4">
          <p>
            <Trans>
              Add a webhook at the git host, or have your program send its events, to this address. They are signed with
              this secret, which is shown only now.
            </Trans>
          </p>
          <CopyLine label={t`the address`} text={made.events_url ?? ""} />
          <CopyLine label={t`the secret`} text={made.secret ?? ""} />
        </DialogBody>
        <DialogFoot>
          <Button look="primary" onClick={onClose}>
            <Trans>Done</Trans>
          </Button>
        </DialogFoot>
      </Dialog>
    );
  return (
    <Dialog open onClose={onClose} wide title={of ? t`Edit the automation` : t`New automation`}>
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          if (!missing) void save.run();
        }}
      >
        <DialogBody className="flex flex-col gap-4">
          <TextField label={t`Name`} value={name} maxLength={100} onChange={(e) => setName(e.target.value)} />
          <div>
            <p className="mb-1 font-medium">
              <Trans>When</Trans>
            </p>
            {of ? (
              KINDS.find(([k]) => k === kind)?.[1]
            ) : (
              <Segmented label={t`When`} value={kind} onChange={setKind} options={KINDS} />
            )}
          </div>
          {kind === "schedule" && (
            <div className="grid gap-3 sm:grid-cols-2">
              <TextField
                label={t`Times`}
                hint={t`Minute, hour, day, month and weekday: 0 6 * * 1-5 is six o'clock from Monday to Friday.`}
                mono
                value={cron}
                onChange={(e) => setCron(e.target.value)}
              />
              <TextField label={t`Time zone`} value={zone} onChange={(e) => setZone(e.target.value)} />
              <Check
                className="sm:col-span-2"
                label={t`Run once for times at which the server was down`}
                checked={missed}
                onChange={(e) => setMissed(e.target.checked)}
              />
            </div>
          )}
          {kind === "git_host" && (
            <>
              <fieldset>
                <legend className="mb-1 font-medium">
                  <Trans>Events</Trans>
                </legend>
                <div className="grid gap-x-4 sm:grid-cols-3">
                  {[...EVENTS].map(([e, name]) => (
                    <Check
                      key={e}
                      label={name}
                      checked={events.includes(e)}
                      onChange={(c) =>
                        setEvents(c.target.checked ? [...events, e] : events.filter((other) => other !== e))
                      }
                    />
                  ))}
                </div>
              </fieldset>
              <div className="grid gap-3 sm:grid-cols-3">
                <TextField
                  label={t`Labels`}
                  hint={t`Only with one of these, separated by commas.`}
                  value={labels}
                  onChange={(e) => setLabels(e.target.value)}
                />
                <TextField
                  label={t`Target branches`}
                  hint={t`Such as main, release/*.`}
                  value={branches}
                  onChange={(e) => setBranches(e.target.value)}
                />
                <TextField
                  label={t`Authors`}
                  hint={t`Besides those who may write to the repository.`}
                  value={authors}
                  onChange={(e) => setAuthors(e.target.value)}
                />
              </div>
            </>
          )}
          <TextArea
            label={t`Prompt`}
            hint={
              kind === "schedule" || kind === "manual"
                ? t`Nobody is asked while the agent works.`
                : t`${PLACEHOLDERS} stand for what the event says.`
            }
            rows={5}
            value={prompt}
            onChange={(e) => setPrompt(e.target.value)}
          />
          <div className="grid gap-3 sm:grid-cols-2">
            <AgentSelect agents={usable} value={chosen} onChange={setAgent} />
            <Field label={t`Project`}>
              {(ids) => (
                <select {...ids} className={inputClass} value={project} onChange={(e) => setProject(e.target.value)}>
                  <option value="">{t`None: a sandbox of its own`}</option>
                  {(projects.data ?? []).map((p) => (
                    <option key={p.id} value={p.id}>
                      {p.name}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </div>
          <div className="grid gap-3 sm:grid-cols-4">
            <TextField
              label={t`Minutes at most`}
              inputMode="decimal"
              value={minutes}
              onChange={(e) => setMinutes(e.target.value)}
            />
            <TextField
              label={t`Attempts`}
              inputMode="numeric"
              value={attempts}
              onChange={(e) => setAttempts(e.target.value)}
            />
            <TextField
              label={t`USD a run`}
              hint={t`Empty: no limit.`}
              inputMode="decimal"
              error={limits.run_nano < 0 ? t`This is no amount.` : undefined}
              value={perRun}
              onChange={(e) => setPerRun(e.target.value)}
            />
            <TextField
              label={t`USD a month`}
              inputMode="decimal"
              error={limits.month_nano < 0 ? t`This is no amount.` : undefined}
              value={perMonth}
              onChange={(e) => setPerMonth(e.target.value)}
            />
          </div>
          <Check
            label={t`The agent may run where nothing isolates it`}
            checked={unisolated}
            onChange={(e) => setUnisolated(e.target.checked)}
          />
          {(kind === "git_host" || kind === "webhook") && (
            <details>
              <summary className="text-meta text-accent">
                <Trans>Try it with a sample of an event</Trans>
              </summary>
              <div className="mt-3 flex flex-col gap-4">
                {kind === "git_host" && (
                  <TextField
                    label={t`Name of the event`}
                    hint={t`As GitHub names it in X-GitHub-Event. The page of a webhook there lists what it has sent.`}
                    mono
                    value={sampleOf}
                    onChange={(e) => setSampleOf(e.target.value)}
                  />
                )}
                <TextArea label={t`JSON`} rows={4} mono value={sample} onChange={(e) => setSample(e.target.value)} />
              </div>
            </details>
          )}
          {shown && (
            <div role="status" className="space-y-1 rounded-md bg-bg2 px-3 py-2">
              <p className="font-mono text-code break-words whitespace-pre-wrap">{shown.prompt}</p>
              {shown.ignored && <p className="text-meta text-needs">{shown.ignored}</p>}
              {shown.times.length > 0 && (
                <p className="text-meta text-fg3">
                  <Trans>It would run at {shown.times.map(exact).join(", ")}.</Trans>
                </p>
              )}
              {shown.unknown.length > 0 && (
                <p className="text-meta text-fg3">
                  <Trans>Only an event says: {shown.unknown.join(", ")}</Trans>
                </p>
              )}
            </div>
          )}
          <FormError error={save.error ?? preview.error} />
        </DialogBody>
        <DialogFoot>
          <Button
            type="button"
            disabled={!prompt.trim()}
            busy={preview.busy && t`Looking`}
            onClick={() => void preview.run()}
          >
            <Trans>Dry run</Trans>
          </Button>
          {missing && <span className="text-meta text-fg3">{missing}</span>}
          <Button type="submit" look="primary" disabled={!!missing} busy={save.busy && t`Saving`}>
            <Trans>Save</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
