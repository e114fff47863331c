// Package work has the operations of the HTTP API about the work that is done: projects and workspaces, their changes, checks, reviews, merges,
// files and snapshots, runs and the inbox. A handler maps the request, calls one service and maps the answer; Composer makes the answer
// about a workspace, to which many services have something to say. It starts no goroutine and takes no lock.
package work

import (
	"time"

	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/places"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/sessions/report"
	"github.com/parawork/parawork/sessions/runs"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/tools/sandboxes"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/disk"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Config is what the operations are made of.
type Config struct {
	Directory    *directory.Service
	Workspaces   *assembly.Workspaces
	Moves        *move.Service
	Origin       *origin.Service
	Places       *manager.Manager
	Choice       *choice.Chooser
	Meters       *meter.Meters
	Ledger       *billing.Ledger
	Tokens       *tokens.Meter
	Files        *filesync.Service
	Sandboxes    *sandboxes.Service
	Sessions     *sessions.Service
	Secrets      *secrets.Service
	Runs         *runs.Service
	Starts       *firststart.Service
	Tasks        *tasks.Service
	Artifacts    *artifacts.Service
	Report       *report.Service
	Reviews      *reviews.Service
	Forge        *forge.Service
	Tending      *tending.Service
	Disk         *disk.Service
	Images       *images.Service
	Checks       *checks.Service
	Overlap      *overlap.Service
	Network      *network.Service
	Viewed       Viewed       // of changes; nil = nobody has viewed any
	Graces       money.Graces // of work that reached a limit; nil = none ever does
	Now          func() time.Time
	GraceViews   money.WorkGraces
	MachineViews places.Machines
	PlaceViews   places.Standings
	NetworkViews places.Network
	Admission    *running.Admission
}

// group is what all operations of the package stand on.
type group struct {
	rest.Shared
	cfg Config
}

// Composer makes the API's workspaces out of what many services know.
type Composer struct{ *group }

// The operations, a type for each subject.
type (
	// Projects are repositories that people work on.
	Projects struct{ *group }
	// Workspaces are what agents work in.
	Workspaces struct{ Composer }
	// Moves bring workspaces from one place to another.
	Moves struct{ Composer }
	// Runs are several agents at one task.
	Runs struct{ Composer }
	// Timeline is what happened, with the snapshots that were taken.
	Timeline struct{ Composer }
	// Inbox is what waits for people.
	Inbox struct{ *group }
	// Changes are what differs in a workspace.
	Changes struct{ *group }
	// Parts are parts of changes, staged or discarded.
	Parts struct{ *group }
	// Comparisons are between any two states of a workspace.
	Comparisons struct{ *group }
	// Files are read and written one by one.
	Files struct{ *group }
	// Checks are commands whose success is asked for before a merge.
	Checks struct{ *group }
	// Conflicts are decided by people or agents.
	Conflicts struct{ *group }
	// Branches are brought up to date and pushed.
	Branches struct{ *group }
	// Forge is where pull requests live.
	Forge struct{ *group }
	// Reviews are what people say about changes.
	Reviews struct{ *group }
	// Report tells what was done in a workspace.
	Report struct{ *group }
	// Trash is what was deleted and can come back.
	Trash struct{ *group }
	// Storage is what takes room on the disk.
	Storage struct{ *group }
	// Limits bound what sandboxes use.
	Limits struct{ *group }
)

// Work has all operations of the package.
type Work struct {
	Projects
	Workspaces
	Moves
	Runs
	Timeline
	Inbox
	Changes
	Parts
	Comparisons
	Files
	Checks
	Conflicts
	Branches
	Forge
	Reviews
	Report
	Trash
	Storage
	Limits
}

// New makes the operations.
func New(cfg Config, shared rest.Shared) Work {
	g := &group{shared, cfg}
	c := Composer{g}
	return Work{Projects{g}, Workspaces{c}, Moves{c}, Runs{c}, Timeline{c}, Inbox{g}, Changes{g}, Parts{g}, Comparisons{g}, Files{g}, Checks{g}, Conflicts{g}, Branches{g},
		Forge{g}, Reviews{g}, Report{g}, Trash{g}, Storage{g}, Limits{g}}
}
