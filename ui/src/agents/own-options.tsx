import { t } from "@lingui/core/macro";
import { useId, useState } from "react";
import { Field, inputClass, TextField } from "@/kit/field";
import { isString, recall, remember } from "@/state/remember";
import { EFFORTS, type Effort, MODES, type Mode, OWN, OWN_START, type OwnStart, ownArgs, rememberModel } from "./own";
import { ModelList, useModels } from "./own-models";

export interface OwnChoice {
  start: OwnStart;
  set: (start: OwnStart) => void;
  /** The arguments of a session of this agent; undefined for other agents. */
  argv: string[] | undefined;
  /** Remembers the model for the project. */
  keep: () => void;
}

/** The model, the mode and the effort of a new session of Parawork's own agent. */
export function useOwnChoice(agent: string, project: string): OwnChoice {
  const [written, set] = useState<OwnStart>();
  const start = written ?? { ...OWN_START, model: recall(`model.${project}`, isString) ?? "" };
  return {
    start,
    set,
    argv: agent === OWN ? ownArgs(start) : undefined,
    keep: () => {
      if (agent !== OWN) return;
      remember(`model.${project}`, start.model.trim());
      rememberModel(start.model);
    },
  };
}

/** The fields for them; of: says in their names whose they are, where there are several. */
export function OwnOptions({
  start,
  onChange,
  account,
  of = "",
}: {
  start: OwnStart;
  onChange: (start: OwnStart) => void;
  account: string;
  of?: string;
}) {
  const list = useId();
  const models = useModels(account);
  const hint =
    models.problem ||
    (models.standard === ""
      ? t`The server of this account has models of its own: name one.`
      : models.standard && t`Leave empty for the default.`);
  return (
    <div className="grid w-full gap-4 sm:grid-cols-3">
      <div>
        <TextField
          label={t`Model${of}`}
          mono
          list={list}
          maxLength={200}
          spellCheck={false}
          autoCapitalize="none"
          autoComplete="off"
          value={start.model}
          placeholder={models.standard || (models.loading ? t`Asking the provider…` : t`Name of a model`)}
          hint={hint}
          onChange={(e) => onChange({ ...start, model: e.target.value })}
        />
        <ModelList id={list} names={models.names} />
      </div>
      <Field label={t`Mode${of}`} hint={MODES.find((m) => m.mode === start.mode)?.hint}>
        {(ids) => (
          <select
            {...ids}
            className={inputClass}
            value={start.mode}
            onChange={(e) => onChange({ ...start, mode: e.target.value as Mode })}
          >
            {MODES.map((m) => (
              <option key={m.mode} value={m.mode}>
                {m.name}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={t`Effort${of}`} hint={t`How much the model thinks.`}>
        {(ids) => (
          <select
            {...ids}
            className={inputClass}
            value={start.effort}
            onChange={(e) => onChange({ ...start, effort: e.target.value as Effort })}
          >
            {EFFORTS.map((e) => (
              <option key={e.effort} value={e.effort}>
                {e.name}
              </option>
            ))}
          </select>
        )}
      </Field>
    </div>
  );
}
