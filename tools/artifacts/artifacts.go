// Package artifacts keeps files that agents and people want to outlive a sandbox, a workspace or a session: reports, pictures, builds.
// An agent saves one by name, or leaves it in its artifacts folder, from which the server collects it. A content is copied to the server,
// its hash is computed on the way, and it never changes afterwards: saving under the same name makes a new version.
//
// Goroutines: Run has the loop that looks at the folders of live sandboxes, one goroutine for each workspace being collected, and the
// loop that removes what has expired.
package artifacts

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/tools/artifacts/blobs"
	"github.com/parawork/parawork/workspaces"
)

// Bounds.
const (
	MaxFile      = 1 << 30 // bytes of one artifact
	MaxVersions  = 20      // of one name; the oldest are removed
	maxWorkspace = 5000    // artifacts of one workspace, versions included

	maxName     = 512  // bytes
	maxMetadata = 20   // entries
	maxValue    = 1000 // bytes of a metadata value
)

// State is where an artifact is in its life.
type State string

// The states. Only a ready artifact is shown.
const (
	Pending  State = "pending"  // its content is being copied
	Ready    State = "ready"    // its content is stored and will not change
	Deleting State = "deleting" // its content is being removed
)

// Artifact is one version of a named file. Times are ms UTC.
type Artifact struct {
	ID, TeamID, ProjectID, WorkspaceID string

	SessionID string // "" when no session made it
	CreatedBy string // the user on whose behalf it was made

	Name     string
	Version  int // from 1
	Versions int // how many versions its name has; only set where artifacts are read
	MIME     string
	Size     int64
	SHA256   string // hex
	Metadata map[string]string

	State     State
	Source    string // what it is copied from, while it is pending and can be resumed
	SourceAt  int64  // modification time of the source
	CreatedAt int64

	// Of its workspace: an artifact is as private as that. Only set where artifacts are read.
	OwnerID string
	Private bool
}

// Maker is who makes an artifact, and where.
type Maker struct {
	TeamID, WorkspaceID, SessionID, UserID string
}

// Filter selects artifacts. Exactly one of WorkspaceID and ProjectID is set.
type Filter struct {
	WorkspaceID string
	ProjectID   string
	Name        string // with a name: all its versions, newest first; otherwise the newest version of each name
	// For a project: artifacts of private workspaces are left out, except those of this workspace and those whose workspace this user owns.
	SeenFrom, SeenBy string
}

// Source is what the collector knows of a file it has collected.
type Source struct {
	Path  string // the key of the folder, and the path in it
	Size  int64
	Mtime int64
}

// Store keeps the rows. A missing row is a fault.NotFound.
type Store interface {
	Rows
	Sources
	LinkStore
}

// Rows keeps artifacts.
type Rows interface {
	// BeginArtifact stores a pending artifact, unless it would exceed a limit: then limit is called with what the team and the
	// workspace have, and its error is returned.
	BeginArtifact(ctx context.Context, a Artifact, limit func(Use) error) error
	// FinishArtifact makes a pending artifact ready, as the next version of its name, and marks the oldest versions beyond
	// MaxVersions as deleting.
	FinishArtifact(ctx context.Context, a Artifact) (Artifact, error)
	// Artifact returns a ready artifact.
	Artifact(ctx context.Context, id string) (Artifact, error)
	// Artifacts returns a page of ready artifacts, newest first.
	Artifacts(ctx context.Context, f Filter, pg page.Page) ([]Artifact, string, error)
	// UnfinishedArtifacts returns pending and deleting artifacts created before a time, at most limit.
	UnfinishedArtifacts(ctx context.Context, before int64, limit int) ([]Artifact, error)
	// ExpireArtifacts marks ready artifacts created before a time as deleting, and returns how many there were.
	ExpireArtifacts(ctx context.Context, before int64) (int64, error)
	// DeleteArtifact marks a ready artifact as deleting, and ends its links.
	DeleteArtifact(ctx context.Context, id string) error
	// ForgetArtifact removes a row that is not ready.
	ForgetArtifact(ctx context.Context, id string) error
	// ArtifactUse returns what a team's artifacts take.
	ArtifactUse(ctx context.Context, teamID string) (Use, error)
}

// Use is what artifacts take, pending ones included.
type Use struct {
	Bytes       int64 // of the team
	Count       int64 // of the team
	InWorkspace int64 // how many the workspace has
}

// Sources remembers what was collected.
type Sources interface {
	// PendingArtifact returns the pending artifact that is copied from this state of a source.
	PendingArtifact(ctx context.Context, workspaceID, source string, size, at int64) (Artifact, error)
	ArtifactSources(ctx context.Context, workspaceID string) (map[string]Source, error)
	NoteArtifactSource(ctx context.Context, teamID, workspaceID string, s Source) error
}

// Files are the files of a home. Agents write there too: names lead nowhere else, and only regular files are opened. *homedir.Dir and
// *client.Home are implementations.
type Files interface {
	Stat(name string) (homedir.Info, error)
	List(name string) ([]homedir.Info, error)
	Open(name string) (homedir.File, error)
}

// Folder is an artifacts folder of a workspace.
type Folder struct {
	Files  Files
	Name   string // in the home
	Path   string // absolute, as agents see it
	UserID string // whose home it is; "" = the sandbox's
}

// key identifies a file of the folder among all of its workspace.
func (f Folder) key(in string) string { return f.UserID + ":" + guest.EncodePath(in) }

// Folders finds the artifacts folders of a workspace where they are now: in the live sandbox, or on this server. It wakes and starts
// nothing. root is the worktree as agents see it, "" when unknown. The caller calls done.
type Folders interface {
	Of(ctx context.Context, workspaceID string) (folders []Folder, root string, done func(), err error)
}

// Worktrees reads files of worktrees. Links are followed inside the worktree only.
type Worktrees interface {
	Read(ctx context.Context, workspaceID, path string) (io.ReadCloser, guest.FileInfo, error)
}

// Workspaces finds workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Sessions lists a workspace's sessions, newest first.
type Sessions interface {
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
}

// Secrets knows the secrets a workspace was given.
type Secrets interface {
	SecretFiles(ctx context.Context, workspaceID string) (workspaces.SecretFiles, error)
}

// Config is what a Service is made of. Fields without a comment are required.
type Config struct {
	Store      Store
	Blobs      blobs.Store
	Folders    Folders
	Worktrees  Worktrees
	Workspaces Workspaces
	Sessions   Sessions
	Secrets    Secrets
	Actor      func(ctx context.Context, userID string) (accounts.Actor, error) // with all memberships; fault.NotFound
	Dir        string                                                           // absolute: for files that are being copied
	TeamBytes  int64                                                            // what a team's artifacts may take; 0 = no limit
	Keep       time.Duration                                                    // how long artifacts are kept; 0 = until they are deleted
	MaxFile    int64                                                            // bytes of one artifact; 0 = MaxFile
	Every      time.Duration                                                    // between looks at the folders; 0 = 10 s
	Events     events.Publisher                                                 // nil = none
	Now        func() time.Time                                                 // nil = time.Now
	Log        *slog.Logger                                                     // nil = none
}

// Service keeps artifacts. Safe for concurrent use.
type Service struct {
	cfg  Config
	wake chan struct{}

	mu         sync.Mutex
	active     map[string]bool    // artifacts being copied now
	live       map[string]watched // workspaces whose folders are looked at
	todo       map[string]toCollect
	collecting map[string]bool // workspaces
}

// collectors is how many workspaces are collected at once.
const collectors = 4

// New returns a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.MaxFile = cmp.Or(cfg.MaxFile, MaxFile)
	cfg.Every = cmp.Or(cfg.Every, 10*time.Second)
	return &Service{cfg: cfg, wake: make(chan struct{}, 1), active: map[string]bool{}, live: map[string]watched{}, todo: map[string]toCollect{}, collecting: map[string]bool{}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// part is where the content of a pending artifact is gathered.
func (s *Service) part(id string) string { return filepath.Join(s.cfg.Dir, id) }

// Get returns an artifact.
func (s *Service) Get(ctx context.Context, id string) (Artifact, error) {
	return s.cfg.Store.Artifact(ctx, id)
}

// List returns a page of artifacts, newest first.
func (s *Service) List(ctx context.Context, f Filter, pg page.Page) ([]Artifact, string, error) {
	return s.cfg.Store.Artifacts(ctx, f, pg)
}

// Use returns what a team's artifacts take.
func (s *Service) Use(ctx context.Context, teamID string) (Use, error) {
	return s.cfg.Store.ArtifactUse(ctx, teamID)
}

// Bytes returns what a team's artifacts take on disk.
func (s *Service) Bytes(ctx context.Context, teamID string) (int64, error) {
	u, err := s.Use(ctx, teamID)
	return u.Bytes, err
}

// Open opens an artifact's content. The caller closes it.
func (s *Service) Open(ctx context.Context, a Artifact) (io.ReadSeekCloser, error) {
	r, err := s.cfg.Blobs.Open(ctx, blobs.Key(a.TeamID, a.ID))
	if fault.Is(err, fault.Unavailable) {
		return nil, err
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "artifact_content_missing",
			"The content of %q could not be read from the server's storage. Ask the server's operator.", a.Name)
	}
	return r, nil
}

// Delete removes an artifact: this version of its name.
func (s *Service) Delete(ctx context.Context, a Artifact) error {
	if err := s.cfg.Store.DeleteArtifact(ctx, a.ID); err != nil {
		return err
	}
	s.changed(ctx, a)
	err := s.discard(ctx, a)
	if fault.Is(err, fault.Unavailable) { // the row says that it is deleted, and the sweep removes the content
		s.cfg.Log.WarnContext(ctx, "the content of a deleted artifact could not be removed; the server tries again", "artifact_id", a.ID, "error", err)
		return nil
	}
	return err
}

// discard removes what there is of an artifact that is not ready.
func (s *Service) discard(ctx context.Context, a Artifact) error {
	if err := s.removePart(a.ID); err != nil {
		return err
	}
	if err := s.cfg.Blobs.Delete(ctx, blobs.Key(a.TeamID, a.ID)); err != nil {
		return err
	}
	if err := s.cfg.Store.ForgetArtifact(ctx, a.ID); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

func (s *Service) changed(ctx context.Context, a Artifact) {
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "artifact.changed", ID: a.ID, WorkspaceID: a.WorkspaceID, TeamID: a.TeamID, Version: s.now()})
	}
}
