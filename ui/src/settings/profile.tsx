import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "@/api/client";
import { SettingsForm } from "@/kit/settings/form";
import { Invitations } from "@/people/invitations";
import { useRefreshMe } from "@/people/use-refresh-me";
import { useMe, useTeam } from "@/state/team";
import { AvatarSetting } from "./avatar";

/** Who one is on this server. */
export default function ProfileSettings() {
  const { user } = useMe();
  const team = useTeam();
  return (
    <div className="flex flex-col gap-6">
      <AvatarSetting />
      <Name name={user.name} />
      <Email email={user.email} />
      {user.operator && (
        <p className="text-fg2">
          <Trans>You are an operator of this server.</Trans>
        </p>
      )}
      <Invitations />
      <p className="text-fg2">
        <Trans>
          Your password, second factor and login sessions are in{" "}
          <Link
            to="/$team/settings/{-$section}"
            params={{ team: team.slug, section: "security" }}
            className="text-accent underline"
          >
            Security
          </Link>
          .
        </Trans>
      </p>
    </div>
  );
}

const ONE_LINE = { inline: true, look: "plain" } as const;

function Name({ name }: { name: string }) {
  const refresh = useRefreshMe();
  return (
    <SettingsForm
      {...ONE_LINE}
      loaded={{ name }}
      fields={[
        {
          name: "name",
          label: t`Name`,
          type: "text",
          className: "max-w-sm flex-1",
          input: { required: true, maxLength: 200, autoComplete: "name" },
        },
      ]}
      save={(body) => data(api.PATCH("/me", { body }))}
      onSaved={refresh}
      button={t`Save`}
    />
  );
}

function Email({ email }: { email: string }) {
  const refresh = useRefreshMe();
  const [sentTo, setSentTo] = useState("");
  return (
    <div>
      <SettingsForm
        key={`${email} ${sentTo}`}
        {...ONE_LINE}
        loaded={{ email }}
        fields={[
          {
            name: "email",
            label: t`E-mail address`,
            type: "text",
            hint: t`You sign in with it, and invites and mail go to it.`,
            className: "max-w-sm flex-1",
            input: { required: true, type: "email", maxLength: 320, autoComplete: "email" },
          },
        ]}
        save={async (body) => {
          const to = body.email ?? email;
          const changed = await data(api.POST("/me/email", { body: { email: to } }));
          setSentTo(changed.mailed ? to : "");
        }}
        onSaved={refresh}
        button={t`Change`}
      />
      <p role="status" className="mt-2 text-fg2">
        {sentTo && (
          <Trans>
            A link was sent to <b className="break-all">{sentTo}</b>. Your address changes when you open it, within 24
            hours.
          </Trans>
        )}
      </p>
    </div>
  );
}
