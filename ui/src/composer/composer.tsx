import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  Suspense,
  type SyntheticEvent,
  useId,
  useRef,
  useState,
} from "react";
import { AccountForm } from "@/agents/account";
import { AgentChoice } from "@/agents/agent-choice";
import { AttachButton, AttachedList, takesFiles } from "@/agents/attach";
import { COMMAND, SHELL } from "@/agents/built-in";
import { OwnOptions } from "@/agents/own-options";
import { Permissions } from "@/agents/permissions";
import type { Project } from "@/api/client";
import { Button } from "@/kit/button";
import { Chip } from "@/kit/chip";
import { Combobox } from "@/kit/combobox";
import { Check, TextField } from "@/kit/field";
import { Kbd } from "@/kit/kbd";
import { lazy } from "@/kit/part";
import { FormError } from "@/kit/states";
import { PlaceChoice } from "@/sandboxes/place-choice";
import { sizeId, sizeName } from "@/sandboxes/remote-words";
import { placeId } from "@/sandboxes/which";
import { isCoarse } from "@/state/look";
import { useMe } from "@/state/team";
import { toast } from "@/state/toasts";
import { BaseBranch, BranchNotes } from "./base-branch";
import { MentionList, useMention } from "./mention";
import { firstTries, Several } from "./several";
import { type Composing, useComposing } from "./use-composing";

const MachineTerms = lazy(() => import("@/sandboxes/machine-terms"));
const RegionChoice = lazy(() => import("@/sandboxes/region-choice"));
const WhyNew = lazy(() => import("@/sandboxes/why").then((m) => ({ default: m.WhyNew })));

interface Props {
  projects: Project[];
  first: Project;
  /** The page is for it: it takes the focus. */
  focused?: boolean;
}

/** A new workspace from one box: what to do, and a chip for each choice that has a good default. */
export function Composer({ projects, first, focused }: Props) {
  const c = useComposing(projects, first);
  const me = useMe();
  const box = useRef<HTMLTextAreaElement>(null);
  const why = useId();
  const mention = useMention(c.project.id, c.base || c.project.default_branch, box, c.prompt, c.setPrompt);
  const needs = !c.several && c.choice.info?.needs_account ? c.choice.info : undefined;
  const command = !c.several && c.choice.agent === COMMAND;

  const onKey = (e: KeyboardEvent<HTMLTextAreaElement>) => {
    if (e.nativeEvent.isComposing || mention.list.onKey(e)) return;
    // A phone's keyboard has no Shift+Enter: there the button creates.
    if (e.key === "Enter" && !e.shiftKey && !e.altKey && !e.ctrlKey && !e.metaKey && !isCoarse()) {
      e.preventDefault();
      c.go();
    }
  };

  return (
    <form
      aria-label={t`New workspace`}
      className="flex min-h-0 flex-1 flex-col"
      onSubmit={(e) => {
        e.preventDefault();
        c.go();
      }}
      onKeyDown={(e) => {
        if ((e.ctrlKey || e.metaKey) && e.key === "Enter") {
          e.preventDefault();
          c.go();
        }
      }}
      {...(c.attachments.takes ? takesFiles(c.attachments) : refusesFiles(c))}
    >
      <div className="flex min-h-0 flex-1 flex-col gap-2.5 overflow-y-auto px-4 py-3 -outline-offset-2 md:px-5">
        <div className="relative shrink-0 rounded-md border border-control bg-bg0 has-[textarea:focus-visible]:border-accent has-[textarea:focus-visible]:outline-1 has-[textarea:focus-visible]:outline-accent">
          {c.attachments.takes && <AttachedList files={c.attachments} />}
          <textarea
            ref={box}
            // biome-ignore lint/a11y/noAutofocus: what a new workspace begins with
            autoFocus={focused}
            data-first
            aria-label={command ? t`Command` : t`Prompt`}
            {...mention.list.field}
            placeholder={placeholder(c)}
            value={c.prompt}
            rows={4}
            maxLength={1_048_576}
            spellCheck={!command}
            enterKeyHint="enter"
            onChange={(e) => {
              c.setPrompt(e.target.value);
              mention.onSelect(e);
            }}
            onSelect={mention.onSelect}
            onKeyDown={onKey}
            className={`field-sizing-content block max-h-[38vh] min-h-24 w-full resize-none bg-transparent px-3 py-2.5 leading-5 outline-none pointer-coarse:text-touch ${command ? "font-mono text-code" : ""}`}
          />
        </div>
        <MentionList list={mention.list} />
        <div role="group" aria-label={t`Choices`} className="flex flex-wrap items-center gap-1.5">
          {c.attachments.takes && <AttachButton onFiles={c.attachments.add} />}
          <Combobox
            chip
            label={t`Project`}
            value={c.project.id}
            onChange={c.setProject}
            options={projects.map((p) => ({ value: p.id, text: p.name }))}
          />
          <BaseBranch project={c.project} value={c.base} onChange={c.setBase} />
          {!c.several && <AgentChip c={c} />}
          <AttemptsChip c={c} />
          <PlaceChip c={c} />
          {!c.several && c.choice.info?.takes_permissions && (
            <Chip
              label={t`Permissions`}
              value={c.permissions.all ? "All permissions" : "Asks first"}
              warn={c.permissions.all && !c.isolated}
            >
              <Permissions value={c.permissions} onChange={c.setPermissions} isolated={c.isolated} />
            </Chip>
          )}
          <MoreChip c={c} />
        </div>
        <BranchNotes project={c.project} value={c.base} onChange={c.setBase} />
        {needs && (
          <section aria-label={t`An account for ${needs.name}`} className="flex flex-col gap-1.5">
            <p className="text-fg2">
              <Trans>{needs.name} needs an account. You are asked once.</Trans>
            </p>
            <AccountForm
              key={needs.agent}
              agent={needs.agent}
              name={needs.name}
              existingLogin={me.limits.existing_login}
              brief
              onSaved={(a) => {
                c.choice.setAccount(a.id);
                box.current?.focus();
              }}
            />
          </section>
        )}
        <FormError error={c.error} />
      </div>
      <footer className="flex flex-wrap items-center justify-end gap-x-3 gap-y-2 border-t border-hairline px-4 py-3 pb-[max(12px,env(safe-area-inset-bottom))] md:px-5">
        <p id={why} role="status" className="min-w-0 flex-1 text-meta text-fg2">
          {c.reason || <Derived c={c} />}
        </p>
        <Button
          type="submit"
          look="primary"
          aria-describedby={why}
          disabled={c.reason !== ""}
          busy={c.busy && t`Creating`}
        >
          {c.several ? t`Run and compare` : t`Create`}
          {!isCoarse() && <Kbd keys="enter" onFill />}
        </Button>
      </footer>
    </form>
  );
}

/** A file that is dropped where none is taken must not open in the place of the page. */
const refusesFiles = (c: Composing) => ({
  onDragOver: (e: DragEvent) => e.dataTransfer.types.includes("Files") && e.preventDefault(),
  onDrop: (e: DragEvent) => {
    if (e.dataTransfer.files.length > 0) refuseFiles(e, c);
  },
  onPaste: (e: ClipboardEvent) => {
    if (e.clipboardData.files.length > 0) refuseFiles(e, c);
  },
});

function refuseFiles(e: SyntheticEvent, c: Composing): void {
  e.preventDefault();
  toast({
    kind: "bad",
    title: t`Not attached`,
    text: c.several
      ? t`Several attempts take no files. Name files of the branch with @.`
      : t`${c.choice.info?.name ?? t`What you chose`} takes no files with its prompt. Name files of the branch with @.`,
  });
}

function placeholder(c: Composing): string {
  if (c.several) return t`What should they do? @ names a file.`;
  if (c.choice.agent === COMMAND) return "npm run dev";
  if (c.choice.agent === SHELL || c.choice.agent === "") return t`What is it for? The workspace is named after it.`;
  return t`What should ${c.choice.info?.name ?? t`the agent`} do? @ names a file. Empty: it waits for you.`;
}

/** What the workspace will be called, once there is something to call it after. */
function Derived({ c }: { c: Composing }) {
  if (c.several || !c.suggested) return null;
  return (
    <span className="flex min-w-0 items-baseline gap-1.5 max-md:hidden">
      <span className="shrink-0">
        <Trans>On branch</Trans>
      </span>
      <span className="truncate font-mono text-code text-fg3">{c.branch ?? c.suggested}</span>
    </span>
  );
}

function AgentChip({ c }: { c: Composing }) {
  const { choice, own } = c;
  const name =
    choice.agent === SHELL
      ? t`Shell`
      : choice.agent === COMMAND
        ? t`A command`
        : choice.agent === ""
          ? t`No agent`
          : (choice.info?.name ?? t`Agent`);
  const model = own.argv ? own.start.model.trim() : "";
  return (
    <Chip label={t`Agent and model`} value={model ? `${name}, ${model}` : name} warn={!choice.ready} wide>
      <AgentChoice query={c.agents} choice={choice} withShell withNone accountElsewhere />
      {own.argv && choice.ready && <OwnOptions start={own.start} onChange={own.set} account={choice.account} />}
    </Chip>
  );
}

function AttemptsChip({ c }: { c: Composing }) {
  const n = c.tries?.length ?? 1;
  return (
    <Chip label={t`Attempts`} value={plural(n, { one: "# attempt", other: "# attempts" })} wide>
      {c.tries ? (
        <>
          <Several agents={c.agents.data} tries={c.tries} onChange={c.setTries} />
          <Button className="self-start" onClick={() => c.setTries(undefined)}>
            <Trans>Run with one agent</Trans>
          </Button>
        </>
      ) : (
        <>
          <p className="text-fg2">
            <Trans>
              Give the same prompt to several agents, each in a workspace of its own. Compare what they did and keep
              one.
            </Trans>
          </p>
          <Button
            className="self-start"
            disabled={c.agents.data === undefined}
            onClick={() => c.setTries(firstTries(c.agents.data, c.choice.agent))}
          >
            <Trans>Run with several agents</Trans>
          </Button>
        </>
      )}
    </Chip>
  );
}

function PlaceChip({ c }: { c: Composing }) {
  const [why, setWhy] = useState(false);
  const there = c.there;
  const region = there?.regions?.find((r) => r.executor === c.wish);
  const words = [there?.name ?? "", region?.name ?? "", c.size ? sizeName(c.size) : ""].filter(Boolean).join(", ");
  const field = c.placeError;
  return (
    <Chip
      label={t`Where it runs`}
      value={words || (c.executors.isPending ? "Looking for places…" : "Choose where it runs")}
      warn={(there === undefined && !c.executors.isPending) || field !== undefined}
      wide
    >
      <PlaceChoice
        query={c.executors}
        fold
        value={there ? placeId(there) : c.place}
        onChange={c.setPlace}
        error={field}
        size={c.size && sizeId(c.size)}
        onSize={c.several ? undefined : c.setSize}
        fallback={c.fallback}
        onFallback={c.several ? undefined : c.setFallback}
      />
      {there?.regions && !c.several && (
        <Suspense>
          <RegionChoice
            place={there.kind}
            name={there.name}
            regions={there.regions}
            mine={c.mine}
            value={c.wish}
            onChange={c.setRegion}
          />
        </Suspense>
      )}
      {!c.several && (
        <Button className="self-start" aria-expanded={why} onClick={() => setWhy(!why)}>
          <Trans>Why here?</Trans>
        </Button>
      )}
      {why && !c.several && (
        <Suspense>
          <WhyNew projectId={c.project.id} place={c.chosenByHand ? c.wish : ""} mine={c.mine} />
        </Suspense>
      )}
      {c.machine && !c.several && (
        <Suspense>
          <MachineTerms
            key={`${c.machine} ${c.project.id}`}
            machineId={c.machine}
            project={c.project}
            folder={c.folder}
            onFolder={c.setFolder}
          />
        </Suspense>
      )}
    </Chip>
  );
}

function MoreChip({ c }: { c: Composing }) {
  return (
    <Chip
      label={t`Name, branch and privacy`}
      value={c.secret ? "Private" : c.name.trim() || "Name"}
      warn={c.fieldError("name") !== undefined || c.fieldError("branch") !== undefined}
    >
      <TextField
        label={t`Name`}
        hint={
          c.several ? t`Leave empty to use the beginning of the prompt.` : t`From the prompt. You can rename it later.`
        }
        maxLength={200}
        placeholder={c.derivedName}
        value={c.name}
        error={c.fieldError("name")}
        onChange={(e) => c.setName(e.target.value)}
      />
      {!c.several && (
        <TextField
          label={t`Branch`}
          mono
          spellCheck={false}
          autoCapitalize="none"
          value={c.branch ?? c.suggested}
          placeholder={t`From the name`}
          error={c.fieldError("branch")}
          hint={c.branch === undefined ? t`Generated from the name. You can change it.` : undefined}
          onChange={(e) => c.setBranch(e.target.value)}
          onBlur={() => c.branch?.trim() === "" && c.setBranch(undefined)}
        />
      )}
      {!c.several && (
        <Check
          label={t`Private`}
          hint={t`Only you can see the workspace. Its branch is still visible in the project's repository.`}
          checked={c.secret}
          onChange={(e) => c.setSecret(e.target.checked)}
        />
      )}
    </Chip>
  );
}
