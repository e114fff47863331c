import { plural, t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { fieldError } from "@/api/problem";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { TextField } from "@/kit/field";
import { lazy } from "@/kit/part";
import { FormError } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { useTeam } from "@/state/team";
import { toast, toastError } from "@/state/toasts";
import { type Machine, type MadeToken, machineKeys, regenerate, renameMachine, revokeMachine } from "./api";

const ConnectSteps = lazy(() => import("./connect-steps").then((m) => ({ default: m.ConnectSteps })));

/** Actions on a machine: rename, new key, revoke. */
export function MachineActs({ machine: m }: { machine: Machine }) {
  const team = useTeam();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [renaming, setRenaming] = useState(false);
  const [renewed, setRenewed] = useState<{ token: MadeToken; before: number } | undefined>();
  const refresh = () => {
    void client.invalidateQueries({ queryKey: machineKeys.one(m.id) });
    void client.invalidateQueries({ queryKey: machineKeys.all(team.slug) });
    void client.invalidateQueries({ queryKey: keys.executors(team.slug) });
  };
  const renew = useMutation({
    mutationFn: () => regenerate(m.id),
    onSuccess: (token) => setRenewed({ token, before: m.connected_at ?? 0 }),
    onError: (error) => toastError(t`The key was not replaced`, error, () => renew.mutate()),
    onSettled: refresh,
  });
  const revoke = useMutation({
    mutationFn: () => revokeMachine(m.id),
    onSuccess: async () => {
      toast({ kind: "good", title: t`${m.name} is revoked` });
      client.removeQueries({ queryKey: machineKeys.one(m.id) });
      await navigate({ to: "/$team/machines", params: { team: team.slug } });
    },
    onError: (error) => toastError(t`${m.name} was not revoked`, error),
    onSettled: refresh,
  });
  const askRenew = async () => {
    const yes = await confirm({
      title: t`Regenerate the key of ${m.name}?`,
      body: t`The server drops its connection immediately and its old key stops working. The machine reconnects when you run the new command there. What runs on it continues in the meantime.`,
      action: t`Regenerate`,
      danger: true,
    });
    if (yes) renew.mutate();
  };
  const askRevoke = async () => {
    const n = m.workspaces.length;
    const yes = await confirm({
      title: t`Revoke ${m.name}?`,
      body: [
        t`The server drops its connection immediately, and it can never connect with this key again.`,
        n > 0
          ? t`${plural(n, { one: "# workspace", other: "# workspaces" })} there must continue elsewhere, from the last synced state. Files that exist only on the machine stay in its folder there.`
          : t`It has no workspaces.`,
      ].join(" "),
      action: t`Revoke`,
      danger: true,
    });
    if (yes) revoke.mutate();
  };
  if (!m.may_manage || m.state === "revoked") return null;
  return (
    <div className="flex flex-wrap gap-2">
      {m.mine && (
        <Button onClick={() => setRenaming(true)}>
          <Trans>Rename</Trans>
        </Button>
      )}
      {m.mine && (
        <Button busy={renew.isPending && t`Replacing`} onClick={() => void askRenew()}>
          <Trans>New key</Trans>
        </Button>
      )}
      <Button look="danger" busy={revoke.isPending && t`Revoking`} onClick={() => void askRevoke()}>
        <Trans>Revoke</Trans>
      </Button>
      {renaming && (
        <RenameDialog
          machine={m}
          onClose={() => {
            setRenaming(false);
            refresh();
          }}
        />
      )}
      {renewed && (
        <Dialog
          open
          onClose={() => setRenewed(undefined)}
          wide
          title={t`New key for ${m.name}`}
          about={t`Run the command on that machine. The runner program is already installed, unless you removed it.`}
        >
          <Suspense>
            <ConnectSteps
              made={renewed.token}
              arrived={(x) => x.id === m.id && x.state === "online" && (x.connected_at ?? 0) > renewed.before}
              onClose={() => setRenewed(undefined)}
            />
          </Suspense>
        </Dialog>
      )}
    </div>
  );
}

function RenameDialog({ machine: m, onClose }: { machine: Machine; onClose: () => void }) {
  const [name, setName] = useState(m.name);
  const rename = useMutation({ mutationFn: () => renameMachine(m.id, name.trim()), onSuccess: onClose });
  const wrong = fieldError(rename.error, "name");
  return (
    <Dialog open onClose={onClose} title={t`Rename ${m.name}`}>
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          if (name.trim()) rename.mutate();
        }}
      >
        <DialogBody className="flex flex-col gap-3">
          <TextField
            label={t`Name`}
            required
            maxLength={100}
            value={name}
            error={wrong}
            onFocus={(e) => e.target.select()}
            onChange={(e) => setName(e.target.value)}
          />
          <FormError error={rename.error && !wrong ? rename.error : null} />
        </DialogBody>
        <DialogFoot>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button type="submit" look="primary" disabled={!name.trim()} busy={rename.isPending && t`Saving`}>
            <Trans>Rename</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
