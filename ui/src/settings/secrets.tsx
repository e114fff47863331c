import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { SecretList } from "@/secrets/list";

/** A person's own secrets. */
export default function MySecrets() {
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        <Trans>
          For your own sessions and commands, in every team. Values are stored encrypted, never shown again, and masked
          in session output. Anyone who can type in your sessions could extract them. They override secrets of a project
          or team with the same name.
        </Trans>
      </p>
      <SecretList
        owner={{ scope: "personal" }}
        manage
        empty={t`Add a variable or a file that only your sessions get.`}
      />
    </div>
  );
}
