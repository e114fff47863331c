import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { executorsQuery } from "@/api/queries";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Check, Field, inputClass, TextField } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { placeKeys } from "@/sandboxes/queries";
import { type Place, remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import { amount, instanceQuery, saveInstance, wrongNumber } from "./instance-api";
import { E2B } from "./instance-e2b";
import { errorOf, Lock, Locked, PartError, type PartProps, sent } from "./instance-parts";
import { Pool } from "./instance-pool";

/** What operators say of the places of the whole server. What config.json says is shown and cannot be changed here. */
export default function InstancePlacesSettings() {
  const team = useTeam();
  const client = useQueryClient();
  const settings = useQuery(instanceQuery());
  const places = useQuery(executorsQuery(team.slug));
  const save = useMutation({
    mutationFn: saveInstance,
    onSuccess: (now, patch) => {
      client.setQueryData(remoteKeys.instance, now);
      void client.invalidateQueries({ queryKey: ["team", team.slug, "executors"] });
      void client.invalidateQueries({ queryKey: placeKeys.policy(team.slug) });
      const test = patch.e2b?.api_key ? now.test : undefined;
      toast(
        test && !test.ok
          ? {
              kind: "bad",
              title: "Saved, but not tried",
              text: [sentence(test.reason ?? ""), sentence(test.cure ?? "")].join(" "),
            }
          : { kind: "good", title: "Saved", text: test?.account ? sentence(test.account) : undefined },
      );
    },
  });
  if (settings.isPending) return <Skeleton rows={5} label="Loading the server's places" />;
  if (settings.isError && !settings.data)
    return (
      <Failure
        what="The server's places could not be loaded."
        error={settings.error}
        retry={() => void settings.refetch()}
      />
    );
  const e2b = places.data?.find((p) => p.kind === "e2b");
  return (
    <section aria-labelledby="instance-places" className="flex flex-col gap-7">
      <div>
        <h2 id="instance-places" className="mb-1 text-title font-semibold">
          The whole server
        </h2>
        <p className="text-fg2">For operators. A value with a lock is set in config.json or the environment.</p>
      </div>
      <General settings={settings.data} places={places.data?.filter((p) => !p.runner_id) ?? []} save={save} />
      <E2B settings={settings.data} place={e2b} save={save} />
      <Pool settings={settings.data} place={e2b} save={save} />
    </section>
  );
}

function General({ settings: s, places, save }: PartProps & { places: Place[] }) {
  const [place, setPlace] = useState(s.default_executor.value);
  const [choice, setChoice] = useState(s.allow_user_choice.value);
  const [budget, setBudget] = useState(amount(s.monthly_budget_usd.value));
  const mine = sent(save, "default_executor", "allow_user_choice", "monthly_budget_usd");
  const wrong = wrongNumber(budget);
  const named = ["default_executor", "monthly_budget_usd"].some((f) => errorOf(save, undefined, f));
  return (
    <form
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        if (wrong) return;
        save.mutate({
          ...(s.default_executor.locked ? {} : { default_executor: place }),
          ...(s.allow_user_choice.locked ? {} : { allow_user_choice: choice }),
          ...(s.monthly_budget_usd.locked ? {} : { monthly_budget_usd: Number(budget || 0) }),
        });
      }}
    >
      <Field
        label="Place for workspaces that name none"
        aside={<Lock on={s.default_executor.locked} />}
        hint="Teams and projects may name another."
        error={mine ? errorOf(save, undefined, "default_executor") : undefined}
      >
        {(ids) => (
          <select
            {...ids}
            className={inputClass}
            disabled={s.default_executor.locked}
            value={place}
            onChange={(e) => setPlace(e.target.value)}
          >
            <option value="auto">The strongest on this server</option>
            {place !== "auto" && !places.some((p) => p.kind === place) && <option value={place}>{place}</option>}
            {places.map((p) => (
              <option key={p.kind} value={p.kind}>
                {p.name}
                {p.available ? "" : " (cannot be used now)"}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Locked on={s.allow_user_choice.locked}>
        <Check
          label="People may choose the place of their workspaces"
          hint="A team can forbid it to its members."
          checked={choice}
          disabled={s.allow_user_choice.locked}
          onChange={(e) => setChoice(e.target.checked)}
        />
      </Locked>
      <TextField
        label="Budget a month in dollars"
        inputMode="numeric"
        className="max-w-40"
        aside={<Lock on={s.monthly_budget_usd.locked} />}
        hint="For places that cost, all teams together. At 100 % no new sandbox starts there. Empty for none."
        disabled={s.monthly_budget_usd.locked}
        value={budget}
        error={wrong ?? (mine ? errorOf(save, undefined, "monthly_budget_usd") : undefined)}
        onChange={(e) => setBudget(e.target.value)}
      />
      <PartError save={save} mine={mine} named={named} />
      <Button
        type="submit"
        look="primary"
        className="self-start"
        disabled={
          Boolean(wrong) || (s.default_executor.locked && s.allow_user_choice.locked && s.monthly_budget_usd.locked)
        }
        busy={mine && save.isPending && "Saving"}
      >
        Save for the server
      </Button>
    </form>
  );
}
