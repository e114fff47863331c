import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useState } from "react";
import { api, data } from "@/api/client";
import { keys } from "@/api/queries";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { cx } from "@/kit/cx";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { placeKeys } from "@/sandboxes/queries";
import { type Place, remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import { type PlaceSettings, savePlace } from "./instance-api";
import { PlaceForm } from "./place-form";
import { PlaceMark } from "./place-mark";

interface RowProps {
  place: PlaceSettings;
  executor: Place | undefined;
  startsOpen?: boolean;
  /** What stands below the form. */
  children?: ReactNode;
}

/** One place: how it does, and its settings on demand. A form that was opened stays as it was typed while it is folded. */
export function PlaceRow({ place: p, executor: x, startsOpen = false, children }: RowProps) {
  const [open, setOpen] = useState(startsOpen);
  const [opened, setOpened] = useState(startsOpen);
  const id = `instance-${p.kind}`;
  const isRegion = p.kind.includes("@");
  const fails = x && !x.available && !x.not_set_up;
  const isNew = !isRegion && (!x || x.not_set_up);
  return (
    <li className={cx("py-1.5", isRegion && "pl-4")}>
      <div className="flex flex-wrap items-center gap-x-3">
        <h4 id={id} className="min-w-0 flex-1 font-medium">
          {p.label}
        </h4>
        <PlaceMark of={x ?? { available: false, not_set_up: true }} />
        <Button
          aria-expanded={open}
          onClick={() => {
            setOpen(!open);
            setOpened(true);
          }}
        >
          {isNew ? t`Set up` : t`Settings`}
          <span className="sr-only"> {p.label}</span>
        </Button>
      </div>
      {fails && <p className="text-fg2">{[sentence(x.reason), sentence(x.hint)].filter(Boolean).join(" ")}</p>}
      {opened && (
        <div hidden={!open} className="mt-2 mb-4 border-l border-hairline pl-3">
          <div className="flex flex-col gap-4">
            <PlaceForm place={p} executor={x} />
            {isRegion ? <RemoveRegion place={p} /> : children}
          </div>
        </div>
      )}
    </li>
  );
}

const REGION = "[a-z0-9]([a-z0-9\\-]{0,30}[a-z0-9])?";

/** Removes a region that was added here. While something lives there the server refuses, and says what. */
function RemoveRegion({ place: p }: { place: PlaceSettings }) {
  const team = useTeam();
  const remove = useAction({
    act: () => data(api.DELETE("/instance/places/{kind}", { params: { path: { kind: p.kind } } })),
    confirm: {
      title: t`Remove ${p.label}?`,
      body: t`Its settings and its key are deleted. Workspaces there whose sandbox has ended say that their place is gone, and can be moved to another.`,
      action: t`Remove region`,
      danger: true,
    },
    refresh: [remoteKeys.instance, keys.executors(team.slug), placeKeys.policy(team.slug)],
    done: t`${p.label} is removed`,
  });
  return (
    <div>
      <Button look="danger" busy={remove.busy && t`Removing`} onClick={() => void remove.run()}>
        <Trans>Remove region</Trans>
        <span className="sr-only"> {p.label}</span>
      </Button>
      <FormError error={remove.error} />
    </div>
  );
}

/** Adds a region to a place: its row then stands below, with its form open. */
export function AddRegion({ place: p, onAdded }: { place: PlaceSettings; onAdded: (kind: string) => void }) {
  const [name, setName] = useState("");
  const team = useTeam();
  const add = useAction({
    act: () => savePlace(`${p.kind}@${name}`, {}),
    refresh: [remoteKeys.instance, keys.executors(team.slug)],
    done: () => {
      onAdded(`${p.kind}@${name}`);
      setName("");
    },
    failed: t`The region was not added`,
  });
  return (
    <form
      className="flex flex-wrap items-end gap-3"
      onSubmit={(e) => {
        e.preventDefault();
        if (name) void add.run();
      }}
    >
      <TextField
        label={t`Another region of ${p.label}`}
        hint={t`A short name; its address and key are entered next.`}
        mono
        placeholder={t`eu`}
        pattern={REGION}
        maxLength={32}
        value={name}
        onChange={(e) => setName(e.target.value)}
      />
      <Button type="submit" disabled={!name} busy={add.busy && t`Adding`}>
        <Trans>Add region</Trans>
      </Button>
    </form>
  );
}
