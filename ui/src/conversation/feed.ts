import { api, data, type Schemas } from "@/api/client";
import { Store } from "@/state/store";

export type Item = Schemas["ConversationItem"];
export type Kind = Schemas["ConversationKind"];
type Answer = Schemas["Conversation"];

export interface Filter {
  q: string;
  kinds: readonly Kind[];
}

export interface Feed {
  /** Oldest first. */
  items: readonly Item[];
  /** Leads to older items. */
  older: string | undefined;
  /** Conversation metadata: tokens, the record, the sessions before and after. */
  about: Omit<Answer, "items" | "next_cursor" | "more" | "version"> | undefined;
}

const PAGE = 200;

/** Loads one conversation: the newest items first, older ones on demand, then new or changed items. */
export class ConversationFeed {
  readonly shown = new Store<Feed>({ items: [], older: undefined, about: undefined });
  private readonly byId = new Map<string, Item>();
  private version = -1;
  private older: string | undefined;
  private loading: Promise<void> | undefined;

  constructor(
    readonly session: string,
    private readonly filter: Filter,
    private readonly ask: typeof get = get,
  ) {}

  /** Loads the newest items, then changes. Returns the displayed version. */
  async sync(signal?: AbortSignal): Promise<number> {
    for (;;) {
      const first = this.version <= 0;
      const since = this.version;
      const answer = await this.ask(this.session, this.filter, first ? {} : { since }, signal);
      if (!first && answer.version < since) {
        this.version = -1; // another timeline has taken its place
        this.byId.clear();
        continue;
      }
      if (first) this.older = answer.next_cursor ?? undefined;
      this.version = answer.version;
      this.take(answer);
      if (first || !answer.more) return this.version;
    }
  }

  /** Loads one more page of older items; several callers share one request. */
  loadOlder(): Promise<void> {
    this.loading ??= (async () => {
      if (!this.older) return;
      const answer = await this.ask(this.session, this.filter, { cursor: this.older });
      this.older = answer.next_cursor ?? undefined;
      this.take(answer);
    })().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  /** Loads back to an item. */
  async reach(place: number): Promise<void> {
    while (this.older && (this.shown.get().items[0]?.place ?? 0) > place) await this.loadOlder();
  }

  private take({ items, next_cursor: _, more: __, version: ___, ...about }: Answer): void {
    let changed = false;
    for (const item of items) {
      const had = this.byId.get(item.id);
      if (had && had.version >= item.version) continue;
      this.byId.set(item.id, item);
      changed = true;
    }
    const before = this.shown.get();
    this.shown.set({
      items: changed ? [...this.byId.values()].sort((a, b) => a.place - b.place) : before.items,
      older: this.older,
      about,
    });
  }
}

function get(session: string, filter: Filter, page: { cursor?: string; since?: number }, signal?: AbortSignal) {
  const query = {
    limit: PAGE,
    ...(filter.q && { q: filter.q }),
    ...(filter.kinds.length > 0 && { kinds: filter.kinds.join(",") }),
    ...page,
  };
  return data(api.GET("/sessions/{id}/conversation", { params: { path: { id: session }, query }, signal }));
}
