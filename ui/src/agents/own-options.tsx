import { useId, useState } from "react";
import { Field, inputClass, TextField } from "@/kit/field";
import { isString, recall, remember } from "@/state/remember";
import { MODES, type Mode, OWN, ownArgs, rememberModel } from "./own";
import { ModelList, useModels } from "./own-models";

export interface OwnChoice {
  model: string;
  mode: Mode;
  setModel: (model: string) => void;
  setMode: (mode: Mode) => void;
  /** The arguments of a session of this agent; undefined for other agents. */
  argv: string[] | undefined;
  /** Remembers the model for the project. */
  keep: () => void;
}

/** The model and the mode of a new session of Parawork's own agent. */
export function useOwnChoice(agent: string, project: string): OwnChoice {
  const [written, setModel] = useState<string>();
  const [mode, setMode] = useState<Mode>("build");
  const model = written ?? recall(`model.${project}`, isString) ?? "";
  return {
    model,
    mode,
    setModel,
    setMode,
    argv: agent === OWN ? ownArgs(model, mode) : undefined,
    keep: () => {
      if (agent !== OWN) return;
      remember(`model.${project}`, model.trim());
      rememberModel(model);
    },
  };
}

/** The fields for them. */
export function OwnOptions({ choice: c, account }: { choice: OwnChoice; account: string }) {
  const list = useId();
  const models = useModels(account);
  const hint =
    models.problem ||
    (models.standard === ""
      ? "The server of this account has models of its own: name one."
      : models.standard && "Leave empty for the default.");
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <div>
        <TextField
          label="Model"
          mono
          list={list}
          maxLength={200}
          spellCheck={false}
          autoCapitalize="none"
          autoComplete="off"
          value={c.model}
          placeholder={models.standard || (models.loading ? "Asking the provider…" : "Name of a model")}
          hint={hint}
          onChange={(e) => c.setModel(e.target.value)}
        />
        <ModelList id={list} names={models.names} />
      </div>
      <Field label="Mode" hint={MODES.find((m) => m.mode === c.mode)?.hint}>
        {(ids) => (
          <select {...ids} className={inputClass} value={c.mode} onChange={(e) => c.setMode(e.target.value as Mode)}>
            {MODES.map((m) => (
              <option key={m.mode} value={m.mode}>
                {m.name}
              </option>
            ))}
          </select>
        )}
      </Field>
    </div>
  );
}
