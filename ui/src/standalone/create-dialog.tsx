import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "@/api/client";
import { executorsQuery } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Choice, Field, inputClass, TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
import { placeBody, placeId } from "@/sandboxes/which";
import { useTeam } from "@/state/team";
import { sandboxesKey } from "./queries";
import { PURPOSES, type Sandbox } from "./words";

const HINTS: Record<Sandbox["purpose"], string> = {
  execution: t`Ends after 10 minutes without use`,
  app: t`Ends after 30 minutes without use`,
  desktop: t`Ends after 15 minutes without use`,
};

/** Makes a sandbox without a repository. */
export default function CreateDialog({ onClose }: { onClose: () => void }) {
  const team = useTeam();
  const client = useQueryClient();
  const places = useQuery(executorsQuery(team.slug));
  const [purpose, setPurpose] = useState<Sandbox["purpose"]>("execution");
  const [key, setKey] = useState("");
  const [place, setPlace] = useState("");
  const [image, setImage] = useState("");
  const [network, setNetwork] = useState<"" | "none">("");
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/teams/{team}/sandboxes", {
          params: { path: { team: team.slug } },
          body: {
            purpose,
            ...(key.trim() && { key: key.trim() }),
            ...(place && placeBody(place)),
            ...(image.trim() && { image: image.trim() }),
            ...(network && { network: { mode: network } }),
          },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: sandboxesKey(team.slug) }),
    onSuccess: onClose,
  });
  return (
    <Dialog open onClose={onClose} title={t`Create a sandbox`} about={t`A place to run things, without a repository.`}>
      <form
        className="flex min-h-0 flex-1 flex-col"
        onSubmit={(e) => {
          e.preventDefault();
          create.mutate();
        }}
      >
        <DialogBody className="space-y-4">
          <TextField
            label={t`Key`}
            hint={t`Your name for it. A request with the same key finds it again. Without one, always a new sandbox.`}
            value={key}
            maxLength={200}
            onChange={(e) => setKey(e.target.value)}
          />
          <Choice
            name="purpose"
            legend={t`Purpose`}
            value={purpose}
            onChange={setPurpose}
            options={PURPOSES.map(([value, label]) => ({ value, label, hint: HINTS[value] }))}
          />
          <Field label={t`Place`}>
            {(field) => (
              <select {...field} value={place} onChange={(e) => setPlace(e.target.value)} className={inputClass}>
                <option value="">
                  <Trans>The team's default</Trans>
                </option>
                {places.data?.map((p) => (
                  <option key={placeId(p)} value={placeId(p)} disabled={!p.available || !p.allowed}>
                    {p.name}
                  </option>
                ))}
              </select>
            )}
          </Field>
          <TextField
            label={t`Image`}
            hint={t`Optional, where the place makes sandboxes from images.`}
            mono
            value={image}
            maxLength={300}
            onChange={(e) => setImage(e.target.value)}
          />
          <Field label={t`Network`}>
            {(field) => (
              <select
                {...field}
                value={network}
                onChange={(e) => setNetwork(e.target.value as "" | "none")}
                className={inputClass}
              >
                <option value="">
                  <Trans>What the team's sandboxes reach</Trans>
                </option>
                <option value="none">
                  <Trans>None</Trans>
                </option>
              </select>
            )}
          </Field>
          <FormError error={create.error} />
        </DialogBody>
        <DialogFoot>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button look="primary" type="submit" busy={create.isPending && t`Creating`}>
            <Trans>Create</Trans>
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
