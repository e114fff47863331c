import { Trans } from "@lingui/react/macro";

/** The page came over plain http from another machine. */
export function Insecure() {
  return (
    <p className="mb-4 rounded-md border border-needs px-3 py-2 text-fg2">
      <strong className="font-medium text-needs">
        <Trans>This connection is not encrypted.</Trans>
      </strong>{" "}
      <Trans>
        Others on the network can read what you type and take over your login. Ask an operator of this server for its
        HTTPS address.
      </Trans>
    </p>
  );
}
