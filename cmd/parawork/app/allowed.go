package app

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/allowlist"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/workspaces"
)

// allowedCommands decides which commands may run on the server itself: those of sandboxing.local.allowedCommands, where that names
// some, and those of the project. Places that isolate have no list.
type allowedCommands struct {
	records  *workspaces.Records
	settings func(ctx context.Context, k executors.Kind) schema.Values
}

// command is the guard of commands of the API, of tools and of checks.
func (a allowedCommands) command(ctx context.Context, kind executors.Kind, s executors.Spec, req command.Request) error {
	dir := req.Cwd
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.Root, dir)
	}
	c := allowlist.Command{Argv: req.Argv, Line: req.Command, Dir: dir, Env: req.Env}
	return a.check(ctx, kind, req.WorkspaceID, c)
}

// session is the guard of sessions that are a command.
func (a allowedCommands) session(ctx context.Context, w workspaces.Workspace, kind executors.Kind, argv []string, env map[string]string) error {
	return a.check(ctx, kind, w.ID, allowlist.Command{Argv: argv, Dir: w.Path, Env: env})
}

func (a allowedCommands) check(ctx context.Context, kind executors.Kind, workspaceID string, c allowlist.Command) error {
	if kind != executors.Local {
		return nil
	}
	everywhere := a.settings(ctx, kind).List("allowedCommands")
	if len(everywhere) == 0 {
		return nil
	}
	w, err := a.records.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	p, err := a.records.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	l, err := allowlist.New(slices.Concat(everywhere, p.AllowedCommands), exec.LookPath)
	if err != nil {
		return err
	}
	err = l.Check(c)
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Details["program"] != nil {
		f.Message += " A member who may change the project's settings can allow it there; an operator can allow it everywhere in config.json."
		return f.With("project_id", p.ID)
	}
	return err
}
