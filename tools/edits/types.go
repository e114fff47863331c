package edits

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Kind is what an edit did to its file.
type Kind string

// The kinds.
const (
	Created  Kind = "created"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
	Renamed  Kind = "renamed"
)

// Evidence is what an edit's author is known from.
type Evidence string

// The evidence.
const (
	ByRecord    Evidence = "record"    // the agent's record has a call whose diff makes exactly this of the file
	ByOperation Evidence = "operation" // Parawork itself changed the file for somebody
	ByInterval  Evidence = "interval"  // whatever ran between the two snapshots
)

// Edit is one change of one file. The contents are those the timeline has.
type Edit struct {
	ID          string
	TeamID      string
	WorkspaceID string
	SessionID   string // "" = unknown, or no session
	Agent       string // kind of the session's agent
	CallID      string // the tool call that made it; "" = none, or one of Calls
	Tool        string // of that call
	Calls       []string
	Turn        string // item of the conversation: the prompt during which it was made
	UserID      string // the person for whom Parawork changed the file
	Operation   string // what Parawork did: edit, restore, discard, update, take, undo
	UndoOf      string // the edit that this one undoes
	Evidence    Evidence

	Path, OldPath         string // as in the API; OldPath only if renamed
	Kind                  Kind
	Before, After         string // git's ids of the contents; "" = no file
	BeforeMode, AfterMode string
	Additions, Deletions  int
	Binary                bool
	At                    int64  // ms UTC
	SnapshotID            string // the first snapshot that has it

	UndoneAt   int64
	UndoneBy   string // user
	Verified   string // passed, failed: how the project's checks ended on files that had it; "" = not known
	VerifiedAt int64
	Tree       string // the files that were verified
}

// Cursor is how far the timeline of a workspace was read.
type Cursor struct {
	TeamID      string
	WorkspaceID string
	SnapshotID  string
	Tree        string
	At          int64
	LeftOut     int // changes of files that were too many at once to get a row each
	Pruned      int // edits that made room for newer ones
}

// Query selects edits of a workspace.
type Query struct {
	WorkspaceID string
	Path        string // as in the API; "" = any
	SessionID   string // "" = any
	Page        page.Page
}

// Store stores edits.
type Store interface {
	// EditCursor returns how far a workspace was read; the zero Cursor if it never was.
	EditCursor(ctx context.Context, workspaceID string) (Cursor, error)
	// AddEdits stores edits with the new cursor, whose counters it adds to the stored ones, and removes the oldest beyond most.
	AddEdits(ctx context.Context, c Cursor, add []Edit, most int) error
	// Edits returns a page, newest first.
	Edits(ctx context.Context, q Query) ([]Edit, string, error)
	// Edit returns one; fault.NotFound when there is none.
	Edit(ctx context.Context, id string) (Edit, error)
	// SetUndone notes who undid an edit. It leaves one alone that is undone already.
	SetUndone(ctx context.Context, id, userID string, at int64) error
	// SetVerified notes how the checks ended for edits.
	SetVerified(ctx context.Context, ids []string, tree, verified string, at int64) error
	// Unread returns up to n workspaces whose timeline has more than was read.
	Unread(ctx context.Context, n int) ([]string, error)
}

// Snapshots is the timeline of a workspace's files.
type Snapshots interface {
	Take(ctx context.Context, workspaceID string, f snapshot.Request) (snapshot.Snap, error)
	Snapshots(ctx context.Context, workspaceID string, kinds []string, pg page.Page) ([]snapshot.Snap, string, error)
	Snap(ctx context.Context, workspaceID, id string) (snapshot.Snap, error)
}

// Repository compares and reads the contents of files.
type Repository interface {
	ProjectOf(ctx context.Context, workspaceID string) (workspaces.Project, error)
	Compare(ctx context.Context, workspaceID string, from, to git.Tree, o git.CompareOptions) (git.Comparison, error)
	TreeFiles(ctx context.Context, p workspaces.Project, tree string, paths []string) (map[string]git.FileEntry, error)
	Blob(ctx context.Context, p workspaces.Project, oid string, most int64) ([]byte, error)
	PutBlob(ctx context.Context, p workspaces.Project, content []byte) (string, error)
	DiffBlobs(ctx context.Context, p workspaces.Project, from, to string, most int) (diff string, cut, binary bool, err error)
}

// Undoer makes the inverse of a change and applies it to the present files.
type Undoer interface {
	UndoChange(ctx context.Context, actor accounts.Actor, workspaceID string, r lifecycle.UndoRequest) (lifecycle.UndoneChange, error)
	// Inverse returns what UndoChange would write in a tree. An error of kind Conflict means that it cannot be undone there.
	Inverse(ctx context.Context, p workspaces.Project, tree string, c lifecycle.FileChange) (files []git.ChangedFile, merged bool, err error)
}

// Workspaces knows the workspaces.
type Workspaces interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
}

// Sessions knows the sessions and what their agents did.
type Sessions interface {
	// List returns a workspace's sessions, newest first.
	List(ctx context.Context, workspaceID string) ([]sessions.Session, error)
	Conversation(ctx context.Context, id string, q conversation.Query) (sessions.Conversation, error)
}

// Bounds of edits.
const (
	most        = 5000 // edits of one workspace
	mostAtOnce  = 500  // edits of one interval
	mostCalls   = 20   // calls of one edit
	mostItems   = 1000 // items of a conversation that are looked at
	mostSnaps   = 500  // snapshots that are read one by one
	maxDiff     = 256 << 10
	mostLines   = 200_000          // lines of a file to which diffs are applied
	mostSteps   = 5_000_000        // lines compared and copied for one change of a file
	settleAfter = 4 * time.Second  // a record is read within two seconds
	lookBack    = 15 * time.Second // a change is found within this time, so a call that ended before did not make it
	skew        = 2 * time.Minute  // the clocks of sandboxes may differ by that
)
