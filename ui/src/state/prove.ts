import { Store } from "./store";

/** A call waits for the user to confirm their identity. */
export interface Asking {
  /** Only a second factor will do: a code or a passkey. */
  second: boolean;
  done: (proven: boolean) => void;
}

export const asking = new Store<Asking | undefined>(undefined);

let waiting: Promise<boolean> | undefined;

/** Asks who it is before a sensitive change. Calls that come meanwhile wait for the same answer. False when it was put off. */
export function prove(second: boolean): Promise<boolean> {
  waiting ??= new Promise<boolean>((resolve) => {
    asking.set({
      second,
      done: (proven) => {
        waiting = undefined;
        asking.set(undefined);
        resolve(proven);
      },
    });
  });
  return waiting;
}
