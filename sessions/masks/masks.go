// Package masks tracks what sessions are given of secrets and must not show: which values each masks, which files were written
// for it, and what the server has to remember of both across a restart. The sealed launch file of a session holds what it is
// given, from before it starts until it has ended. When a value reaches a workspace while sessions run there, all of them mask it
// from then on.
//
// A goroutine of the given group removes the files of an ended session. Locks, each a leaf but the first two, which are held
// while files are written: placers (a sandbox, then a workspace's tree) > a session's launch file > mu, a session's texts.
package masks

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/workspaces"
)

// Secrets is what the package needs of secrets.
type Secrets interface {
	// For returns what a session is given, and every value it must not show.
	For(ctx context.Context, a secrets.Ask) (secrets.Given, error)
	// Remember records what a workspace is about to be given, for as long as the workspace exists.
	Remember(ctx context.Context, teamID, workspaceID string, files []secrets.KnownFile, uses []secrets.Use) error
	// Pass records for a workspace what another was given.
	Pass(ctx context.Context, teamID, from, to string) error
	// Known returns what a workspace was ever given.
	Known(ctx context.Context, workspaceID string) (*secrets.Known, error)
}

// Homes knows where the homes of agents are on this server.
type Homes interface {
	// HomeHere returns the folder of a user's home; false when there is none.
	HomeHere(userID string) (dir string, ok bool)
	// HostHome returns the folder that is the home of a workspace's sandboxes, "" where they have none on this server.
	HostHome(workspaceID string) string
}

// Config configures Masks. Launches, Homes, Live, Workspace, Tasks, Context and Log are required.
type Config struct {
	Secrets  Secrets // nil: no session is given anything
	Launches Launches
	Homes    Homes
	// Live returns the live sandbox of a workspace.
	Live func(workspaceID string) (*executors.Place, bool)
	// Workspace returns a workspace of any team; fault.NotFound when there is none.
	Workspace func(ctx context.Context, id string) (workspaces.Workspace, error)
	// Exclude excludes files of a worktree from git in its repository. Nil: nothing to exclude.
	Exclude func(ctx context.Context, workspaceID string, names []string) error
	Tasks   *tasks.Group
	Context context.Context // ends the tasks' work
	Log     *slog.Logger
}

// Masks tracks what all sessions of a server are given of secrets. Safe for concurrent use.
type Masks struct {
	cfg Config

	mu      sync.Mutex
	all     map[*Session]struct{} // the sessions in memory
	placed  map[string]int        // how many running sessions use a file of a secret
	placers locks.Keyed           // serializes writing and removing files in a sandbox
}

// New returns Masks. It starts nothing.
func New(cfg Config) *Masks {
	return &Masks{cfg: cfg, all: map[*Session]struct{}{}, placed: map[string]int{}}
}

// maxGivenEnv bounds, in bytes, what secrets add to a session's environment.
const maxGivenEnv = 256 << 10

// SecretUse names a value of a secret that a running session was given.
type SecretUse struct {
	SecretID, SessionID, WorkspaceID, Agent string
	Version                                 int64
}

// Given returns what the secrets give a session of userID in w.
func (m *Masks) Given(ctx context.Context, w workspaces.Workspace, userID, agent string) (secrets.Given, error) {
	if m.cfg.Secrets == nil {
		return secrets.Given{}, nil
	}
	g, err := m.cfg.Secrets.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: userID, Agent: agent,
		WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == userID})
	if err != nil {
		return g, err
	}
	size := 0
	for name, value := range g.Env {
		size += len(name) + len(value) + 2
	}
	if size > maxGivenEnv {
		return g, fault.New(fault.TooLarge, "secrets_too_large", "The secrets given to this session as variables exceed %d KiB in total. Make the long ones files.", maxGivenEnv>>10)
	}
	return g, nil
}

// GivenEnv returns the environment made from secrets: their variables, and the git credentials the project allows, each for its
// host only.
func GivenEnv(g secrets.Given) map[string]string {
	env := maps.Clone(g.Env)
	if env == nil {
		env = map[string]string{}
	}
	for i, c := range g.Git {
		n := strconv.Itoa(i)
		env["GIT_CONFIG_KEY_"+n] = "credential.https://" + c.Host + ".helper"
		env["GIT_CONFIG_VALUE_"+n] = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$PARAWORK_GIT_USERNAME_` + n + `" "$PARAWORK_GIT_TOKEN_` + n + `"; }; f`
		username := cmp.Or(c.Username, c.Token)
		env["PARAWORK_GIT_USERNAME_"+n], env["PARAWORK_GIT_TOKEN_"+n] = username, c.Token
	}
	if len(g.Git) > 0 {
		env["GIT_CONFIG_COUNT"] = strconv.Itoa(len(g.Git))
	}
	return env
}

// sessions returns the sessions in memory that match.
func (m *Masks) sessions(fits func(*Session) bool) []*Session {
	m.mu.Lock()
	all := slices.Collect(maps.Keys(m.all))
	m.mu.Unlock()
	return slices.DeleteFunc(all, func(s *Session) bool { return !fits(s) })
}

// of returns the sessions of a workspace that are in memory.
func (m *Masks) of(workspaceID string) []*Session {
	return m.sessions(func(s *Session) bool { return s.row.WorkspaceID == workspaceID })
}

// Mask makes every running session that a secret could reach mask the secret's new values: those of its team, or those of its
// user and all sessions in the same workspaces.
func (m *Masks) Mask(k secrets.Secret, masks []string) {
	all := m.sessions(func(*Session) bool { return true })
	theirs := map[string]bool{}
	for _, s := range all {
		if k.UserID != "" && s.row.CreatedBy == k.UserID {
			theirs[s.row.WorkspaceID] = true
		}
	}
	for _, s := range all {
		if k.TeamID != "" && s.row.TeamID == k.TeamID || theirs[s.row.WorkspaceID] {
			s.hide(masks)
		}
	}
}

// ShareMasks makes all sessions of one workspace mask what another session there was given, and returns what they mask already.
func (m *Masks) ShareMasks(workspaceID string, masks []string) []string {
	var theirs []string
	for _, s := range m.of(workspaceID) {
		if !s.host.Ended() {
			theirs = append(theirs, s.hiding.all()...)
			s.hide(masks)
		}
	}
	return theirs
}

// SecretUses returns which values of which secrets running sessions were given.
func (m *Masks) SecretUses() []SecretUse {
	var out []SecretUse
	for _, s := range m.sessions(func(s *Session) bool { return !s.host.Ended() }) {
		for _, u := range s.given.Uses {
			out = append(out, SecretUse{SecretID: u.ID, SessionID: s.row.ID, WorkspaceID: s.row.WorkspaceID, Agent: s.row.Agent, Version: u.Version})
		}
	}
	slices.SortFunc(out, func(a, b SecretUse) int { return strings.Compare(a.SessionID, b.SessionID) })
	return out
}

// Remember records what a session is about to be given: its files and values stay known for as long as the workspace exists.
func (m *Masks) Remember(ctx context.Context, teamID, workspaceID string, files []Placed, uses []secrets.Use) error {
	if m.cfg.Secrets == nil {
		return nil
	}
	known := make([]secrets.KnownFile, 0, len(files))
	for _, f := range files {
		k := secrets.KnownFile{Path: f.Path, Sum: f.Sum, Blob: f.Blob, Blob256: f.Blob256}
		if f.Home {
			k.Path = ""
		}
		known = append(known, k)
	}
	return m.cfg.Secrets.Remember(ctx, teamID, workspaceID, known, uses)
}

// Recount records at the start of the server which files a running session uses.
func (m *Masks) Recount(ctx context.Context, row Row) (token string) {
	kept, err := m.cfg.Launches.Recall(row.ID)
	if err != nil { // reported where its secrets are recalled
		return kept.Token
	}
	if err := m.Remember(ctx, row.TeamID, row.WorkspaceID, kept.Files, kept.Uses); err != nil { // of an earlier version, which did not record them
		m.cfg.Log.Error("what a running session was given of secrets could not be recorded", "session_id", row.ID, "workspace_id", row.WorkspaceID, "error", err)
	}
	if len(kept.Files) > 0 {
		p := m.Placement(&executors.Place{}, kept.Inside, row.CreatedBy)
		p.place.SandboxID = row.SandboxID
		m.count(p, kept.Files, 1)
	}
	return kept.Token
}
