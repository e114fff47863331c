package executortest

import (
	"context"
	"slices"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
)

// MemStore stores sandboxes and commands in memory, by the same rules as the real store: the suite must not depend on the database.
type MemStore struct {
	mu        sync.Mutex
	sandboxes []executors.Record
	commands  []command.Command
}

var (
	_ manager.Store = (*MemStore)(nil)
	_ command.Store = (*MemStore)(nil)
)

// InsertSandbox refuses a second open sandbox of a workspace.
func (s *MemStore) InsertSandbox(_ context.Context, r executors.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.sandboxes {
		if o.WorkspaceID == r.WorkspaceID && o.EndedAt == 0 {
			return fault.New(fault.Conflict, "sandbox_exists", "The workspace has a sandbox already.")
		}
	}
	s.sandboxes = append(s.sandboxes, r)
	return nil
}

// UpdateSandbox changes an open sandbox.
func (s *MemStore) UpdateSandbox(_ context.Context, r executors.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.sandboxes {
		if o.Handle.ID == r.Handle.ID && o.EndedAt == 0 {
			s.sandboxes[i] = r
		}
	}
	return nil
}

// OpenSandboxes returns the open ones.
func (s *MemStore) OpenSandboxes(context.Context) ([]executors.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []executors.Record
	for _, o := range s.sandboxes {
		if o.EndedAt == 0 {
			out = append(out, o)
		}
	}
	return out, nil
}

// Sandbox returns one.
func (s *MemStore) Sandbox(_ context.Context, id string) (executors.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.sandboxes {
		if r.Handle.ID == id {
			return r, nil
		}
	}
	return executors.Record{}, fault.New(fault.NotFound, "sandbox_not_found", "There is no such sandbox.")
}

// LastSandbox returns the newest of a workspace.
func (s *MemStore) LastSandbox(_ context.Context, workspaceID string) (executors.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.sandboxes) - 1; i >= 0; i-- {
		if s.sandboxes[i].WorkspaceID == workspaceID {
			return s.sandboxes[i], nil
		}
	}
	return executors.Record{}, fault.New(fault.NotFound, "sandbox_not_found", "The workspace has no sandbox.")
}

// TeamSandboxes returns the newest of each workspace.
func (s *MemStore) TeamSandboxes(_ context.Context, teamID string, workspaceIDs ...string) ([]executors.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	var out []executors.Record
	for i := len(s.sandboxes) - 1; i >= 0; i-- {
		if r := s.sandboxes[i]; r.TeamID == teamID && !seen[r.WorkspaceID] && (workspaceIDs == nil || slices.Contains(workspaceIDs, r.WorkspaceID)) {
			seen[r.WorkspaceID] = true
			out = append(out, r)
		}
	}
	return out, nil
}

// LastSync knows nothing.
func (s *MemStore) LastSync(context.Context, string) (executors.Sync, error) {
	return executors.Sync{}, nil
}

// InsertCommand stores a command.
func (s *MemStore) InsertCommand(_ context.Context, c command.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, c)
	return nil
}

// UpdateCommand changes an open command.
func (s *MemStore) UpdateCommand(_ context.Context, c command.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.commands {
		if o.ID == c.ID && o.EndedAt == 0 {
			s.commands[i] = c
		}
	}
	return nil
}

// Command returns a command.
func (s *MemStore) Command(_ context.Context, id string) (command.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.commands {
		if c.ID == id {
			return c, nil
		}
	}
	return command.Command{}, fault.New(fault.NotFound, "command_not_found", "There is no such command.")
}

// OpenCommands returns the open ones.
func (s *MemStore) OpenCommands(context.Context) ([]command.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []command.Command
	for _, c := range s.commands {
		if c.EndedAt == 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// DropCommands removes old ones.
func (s *MemStore) DropCommands(_ context.Context, before int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keep []command.Command
	for _, c := range s.commands {
		if c.EndedAt == 0 || c.EndedAt >= before {
			keep = append(keep, c)
		}
	}
	n := int64(len(s.commands) - len(keep))
	s.commands = keep
	return n, nil
}
