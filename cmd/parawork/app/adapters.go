package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/caches"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/store/placestore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// What one package asks of another, in its own words. They know each other only here.

// trees shows filesync the repositories and worktrees in the shape it needs.
type trees struct{ s *assembly.Workspaces }

func (t trees) Worktree(ctx context.Context, workspaceID string) (string, error) {
	return t.s.Repo.Worktree(ctx, workspaceID)
}

func (t trees) Team(ctx context.Context, workspaceID string) (string, error) {
	w, err := t.s.Records.Workspace(ctx, workspaceID)
	return w.TeamID, err
}

func (t trees) BaseFiles(ctx context.Context, workspaceID, commit string, paths []string) ([]filesync.BaseFile, error) {
	files, err := t.s.Repo.BaseFiles(ctx, workspaceID, commit, paths)
	out := make([]filesync.BaseFile, 0, len(files))
	for _, f := range files {
		out = append(out, filesync.BaseFile{Path: f.Path, Mode: fmt.Sprintf("%06o", f.Mode), Size: f.Size, OID: f.OID})
	}
	return out, err
}

func (t trees) BaseDiff(ctx context.Context, workspaceID, from, to string) ([]string, error) {
	return t.s.Repo.BaseDiff(ctx, workspaceID, from, to)
}

func (t trees) BaseBlobs(ctx context.Context, workspaceID string, files []filesync.BaseFile, fn func(filesync.BaseFile, io.Reader) error) error {
	ask := make([]hostgit.TreeFile, 0, len(files))
	for _, f := range files {
		mode, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return fmt.Errorf("%q is no mode: %w", f.Mode, err)
		}
		ask = append(ask, hostgit.TreeFile{Path: f.Path, Mode: uint32(mode), Size: f.Size, OID: f.OID})
	}
	i := 0
	return t.s.Repo.BaseBlobs(ctx, workspaceID, ask, func(_ hostgit.TreeFile, r io.Reader) error {
		i++
		return fn(files[i-1], r)
	})
}

func (t trees) HostDiff(ctx context.Context, workspaceID string, d filesync.HostDiff, w io.Writer) error {
	return t.s.Repo.HereDiff(ctx, workspaceID, git.HereDiff(d), w)
}

// watcher shows workspaces what differs in their files.
type watcher struct{ files *filesync.Service }

// Look looks at a workspace's files where its sandbox runs.
func (w watcher) Look(ctx context.Context, workspaceID string) (snapshot.Seen, bool, error) {
	a, ok, err := w.files.LookAround(ctx, workspaceID)
	return snapshot.Seen{Base: a.Base, Paths: a.Paths, Kept: a.Kept}, ok, err
}

// FilesInSandbox reports whether the files people work with lie in a sandbox that runs.
func (w watcher) FilesInSandbox(ctx context.Context, workspaceID string) (bool, error) {
	return w.files.FilesInSandbox(ctx, workspaceID)
}

// Put writes a file in a sandbox.
func (w watcher) Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) error {
	_, err := w.files.Put(ctx, workspaceID, guest.EncodePath(path), r, ifMatch, mode)
	return err
}

// Remove removes a file in a sandbox.
func (w watcher) Remove(ctx context.Context, workspaceID, path, ifMatch string) error {
	return w.files.RemoveIf(ctx, workspaceID, guest.EncodePath(path), ifMatch)
}

// chosenSandboxes shows those above both the sandboxes and the choice of where they are.
type chosenSandboxes struct {
	*manager.Manager
	*choice.Chooser
}

// What is found by a type assertion is lost without a word where a wrapper does not pass it on.
var (
	_ sessions.Places         = chosenSandboxes{}
	_ command.Sandboxes       = chosenSandboxes{}
	_ filesync.Places         = chosenSandboxes{}
	_ workspaces.Places       = workspaceSandboxes{}
	_ workspaces.Chooser      = workspaceSandboxes{}
	_ workspaces.LocalChooser = workspaceSandboxes{}
	_ workspaces.AwayChooser  = workspaceSandboxes{}
	_ workspaces.Explainer    = workspaceSandboxes{}
	_ ingest.LiveRunner       = workspaceSandboxes{}
	_ workspaces.Trier        = workspaceSandboxes{}
	_ move.Keepers            = workspaceSandboxes{}
)

// workspaceSandboxes shows workspaces the sandboxes in the shape they need.
type workspaceSandboxes struct {
	chosenSandboxes
	why *placestore.Places
	log *slog.Logger
}

// KeepWhy keeps why a workspace lives where it does. What fails is no reason to refuse the workspace.
func (s workspaceSandboxes) KeepWhy(ctx context.Context, teamID, workspaceID string, chosen executors.Kind, wishes ...executors.Kind) {
	d, err := s.Explain(ctx, teamID, wishes...)
	if err == nil && d.Kind == chosen {
		err = s.why.KeepWhy(ctx, teamID, workspaceID, d, time.Now().UnixMilli())
	}
	if err != nil {
		s.log.WarnContext(ctx, "why a workspace lives where it does was not stored", "workspace_id", workspaceID, "error", err)
	}
}

// Ensure makes the workspace's sandbox or finds the live one.
func (s workspaceSandboxes) Ensure(ctx context.Context, workspaceID string) error {
	_, err := s.Manager.Ensure(ctx, workspaceID)
	return err
}

// Live reports whether the workspace has a sandbox now.
func (s workspaceSandboxes) Live(workspaceID string) bool {
	_, ok := s.Manager.Live(workspaceID)
	return ok
}

// movable is what sessions ask of workspaces: also whether one is on its way to another place.
type movable struct {
	*workspaces.Records
	moves *move.Service
}

// Moving says why nothing may start in a workspace that is on its way to another place.
func (m movable) Moving(ctx context.Context, workspaceID string) error {
	return m.moves.Moving(ctx, workspaceID)
}

// sessionAccounts is what sessions need of people: who they are, and the accounts their agents work with.
type sessionAccounts struct {
	*directory.Service
	*agentKeys
}

type agentKeys = agentaccounts.Service

// heldPlaces are the sandboxes as limits see them.
type heldPlaces struct{ *manager.Manager }

// Hold suspends a sandbox for a reason.
func (p heldPlaces) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (bool, error) {
	paused, err := p.Manager.Hold(ctx, workspaceID, sandboxID, reason)
	if errors.Is(err, executors.ErrGone) {
		return false, quota.ErrReplaced
	}
	return paused, err
}

// Paused returns why a workspace's sandbox is suspended, false when it is not.
func (p heldPlaces) Paused(workspaceID string) (string, bool) { return p.Held(workspaceID) }

// Wake resumes it.
func (p heldPlaces) Wake(ctx context.Context, workspaceID string) error {
	return p.Unhold(ctx, workspaceID)
}

// cacheRoom counts a team's caches together.
type cacheRoom struct{ *caches.Caches }

// Bytes is what a team's caches take on disk.
func (c cacheRoom) Bytes(ctx context.Context, teamID string) (n int64, err error) {
	sizes, err := c.Sizes(ctx, teamID)
	for _, s := range sizes {
		n += s.Bytes
	}
	return n, err
}

// commandSecrets are what commands are given.
type commandSecrets struct {
	workspaces *assembly.Workspaces
	secrets    *secrets.Service
	sessions   *sessions.Service
}

// of says what a command is given.
func (s commandSecrets) of(ctx context.Context, c command.Command) (command.Secrets, error) {
	w, err := s.workspaces.Records.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return command.Secrets{}, err
	}
	g, err := s.secrets.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: c.ActorID, Agent: secrets.Commands,
		WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == c.ActorID})
	if err != nil {
		return command.Secrets{}, err
	}
	if err := s.secrets.Remember(ctx, w.TeamID, w.ID, nil, g.Uses); err != nil {
		return command.Secrets{}, err
	}
	// A command reads what lies in the place for others, and their sessions what this one was given.
	hidden := append(g.Masks, s.sessions.Masks.ShareMasks(w.ID, g.Masks)...)
	return command.Secrets{Env: masks.GivenEnv(g), Masks: hidden, Own: g.Personal}, nil
}

// pusher pushes workspaces for forges.
type pusher struct{ origin *origin.Service }

func (p pusher) push(ctx context.Context, actor accounts.Actor, workspaceID string) (forge.Pushed, error) {
	res, err := p.origin.Push(ctx, actor, workspaceID, workspaces.PushRequest{})
	return forge.Pushed{Branch: res.Branch, Commit: res.Commit}, err
}

// workspaceLinks are the pages of workspaces where the server has an address that others know.
type workspaceLinks struct {
	directory *directory.Service
	publicURL string
}

func (l workspaceLinks) of(ctx context.Context, w workspaces.Workspace) string {
	base := l.publicURL
	if base == "" {
		return ""
	}
	team, err := l.directory.TeamByID(ctx, w.TeamID)
	if err != nil {
		return ""
	}
	return strings.TrimRight(base, "/") + "/" + team.Slug + "/w/" + w.Key()
}

// asked is what people asked agents for.
type asked struct {
	sessions *sessions.Service
	secrets  *secrets.Service
}

// of is what people asked a workspace's agents for, the oldest first, without what must not be shown.
func (a asked) of(ctx context.Context, w workspaces.Workspace, userID string) ([]string, error) {
	rows, err := a.sessions.List(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	hidden, err := a.secrets.Masks(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: userID})
	if err != nil {
		return nil, err
	}
	hide := redact.New(append(hidden, a.sessions.Masks.ShareMasks(w.ID, nil)...)...)
	var out []string
	add := func(text string) {
		if text = strings.TrimSpace(hide.Text(text)); text != "" && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, row := range slices.Backward(rows) { // newest first
		add(row.Prompt)
		queue, err := a.sessions.Queue.ListPrompts(ctx, row.ID)
		if err != nil {
			return nil, err
		}
		for _, p := range queue {
			if p.State == prompt.Sent {
				add(p.Text)
			}
		}
	}
	return out, nil
}
