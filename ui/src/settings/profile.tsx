import { Link } from "@tanstack/react-router";
import { Invitations } from "@/people/invitations";
import { useMe, useTeam } from "@/state/team";

/** Who one is on this server. */
export default function ProfileSettings() {
  const { user } = useMe();
  const team = useTeam();
  return (
    <div className="flex flex-col gap-6">
      <dl className="grid grid-cols-[80px_minmax(0,1fr)] gap-y-1">
        <dt className="text-fg3">Name</dt>
        <dd className="break-words">{user.name}</dd>
        <dt className="text-fg3">E-mail</dt>
        <dd className="break-all">{user.email}</dd>
        {user.operator && (
          <>
            <dt className="text-fg3">Rights</dt>
            <dd>Operator of this server</dd>
          </>
        )}
      </dl>
      <Invitations />
      <p className="text-fg2">
        Your password, second factor and login sessions are in{" "}
        <Link
          to="/$team/settings/{-$section}"
          params={{ team: team.slug, section: "security" }}
          className="text-accent underline"
        >
          Security
        </Link>
        .
      </p>
    </div>
  );
}
