package store_test

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// seedWorkspace stores a workspace of a new team, with its project.
func seedWorkspace(t *testing.T, db *store.DB) (teamID, workspaceID string) {
	t.Helper()
	user, team := storetest.Seed(t, db)
	project, workspace := id.New("prj"), id.New("ws")
	if _, err := db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by,
		created_at) VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`, project, team.ID, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state,
		created_by, created_at, updated_at) VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'local', 'ready', ?, 1, 1)`,
		workspace, team.ID, project, user.ID); err != nil {
		t.Fatal(err)
	}
	return team.ID, workspace
}

func TestSandboxes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewExecutors(db)
		team, ws := seedWorkspace(t, db)
		if _, err := s.LastSandbox(ctx, ws); !fault.Is(err, fault.NotFound) {
			t.Fatalf("LastSandbox of none: %v", err)
		}
		first := executors.Record{Handle: executors.Handle{Kind: executors.Local, ID: id.New("sbx")}, TeamID: team, WorkspaceID: ws,
			State: executors.Starting, StartedAt: 10, UserID: "usr_1", Purpose: executors.ForExecution, CPUs: 2, MemoryMB: 2048, PriceNano: 133_200_000,
			Steps: []executors.Step{{Name: executors.StepCreate, Title: "é", State: executors.StepRunning, StartedAt: 10}}}
		if err := s.InsertSandbox(ctx, first); err != nil {
			t.Fatal(err)
		}
		second := first
		second.Handle.ID, second.StartedAt = id.New("sbx"), 11
		if err := s.InsertSandbox(ctx, second); !fault.Is(err, fault.Conflict) {
			t.Fatalf("a second open sandbox: %v", err)
		}
		// Inside a transaction too, where PostgreSQL would not go on after an error.
		if err := db.Tx(ctx, func(ctx context.Context) error {
			if err := s.InsertSandbox(ctx, second); !fault.Is(err, fault.Conflict) {
				t.Errorf("a second open sandbox: %v", err)
			}
			_, err := s.OpenSandboxes(ctx)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		first.Handle.Version, first.Handle.State = 1, []byte{0, 255, 'x'}
		first.State, first.Reason, first.HealthAt = executors.Paused, "why", 20
		first.Purpose, first.Steps[0].State, first.Steps[0].EndedAt = executors.ForAgent, executors.StepDone, 15
		first.LeaseUntil, first.RunEndsAt, first.PausedFor, first.Pooled = 600_000, 3_600_000, executors.ByIdle, true
		if err := s.UpdateSandbox(ctx, first); err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenSandboxes(ctx)
		if err != nil || len(open) != 1 || !sameRecord(open[0], first) {
			t.Fatalf("OpenSandboxes: %+v, %v", open, err)
		}
		stranger := first
		stranger.TeamID, stranger.State = "team_other", executors.Failed
		if err := s.UpdateSandbox(ctx, stranger); err != nil {
			t.Fatal(err)
		}
		if got, err := s.LastSandbox(ctx, ws); err != nil || !sameRecord(got, first) {
			t.Fatalf("another team changed it: %+v, %v", got, err)
		}
		first.State, first.EndedAt = executors.Gone, 30
		if err := s.UpdateSandbox(ctx, first); err != nil {
			t.Fatal(err)
		}
		late := first
		late.State, late.EndedAt = executors.Running, 0
		if err := s.UpdateSandbox(ctx, late); err != nil {
			t.Fatal(err)
		}
		if got, err := s.LastSandbox(ctx, ws); err != nil || !sameRecord(got, first) {
			t.Fatalf("an ended sandbox did not stay ended: %+v, %v", got, err)
		}
		if err := s.InsertSandbox(ctx, second); err != nil {
			t.Fatalf("a new sandbox after the end of the first: %v", err)
		}
		if got, err := s.LastSandbox(ctx, ws); err != nil || !sameRecord(got, second) {
			t.Fatalf("LastSandbox: %+v, %v", got, err)
		}
	})
}

func sameRecord(a, b executors.Record) bool {
	same := bytes.Equal(a.Handle.State, b.Handle.State)
	a.Handle.State, b.Handle.State = nil, nil
	return same && reflect.DeepEqual(a, b)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewExecutors(db)
		team, ws := seedWorkspace(t, db)
		c := command.Command{ID: id.New("cmd"), TeamID: team, WorkspaceID: ws, ActorID: "usr_1", Argv: []string{"a b", "\"'\n", "é"},
			Cwd: "dir", State: command.Pending, Background: true, CreatedAt: 5}
		if err := s.InsertCommand(ctx, c); err != nil {
			t.Fatal(err)
		}
		got, err := s.Command(ctx, c.ID)
		if err != nil || got.ExitCode != nil || len(got.Argv) != 3 || got.Argv[1] != c.Argv[1] || !got.Background || got.Cwd != "dir" {
			t.Fatalf("Command: %+v, %v", got, err)
		}
		c.SandboxID, c.State, c.StartedAt = "sbx_1", command.Executing, 6
		if err := s.UpdateCommand(ctx, c); err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenCommands(ctx)
		if err != nil || len(open) != 1 || open[0].SandboxID != "sbx_1" || open[0].State != command.Executing {
			t.Fatalf("OpenCommands: %+v, %v", open, err)
		}
		code := 43
		c.State, c.ExitCode, c.Stdout, c.Stderr, c.Truncated, c.EndedAt = command.Completed, &code, []byte{0, 255}, nil, true, 7
		if err := s.UpdateCommand(ctx, c); err != nil {
			t.Fatal(err)
		}
		late := c
		late.State, late.EndedAt = command.Failed, 9
		if err := s.UpdateCommand(ctx, late); err != nil {
			t.Fatal(err)
		}
		got, err = s.Command(ctx, c.ID)
		if err != nil || got.State != command.Completed || got.ExitCode == nil || *got.ExitCode != 43 ||
			!bytes.Equal(got.Stdout, []byte{0, 255}) || len(got.Stderr) != 0 || !got.Truncated || got.EndedAt != 7 {
			t.Fatalf("Command: %+v, %v", got, err)
		}
		if open, err := s.OpenCommands(ctx); err != nil || len(open) != 0 {
			t.Fatalf("OpenCommands: %+v, %v", open, err)
		}
		if n, err := s.DropCommands(ctx, 7); err != nil || n != 0 {
			t.Fatalf("DropCommands too early: %d, %v", n, err)
		}
		if n, err := s.DropCommands(ctx, 8); err != nil || n != 1 {
			t.Fatalf("DropCommands: %d, %v", n, err)
		}
		if _, err := s.Command(ctx, c.ID); !fault.Is(err, fault.NotFound) || fault.CodeOf(err) != "command_not_found" {
			t.Fatalf("Command after it was dropped: %v", err)
		}
	})
}
