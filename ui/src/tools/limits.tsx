import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";

interface Owner {
  team: string;
  /** Absent: the limits are the whole team's. */
  project?: string;
}

const NANO = 1e9;

/** What a turn of Parawork's own agent may take at most in a project, or in all of a team. */
export default function TurnLimits({ team, project, readOnly }: Owner & { readOnly: boolean }) {
  const client = useQueryClient();
  const key = ["agent-limits", team, project ?? ""];
  const kept = useQuery({
    queryKey: key,
    queryFn: () =>
      data(
        project
          ? api.GET("/projects/{id}/agent-limits", { params: { path: { id: project } } })
          : api.GET("/teams/{team}/agent-limits", { params: { path: { team } } }),
      ),
  });
  const [typed, setTyped] = useState<Partial<Record<"steps" | "minutes" | "dollars", string>>>({});
  const k = kept.data;
  const shown = {
    steps: typed.steps ?? k?.max_steps?.toString() ?? "",
    minutes: typed.minutes ?? k?.max_minutes?.toString() ?? "",
    dollars: typed.dollars ?? (k?.max_cost_nano_usd ? String(k.max_cost_nano_usd / NANO) : ""),
  };
  const save = useMutation({
    mutationFn: () => {
      const body = {
        max_steps: shown.steps === "" ? null : Number(shown.steps),
        max_minutes: shown.minutes === "" ? null : Number(shown.minutes),
        max_cost_nano_usd: shown.dollars === "" ? null : Math.round(Number(shown.dollars) * NANO),
      };
      return data(
        project
          ? api.PUT("/projects/{id}/agent-limits", { params: { path: { id: project } }, body })
          : api.PUT("/teams/{team}/agent-limits", { params: { path: { team } }, body }),
      );
    },
    onSuccess: (saved) => {
      client.setQueryData(key, saved);
      setTyped({});
    },
  });
  const field = (name: "steps" | "minutes" | "dollars", label: string, max: number, step: string) => (
    <TextField
      label={label}
      type="number"
      inputMode="decimal"
      min={step}
      max={max}
      step={step}
      placeholder={t`No limit`}
      readOnly={readOnly || !k}
      value={shown[name]}
      onChange={(e) => setTyped({ ...typed, [name]: e.target.value })}
      fieldClass="min-w-0 flex-1 basis-32"
    />
  );
  return (
    <form
      aria-label={t`Limits of a turn`}
      className="flex flex-col gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <h3 className="font-semibold">
        <Trans>Limits of a turn</Trans>
      </h3>
      <p className="text-fg2">
        <Trans>
          A turn ends at the smallest of these limits, the server’s{project ? t`, the team’s` : ""} and the session’s. A
          prompt continues it.
        </Trans>
      </p>
      <div className="flex flex-wrap gap-3">
        {field("steps", t`Answers`, 10_000, "1")}
        {field("minutes", t`Minutes`, 10_080, "1")}
        {field("dollars", t`US dollars`, 1_000_000, "0.01")}
      </div>
      <FormError error={save.error ?? kept.error} />
      {Object.keys(typed).length > 0 && (
        <Button type="submit" className="self-start" busy={save.isPending && t`Saving`}>
          <Trans>Save limits</Trans>
        </Button>
      )}
    </form>
  );
}
