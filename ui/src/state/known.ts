// What a page that is opened without a connection can still name: the workspaces as they were. It is kept in this browser for a day, for the
// person who is signed in, and is removed by the sign-in page, to which every end of a login leads.

/** A team's workspaces as they were at a time (ms UTC). */
export interface Known {
  team: string;
  at: number;
  items: { key: string; name: string; project: string }[];
}

const KEEP = 24 * 3_600_000; // ms
const STORE = "known";

function store<T>(mode: IDBTransactionMode, act: (s: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((done, failed) => {
    const opened = indexedDB.open("parawork", 1);
    opened.onupgradeneeded = () => opened.result.createObjectStore(STORE);
    opened.onerror = () => failed(opened.error);
    opened.onsuccess = () => {
      const db = opened.result;
      const t = db.transaction(STORE, mode);
      const request = act(t.objectStore(STORE));
      t.oncomplete = () => {
        db.close();
        done(request.result);
      };
      t.onabort = () => {
        db.close();
        failed(t.error);
      };
    };
  });
}

/** Keeps a team's workspaces in place of what was kept before. Without storage nothing is kept. */
export const keepKnown = (known: Known): Promise<unknown> =>
  store("readwrite", (s) => s.put(known, "list")).catch(() => {});

/** What was kept in the last day. */
export async function readKnown(now = Date.now()): Promise<Known | undefined> {
  const known = (await store("readonly", (s) => s.get("list")).catch(() => undefined)) as Known | undefined;
  return known && now - known.at < KEEP ? known : undefined;
}

export const forgetKnown = (): Promise<unknown> => store("readwrite", (s) => s.clear()).catch(() => {});
