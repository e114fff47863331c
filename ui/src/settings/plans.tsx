import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError, tell } from "@/api/problem";
import { readUsd, usdField } from "@/costs/amounts";
import type { Quota } from "@/costs/api";
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
import { Check, Field, inputClass, TextArea, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import { Lock } from "./instance-parts";
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
  if (plans.isPending) return <Skeleton rows={5} label="Loading the plans" />;
  if (plans.isError && !plans.data)
    return <Failure what="The plans could not be loaded." error={plans.error} retry={() => void plans.refetch()} />;
  const { items } = plans.data;
  return (
    <section aria-labelledby="plans" className="flex flex-col gap-4">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-2">
        <div className="min-w-0 flex-1 basis-64">
          <h2 id="plans" className="text-title font-semibold">
            Plans
          </h2>
          <p className="max-w-2xl text-fg2">
            What people of a team may use of places that cost. A change holds at once for the teams that have the plan.
          </p>
        </div>
        {open !== "" && (
          <Button look="primary" onClick={() => setOpen("")}>
            New plan
          </Button>
        )}
      </div>
      {open === "" && <PlanForm plan={EMPTY} close={() => setOpen(undefined)} />}
      <ul aria-label="Plans" className="divide-y divide-hairline border-y border-hairline">
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
  const change = useDefaultPlan(() => "The default plan is changed");
  return (
    <Field
      label="Plan of teams that nobody gave one"
      hint="It holds at once for all of them."
      aside={<Lock on={list.default_locked} />}
      error={fieldError(change.error, "default_plan") ?? (change.error ? tell(change.error).message : undefined)}
      className="max-w-md"
    >
      {(ids) => (
        <select
          {...ids}
          value={list.default_plan}
          disabled={list.default_locked || change.isPending}
          onChange={(e) => change.mutate(e.target.value)}
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
  const refresh = usePlansRefresh();
  const remove = useMutation({
    mutationFn: () => deletePlan(p.id),
    onSuccess: refresh,
    onError: (error) => toastError(`The plan ${p.name} was not deleted`, error),
  });
  const ask = async () => {
    const yes = await confirm({
      title: `Delete the plan ${p.name}?`,
      body: "No team may have it.",
      action: "Delete",
      danger: true,
    });
    if (yes) remove.mutate();
  };
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-64">
        <p>
          <span className="font-medium">{p.name}</span> <span className="font-mono text-[12px] text-fg3">{p.id}</span>
          {first && <span className="text-fg2"> · teams have it until they have another</span>}
          {p.offered && <span className="text-fg2"> · offered</span>}
        </p>
        <p className="text-fg2">{planWords(p)}</p>
        <p className="text-meta text-fg3">
          {planPrice(p)}
          {p.description && ` · ${p.description}`}
        </p>
      </div>
      <Button onClick={onOpen} aria-label={`Change ${p.name}`}>
        Change
      </Button>
      {!BUILT_IN_PLANS.includes(p.id) && (
        <Button look="danger" busy={remove.isPending} onClick={() => void ask()} aria-label={`Delete ${p.name}`}>
          Delete
        </Button>
      )}
    </li>
  );
}

function PlanForm({ plan: p, close }: { plan: Plan; close: () => void }) {
  const refresh = usePlansRefresh();
  const isNew = p.id === "";
  const [id, setId] = useState(p.id);
  const [name, setName] = useState(p.name);
  const [description, setDescription] = useState(p.description);
  const [offered, setOffered] = useState(p.offered);
  const [metered, setMetered] = useState(p.metered_usage);
  const [seat, setSeat] = useState(usdField(p.seat_month_nano));
  const [trial, setTrial] = useState(String(p.trial_days));
  const [position, setPosition] = useState(String(p.position));
  const [bounds, setBounds] = useState<Record<keyof Quota, string>>(
    () =>
      Object.fromEntries(FIELDS.map((f) => [f.field, boundText(f.field, p[f.field])])) as Record<keyof Quota, string>,
  );
  const save = useMutation({
    mutationFn: (plan: Plan) => {
      if (isNew) return addPlan(plan);
      const { id: _, ...rest } = plan;
      return changePlan(p.id, rest);
    },
    onSuccess: (made) => {
      refresh();
      toast({ kind: "good", title: `The plan ${made.name} is saved` });
      close();
    },
  });
  const read = Object.fromEntries(FIELDS.map((f) => [f.field, readBound(f.field, bounds[f.field])]));
  const price = readUsd(seat);
  const small = (t: string) => (/^\d{1,4}$/.test(t.trim()) ? Number(t) : undefined);
  const [days, place] = [small(trial || "0"), small(position || "0")];
  const wrong =
    Object.values(read).includes(undefined) || price === undefined || days === undefined || place === undefined;
  const err = (f: string) => fieldError(save.error, f);
  const named = [
    "id",
    "name",
    "description",
    "seat_month_nano",
    "trial_days",
    "position",
    ...FIELDS.map((f) => f.field),
  ];
  return (
    <form
      aria-label={isNew ? "New plan" : `Plan ${p.name}`}
      className="flex flex-col gap-4 rounded-md border border-hairline bg-bg1 p-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (wrong) return;
        save.mutate({
          ...(read as unknown as Quota),
          id: id.trim(),
          name: name.trim(),
          description: description.trim(),
          offered,
          metered_usage: metered,
          seat_month_nano: price ?? 0,
          trial_days: days ?? 0,
          position: place ?? 0,
        });
      }}
    >
      <div className="grid gap-3 sm:grid-cols-2">
        <TextField
          label="Name"
          required
          autoFocus
          maxLength={80}
          value={name}
          error={err("name")}
          onChange={(e) => {
            setName(e.target.value);
            if (isNew && id === slug(name)) setId(slug(e.target.value));
          }}
        />
        {isNew && (
          <TextField
            label="Id"
            required
            mono
            maxLength={40}
            spellCheck={false}
            autoCapitalize="none"
            value={id}
            hint="In the API and in configurations; it stays."
            error={err("id")}
            onChange={(e) => setId(e.target.value)}
          />
        )}
      </div>
      <TextArea
        label="What teams read of it"
        rows={2}
        maxLength={500}
        value={description}
        error={err("description")}
        onChange={(e) => setDescription(e.target.value)}
      />
      <fieldset>
        <legend className="font-medium">What it allows</legend>
        <p className="mb-2 text-meta text-fg3">An empty field does not bind.</p>
        <div className="grid grid-cols-2 gap-3 md:grid-cols-4">
          {FIELDS.map((f) => (
            <TextField
              key={f.field}
              label={f.label}
              inputMode="decimal"
              placeholder="no limit"
              value={bounds[f.field]}
              hint={f.hint}
              error={read[f.field] === undefined ? "A whole number." : err(f.field)}
              onChange={(e) => setBounds({ ...bounds, [f.field]: e.target.value })}
            />
          ))}
        </div>
      </fieldset>
      <fieldset>
        <legend className="mb-2 font-medium">What it costs</legend>
        <div className="grid grid-cols-2 gap-3 md:grid-cols-4">
          <TextField
            label="Dollars a member and month"
            inputMode="decimal"
            placeholder="0"
            value={seat === "0" ? "" : seat}
            error={price === undefined ? "Dollars, such as 20 or 12.50." : err("seat_month_nano")}
            onChange={(e) => setSeat(e.target.value)}
          />
          <TextField
            label="Days to try it"
            inputMode="numeric"
            value={trial}
            error={days === undefined ? "A whole number." : err("trial_days")}
            onChange={(e) => setTrial(e.target.value)}
          />
          <TextField
            label="Place in the list"
            inputMode="numeric"
            value={position}
            error={place === undefined ? "A whole number." : err("position")}
            onChange={(e) => setPosition(e.target.value)}
          />
        </div>
        <Check
          className="mt-2"
          label="What is used is billed on top"
          hint="Time of paid sandboxes is reported to the payment service."
          checked={metered}
          onChange={(e) => setMetered(e.target.checked)}
        />
        <Check
          label="Teams may choose it themselves"
          checked={offered}
          onChange={(e) => setOffered(e.target.checked)}
        />
      </fieldset>
      {!named.some(err) && <FormError error={save.error} />}
      <div className="flex gap-2">
        <Button type="submit" look="primary" disabled={wrong} busy={save.isPending && "Saving"}>
          Save the plan
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </form>
  );
}

/** An id from a name: lower case letters, digits and hyphens. */
const slug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 40);
