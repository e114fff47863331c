import type { Attached } from "@/agents/attachments";

// Files of a first prompt are too large for the browser's small store: they lie in its database until the session has them.
const NAME = "parawork";
const TABLE = "first-files";
const memory = new Map<string, readonly Attached[]>(); // where the database cannot be used

function table<T>(mode: IDBTransactionMode, act: (t: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((done, failed) => {
    const opening = indexedDB.open(NAME, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE);
    opening.onerror = () => failed(opening.error);
    opening.onsuccess = () => {
      const db = opening.result;
      const tx = db.transaction(TABLE, mode);
      const request = act(tx.objectStore(TABLE));
      tx.oncomplete = () => {
        db.close();
        done(request.result);
      };
      tx.onabort = () => {
        db.close();
        failed(tx.error);
      };
    };
  });
}

/** Keeps the files of a workspace's first prompt, also when the page is closed before its session takes them. */
export async function holdFiles(workspaceId: string, files: readonly Attached[]): Promise<void> {
  memory.set(workspaceId, files);
  await table("readwrite", (t) => t.put(files, workspaceId)).catch(() => {}); // they are still in memory
}

/** Returns the files that are kept. */
export async function heldFiles(workspaceId: string): Promise<readonly Attached[] | undefined> {
  const kept = memory.get(workspaceId);
  return kept ?? table<readonly Attached[] | undefined>("readonly", (t) => t.get(workspaceId)).catch(() => undefined);
}

/** Forgets them: the session has them, or nobody wants them any more. */
export function dropFiles(workspaceId: string): void {
  memory.delete(workspaceId);
  void table("readwrite", (t) => t.delete(workspaceId)).catch(() => {}); // what stays behind is replaced, never sent
}
