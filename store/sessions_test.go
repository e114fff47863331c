package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// sessionHarness is a team with two workspaces.
func sessionHarness(t *testing.T, db *store.DB) (team, user string, ws [2]string) {
	t.Helper()
	u, tm := storetest.Seed(t, db)
	prj := id.New("prj")
	if _, err := db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
		VALUES (?,?,'p','sample','','','ready',?,1)`, prj, tm.ID, u.ID); err != nil {
		t.Fatal(err)
	}
	for i := range ws {
		ws[i] = id.New("ws")
		if _, err := db.Exec(t.Context(), `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			VALUES (?,?,?,?,'w','b','main','local','ready',?,1,1)`, ws[i], tm.ID, prj, i+1, u.ID); err != nil {
			t.Fatal(err)
		}
	}
	return tm.ID, u.ID, ws
}

func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		code := 3
		row := sessions.Session{ID: id.New("ses"), TeamID: team, WorkspaceID: ws[0], SandboxID: "sbx_1", Agent: "codex", Argv: []string{"codex", "--", "-x é\n"},
			Prompt: "do\n\"it\" é", State: state.Starting, StateReason: "r", StateAt: 5, Cols: 120, Rows: 32, CreatedBy: user, StartedAt: 10}
		if err := st.InsertSession(ctx, row, "home"); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Session(ctx, row.ID); err != nil || !reflect.DeepEqual(got, row) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if _, err := st.Session(ctx, "ses_none"); !fault.Is(err, fault.NotFound) || fault.CodeOf(err) != "session_not_found" {
			t.Errorf("got %v", err)
		}
		if err := st.InsertSession(ctx, row, "home"); err == nil {
			t.Error("an id was stored twice")
		}
		row.State, row.Title, row.Conversation, row.PromptSentAt, row.Cols, row.Bytes, row.StateAt = state.Working, "t", "c-1", 11, 90, 1<<40, 12
		row.Basis = state.Basis{Source: "title", StuckAt: 3, UpTo: 1 << 33, Evidence: []state.Evidence{{Source: "title", Says: "working", Text: "é \"x\"", At: 12, Since: 11, Counts: true}}}
		if ok, err := st.ClaimConversation(ctx, sessions.Claim{SessionID: row.ID, TeamID: team, Agent: "codex", Conversation: "c-1", Home: "home", At: 11}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := st.UpdateSession(ctx, row); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Session(ctx, row.ID); err != nil || !reflect.DeepEqual(got, row) {
			t.Fatalf("got %+v, %v", got, err)
		}
		if open, err := st.OpenSessions(ctx); err != nil || len(open) != 1 || open[0].ID != row.ID {
			t.Errorf("open %v, %v", open, err)
		}
		foreign := row
		foreign.TeamID, foreign.Title = "team_other", "stolen"
		if err := st.UpdateSession(ctx, foreign); err != nil {
			t.Fatal(err)
		}
		row.State, row.StateReason, row.ExitCode, row.ExitSignal, row.EndedAt = state.Exited, "exited with code 3", &code, "", 20
		if err := st.UpdateSession(ctx, row); err != nil {
			t.Fatal(err)
		}
		late := row
		late.State, late.EndedAt = state.Working, 0
		if err := st.UpdateSession(ctx, late); err != nil {
			t.Fatal(err)
		}
		if got, err := st.Session(ctx, row.ID); err != nil || !reflect.DeepEqual(got, row) {
			t.Fatalf("an ended session changed: %+v, %v", got, err)
		}
		if open, err := st.OpenSessions(ctx); err != nil || len(open) != 0 {
			t.Errorf("open %v, %v", open, err)
		}
		for since, want := range map[int64]int{19: 1, 21: 0} {
			if got, err := st.Conversations(ctx, "codex", since); err != nil || len(got) != want {
				t.Errorf("conversations since %d: %v, %v", since, got, err)
			}
		}
	})
}

// One session holds a conversation in a home, however many claim it at once; it passes on only from one that has ended.
func TestConversationClaims(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		begin := func(started int64, conversation string) (sessions.Session, error) {
			row := sessions.Session{ID: id.New("ses"), TeamID: team, WorkspaceID: ws[0], Agent: "codex", State: state.Working, Cols: 80, Rows: 24,
				CreatedBy: user, StartedAt: started, Conversation: conversation}
			return row, st.InsertSession(ctx, row, "home")
		}
		claim := func(row sessions.Session, home, conversation string) bool {
			t.Helper()
			ok, err := st.ClaimConversation(ctx, sessions.Claim{SessionID: row.ID, TeamID: team, Agent: "codex", Conversation: conversation, Home: home,
				At: row.StartedAt, Until: row.StartedAt})
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		racers := make([]sessions.Session, 8)
		var wg sync.WaitGroup
		var won atomic.Int32
		for i := range racers {
			var err error
			if racers[i], err = begin(10, ""); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range racers {
			wg.Go(func() {
				if claim(r, "home", "c") {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		held := racers[:0:0]
		for _, r := range racers {
			if got, err := st.Session(ctx, r.ID); err != nil {
				t.Fatal(err)
			} else if got.Conversation == "c" {
				held = append(held, got)
			}
		}
		if won.Load() != 1 || len(held) != 1 {
			t.Fatalf("%d claims succeeded, %d rows are held", won.Load(), len(held))
		}
		holder := held[0]
		if !claim(holder, "home", "c") {
			t.Error("the holder lost it by claiming it again")
		}
		if other, err := begin(11, ""); err != nil || !claim(other, "another home", "c") {
			t.Errorf("a conversation of this name in another home is not free: %v", err)
		}
		if _, err := begin(12, "c"); fault.CodeOf(err) != "conversation_in_use" {
			t.Errorf("a second session goes on with what a running one holds: %v", err)
		}
		holder.State, holder.EndedAt = state.Exited, 20
		if err := st.UpdateSession(ctx, holder); err != nil {
			t.Fatal(err)
		}
		beside, err := begin(15, "")
		if err != nil || claim(beside, "home", "c") {
			t.Errorf("one that ran beside the holder took it: %v", err)
		}
		next, err := begin(20, "c")
		if err != nil {
			t.Fatalf("one that goes on with it was refused: %v", err)
		}
		if claim(beside, "home", "c") {
			t.Error("it was taken from who goes on with it")
		}
		for i := range 40 { // an agent that begins a conversation after the other holds a bounded number
			next.StartedAt++
			if !claim(next, "home", fmt.Sprint("n", i)) {
				t.Fatal("refused")
			}
		}
		var rows int
		if err := db.QueryRow(ctx, `SELECT COUNT(*) FROM conversation_claims WHERE session_id = ?`, next.ID).Scan(&rows); err != nil || rows > 17 {
			t.Errorf("it holds %d, %v", rows, err)
		}
		if got, err := st.Session(ctx, next.ID); err != nil || got.Conversation != "n39" {
			t.Errorf("got %q, %v", got.Conversation, err)
		}
	})
}

func TestTeamSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewSessions(db)
		team, user, ws := sessionHarness(t, db)
		other, stranger, foreign := sessionHarness(t, db)
		add := func(team, user, ws, agent string, started, ended int64) string {
			t.Helper()
			row := sessions.Session{ID: id.New("ses"), TeamID: team, WorkspaceID: ws, Agent: agent, State: state.Idle, Cols: 80, Rows: 24,
				CreatedBy: user, StartedAt: started, EndedAt: ended}
			if ended != 0 {
				row.State = state.Exited
			}
			if err := st.InsertSession(ctx, row, "home"); err != nil {
				t.Fatal(err)
			}
			return row.ID
		}
		add(team, user, ws[0], "codex", 1, 2)
		last := add(team, user, ws[0], "codex", 2, 9)
		add(team, user, ws[0], "shell", 3, 20)
		open1 := add(team, user, ws[0], "shell", 4, 0)
		open2 := add(team, user, ws[0], "claude-code", 5, 0)
		add(team, user, ws[1], "setup", 1, 2)
		add(other, stranger, foreign[0], "codex", 1, 0)
		got, err := st.TeamSessions(ctx, team)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range got {
			ids = append(ids, c.ID)
			if c.Total != 5 {
				t.Errorf("%s: total %d", c.ID, c.Total)
			}
		}
		if !reflect.DeepEqual(ids, []string{last, open1, open2}) {
			t.Errorf("got %v", ids)
		}
		for _, c := range []struct {
			of   []string
			want int
		}{{[]string{ws[0]}, 3}, {[]string{ws[1]}, 0}, {ws[:], 3}, {foreign[:], 0}, {[]string{}, 0}} {
			if got, err := st.TeamSessions(ctx, team, c.of...); err != nil || len(got) != c.want {
				t.Errorf("of %v: %v, %v", c.of, got, err)
			}
		}
		asking := func(user string) (ids []string) {
			t.Helper()
			rows, err := st.AttentionSessions(ctx, team, user)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				ids = append(ids, r.ID)
			}
			slices.Sort(ids)
			return ids
		}
		sorted := slices.Sorted(slices.Values([]string{last, open1, open2}))
		if got := asking(user); !reflect.DeepEqual(got, sorted) {
			t.Errorf("what may ask for somebody: %v", got)
		}
		// An item that somebody marked done still needs the others, and an earlier one needs nobody again.
		if err := st.PutMark(ctx, question.Mark{UserID: user, ItemID: last, TeamID: team, WorkspaceID: ws[0], DoneAt: 1}); err != nil {
			t.Fatal(err)
		}
		if got := asking(user); !reflect.DeepEqual(got, slices.Sorted(slices.Values([]string{open1, open2}))) {
			t.Errorf("after it was done: %v", got)
		}
		if got := asking(""); !reflect.DeepEqual(got, sorted) {
			t.Errorf("for nobody: %v", got)
		}
		if _, err := db.Exec(ctx, `UPDATE sessions SET state_reason = 'stopped by Ann' WHERE id = ?`, last); err != nil {
			t.Fatal(err)
		}
		if got := asking(""); !reflect.DeepEqual(got, slices.Sorted(slices.Values([]string{open1, open2}))) {
			t.Errorf("what somebody has stopped: %v", got)
		}
		if _, err := db.Exec(ctx, `UPDATE workspaces SET archived_at = 1 WHERE id = ?`, ws[0]); err != nil {
			t.Fatal(err)
		}
		if got := asking(""); len(got) != 0 {
			t.Errorf("of an archived workspace: %v", got)
		}
		list, err := st.Sessions(ctx, ws[0])
		if err != nil || len(list) != 5 || list[0].ID != open2 || list[4].StartedAt != 1 {
			t.Errorf("got %v, %v", list, err)
		}
		if _, err := db.Exec(ctx, `UPDATE workspaces SET deleted_at = 1 WHERE id = ?`, ws[0]); err != nil {
			t.Fatal(err)
		}
		if got, err := st.TeamSessions(ctx, team); err != nil || len(got) != 0 {
			t.Errorf("of a deleted workspace: %v, %v", got, err)
		}
	})
}
