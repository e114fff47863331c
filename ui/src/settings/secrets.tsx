import { SecretList } from "@/secrets/list";

/** A person's own secrets. */
export default function MySecrets() {
  return (
    <div className="flex flex-col gap-4">
      <p className="text-fg2">
        What your own sessions and commands get, in every team. Values are kept encrypted and never shown again, and are
        masked in what sessions print. Whoever can type in your sessions could get at them. Yours come before those of a
        project or a team with the same name.
      </p>
      <SecretList owner={{ scope: "personal" }} manage empty="Add a variable or a file that only your sessions get." />
    </div>
  );
}
