import { useQuery } from "@tanstack/react-query";
import { machineQuery } from "@/machines/api";
import { ACCESS } from "@/machines/words";

/** What there is to say about work on a member's machine: what its owner is asked. */
export default function MachineTerms({ machineId }: { machineId: string }) {
  const m = useQuery(machineQuery(machineId)).data;
  if (!m || m.access === "full") return null;
  return (
    <p className="text-needs">
      <span aria-hidden>◆ </span>
      {m.access === "read_only"
        ? ACCESS.read_only.means
        : `${m.mine ? "You are" : `${m.user_name} is`} asked at the machine before anything starts there.`}
    </p>
  );
}
