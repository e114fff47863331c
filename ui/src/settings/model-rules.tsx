import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { type Draft, draftOf, limitOfDraft, type ModelLimits, modelKeys, saveLimits, wrongRule } from "@/costs/models";
import { Button } from "@/kit/button";
import { Check, inputClass } from "@/kit/field";
import { SettingsForm } from "@/kit/settings/form";
import { toast } from "@/state/toasts";

/** Which models may be asked and how often: edited together, saved as a whole. Without a team they are the whole server's. */
export function ModelRules({ rules, team, editable }: { rules: ModelLimits; team?: string; editable: boolean }) {
  const client = useQueryClient();
  return (
    <SettingsForm
      label={team ? t`The team's rules` : t`Rules for every team`}
      className="gap-3"
      loaded={{ rules: rules.items.map(draftOf) }}
      fields={[
        {
          name: "rules",
          label: t`Rules`,
          type: "custom",
          check: (drafts) => (drafts.some((d) => wrongRule(d, drafts)) ? t`A rule is incomplete.` : undefined),
          render: ({ value, set }) => <Rules drafts={value} editable={editable} onChange={set} />,
        },
      ]}
      save={(_, all) => saveLimits(all.rules.map(limitOfDraft), team)}
      onSaved={(now) => {
        client.setQueryData(modelKeys.limits(team), now);
        toast({ title: t`Saved. It applies within seconds.` });
      }}
      button={editable ? t`Save the rules` : ""}
    />
  );
}

interface RulesProps {
  drafts: Draft[];
  editable: boolean;
  onChange: (drafts: Draft[]) => void;
}

function Rules({ drafts, editable, onChange }: RulesProps) {
  const change = (key: number, patch: Partial<Draft>) =>
    onChange(drafts.map((d) => (d.key === key ? { ...d, ...patch } : d)));
  const next = Math.max(-1, ...drafts.map((d) => d.key)) + 1;
  return (
    <>
      {drafts.length === 0 && (
        <p className="text-fg3">
          <Trans>No rules: every model is allowed, as often as its provider permits.</Trans>
        </p>
      )}
      <ul className="flex flex-col gap-3">
        {drafts.map((d) => (
          <Rule
            key={d.key}
            draft={d}
            all={drafts}
            editable={editable}
            change={change}
            remove={() => onChange(drafts.filter((x) => x.key !== d.key))}
          />
        ))}
      </ul>
      {editable && (
        <Button
          className="self-start"
          onClick={() => onChange([...drafts, { key: next, model: "", allowed: true, requests: "", tokens: "" }])}
        >
          <Trans>Add a rule</Trans>
        </Button>
      )}
    </>
  );
}

function Rule({
  draft: d,
  all,
  editable,
  change,
  remove,
}: {
  draft: Draft;
  all: Draft[];
  editable: boolean;
  change: (key: number, patch: Partial<Draft>) => void;
  remove: () => void;
}) {
  const wrong = d.model === "" ? undefined : wrongRule(d, all);
  const id = `rule-${d.key}`;
  return (
    <li className="panel p-3">
      <fieldset disabled={!editable} className="flex flex-wrap items-end gap-3">
        <legend className="sr-only">
          <Trans>Rule for {d.model || t`a model`}</Trans>
        </legend>
        <label className="min-w-40 flex-1">
          <span className="mb-1 block font-medium">
            <Trans>Model</Trans>
          </span>
          <input
            required
            maxLength={200}
            value={d.model}
            placeholder="claude-opus-*"
            aria-invalid={wrong ? true : undefined}
            aria-describedby={wrong ? id : undefined}
            onChange={(e) => change(d.key, { model: e.target.value })}
            className={inputClass}
          />
        </label>
        <label className="w-32">
          <span className="mb-1 block font-medium">
            <Trans>Requests per minute</Trans>
          </span>
          <input
            inputMode="numeric"
            value={d.requests}
            placeholder={t`no limit`}
            onChange={(e) => change(d.key, { requests: e.target.value })}
            className={inputClass}
          />
        </label>
        <label className="w-32">
          <span className="mb-1 block font-medium">
            <Trans>Tokens per minute</Trans>
          </span>
          <input
            inputMode="numeric"
            value={d.tokens}
            placeholder={t`no limit`}
            onChange={(e) => change(d.key, { tokens: e.target.value })}
            className={inputClass}
          />
        </label>
        <Check label={t`Allowed`} checked={d.allowed} onChange={(e) => change(d.key, { allowed: e.target.checked })} />
        {editable && (
          <Button look="quiet" onClick={remove} aria-label={t`Remove the rule for ${d.model || t`a model`}`}>
            <Trans>Remove</Trans>
          </Button>
        )}
      </fieldset>
      {wrong && (
        <p id={id} className="mt-1 text-meta text-failed">
          {wrong}
        </p>
      )}
    </li>
  );
}
