import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError } from "@/api/problem";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Check, Choice, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { useTeam } from "@/state/team";
import { type MadeToken, machineKeys, machineListQuery, makeToken, type NewToken } from "./api";
import { ConnectSteps } from "./connect-steps";
import { DANGER, Danger } from "./danger";

type Mode = "" | "docker" | "bubblewrap" | "direct";

/** Connects a machine: choose how agents run, run the commands there, wait for it. */
export default function ConnectDialog({ onClose }: { onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const [made, setMade] = useState<{ token: MadeToken; before: ReadonlySet<string> } | undefined>();
  const make = useMutation({
    mutationFn: async (body: NewToken) => {
      // Machines that are already connected are not the new one.
      const before = await client.fetchQuery({ ...machineListQuery(team.slug), staleTime: 0 });
      const token = await makeToken(team.slug, body);
      return { token, before: new Set(before.items.map((m) => m.id)) };
    },
    onSuccess: (m) => {
      setMade(m);
      void client.invalidateQueries({ queryKey: machineKeys.tokens(team.slug) });
    },
  });
  return (
    <Dialog
      open
      onClose={onClose}
      wide
      title={t`Connect a machine`}
      about={
        made
          ? t`Run these commands in a terminal on the machine. This page updates when the machine connects.`
          : t`The machine connects to this server, so its firewall needs no open port. A file on the machine decides what may run there.`
      }
    >
      {made ? (
        <ConnectSteps
          made={made.token}
          arrived={(m) => !made.before.has(m.id) && m.state === "online"}
          onClose={onClose}
          onMore={made.token.reusable ? undefined : () => setMade(undefined)}
        />
      ) : (
        <Options make={make} onClose={onClose} />
      )}
    </Dialog>
  );
}

type Make = ReturnType<typeof useMutation<{ token: MadeToken; before: ReadonlySet<string> }, Error, NewToken>>;

function Options({ make, onClose }: { make: Make; onClose: () => void }) {
  const [name, setName] = useState("");
  const [mode, setMode] = useState<Mode>("");
  const [image, setImage] = useState("");
  const [network, setNetwork] = useState<"" | "host" | "open" | "none">("");
  const [reusable, setReusable] = useState(false);
  const [understood, setUnderstood] = useState(false);
  const direct = mode === "direct";
  const field = (f: string) => fieldError(make.error, f);
  const named = ["name", "image", "network"].some(field);
  const ready = (!direct || understood) && !make.isPending;
  return (
    <form
      className="flex min-h-0 flex-1 flex-col"
      onSubmit={(e) => {
        e.preventDefault();
        if (!ready) return;
        make.mutate({
          ...(name.trim() ? { name: name.trim() } : {}),
          ...(mode ? { mode } : {}),
          dangerous: direct,
          ...(mode === "docker" && image.trim() ? { image: image.trim() } : {}),
          ...(network && !direct ? { network } : {}),
          reusable,
        });
      }}
    >
      <DialogBody className="flex flex-col gap-4">
        <TextField
          label={t`Name`}
          hint={
            reusable ? t`Leave empty to use each machine's host name.` : t`Leave empty to use the machine's host name.`
          }
          maxLength={100}
          placeholder={t`Work Laptop`}
          value={name}
          error={field("name")}
          onChange={(e) => setName(e.target.value)}
        />
        <Choice<Mode>
          name="machine-mode"
          legend={t`How agents run there`}
          value={mode}
          onChange={setMode}
          options={[
            {
              value: "",
              label: t`Isolated, with what the machine has`,
              hint: t`In Docker if installed, otherwise in a process sandbox. If neither works, the program says what to install.`,
            },
            {
              value: "docker",
              label: t`In Docker`,
              hint: t`Each workspace in its own container, from ubuntu:latest or the image you enter.`,
            },
            {
              value: "bubblewrap",
              label: t`In a process sandbox`,
              hint: t`With bubblewrap, on Linux: agents see their workspace and the machine's programs.`,
            },
            {
              value: "direct",
              label: (
                <>
                  <Trans>Directly on the machine</Trans> <Danger />
                </>
              ),
              hint: t`No isolation. Only for a machine you can afford to lose.`,
            },
          ]}
        />
        {mode === "docker" && (
          <TextField
            label={t`Image`}
            mono
            placeholder="ubuntu:latest"
            hint={t`Such as kalilinux/kali-rolling. Missing programs are installed if the network allows it.`}
            value={image}
            error={field("image")}
            spellCheck={false}
            autoCapitalize="none"
            onChange={(e) => setImage(e.target.value)}
          />
        )}
        {direct && (
          <div className="rounded-md border border-failed px-3 py-2">
            <p className="mb-1">
              <Trans>{DANGER} Agents can read, change and delete everything that user can.</Trans>
            </p>
            <Check
              label={t`I understand and want this on the machine`}
              checked={understood}
              onChange={(e) => setUnderstood(e.target.checked)}
            />
          </div>
        )}
        {(mode === "docker" || mode === "bubblewrap") && (
          <Choice
            name="machine-network"
            legend={t`Network access for agents`}
            value={network}
            onChange={setNetwork}
            options={[
              {
                value: "",
                label: t`As set in the machine's file`,
                hint: t`Without a file: public addresses, not the local network.`,
              },
              {
                value: "host",
                label: t`The machine's network`,
                hint: t`Includes its local network: printers, servers, other computers.`,
              },
              {
                value: "open",
                label: t`Public addresses`,
                hint: t`Not the local network. The machine's file can restrict it to a list.`,
              },
              { value: "none", label: t`Nothing`, hint: t`Agents that call a model cannot work.` },
            ]}
          />
        )}
        {field("network") && <p className="text-meta text-failed">{field("network")}</p>}
        <Check
          label={t`Use the token for many machines`}
          hint={
            reusable
              ? t`It connects machines in your name until you revoke it on this page. Protect it like a password.`
              : t`Otherwise the token connects one machine, within an hour.`
          }
          checked={reusable}
          onChange={(e) => setReusable(e.target.checked)}
        />
        <FormError error={make.error && !named ? make.error : null} />
      </DialogBody>
      <DialogFoot>
        <Button onClick={onClose}>
          <Trans>Cancel</Trans>
        </Button>
        <Button type="submit" look="primary" disabled={!ready} busy={make.isPending && t`Creating the command`}>
          <Trans>Show the command</Trans>
        </Button>
      </DialogFoot>
    </form>
  );
}
