package agents_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

// The id and the folder of a conversation stand in one row of OpenCode's database, as 1.18.33 wrote it.
func TestOpenCodeConversationIsFoundInItsDatabase(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "opencode")
	const id, began = "ses_dffaff249ffeo40jPMKRwtd8jS", int64(1795301576118)
	l := h.launch()
	row := func(id, between string) string {
		return "\x0b\x00\x17" + id + between + l.Worktree + "\x01{\"title\":\"x\"}"
	}
	data := filepath.Join(h.homes, "usr_1", ".local", "share", "opencode")
	db, wal := filepath.Join(data, "opencode.db"), filepath.Join(data, "opencode.db-wal")
	find := func(since int64, taken ...string) string {
		t.Helper()
		held := map[string]struct{}{}
		for _, id := range taken {
			held[id] = struct{}{}
		}
		got, err := h.FindConversation(agents.OpenCode, agents.Find{UserID: "usr_1", Worktree: l.Worktree, Since: since, Taken: held})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := find(began); got != "" {
		t.Errorf("without a database: %q", got)
	}
	junk := strings.Repeat("x", 1<<20-40)
	for _, text := range []string{row(id, "globalnimble-mountain"), junk + row(id, "globalnimble-mountain"), junk + strings.Repeat("y", 90) + row(id, "globalnimble-mountain"),
		strings.Repeat("z", 3<<20) + row(id, "0123456789abcdef0123456789abcdef01234567quiet-lake")} {
		h.write(t, db, text, 0o600)
		if got := find(began - 1); got != id {
			t.Errorf("in %d bytes: %q", len(text), got)
		}
	}
	if got := find(began + 1); got != "" {
		t.Errorf("one from before the session's start: %q", got)
	}
	if got := find(began-1, id); got != "" {
		t.Errorf("one that another session holds: %q", got)
	}
	// A conversation of a part of the task names its parent behind itself: the parent is what people go on with.
	h.write(t, wal, row("ses_dffaff1000ffAAAAAAAAAAAAAA", "global"+id+"sub-task"), 0o600)
	h.write(t, db, "", 0o600)
	if got := find(began - 1); got != id {
		t.Errorf("with a child: %q", got)
	}
	for name, text := range map[string]string{"of another folder": strings.ReplaceAll(row(id, "globalx"), l.Worktree, "/elsewhere"),
		"an id further off": row(id, "global\x00{}/x"), "no id": row("ses_", "globalx"), "hostile": strings.Repeat(l.Worktree, 50_000)} {
		h.write(t, wal, text, 0o600)
		if got := find(began - 1); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}

	h.write(t, wal, "", 0o600)
	l.Resume, l.Conversation = true, id
	if p, err := h.Plan(agents.OpenCode, l); err != nil || p.Resumed {
		t.Errorf("a conversation that is gone is resumed: %q, %v", p.Argv, err)
	}
	h.write(t, wal, row(id, "globalx"), 0o600)
	p, err := h.Plan(agents.OpenCode, l)
	if err != nil || !p.Resumed || p.Conversation != id || !strings.Contains(strings.Join(p.Argv, " "), "--session "+id) {
		t.Errorf("%+v, %v", p, err)
	}
	l.Account = agents.Account{ID: "acc_2", Kind: agents.Terminal}
	p, err = h.Plan(agents.OpenCode, l)
	if err != nil || !p.Resumed || p.Env["OPENCODE_DB"] != db || p.Env["XDG_DATA_HOME"] != filepath.Join(h.homes, "usr_1", ".accounts", "acc_2", ".local", "share") {
		t.Errorf("with another account: %+v, %v", p, err)
	}
	l.Conversation = "--help"
	if p, err := h.Plan(agents.OpenCode, l); err != nil || p.Resumed {
		t.Errorf("a hostile id: %q, %v", p.Argv, err)
	}
}

// What OpenCode 1.18.33 shows.
func TestOpenCodeScreen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	box := []string{"  ┃", "  ┃", "  ┃  Build · Claude Sonnet 4.6 Anthropic", "  ╹▀▀▀▀▀▀▀▀▀▀▀▀"}
	for name, c := range map[string]struct {
		lines  []string
		mood   agents.Mood
		reason string
	}{
		"works": {append(box, "   ⬝⬝⬝⬝⬝⬝⬝⬝  esc interrupt                 tab agents  ctrl+p commands"), agents.Busy, ""},
		"idle":  {append(box, "   /repo                       110 (0%) · $0.00  ctrl+p commands"), agents.Ready, ""},
		"asks": {[]string{"     $ touch made.txt", "     ▣  Build · Claude Sonnet 4.6", "  ┃", "  ┃  △ Permission required", "  ┃    # Shell command", "  ┃", "  ┃  $ touch made.txt",
			"  ┃", "  ┃   Allow once   Allow always   Reject                ctrl+f fullscreen  ⇆ select  enter confirm", "  ┃"}, agents.Asking, "asks for your permission: # Shell command"},
		"says so": {append([]string{"  the dialog says △ Permission required"}, append(box, "   /repo        tab agents  ctrl+p commands")...), agents.Ready, ""},
	} {
		if got := h.Screen(agents.OpenCode).Match(c.lines); got.Mood != c.mood || got.Reason != c.reason {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
