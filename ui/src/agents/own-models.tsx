import { recentModels } from "./own";

/** Suggestions for the name of a model, for a field's list. */
export function ModelList({ id }: { id: string; accountId: string }) {
  return (
    <datalist id={id}>
      {recentModels().map((m) => (
        <option key={m} value={m} />
      ))}
    </datalist>
  );
}
