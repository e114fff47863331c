import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError, tell } from "@/api/problem";
import type { Quota } from "@/costs/api";
import { dollarsOrNothing } from "@/costs/codecs";
import {
  addPlan,
  BUILT_IN_PLANS,
  changePlan,
  deletePlan,
  type Plan,
  type PlanList,
  plansQuery,
} from "@/costs/operator-api";
import { boundText, FIELDS, planPrice, planWords, readBound } from "@/costs/plans";
import { useDefaultPlan } from "@/costs/use-default-plan";
import { usePlansRefresh } from "@/costs/use-refresh";
import { Button } from "@/kit/button";
import { Field, inputClass } from "@/kit/field";
import { SettingsForm } from "@/kit/settings/form";
import { Lock } from "@/kit/settings/lock";
import type { Codec, Entry, Typed } from "@/kit/settings/schema";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { toast } from "@/state/toasts";
import { TeamsPlans } from "./team-plan";

const EMPTY: Plan = {
  id: "",
  name: "",
  description: "",
  position: 10,
  offered: false,
  hours_month: null,
  concurrent: null,
  concurrent_team: null,
  cpus: null,
  memory_mb: null,
  session_minutes: null,
  creations_hour: null,
  seats: null,
  seat_month_nano: 0,
  trial_days: 0,
  metered_usage: false,
};

/** What teams may choose or are given. For operators. */
export default function PlansSettings() {
  const plans = useQuery(plansQuery());
  const [open, setOpen] = useState<string | undefined>(); // "" is a new one
  if (plans.isPending) return <Skeleton rows={5} label={t`Loading the plans`} />;
  if (plans.isError && !plans.data)
    return <Failure what={t`The plans could not be loaded.`} error={plans.error} retry={() => void plans.refetch()} />;
  const { items } = plans.data;
  return (
    <section aria-labelledby="plans" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="plans" className="text-title font-semibold">
            <Trans>Plans</Trans>
          </h2>
          <p className="max-w-2xl text-fg2">
            <Trans>
              What members of a team may use of paid places. Changes apply immediately to teams with the plan.
            </Trans>
          </p>
        </div>
        {open !== "" && (
          <Button look="primary" onClick={() => setOpen("")}>
            <Trans>New plan</Trans>
          </Button>
        )}
      </div>
      {open === "" && <PlanForm plan={EMPTY} close={() => setOpen(undefined)} />}
      <ul aria-label={t`Plans`} className="divide-y divide-hairline border-y border-hairline">
        {items.map((p) =>
          open === p.id ? (
            <li key={p.id} className="py-2">
              <PlanForm plan={p} close={() => setOpen(undefined)} />
            </li>
          ) : (
            <PlanRow key={p.id} plan={p} first={p.id === plans.data.default_plan} onOpen={() => setOpen(p.id)} />
          ),
        )}
      </ul>
      <DefaultPlan list={plans.data} />
      <TeamsPlans plans={items} />
    </section>
  );
}

/** What teams have that nobody gave a plan. */
function DefaultPlan({ list }: { list: PlanList }) {
  const change = useDefaultPlan(() => t`The default plan is changed`);
  return (
    <Field
      label={t`Default plan`}
      hint={t`It applies immediately to teams without their own plan.`}
      aside={<Lock on={list.default_locked} />}
      error={fieldError(change.error, "default_plan") ?? (change.error ? tell(change.error).message : undefined)}
      className="max-w-md"
    >
      {(ids) => (
        <select
          {...ids}
          value={list.default_plan}
          disabled={list.default_locked || change.busy}
          onChange={(e) => void change.run(e.target.value)}
          className={inputClass}
        >
          {list.items.map((p) => (
            <option key={p.id} value={p.id}>
              {p.name}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function PlanRow({ plan: p, first, onOpen }: { plan: Plan; first: boolean; onOpen: () => void }) {
  const remove = useAction({
    act: () => deletePlan(p.id),
    confirm: {
      title: t`Delete the plan ${p.name}?`,
      body: t`Only possible if no team has it.`,
      action: t`Delete`,
      danger: true,
    },
    done: usePlansRefresh(),
    failed: t`The plan ${p.name} was not deleted`,
  });
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-64">
        <p>
          <span className="font-medium">{p.name}</span> <span className="font-mono text-code text-fg3">{p.id}</span>
          {first && (
            <span className="text-fg2">
              {" "}
              <Trans>· teams have it until they have another</Trans>
            </span>
          )}
          {p.offered && (
            <span className="text-fg2">
              {" "}
              <Trans>· offered</Trans>
            </span>
          )}
        </p>
        <p className="text-fg2">{planWords(p)}</p>
        <p className="text-meta text-fg3">
          {planPrice(p)}
          {p.description && ` · ${p.description}`}
        </p>
      </div>
      <Button onClick={onOpen} aria-label={t`Change ${p.name}`}>
        <Trans>Change</Trans>
      </Button>
      {!BUILT_IN_PLANS.includes(p.id) && (
        <Button look="danger" busy={remove.busy} onClick={() => void remove.run()} aria-label={t`Delete ${p.name}`}>
          <Trans>Delete</Trans>
        </Button>
      )}
    </li>
  );
}

const SMALL: Codec<number> = {
  format: String,
  parse: (text) => (/^\d{0,4}$/.test(text.trim()) ? Number(text) : undefined),
  message: t`A whole number.`,
};

const bound = (field: keyof Quota): Codec<number | null> => ({
  format: (v) => boundText(field, v),
  parse: (text) => readBound(field, text),
  message: t`A whole number.`,
});

const GRID = "grid grid-cols-2 gap-3 md:grid-cols-4";

const planFields = (isNew: boolean, typed: Typed<Plan>): Entry<Plan>[] => [
  {
    className: "grid gap-3 sm:grid-cols-2",
    fields: [
      {
        name: "name",
        label: t`Name`,
        type: "text",
        derive: (name) => (isNew && typed.id === slug(typed.name) ? { id: slug(name) } : {}),
        input: { required: true, autoFocus: true, maxLength: 80 },
      },
      ...(isNew ? [ID] : []),
    ],
  },
  { name: "description", label: t`Description for teams`, type: "area", rows: 2, input: { maxLength: 500 } },
  {
    legend: t`Limits`,
    hint: t`Leave a field empty for no limit.`,
    className: GRID,
    fields: FIELDS.map((f) => ({
      name: f.field,
      label: f.label,
      type: "text",
      codec: bound(f.field),
      placeholder: t`no limit`,
      hint: f.hint,
      input: { inputMode: "decimal" },
    })),
  },
  {
    legend: t`Price`,
    fields: [
      {
        className: GRID,
        fields: [
          {
            name: "seat_month_nano",
            label: t`Dollars per member per month`,
            type: "text",
            codec: dollarsOrNothing(t`Dollars, such as 20 or 12.50.`),
            placeholder: "0",
            input: { inputMode: "decimal" },
          },
          {
            name: "trial_days",
            label: t`Trial days`,
            type: "text",
            codec: SMALL,
            input: { inputMode: "numeric" },
          },
          {
            name: "position",
            label: t`Position in the list`,
            type: "text",
            codec: SMALL,
            input: { inputMode: "numeric" },
          },
        ],
      },
      {
        name: "metered_usage",
        label: t`Bill usage in addition`,
        type: "boolean",
        hint: t`Time of paid sandboxes is reported to the payment service.`,
        className: "mt-2",
      },
      { name: "offered", label: t`Teams can choose it themselves`, type: "boolean" },
    ],
  },
];

const ID: Entry<Plan> = {
  name: "id",
  label: t`Id`,
  type: "text",
  mono: true,
  hint: t`Used in the API and in configurations. It cannot change.`,
  input: { required: true, maxLength: 40 },
};

function PlanForm({ plan: p, close }: { plan: Plan; close: () => void }) {
  const refresh = usePlansRefresh();
  const isNew = p.id === "";
  return (
    <SettingsForm
      label={isNew ? t`New plan` : t`Plan ${p.name}`}
      className="gap-4 panel p-3"
      create={isNew}
      loaded={p}
      fields={(typed) => planFields(isNew, typed)}
      save={(changed, plan) => (isNew ? addPlan(plan) : changePlan(p.id, changed))}
      onSaved={(made) => {
        refresh();
        toast({ kind: "good", title: t`The plan ${made.name} is saved` });
        close();
      }}
      button={t`Save the plan`}
      cancel={close}
    />
  );
}

/** An id from a name: lower case letters, digits and hyphens. */
const slug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 40);
